//! While the store is away: who hears of it, and when.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidelock_core::prelude::*;
use tidelock_core::{ErrorKind, Owner, Reentrant};
use tidelock_memory::{Clock, Store};
use tokio::task::JoinHandle;

use super::asking::{Done, asks, claims, granted, once, options};
use super::gate::Gate;
use super::time::pass;
use crate::condition::until;
use crate::layered;

#[tokio::test]
async fn a_leader_with_little_patience_takes_along_nobody_that_has_more() -> Done {
    let store = Store::new();
    let locks = store.attach(options())?;
    locks.mutex("m")?.lock().await?.release().await?.confirmed()?; // opens the session
    store.faults().refuse_all();
    let within = |milliseconds| {
        let mutex = locks.mutex("m").expect("a good name");
        tokio::spawn(async move { mutex.lock_within(Duration::from_millis(milliseconds)).await })
    };
    let (first, second) = (within(30), within(80));
    tokio::task::yield_now().await;
    let third = asks(&locks, "m").await;
    for impatient in [first, second] {
        assert!(impatient.await.expect("no panic").is_err(), "the store is away");
    }
    store.faults().heal();
    granted(third).await.release().await?.confirmed()?;
    locks.close().await
}

#[tokio::test]
async fn a_leader_whose_patience_ends_early_in_an_outage_takes_along_nobody_that_came_before_it() -> Done {
    let (clock, gate) = (Clock::manual(), Gate::new());
    let store = Store::with_clock(&clock);
    let deadline = Duration::from_secs(1);
    let options = || options().command_deadline(deadline);
    let ours = layered::attach(&store, gate.clone(), options().label("ours"))?;
    let others = store.attach(options())?;
    let held = others.mutex("m")?.lock().await?;
    let mutex = ours.mutex("m")?;
    let leader = tokio::spawn(async move { mutex.lock_within(deadline * 4).await });
    until("its claim stands in line", async || claims(&others, "m").await == 2).await;
    let next = asks(&ours, "m").await;
    clock.advance(deadline * 15 / 4);
    gate.shut_after_loss(&store, "ours").await;
    clock.advance(deadline / 4);
    assert!(leader.await.expect("no panic").is_err(), "the store is away");
    gate.is_shut.send_replace(false);
    held.release().await?.confirmed()?;
    granted(next).await.release().await?.confirmed()?;
    ours.close().await?;
    others.close().await
}

#[tokio::test]
async fn a_leader_whose_patience_ends_while_a_session_is_opened_takes_along_nobody() -> Done {
    let (clock, gate) = (Clock::manual(), Gate::new());
    let deadline = Duration::from_millis(400);
    let store = Store::with_clock(&clock);
    let locks = layered::attach(&store, gate.clone(), options().command_deadline(deadline))?;
    gate.is_shut.send_replace(true);
    let mutex = locks.mutex("m")?;
    let leader = tokio::spawn(async move { mutex.lock_within(deadline * 3 / 2).await });
    until("a session is being opened", async || gate.opens.load(Ordering::Relaxed) > 0).await;
    pass(&clock, deadline / 4).await;
    let next = asks(&locks, "m").await;
    pass(&clock, deadline * 5 / 4).await;
    assert!(leader.await.expect("no panic").is_err(), "no session is open");
    gate.is_shut.send_replace(false);
    granted(next).await.release().await?.confirmed()?;
    locks.close().await
}

#[tokio::test]
async fn while_the_store_is_away_patience_ends_with_an_error() -> Done {
    let store = Store::new();
    let locks = store.connect(options()).await?;
    store.faults().refuse_all();
    let mutex = locks.mutex("m")?;
    let leads = asks(&locks, "m").await;
    let error = mutex.lock_within(Duration::from_millis(50)).await.expect_err("the store has said nothing");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    store.faults().heal();
    granted(leads).await.release().await?.confirmed()
}

#[tokio::test]
async fn who_comes_after_the_loss_of_the_leaders_session_hears_no_word_of_it() -> Done {
    let (store, gate) = (Store::new(), Gate::new());
    let ours = layered::attach(&store, gate.clone(), options().label("ours"))?;
    let others = store.attach(options())?;
    let held = others.mutex("m")?.lock().await?;
    let leads = asks(&ours, "m").await;
    until("its claim stands in line", async || claims(&others, "m").await == 2).await;
    gate.shut_after_loss(&store, "ours").await;
    let impatient = ours.mutex("m")?.lock_within(Duration::from_millis(50)).await;
    let error = impatient.expect_err("the store has said nothing since");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    gate.is_shut.send_replace(false);
    held.release().await?.confirmed()?;
    granted(leads).await.release().await?.confirmed()?;
    ours.close().await?;
    others.close().await
}

#[tokio::test]
async fn who_came_after_the_leader_hears_of_an_outage_hardly_later_than_alone() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let locks = store.connect(options()).await?;
    store.faults().delay(options().command_deadline * 10);
    those_that_come_hear_of_it_hardly_later_than_alone(&clock, &locks).await
}

#[tokio::test]
async fn who_comes_after_the_loss_of_the_leaders_session_hears_of_an_outage_hardly_later_than_alone() -> Done
{
    let (clock, gate) = (Clock::manual(), Gate::new());
    let store = Store::with_clock(&clock);
    let ours = options().label("ours").connect_deadline(options().command_deadline);
    let (ours, others) = (layered::attach(&store, gate.clone(), ours)?, store.attach(options())?);
    let held = others.mutex("m")?.lock().await?;
    let leads = asks(&ours, "m").await;
    until("its claim stands in line", async || claims(&others, "m").await == 2).await;
    gate.shut_after_loss(&store, "ours").await;
    those_that_come_hear_of_it_hardly_later_than_alone(&clock, &ours).await?;
    assert!(leads.await.expect("no panic").is_err(), "the store is away");
    drop(held);
    Ok(())
}

async fn those_that_come_hear_of_it_hardly_later_than_alone(clock: &Clock, locks: &Arc<dyn Locks>) -> Done {
    let deadline = options().command_deadline;
    let step = deadline / 100;
    let (mut asking, mut took) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        asking.push(Some((asks(locks, "m").await, clock.now())));
        clock.advance(step * 8);
    }
    for _ in 0..300 {
        pass(clock, step).await;
        for slot in &mut asking {
            if let Some((_, since)) = slot.take_if(|(asking, _)| asking.is_finished()) {
                took.push(clock.now().since(since));
            }
        }
    }
    assert_eq!(took.len(), asking.len(), "some have heard nothing");
    let (shortest, longest) = (took.iter().min().copied(), took.iter().max().copied());
    assert!(longest <= Some(deadline * 5 / 4 + step * 3), "an error took {longest:?} of {deadline:?}");
    assert!(shortest >= Some(deadline / 2), "it gave up after {shortest:?} of {deadline:?}");
    Ok(())
}

#[tokio::test]
async fn while_the_store_is_away_an_owners_patience_ends_with_an_error() -> Done {
    let store = Store::new();
    let locks = store.connect(options()).await?;
    store.faults().refuse_all();
    let leads = asks(&locks, "m").await;
    let mutex = Reentrant::new(locks.mutex("m")?);
    let behind = mutex.lock_within(&Owner::new(), Duration::from_millis(50)).await;
    let error = behind.expect_err("the store has said nothing");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    store.faults().heal();
    granted(leads).await.release().await?.confirmed()
}

#[tokio::test]
async fn an_owner_hears_that_it_has_to_wait_also_when_the_store_says_so_later() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let (ours, others) = (store.connect(options()).await?, store.attach(options())?);
    let held = others.mutex("m")?.lock().await?;
    store.faults().refuse_all();
    let leads = asks(&ours, "m").await;
    let (mutex, me, patience) = (Reentrant::new(ours.mutex("m")?), Owner::new(), Duration::from_secs(1));
    let mut behind = std::pin::pin!(mutex.lock_within(&me, patience));
    assert!(once(behind.as_mut()).await.is_none());
    store.faults().heal();
    clock.advance(patience / 10);
    until("the leader's claim stands in line", async || claims(&others, "m").await == 2).await;
    clock.advance(patience);
    assert!(behind.await?.is_none(), "another client holds the lock");
    held.release().await?.confirmed()?;
    granted(leads).await.release().await?.confirmed()?;
    ours.close().await?;
    others.close().await
}

#[tokio::test]
async fn while_no_session_can_be_opened_those_behind_try_hardly_longer_than_alone() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let locks = store.attach(options().label("ours"))?;
    locks.mutex("m")?.lock().await?.release().await?.confirmed()?; // opens the session
    assert_eq!(store.faults().lose_sessions_of("ours"), 1);
    store.faults().refuse_all();
    those_that_come_hear_of_it_hardly_later_than_alone(&clock, &locks).await
}

#[tokio::test]
async fn a_crowd_outlasts_a_session_that_opens_slowly_as_one_task_does() -> Done {
    // The bell passes leaders that are not served, the last time after four fifths of the time that an opening may take.
    for steps in [0, 2, 4, 5, 6] {
        a_crowd_outlasts_an_opening(steps).await?;
    }
    Ok(())
}

async fn a_crowd_outlasts_an_opening(steps: u32) -> Done {
    let (clock, gate) = (Clock::manual(), Gate::new());
    let options = options().command_deadline(Duration::from_millis(400));
    let step = options.command_deadline / 20;
    let opening = options.connect_deadline * 4 / 5 + step * steps;
    let store = Store::with_clock(&clock);
    let locks = layered::attach(&store, gate.clone(), options)?;
    gate.is_shut.send_replace(true);
    let mut crowd = Vec::new();
    for _ in 0..20 {
        let mutex = locks.mutex("m")?;
        crowd.push(tokio::spawn(async move { mutex.lock().await?.release().await?.confirmed() }));
        tokio::task::yield_now().await;
    }
    until("a session is being opened", async || gate.opens.load(Ordering::Relaxed) > 0).await;
    let began = clock.now();
    while clock.now().since(began) < opening {
        pass(&clock, step).await;
    }
    store.faults().delay(step * 2); // so a join needs some time, too
    gate.is_shut.send_replace(false);
    let are_served = async || {
        pass(&clock, step).await;
        crowd.iter().all(JoinHandle::is_finished)
    };
    until("all are served", are_served).await;
    store.faults().heal();
    for served in crowd {
        served.await.expect("no panic")?;
    }
    locks.close().await
}

/// The bell passes leaders meanwhile, although they are polled.
#[tokio::test]
async fn while_the_opening_of_a_session_hangs_those_behind_try_hardly_longer_than_alone() -> Done {
    let (clock, gate) = (Clock::manual(), Gate::new());
    let store = Store::with_clock(&clock);
    let (deadline, step) = (options().command_deadline, options().command_deadline / 20);
    let locks = layered::attach(&store, gate.clone(), options())?;
    gate.is_shut.send_replace(true);
    let leader = asks(&locks, "m").await;
    until("a session is being opened", async || gate.opens.load(Ordering::Relaxed) > 0).await;
    pass(&clock, step).await;
    let behind = [asks(&locks, "m").await, asks(&locks, "m").await];
    let began = clock.now();
    while !behind.iter().all(JoinHandle::is_finished) {
        pass(&clock, step).await;
        let waited = clock.now().since(began);
        assert!(waited <= options().connect_deadline + deadline / 4, "nothing heard after {waited:?}");
    }
    for asking in behind.into_iter().chain([leader]) {
        asking.await.expect("no panic").expect_err("no session is open");
    }
    Ok(())
}

/// Its patience began while the session was being opened, and the store answers more slowly than within a quarter of the
/// time of a command.
#[tokio::test]
async fn who_leads_once_a_session_is_open_has_the_full_time_of_a_command() -> Done {
    let (clock, gate) = (Clock::manual(), Gate::new());
    let store = Store::with_clock(&clock);
    let (deadline, step) = (options().command_deadline, options().command_deadline / 20);
    let locks = layered::attach(&store, gate.clone(), options())?;
    gate.is_shut.send_replace(true);
    let mutex = locks.mutex("m")?;
    let leader = tokio::spawn(async move { mutex.lock_within(deadline * 2 + step).await });
    until("a session is being opened", async || gate.opens.load(Ordering::Relaxed) > 0).await;
    pass(&clock, step).await;
    let (next, last) = (asks(&locks, "m").await, asks(&locks, "m").await);
    pass(&clock, deadline * 2 - step * 9).await;
    store.faults().delay(step * 8);
    gate.is_shut.send_replace(false);
    for _ in 0..18 {
        pass(&clock, step).await;
    }
    assert!(leader.await.expect("no panic").is_err(), "its patience has ended");
    store.faults().heal();
    assert!(next.is_finished(), "the store has answered to the next one");
    granted(next).await.release().await?.confirmed()?;
    pass(&clock, deadline).await; // so the last one has its answer
    granted(last).await.release().await?.confirmed()?;
    locks.close().await
}

/// The session is opened by itself, and the store answers more slowly than within a quarter of the time of a command.
#[tokio::test]
async fn whoever_leads_after_one_that_was_not_polled_once_a_session_was_open_has_the_full_time_of_a_command()
-> Done {
    for is_dropped in [false, true] {
        let (clock, gate) = (Clock::manual(), Gate::new());
        let store = Store::with_clock(&clock);
        let (deadline, step) = (options().command_deadline, options().command_deadline / 20);
        let locks = layered::attach(&store, gate.clone(), options())?;
        gate.is_shut.send_replace(true);
        let mutex = locks.mutex("m")?;
        let mut leads = Box::pin(mutex.lock());
        assert!(once(leads.as_mut()).await.is_none());
        until("a session is being opened", async || gate.opens.load(Ordering::Relaxed) > 0).await;
        pass(&clock, step).await;
        let (next, last) = (asks(&locks, "m").await, asks(&locks, "m").await);
        pass(&clock, step).await;
        gate.is_shut.send_replace(false);
        pass(&clock, deadline).await;
        store.faults().delay(deadline * 2 / 5);
        let leads = (!is_dropped).then_some(leads); // otherwise it is dropped
        for _ in 0..40 {
            pass(&clock, step).await;
        }
        store.faults().heal();
        assert!(next.is_finished(), "the store has answered to the next one");
        granted(next).await.release().await?.confirmed()?;
        pass(&clock, deadline).await; // so the last one has its answer
        granted(last).await.release().await?.confirmed()?;
        drop(leads);
        locks.close().await?;
    }
    Ok(())
}

/// The store has said that it was taken, to one whose claim is gone.
#[tokio::test]
async fn a_try_asks_the_store_when_the_place_of_all_was_lost() -> Done {
    let (clock, gate) = (Clock::manual(), Gate::new());
    let store = Store::with_clock(&clock);
    let locks = layered::attach(&store, gate.clone(), options().label("ours"))?;
    let held = locks.mutex("m")?.lock().await?;
    let next = asks(&locks, "m").await;
    let mutex = locks.mutex("m")?;
    assert!(mutex.try_lock().await?.is_none());
    gate.shut_after_loss(&store, "ours").await;
    let trying = tokio::spawn(async move { mutex.try_lock().await });
    for _ in 0..40 {
        pass(&clock, options().command_deadline / 4).await;
    }
    assert!(trying.await.expect("no panic").is_err(), "nobody knows whether it is taken");
    gate.is_shut.send_replace(false);
    drop(held);
    if let Ok(guard) = next.await.expect("no panic") {
        guard.release().await?.confirmed()?;
    }
    locks.close().await
}

#[tokio::test]
async fn those_with_little_patience_delay_no_others_error() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let locks = store.connect(options()).await?;
    let deadline = options().command_deadline;
    let step = deadline / 100;
    store.faults().delay(deadline * 50);
    let _leads = asks(&locks, "m").await;
    clock.advance(step);
    for nth in 1..=8 {
        let (mutex, patience) = (locks.mutex("m")?, deadline + deadline * nth / 5);
        tokio::spawn(async move { mutex.lock_within(patience).await });
        tokio::task::yield_now().await;
    }
    let (last, since) = (asks(&locks, "m").await, clock.now());
    while !last.is_finished() {
        pass(&clock, step).await;
        let waited = clock.now().since(since);
        assert!(waited <= deadline * 5 / 4 + step * 3, "it has heard nothing after {waited:?}");
    }
    last.await.expect("no panic").expect_err("the store is silent");
    Ok(())
}

#[tokio::test]
async fn nor_do_they_after_the_loss_of_the_leaders_session() -> Done {
    let (clock, gate) = (Clock::manual(), Gate::new());
    let store = Store::with_clock(&clock);
    let deadline = options().command_deadline;
    let step = deadline / 100;
    let ours = options().label("ours").connect_deadline(deadline);
    let (ours, others) = (layered::attach(&store, gate.clone(), ours)?, store.attach(options())?);
    let held = others.mutex("m")?.lock().await?;
    let impatient = async |nth: u32| {
        let (mutex, patience) = (ours.mutex("m")?, deadline * nth * 9 / 10);
        tokio::spawn(async move { mutex.lock_within(patience).await });
        tokio::task::yield_now().await;
        Done::Ok(())
    };
    impatient(1).await?;
    until("the first one's claim stands in line", async || claims(&others, "m").await == 2).await;
    for nth in 2..=8 {
        impatient(nth).await?;
    }
    let last = asks(&ours, "m").await;
    gate.shut_after_loss(&store, "ours").await;
    let since = clock.now();
    while !last.is_finished() {
        pass(&clock, step).await;
        let waited = clock.now().since(since);
        assert!(waited <= deadline * 5 / 4 + step * 3, "it has heard nothing after {waited:?}");
    }
    last.await.expect("no panic").expect_err("the store is away");
    gate.is_shut.send_replace(false);
    drop(held);
    Ok(())
}
