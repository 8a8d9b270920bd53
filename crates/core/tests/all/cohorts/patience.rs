//! Patience that ends: with `None` if the store has said that others are ahead, with an error if it has said nothing.

use std::sync::Arc;
use std::time::Duration;

use tidelock_core::prelude::*;
use tidelock_core::{ErrorKind, Owner, Reentrant, Result};
use tidelock_memory::{Clock, Store};
use tokio::task::JoinHandle;

use super::asking::{Done, LINGER, asks, claims, granted, once, options};
use super::gate::Gate;
use super::time::pass;
use crate::condition::until;
use crate::layered;
use crate::line::until_empty;

/// Longer than the linger, by half a round trip.
const PATIENCE: Duration = Duration::from_millis(15);
/// The time between a request and its answer.
const ROUND_TRIP: Duration = Duration::from_millis(10);

/// The time between an error of the store and the next request.
const PAUSE: Duration = Duration::from_millis(1);

struct Scene {
    clock: Clock,
    store: Store,
    locks: Arc<dyn Locks>,
}

impl Scene {
    fn new() -> tidelock_core::Result<Self> {
        Self::with(Gate::new())
    }

    fn with(gate: Arc<Gate>) -> tidelock_core::Result<Self> {
        let clock = Clock::manual();
        let store = Store::with_clock(&clock);
        let locks = layered::attach(&store, gate, options().label("ours").back_off(PAUSE, PAUSE))?;
        Ok(Self { clock, store, locks })
    }

    async fn locks_within(&self, patience: Duration) -> JoinHandle<Result<Option<Guard>>> {
        let mutex = self.locks.mutex("m").expect("a good name");
        let asking = tokio::spawn(async move { mutex.lock_within(patience).await });
        tokio::task::yield_now().await;
        asking
    }

    async fn reads_within(&self, patience: Duration) -> JoinHandle<Result<bool>> {
        let lock = self.locks.rwlock("r").expect("a good name");
        let asking = tokio::spawn(async move { Ok(lock.read_within(patience).await?.is_some()) });
        tokio::task::yield_now().await;
        asking
    }

    async fn writes_within(&self, patience: Duration) -> JoinHandle<Result<bool>> {
        let lock = self.locks.rwlock("r").expect("a good name");
        let asking = tokio::spawn(async move { Ok(lock.write_within(patience).await?.is_some()) });
        tokio::task::yield_now().await;
        asking
    }

    /// From now on an answer takes some time. The linger ends, so the next one leads, and asks.
    async fn next_one_leads(&self) {
        self.store.faults().delay(ROUND_TRIP);
        pass(&self.clock, LINGER).await;
    }

    /// Half of the time passes that an answer takes.
    async fn half_a_round_trip(&self) {
        pass(&self.clock, ROUND_TRIP / 2).await;
    }
}

#[tokio::test]
async fn who_has_waited_and_leads_hears_none_before_the_store_has_answered_its_own_request() -> Done {
    let scene = Scene::new()?;
    let held = scene.locks.mutex("m")?.lock().await?;
    let first = scene.locks_within(PATIENCE).await;
    let second = scene.locks_within(PATIENCE + ROUND_TRIP / 2).await; // leads once the first one has given up
    scene.next_one_leads().await;
    for impatient in [first, second] {
        assert!(!impatient.is_finished());
        scene.half_a_round_trip().await;
        assert!(impatient.await.expect("no panic")?.is_none(), "another one holds");
    }
    scene.store.faults().heal();
    scene.clock.advance(ROUND_TRIP);
    held.release().await?.confirmed()?;
    until_empty(&scene.locks, "m").await;
    scene.locks.close().await
}

#[tokio::test]
async fn readers_and_writers_who_have_waited_and_lead_hear_none_alike() -> Done {
    for writes in [false, true] {
        let scene = Scene::new()?;
        let held = scene.locks.rwlock("r")?.write().await?;
        let impatient =
            if writes { scene.writes_within(PATIENCE).await } else { scene.reads_within(PATIENCE).await };
        scene.next_one_leads().await;
        scene.half_a_round_trip().await;
        assert!(!impatient.await.expect("no panic")?, "another one writes");
        scene.store.faults().heal();
        scene.clock.advance(ROUND_TRIP);
        held.release().await?.confirmed()?;
        until_empty(&scene.locks, "r").await;
        scene.locks.close().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_writer_that_leads_at_once_behind_readers_hears_none_and_a_late_reader_an_error() -> Done {
    let scene = Scene::new()?;
    let read = scene.locks.rwlock("r")?.read().await?;
    scene.next_one_leads().await; // nobody waits: only the time for sharing is over
    let late = scene.reads_within(ROUND_TRIP / 2).await;
    scene.half_a_round_trip().await;
    let error = late.await.expect("no panic").expect_err("nobody is ahead of it, as far as anybody knows");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    scene.store.faults().heal();
    scene.clock.advance(ROUND_TRIP);
    read.release().await?.confirmed()?;
    until_empty(&scene.locks, "r").await;

    let read = scene.locks.rwlock("r")?.read().await?;
    scene.store.faults().delay(ROUND_TRIP);
    let writer = scene.writes_within(ROUND_TRIP / 2).await;
    scene.half_a_round_trip().await;
    assert!(!writer.await.expect("no panic")?, "others read");
    scene.store.faults().heal();
    scene.clock.advance(ROUND_TRIP);
    read.release().await?.confirmed()?;
    until_empty(&scene.locks, "r").await;
    scene.locks.close().await
}

#[tokio::test]
async fn an_owner_who_has_waited_and_leads_hears_none_alike() -> Done {
    let scene = Scene::new()?;
    let held = scene.locks.mutex("m")?.lock().await?;
    let (mutex, me) = (Reentrant::new(scene.locks.mutex("m")?), Owner::new());
    let mut impatient = std::pin::pin!(mutex.lock_within(&me, PATIENCE));
    assert!(once(impatient.as_mut()).await.is_none());
    scene.next_one_leads().await;
    assert!(once(impatient.as_mut()).await.is_none(), "it leads");
    scene.half_a_round_trip().await;
    assert!(impatient.await?.is_none(), "another one holds");
    scene.store.faults().heal();
    scene.clock.advance(ROUND_TRIP);
    held.release().await?.confirmed()?;
    until_empty(&scene.locks, "m").await;
    scene.locks.close().await
}

#[tokio::test]
async fn who_has_waited_behind_a_claim_that_is_lost_hears_an_error() -> Done {
    let scene = Scene::new()?;
    let held = scene.locks.mutex("m")?.lock().await?;
    let (mutex, me) = (Reentrant::new(scene.locks.mutex("m")?), Owner::new());
    let leads = scene.locks_within(PATIENCE).await;
    let behind = scene.locks_within(PATIENCE).await;
    let mut owner = std::pin::pin!(mutex.lock_within(&me, PATIENCE));
    assert!(once(owner.as_mut()).await.is_none());
    scene.store.faults().delay(ROUND_TRIP * 2);
    assert_eq!(scene.store.faults().lose_sessions_of("ours"), 1);
    scene.next_one_leads().await;
    assert_eq!(held.state(), State::Lost);
    scene.half_a_round_trip().await;
    for impatient in [leads, behind] {
        let error = impatient.await.expect("no panic").expect_err("nobody knows who is ahead");
        assert_eq!(error.kind(), ErrorKind::Timeout);
    }
    let error = owner.await.expect_err("nobody knows who is ahead");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    Ok(())
}

/// Their session is lost before the store has answered to the one that leads.
#[tokio::test]
async fn who_has_waited_behind_a_hold_before_a_leader_without_an_answer_hears_an_error() -> Done {
    for is_given_back in [false, true] {
        let gate = Gate::new();
        let scene = Scene::with(gate.clone())?;
        let held = scene.locks.mutex("m")?.lock().await?;
        let leads = asks(&scene.locks, "m").await;
        let behind = scene.locks_within(PATIENCE).await;
        scene.next_one_leads().await;
        let held = (!is_given_back).then_some(held); // otherwise it is dropped
        gate.shut_after_loss(&scene.store, "ours").await;
        scene.half_a_round_trip().await;
        let error = behind.await.expect("no panic").expect_err("nobody knows who is ahead");
        assert_eq!(error.kind(), ErrorKind::Timeout);
        scene.store.faults().heal();
        gate.is_shut.send_replace(false);
        granted(leads).await.release().await?.confirmed()?;
        drop(held);
        scene.locks.close().await?;
    }
    Ok(())
}

#[tokio::test]
async fn who_has_waited_behind_a_hold_that_is_lost_hears_an_error_also_if_nobody_polls_who_leads() -> Done {
    let scene = Scene::new()?;
    let mutex = scene.locks.mutex("m")?;
    let held = mutex.lock().await?;
    let mut leads = std::pin::pin!(mutex.lock());
    assert!(once(leads.as_mut()).await.is_none());
    let behind = scene.locks_within(PATIENCE).await;
    pass(&scene.clock, LINGER).await; // it leads, and does not know that
    assert_eq!(scene.store.faults().lose_sessions_of("ours"), 1);
    scene.half_a_round_trip().await;
    assert_eq!(held.state(), State::Lost);
    let error = behind.await.expect("no panic").expect_err("nobody knows who is ahead");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let tried = mutex.try_lock().await?.expect("nobody holds it");
    tried.release().await?.confirmed()?;
    leads.await?.release().await?.confirmed()
}

/// Their session is lost after the hold was given back, and before the one that leads has a claim.
#[tokio::test]
async fn who_has_waited_behind_a_hold_that_was_given_back_in_a_lost_session_hears_an_error() -> Done {
    for is_polled in [true, false] {
        let gate = Gate::new();
        let scene = Scene::with(gate.clone())?;
        let mutex = scene.locks.mutex("m")?;
        let held = mutex.lock().await?;
        let mut leads = std::pin::pin!(mutex.lock());
        assert!(once(leads.as_mut()).await.is_none());
        let behind = scene.locks_within(PATIENCE).await;
        pass(&scene.clock, LINGER).await; // it leads, and does not know that
        held.release().await?.confirmed()?;
        gate.is_shut.send_replace(true);
        assert_eq!(scene.store.faults().lose_sessions_of("ours"), 1);
        pass(&scene.clock, Duration::ZERO).await;
        if is_polled {
            assert!(once(leads.as_mut()).await.is_none(), "a session is being opened");
        }
        scene.half_a_round_trip().await;
        let error = behind.await.expect("no panic").expect_err("nobody is ahead of it");
        assert_eq!(error.kind(), ErrorKind::Timeout);
        gate.is_shut.send_replace(false);
        leads.await?.release().await?.confirmed()?;
        scene.locks.close().await?;
    }
    Ok(())
}

#[tokio::test]
async fn who_has_waited_behind_a_leader_whose_place_is_lost_hears_an_error() -> Done {
    let scene = Scene::new()?;
    let others = scene.store.attach(options())?;
    let held = others.mutex("m")?.lock().await?;
    let leads = asks(&scene.locks, "m").await;
    let behind = scene.locks_within(PATIENCE).await;
    until("the leader stands in line", async || claims(&others, "m").await == 2).await;
    scene.store.faults().delay(ROUND_TRIP * 2);
    assert_eq!(scene.store.faults().lose_sessions_of("ours"), 1);
    pass(&scene.clock, LINGER).await;
    scene.half_a_round_trip().await;
    let error = behind.await.expect("no panic").expect_err("nobody knows who is ahead");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    scene.store.faults().heal();
    pass(&scene.clock, ROUND_TRIP * 2).await;
    until("the leader stands in line anew", async || claims(&others, "m").await == 2).await;
    held.release().await?.confirmed()?;
    granted(leads).await.release().await?.confirmed()?;
    scene.locks.close().await?;
    others.close().await
}

#[tokio::test]
async fn who_has_waited_behind_a_leader_that_is_evicted_hears_an_error_also_if_nobody_polls_it() -> Done {
    let scene = Scene::new()?;
    let others = scene.store.attach(options())?;
    let held = others.mutex("m")?.lock().await?;
    scene.locks.mutex("n")?.lock().await?.release().await?.confirmed()?; // opens the session
    let mutex = scene.locks.mutex("m")?;
    let mut leads = std::pin::pin!(mutex.lock());
    assert!(once(leads.as_mut()).await.is_none());
    let place = others.inspect("m").await?.claims[1].id;
    let behind = scene.locks_within(PATIENCE).await;
    assert!(others.evict("m", place).await?);
    pass(&scene.clock, PATIENCE).await;
    let error = behind.await.expect("no panic").expect_err("nobody knows who is ahead");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    held.release().await?.confirmed()?;
    leads.await?.release().await?.confirmed()?;
    scene.locks.close().await?;
    others.close().await
}

#[tokio::test]
async fn who_has_waited_and_leads_hears_of_a_store_that_refuses_also_if_it_is_silent_then() -> Done {
    for times in [1, usize::MAX] {
        let scene = Scene::new()?;
        let held = scene.locks.mutex("m")?.lock().await?;
        let impatient = scene.locks_within(PATIENCE).await;
        scene.store.faults().refuse_next(times);
        pass(&scene.clock, LINGER).await;
        scene.store.faults().delay(ROUND_TRIP);
        pass(&scene.clock, PAUSE).await;
        scene.half_a_round_trip().await;
        let error = impatient.await.expect("no panic").expect_err("the store is away");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        drop(held);
    }
    Ok(())
}

#[tokio::test]
async fn who_has_waited_and_leads_hears_of_a_silence_as_long_as_a_command_may_take() -> Done {
    let longest = options().command_deadline;
    for late in [Duration::ZERO, longest / 2] {
        let scene = Scene::new()?;
        let held = scene.locks.mutex("m")?.lock().await?;
        let patient = scene.locks_within(LINGER + longest + late / 2).await;
        scene.store.faults().delay(longest * 10);
        pass(&scene.clock, LINGER).await;
        pass(&scene.clock, longest + late).await;
        let heard = patient.await.expect("no panic");
        match late.is_zero() {
            true => assert!(heard?.is_none(), "its patience has ended first"),
            false => assert_eq!(heard.expect_err("the store is away").kind(), ErrorKind::Timeout),
        }
        drop(held);
    }
    Ok(())
}

#[tokio::test]
async fn who_leads_in_a_session_that_is_opened_anew_hears_an_error() -> Done {
    for is_opened in [false, true] {
        let gate = Gate::new();
        let scene = Scene::with(gate.clone())?;
        let held = scene.locks.mutex("m")?.lock().await?;
        let mutex = scene.locks.mutex("m")?;
        let (again, me) = (Reentrant::new(scene.locks.mutex("n")?), Owner::new());
        let also_held = scene.locks.mutex("n")?.lock().await?;
        let mut leads = std::pin::pin!(mutex.lock_within(PATIENCE));
        let mut owner = std::pin::pin!(again.lock_within(&me, PATIENCE));
        assert!(once(leads.as_mut()).await.is_none() && once(owner.as_mut()).await.is_none());
        pass(&scene.clock, LINGER).await; // each leads, and does not know that yet
        held.release().await?.confirmed()?;
        also_held.release().await?.confirmed()?;
        scene.store.faults().delay(PATIENCE / 5); // its end comes after the session, and before a claim
        gate.is_shut.send_replace(!is_opened);
        assert_eq!(scene.store.faults().lose_sessions_of("ours"), 1);
        for _ in 0..4 {
            assert!(once(leads.as_mut()).await.is_none() && once(owner.as_mut()).await.is_none());
            pass(&scene.clock, PAUSE).await;
        }
        assert!(once(leads.as_mut()).await.is_none() && once(owner.as_mut()).await.is_none());
        pass(&scene.clock, PAUSE).await;
        let error = leads.await.expect_err("nobody is ahead in that session");
        assert_eq!(error.kind(), ErrorKind::Timeout);
        let error = owner.await.map(drop).expect_err("nobody is ahead in that session");
        assert_eq!(error.kind(), ErrorKind::Timeout);
    }
    Ok(())
}

/// Otherwise a store that answers more slowly than tasks come would serve nobody.
#[tokio::test]
async fn a_join_is_awaited_by_whoever_leads_next() -> Done {
    let early = ROUND_TRIP * 3 / 5;
    for is_dropped in [false, true] {
        let scene = Scene::new()?;
        scene.locks.mutex("m")?.lock().await?.release().await?.confirmed()?; // opens the session
        scene.store.faults().delay(ROUND_TRIP);
        let first = scene.locks_within(if is_dropped { PATIENCE } else { early }).await;
        let second = scene.locks_within(PATIENCE).await;
        pass(&scene.clock, early).await;
        if is_dropped {
            first.abort();
            assert!(first.await.is_err());
        } else {
            let error = first.await.expect("no panic").expect_err("the store has said nothing");
            assert_eq!(error.kind(), ErrorKind::Timeout);
        }
        pass(&scene.clock, Duration::ZERO).await;
        assert!(!second.is_finished(), "the store has said nothing");
        pass(&scene.clock, ROUND_TRIP - early).await;
        assert!(second.is_finished(), "the store has answered the join");
        scene.store.faults().heal();
        second.await.expect("no panic")?.expect("nobody else holds").release().await?.confirmed()?;
        until_empty(&scene.locks, "m").await;
        scene.locks.close().await?;
    }
    Ok(())
}

/// Whoever comes to lead has little of its patience left: less than the store takes for an answer.
#[tokio::test]
async fn a_crowd_with_patience_is_served_again_after_an_outage() -> Done {
    let (patience, step) = (ROUND_TRIP * 4, ROUND_TRIP / 2);
    let scene = Scene::new()?;
    scene.locks.mutex("m")?.lock().await?.release().await?.confirmed()?; // opens the session
    scene.store.faults().delay(options().command_deadline);
    let mut crowd = Vec::new();
    for _ in 0..16 {
        crowd.push(scene.locks_within(patience).await);
        pass(&scene.clock, step).await;
    }
    scene.store.faults().delay(ROUND_TRIP);
    let mut those_served = 0;
    for _ in 0..32 {
        crowd.push(scene.locks_within(patience).await);
        pass(&scene.clock, step).await;
        for asking in crowd.extract_if(.., |asking| asking.is_finished()) {
            if let Ok(Some(guard)) = asking.await.expect("no panic") {
                those_served += 1;
                drop(guard);
            }
        }
    }
    assert!(those_served >= 16, "{those_served} are served");
    scene.store.faults().heal();
    pass(&scene.clock, patience).await;
    drop(crowd);
    until_empty(&scene.locks, "m").await;
    scene.locks.close().await
}
