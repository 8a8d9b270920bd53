//! Who stands in the store's line for the others: when the next one does, and what becomes of the claim.

use std::time::Duration;

use tidelock_core::backend::keepers_caught_up;
use tidelock_memory::{Clock, Store};

use super::asking::{Done, LINGER, TTL, asks, claims, granted, once, options};
use super::time::pass;
use crate::condition::until;
use crate::line::until_empty;

#[tokio::test]
async fn a_leader_that_gives_up_leaves_its_place_to_the_next() -> Done {
    let store = Store::new();
    let (ours, others) = (store.attach(options())?, store.attach(options())?);
    let held = others.mutex("m")?.lock().await?;
    let (leader, next) = (asks(&ours, "m").await, asks(&ours, "m").await);
    until("it stands in line", async || claims(&ours, "m").await == 2).await;
    let place = ours.inspect("m").await?.claims[1].id;
    leader.abort();
    assert!(leader.await.is_err());
    held.release().await?.confirmed()?;
    let guard = granted(next).await;
    assert_eq!(guard.claim(), place);
    guard.release().await?.confirmed()?;
    ours.close().await?;
    others.close().await
}

#[tokio::test]
async fn a_hold_that_lasts_longer_than_the_linger_costs_nobody_a_place() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let (locks, others) = (store.attach(options())?, store.attach(options())?);
    let guard = locks.mutex("m")?.lock().await?;
    let (next, last) = (asks(&locks, "m").await, asks(&locks, "m").await);
    assert_eq!(claims(&locks, "m").await, 1);
    clock.advance(LINGER);
    until("the next one stands in line", async || claims(&locks, "m").await == 2).await;
    let elsewhere = asks(&others, "m").await;
    until("the other client stands there too", async || claims(&locks, "m").await == 3).await;
    guard.release().await?.confirmed()?;
    let guard = granted(next).await;
    clock.advance(LINGER);
    until("the last one stands behind the other client", async || claims(&locks, "m").await == 3).await;
    guard.release().await?.confirmed()?;
    granted(elsewhere).await.release().await?.confirmed()?;
    granted(last).await.release().await?.confirmed()?;
    until_empty(&locks, "m").await;
    Ok(())
}

#[tokio::test]
async fn the_linger_counts_from_the_stores_grant_however_late_its_task_is_polled() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let (ours, others) = (store.connect(options()).await?, store.attach(options())?);
    let held = others.mutex("m")?.lock().await?;
    let mutex = ours.mutex("m")?;
    let mut leads = std::pin::pin!(mutex.lock());
    assert!(once(leads.as_mut()).await.is_none());
    until("it stands in line", async || claims(&others, "m").await == 2).await;
    held.release().await?.confirmed()?;
    clock.advance(LINGER);
    let guard = leads.await?;
    let (claim, next) = (guard.claim(), asks(&ours, "m").await);
    guard.release().await?.confirmed()?;
    let next = granted(next).await;
    assert_ne!(next.claim(), claim, "it was passed on after the linger");
    next.release().await?.confirmed()?;
    ours.close().await?;
    others.close().await
}

#[tokio::test]
async fn a_leader_that_the_store_does_not_answer_has_two_deadlines() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let deadline = options().command_deadline;
    let locks = store.connect(options()).await?;
    let mutex = locks.mutex("m")?;
    store.faults().delay(deadline);
    let mut leads = std::pin::pin!(mutex.lock());
    assert!(once(leads.as_mut()).await.is_none());
    store.faults().heal();
    let next = asks(&locks, "m").await;
    clock.advance(deadline);
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(!next.is_finished(), "the leader was passed after one deadline");
    clock.advance(deadline);
    until("the next one has led", async || next.is_finished()).await;
    granted(next).await.release().await?.confirmed()
}

#[tokio::test]
async fn a_leader_that_nobody_polls_keeps_nobody_from_the_lock() -> Done {
    let store = Store::new();
    let deadline = Duration::from_millis(50);
    let options = || options().command_deadline(deadline).back_off(deadline / 10, deadline / 10);
    let locks = store.connect(options().max_hold(deadline)).await?;
    let others = store.connect(options()).await?;
    let held = others.mutex("m")?.lock().await?;
    let mutex = locks.mutex("m")?;
    let mut leads = std::pin::pin!(mutex.lock());
    assert!(once(leads.as_mut()).await.is_none());
    until("its claim stands in line", async || claims(&others, "m").await == 2).await;
    let next = asks(&locks, "m").await;
    held.release().await?.confirmed()?;
    until("the next one has led", async || next.is_finished()).await;
    granted(next).await.release().await?.confirmed()?;
    leads.await?.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_leader_that_never_saw_its_answer_keeps_nobody_from_the_lock_for_a_long_deadline() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let locks = store.connect(options().command_deadline(TTL * 20)).await?;
    let mutex = locks.mutex("m")?;
    store.faults().delay(TTL / 10);
    let mut leads = std::pin::pin!(mutex.lock());
    assert!(once(leads.as_mut()).await.is_none());
    let next = asks(&locks, "m").await;
    let mut passed = Duration::ZERO;
    while !next.is_finished() {
        assert!(passed < TTL * 3, "it is kept from a lock that nobody holds");
        pass(&clock, TTL / 30).await;
        passed += TTL / 30;
    }
    drop(granted(next).await);
    Ok(())
}

#[tokio::test]
async fn a_leader_that_nobody_polls_refuses_no_try_while_the_lock_is_free() -> Done {
    for is_polled_once_more in [false, true] {
        let clock = Clock::manual();
        let store = Store::with_clock(&clock);
        let locks = store.connect(options()).await?;
        let mutex = locks.mutex("m")?;
        let held = mutex.lock().await?;
        let mut leads = std::pin::pin!(mutex.lock());
        assert!(once(leads.as_mut()).await.is_none());
        pass(&clock, LINGER * 2).await;
        let (mut step, mut steps) = (options().command_deadline, 1);
        if is_polled_once_more {
            pass(&clock, step).await;
            store.faults().delay(TTL / 10);
            assert!(once(leads.as_mut()).await.is_none());
            store.faults().heal();
            (step, steps) = (TTL / 12, 18); // the keeper gives its join up meanwhile
        }
        held.release().await?.confirmed()?;
        for _ in 0..steps {
            pass(&clock, step).await;
        }
        let tried = mutex.try_lock().await?.expect("nobody holds it");
        tried.release().await?.confirmed()?;
    }
    Ok(())
}

/// How the claim of a leader ends.
#[derive(Clone, Copy, Debug)]
enum End {
    WithItsSession,
    ByAnOperator,
    ByMaxHold,
}

#[tokio::test]
async fn a_leader_that_nobody_polls_refuses_no_try_however_its_claim_was_lost() -> Done {
    for end in [End::WithItsSession, End::ByAnOperator, End::ByMaxHold] {
        let clock = Clock::manual();
        let store = Store::with_clock(&clock);
        let (deadline, max_hold) = (options().command_deadline, options().command_deadline * 2);
        let locks = store.connect(options().label("ours").max_hold(max_hold)).await?;
        let mutex = locks.mutex("m")?;
        let held = mutex.lock().await?;
        let mut leads = std::pin::pin!(mutex.lock());
        assert!(once(leads.as_mut()).await.is_none());
        pass(&clock, LINGER * 2).await;
        if let End::ByMaxHold = end {
            assert!(once(leads.as_mut()).await.is_none(), "the other one holds");
        }
        pass(&clock, deadline).await; // nobody else waits, so the bell is put away
        store.faults().delay(LINGER);
        assert!(once(leads.as_mut()).await.is_none());
        pass(&clock, LINGER / 2).await;
        assert!(once(leads.as_mut()).await.is_none(), "its request has just arrived");
        store.faults().heal();
        let place = locks.inspect("m").await?.claims[1].id;
        if let End::ByAnOperator = end {
            assert!(locks.evict("m", place).await?);
        }
        held.release().await?.confirmed()?;
        match end {
            End::WithItsSession => assert_eq!(store.faults().lose_sessions_of("ours"), 1),
            End::ByAnOperator => {}
            End::ByMaxHold => pass(&clock, max_hold).await,
        }
        pass(&clock, LINGER).await;
        let tried = mutex.try_lock().await?;
        let tried = tried.unwrap_or_else(|| panic!("its claim was lost: {end:?}, and nobody holds it"));
        tried.release().await?.confirmed()?;
    }
    Ok(())
}

#[tokio::test]
async fn whoever_comes_to_lead_after_one_that_was_given_up_has_time_to_begin() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let locks = store.connect(options().command_deadline(TTL * 20)).await?;
    let mutex = locks.mutex("m")?;
    store.faults().delay(TTL / 10);
    let mut leads = Box::pin(mutex.lock());
    assert!(once(leads.as_mut()).await.is_none());
    store.faults().heal();
    pass(&clock, TTL * 3 / 4).await;
    let (next, last) = (asks(&locks, "m").await, asks(&locks, "m").await);
    for _ in 0..8 {
        pass(&clock, TTL / 12).await; // its join is given up, and the bell has not rung
    }
    drop(leads);
    clock.advance(TTL / 2);
    assert!(keepers_caught_up(Duration::from_secs(10)), "the keepers do nothing");
    let next = granted(next).await;
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert_eq!(claims(&locks, "m").await, 1, "the last one leads beside the next one");
    next.release().await?.confirmed()?;
    granted(last).await.release().await?.confirmed()
}

/// The store answers more slowly than within a quarter of that time.
#[tokio::test]
async fn whoever_leads_after_one_that_nobody_polls_has_the_full_time_of_a_command() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let (deadline, step) = (options().command_deadline, options().command_deadline / 20);
    let locks = store.connect(options()).await?;
    store.faults().delay(deadline * 2 / 5);
    let mutex = locks.mutex("m")?;
    let mut leads = std::pin::pin!(mutex.lock());
    assert!(once(leads.as_mut()).await.is_none());
    pass(&clock, step).await;
    let (next, last) = (asks(&locks, "m").await, asks(&locks, "m").await);
    for _ in 0..50 {
        pass(&clock, step).await;
    }
    store.faults().heal();
    assert!(next.is_finished(), "the store has answered to the next one");
    granted(next).await.release().await?.confirmed()?;
    pass(&clock, deadline).await; // so the last one has its answer
    granted(last).await.release().await?.confirmed()
}

/// The keeper has given its join up, and the bell has not rung since.
#[tokio::test]
async fn whoever_leads_after_one_that_was_given_up_and_dropped_has_the_full_time_of_a_command() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let (deadline, step) = (options().command_deadline, options().command_deadline / 20);
    let locks = store.connect(options()).await?;
    let mutex = locks.mutex("m")?;
    store.faults().delay(deadline);
    let mut leads = Box::pin(mutex.lock());
    assert!(once(leads.as_mut()).await.is_none());
    for _ in 0..2 {
        pass(&clock, TTL / 3).await; // so the keeper looks once more as soon as the time of that join is over
    }
    pass(&clock, TTL / 3 - deadline * 3 / 4).await;
    let (next, last) = (asks(&locks, "m").await, asks(&locks, "m").await);
    for _ in 0..17 {
        pass(&clock, step).await;
    }
    store.faults().delay(deadline * 2 / 5);
    drop(leads);
    for _ in 0..18 {
        pass(&clock, step).await;
    }
    store.faults().heal();
    assert!(next.is_finished(), "the store has answered to the next one");
    granted(next).await.release().await?.confirmed()?;
    pass(&clock, deadline).await; // so the last one has its answer
    granted(last).await.release().await?.confirmed()
}

#[tokio::test]
async fn a_leader_that_is_always_polled_late_takes_along_nobody() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let (ours, others) = (store.connect(options().max_hold(LINGER)).await?, store.attach(options())?);
    let theirs = others.mutex("m")?;
    let mut held = theirs.lock().await?;
    let mutex = ours.mutex("m")?;
    let mut leads = std::pin::pin!(mutex.lock());
    assert!(once(leads.as_mut()).await.is_none());
    until("its claim stands in line", async || claims(&others, "m").await == 2).await;
    let next = asks(&ours, "m").await;
    for times in 1..=4 {
        held.release().await?.confirmed()?;
        clock.advance(LINGER + LINGER / 10);
        held = theirs.lock().await?;
        let told = once(leads.as_mut()).await;
        assert_eq!(told.is_some_and(|told| told.is_err()), times == 4, "{times} grants ended");
        tokio::task::yield_now().await;
    }
    held.release().await?.confirmed()?;
    granted(next).await.release().await?.confirmed()?;
    ours.close().await?;
    others.close().await
}
