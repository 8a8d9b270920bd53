//! A leader that is away, so that nobody polls it, while its claim is granted or lost.

use std::pin::Pin;
use std::sync::Arc;

use tidelock_core::prelude::*;
use tidelock_core::{ClaimId, Options};
use tidelock_memory::{Clock, Store};
use tokio::task::JoinHandle;

use super::asking::{Done, LINGER, TTL, asks, asks_to_read, claims, granted, once, options};
use super::time::pass;
use crate::condition::until;
use crate::line::until_empty;

/// A leader whose claim stands in line behind another client, and the next one of its own client.
struct Scene {
    clock: Clock,
    store: Store,
    ours: Arc<dyn Locks>,
    others: Arc<dyn Locks>,
    held: Guard,
    leader: Pin<Box<dyn Future<Output = tidelock_core::Result<Guard>>>>,
    place: ClaimId,
    next: JoinHandle<tidelock_core::Result<Guard>>,
}

impl Scene {
    async fn with(ours: Options) -> tidelock_core::Result<Self> {
        let clock = Clock::manual();
        let store = Store::with_clock(&clock);
        let (ours, others) = (store.connect(ours.label("ours")).await?, store.connect(options()).await?);
        let held = others.mutex("m")?.lock().await?;
        let mutex = ours.mutex("m")?;
        let mut leader = Box::pin(async move { mutex.lock().await });
        assert!(once(leader.as_mut()).await.is_none());
        until("its claim stands in line", async || claims(&others, "m").await == 2).await;
        let place = others.inspect("m").await?.claims[1].id;
        let next = asks(&ours, "m").await;
        Ok(Self { clock, store, ours, others, held, leader, place, next })
    }
}

/// Time passes, in which a leader that does not stand in line is passed.
async fn two_deadlines_pass(clock: &Clock) {
    for _ in 0..9 {
        pass(clock, options().command_deadline / 4).await;
    }
}

/// It holds in the store with a claim of its own.
async fn holds_anew(
    others: &Arc<dyn Locks>,
    next: JoinHandle<tidelock_core::Result<Guard>>,
    lost: ClaimId,
) -> Done {
    until("the next one has its turn", async || next.is_finished()).await;
    let guard = granted(next).await;
    assert_eq!(guard.state(), State::Held);
    assert_ne!(guard.claim(), lost);
    let line = others.inspect("m").await?;
    assert_eq!(line.claims.iter().map(|claim| claim.id).collect::<Vec<_>>(), [guard.claim()]);
    guard.release().await?.confirmed()?;
    until_empty(others, "m").await;
    Ok(())
}

#[tokio::test]
async fn a_place_that_was_lost_is_of_no_use_to_the_next() -> Done {
    let Scene { store, others, held, leader, place, next, .. } = Scene::with(options()).await?;
    assert_eq!(store.faults().lose_sessions_of("ours"), 1);
    drop(leader);
    held.release().await?.confirmed()?;
    holds_anew(&others, next, place).await
}

#[tokio::test]
async fn a_grant_that_was_lost_is_of_no_use_to_the_next() -> Done {
    let Scene { others, held, leader, place, next, .. } = Scene::with(options()).await?;
    held.release().await?.confirmed()?;
    assert!(others.evict("m", place).await?);
    drop(leader);
    holds_anew(&others, next, place).await
}

#[tokio::test]
async fn a_grant_that_is_over_is_of_no_use_to_the_next() -> Done {
    let Scene { clock, others, held, leader, place, next, .. } =
        Scene::with(options().max_hold(LINGER)).await?;
    held.release().await?.confirmed()?;
    clock.advance(LINGER);
    drop(leader);
    holds_anew(&others, next, place).await
}

#[tokio::test]
async fn a_grant_that_its_leader_has_not_seen_is_the_next_ones() -> Done {
    let Scene { others, held, leader, place, next, .. } = Scene::with(options()).await?;
    held.release().await?.confirmed()?;
    drop(leader);
    let guard = granted(next).await;
    assert_eq!(guard.claim(), place);
    guard.release().await?.confirmed()?;
    until_empty(&others, "m").await;
    Ok(())
}

/// Its lease is nearly over, so it is renewed before it is handed out.
#[tokio::test]
async fn a_grant_that_its_leader_gives_up_while_it_is_renewed_is_the_next_ones() -> Done {
    let Scene { clock, store, others, held, mut leader, place, next, .. } = Scene::with(options()).await?;
    held.release().await?.confirmed()?;
    store.faults().refuse_all();
    clock.advance(TTL * 3 / 4);
    assert!(once(leader.as_mut()).await.is_none(), "it was handed out without a renewal");
    drop(leader);
    store.faults().heal();
    for _ in 0..50 {
        pass(&clock, TTL / 100).await;
    }
    assert!(next.is_finished(), "nobody holds it");
    let guard = granted(next).await;
    assert_eq!((guard.claim(), guard.state()), (place, State::Held));
    guard.release().await?.confirmed()?;
    until_empty(&others, "m").await;
    Ok(())
}

#[tokio::test]
async fn a_leader_that_was_away_since_its_grant_has_it_however_late_it_comes() -> Done {
    let Scene { clock, ours, others, held, leader, place, next, .. } = Scene::with(options()).await?;
    held.release().await?.confirmed()?;
    two_deadlines_pass(&clock).await;
    assert_eq!(claims(&ours, "m").await, 2, "the linger was over long ago, so the next one leads");
    let guard = leader.await?;
    assert_eq!((guard.claim(), guard.state()), (place, State::Held));
    guard.release().await?.confirmed()?;
    holds_anew(&others, next, place).await
}

/// It could share its claim, if it knew of it.
#[tokio::test]
async fn a_reader_that_is_away_since_its_grant_keeps_no_other_reader_out() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let (ours, others) = (store.connect(options()).await?, store.connect(options()).await?);
    let written = others.rwlock("r")?.write().await?;
    let lock = ours.rwlock("r")?;
    let mut leader = Box::pin(async move { lock.read().await });
    assert!(once(leader.as_mut()).await.is_none());
    until("its claim stands in line", async || claims(&others, "r").await == 2).await;
    let next = asks_to_read(&ours, "r").await;
    written.release().await?.confirmed()?;
    two_deadlines_pass(&clock).await;
    until("the next one reads", async || next.is_finished()).await;
    let (late, next) = (leader.await?, granted(next).await);
    assert_ne!(late.claim(), next.claim());
    let third = ours.rwlock("r")?.read().await?;
    assert_eq!([&late, &next, &third].map(Guard::state), [State::Held; 3]);
    for guard in [late, next, third] {
        guard.release().await?.confirmed()?;
    }
    until_empty(&others, "r").await;
    Ok(())
}

#[tokio::test]
async fn a_leader_that_was_away_since_its_loss_stands_for_itself_alone() -> Done {
    let Scene { clock, ours, others, held, mut leader, place, next, .. } = Scene::with(options()).await?;
    assert!(others.evict("m", place).await?);
    two_deadlines_pass(&clock).await;
    assert_eq!(claims(&others, "m").await, 2, "the next one leads");
    assert!(once(leader.as_mut()).await.is_none());
    assert_eq!(claims(&others, "m").await, 3, "it stands in line anew");
    let third = asks(&ours, "m").await;
    held.release().await?.confirmed()?;
    let second = granted(next).await;
    pass(&clock, LINGER).await;
    assert_eq!(claims(&others, "m").await, 3, "the third one leads");
    let fourth = asks(&ours, "m").await;
    second.release().await?.confirmed()?;
    let alone = leader.await?;
    let claim = alone.claim();
    alone.release().await?.confirmed()?; // to nobody of its client: the line is led by another one
    let is_alone = async || {
        assert!(!fourth.is_finished(), "a hold was passed to a line that another one leads");
        third.is_finished()
    };
    until("the third one has its turn", is_alone).await;
    let third = granted(third).await;
    assert_ne!(third.claim(), claim);
    third.release().await?.confirmed()?;
    granted(fourth).await.release().await?.confirmed()?;
    until_empty(&others, "m").await;
    Ok(())
}

/// Its claim's time is over when it comes back, so the answer is of no use; but there was one.
#[tokio::test]
async fn a_leader_that_was_away_while_the_store_answered_takes_along_nobody() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let (deadline, round_trip) = (options().command_deadline, LINGER);
    let locks = store.attach(options().ttl(deadline))?;
    locks.mutex("m")?.lock().await?.release().await?.confirmed()?; // opens the session
    store.faults().delay(round_trip);
    let mutex = locks.mutex("m")?;
    let mut leader = Box::pin(async move { mutex.lock().await });
    assert!(once(leader.as_mut()).await.is_none());
    let next = asks(&locks, "m").await;
    let back = clock.now() + deadline + round_trip / 2;
    while clock.now() < back {
        pass(&clock, round_trip / 2).await; // the session is renewed meanwhile
    }
    for _ in 0..2 {
        let told = once(leader.as_mut()).await;
        assert!(told.is_none(), "it asks anew, and has its full time for that: {told:?}");
        pass(&clock, round_trip / 2).await;
    }
    store.faults().heal();
    leader.await?.release().await?.confirmed()?;
    granted(next).await.release().await?.confirmed()?;
    until_empty(&locks, "m").await;
    locks.close().await
}

/// It is granted after the answer that says that it waits, and before anybody looks at that; and is asked for once more.
#[tokio::test]
async fn a_grant_after_an_answer_that_nobody_has_seen_is_the_next_ones() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let (ours, others) = (store.connect(options()).await?, store.connect(options()).await?);
    let held = others.mutex("m")?.lock().await?;
    let mutex = ours.mutex("m")?;
    let mut leader = Box::pin(async move { mutex.lock().await });
    store.faults().delay(LINGER);
    assert!(once(leader.as_mut()).await.is_none());
    pass(&clock, LINGER / 2).await;
    assert!(once(leader.as_mut()).await.is_none(), "the request has just arrived");
    store.faults().heal();
    let place = others.inspect("m").await?.claims[1].id;
    let next = asks(&ours, "m").await;
    held.release().await?.confirmed()?;
    store.faults().delay(LINGER);
    pass(&clock, options().first_pause).await;
    drop(leader);
    pass(&clock, LINGER * 2).await;
    assert!(next.is_finished(), "nobody holds it");
    let guard = granted(next).await;
    assert_eq!((guard.claim(), guard.state()), (place, State::Held));
    store.faults().heal();
    guard.release().await?.confirmed()?;
    until_empty(&others, "m").await;
    Ok(())
}
