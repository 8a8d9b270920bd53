//! Tasks that want the same mutex: who gets a hold that is passed on, with which token, and for how long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidelock_core::prelude::*;
use tidelock_core::{ErrorKind, Options};
use tidelock_memory::{Clock, Store};
use tokio::task::JoinSet;

use super::asking::{Done, LINGER, TTL, asks, claims, granted, once, options, or_none};
use crate::condition::until;
use crate::line::until_empty;

#[tokio::test]
async fn a_hold_is_passed_on_in_order_behind_one_claim() -> Done {
    let locks = Store::new().attach(options())?;
    let first = locks.mutex("m")?.lock().await?;
    let mut asking = Vec::new();
    for _ in 0..20 {
        asking.push(asks(&locks, "m").await);
    }
    let (claim, mut token) = (first.claim(), first.token());
    let line = locks.inspect("m").await?;
    assert_eq!(line.claims[0].behind, 20);
    assert!(line.claims[0].to_string().ends_with(", 20 of its client behind it"));
    first.release().await?.confirmed()?;
    for asking in asking {
        let guard = granted(asking).await;
        assert_eq!((guard.claim(), guard.token().get()), (claim, token.get() + 1));
        assert_eq!(claims(&locks, "m").await, 1, "a local line has one claim");
        token = guard.token();
        guard.release().await?.confirmed()?;
    }
    until_empty(&locks, "m").await;
    locks.close().await
}

#[tokio::test]
async fn a_hold_is_passed_on_31_times_and_not_after_its_linger() -> Done {
    let clock = Clock::manual();
    let locks = Store::with_clock(&clock).attach(options())?;
    let mut guard = locks.mutex("m")?.lock().await?;
    let first = guard.claim();
    for pass in 1..=32 {
        let asking = asks(&locks, "m").await;
        drop(guard);
        guard = granted(asking).await;
        assert_eq!(guard.claim() == first, pass < 32, "pass {pass}");
    }
    let (second, asking) = (guard.claim(), asks(&locks, "m").await);
    clock.advance(LINGER);
    guard.release().await?.confirmed()?;
    let guard = granted(asking).await;
    assert_ne!(guard.claim(), second);
    guard.release().await?.confirmed()?;
    locks.close().await
}

#[tokio::test]
async fn others_get_their_turn_when_it_is_over() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let (ours, others) = (store.attach(options())?, store.attach(options())?);
    let guard = ours.mutex("m")?.lock().await?;
    let theirs = asks(&others, "m").await;
    until("they stand in line", async || claims(&ours, "m").await == 2).await;
    let (second, third) = (asks(&ours, "m").await, asks(&ours, "m").await);
    guard.release().await?.confirmed()?;
    let guard = granted(second).await;
    assert!(!theirs.is_finished(), "the hold was passed on");
    clock.advance(LINGER);
    guard.release().await?.confirmed()?;
    let guard = granted(theirs).await;
    assert!(!third.is_finished(), "it stands behind them");
    guard.release().await?.confirmed()?;
    granted(third).await.release().await?.confirmed()?;
    ours.close().await?;
    others.close().await
}

#[tokio::test]
async fn who_gives_up_is_passed_over_also_when_it_was_told() -> Done {
    let locks = Store::new().attach(options())?;
    let guard = locks.mutex("m")?.lock().await?;
    let (gives_up, is_told, next) =
        (asks(&locks, "m").await, asks(&locks, "m").await, asks(&locks, "m").await);
    gives_up.abort();
    assert!(gives_up.await.is_err());
    guard.release().await?.confirmed()?;
    is_told.abort(); // it has the hold, and has not run since
    let _ = is_told.await;
    granted(next).await.release().await?.confirmed()?;
    until_empty(&locks, "m").await;
    locks.close().await
}

#[tokio::test]
async fn a_hold_that_was_passed_on_is_over_for_who_had_it() -> Done {
    let locks = Store::new().attach(options())?;
    let guard = locks.mutex("m")?.lock().await?;
    let (lost, next) = (guard.lost(), asks(&locks, "m").await);
    drop(guard);
    lost.await;
    let guard = granted(next).await;
    assert_eq!(guard.state(), State::Held);
    guard.release().await?.confirmed()?;
    locks.close().await
}

#[tokio::test]
async fn who_waits_behind_a_lost_claim_stands_in_line_anew_whatever_its_holder_does() -> Done {
    let store = Store::new();
    let locks = store.attach(options())?;
    let stuck = locks.mutex("m")?.lock().await?;
    let next = asks(&locks, "m").await;
    assert!(locks.evict("m", stuck.claim()).await?);
    let guard = granted(next).await;
    assert_eq!(stuck.state(), State::Lost);
    assert!(guard.claim() != stuck.claim() && guard.token() > stuck.token());
    let behind = asks(&locks, "m").await;
    drop(stuck); // its turn is over: it gives nothing to anybody
    tokio::task::yield_now().await;
    assert!(!behind.is_finished());
    guard.release().await?.confirmed()?;
    granted(behind).await.release().await?.confirmed()?;
    locks.close().await
}

#[tokio::test]
async fn a_try_is_answered_by_the_local_line_and_patience_ends() -> Done {
    let locks = Store::new().attach(options())?;
    let mutex = locks.mutex("m")?;
    let guard = mutex.lock().await?;
    assert!(mutex.try_lock().await?.is_none());
    assert!(mutex.lock_within(Duration::from_millis(5)).await?.is_none());
    guard.release().await?.confirmed()?;
    let guard = mutex.try_lock().await?.expect("it is free");
    assert!(mutex.lock_within(Duration::from_millis(5)).await?.is_none());
    guard.release().await?.confirmed()?;
    until_empty(&locks, "m").await;
    locks.close().await
}

#[tokio::test]
async fn a_close_and_a_drain_turn_away_those_that_wait() -> Done {
    for drains in [false, true] {
        let locks = Store::new().attach(options())?;
        let guard = locks.mutex("m")?.lock().await?;
        let waiting = [asks(&locks, "m").await, asks(&locks, "m").await];
        let ending = {
            let locks = locks.clone();
            tokio::spawn(
                async move { if drains { locks.drain().await.map(drop) } else { locks.close().await } },
            )
        };
        for waiting in waiting {
            let error = waiting.await.expect("no panic").expect_err("it takes no locks");
            assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
        }
        drop(guard);
        ending.await.expect("no panic")?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_several_clients_holds_one_at_a_time_with_growing_tokens() -> Done {
    let store = Store::new();
    let (newest, is_held) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let locks = store.connect(options()).await?;
        for task in 0..16 {
            let (mutex, newest, is_held) = (locks.mutex("m")?, newest.clone(), is_held.clone());
            tasks.spawn(async move {
                for round in 0..200 {
                    let patience =
                        Duration::from_micros(if (task + round) % 3 == 0 { 50 } else { 10_000_000 });
                    let Some(guard) = or_none(mutex.lock_within(patience).await)? else { continue };
                    assert!(!is_held.swap(true, Ordering::SeqCst), "two hold");
                    let token = guard.token().get();
                    assert!(newest.swap(token, Ordering::SeqCst) < token);
                    is_held.store(false, Ordering::SeqCst);
                    if round % 2 == 0 {
                        guard.release().await?.confirmed()?;
                    }
                }
                Done::Ok(())
            });
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic")?;
    }
    let locks = store.attach(options())?;
    until_empty(&locks, "m").await;
    locks.close().await
}

#[tokio::test]
async fn another_ttl_bounds_the_linger() -> Done {
    let locks = Store::new().attach(Options::new().ttl(TTL).linger(TTL / 3))?;
    let short = locks.with_ttl(Duration::from_secs(2))?;
    let (guard, next) = (short.mutex("m")?.lock().await?, asks(&short, "m").await);
    let claim = guard.claim();
    guard.release().await?.confirmed()?;
    let guard = granted(next).await;
    assert_eq!(guard.claim(), claim);
    guard.release().await?.confirmed()?;
    short.close().await?;
    locks.close().await
}

#[tokio::test]
async fn those_that_gave_up_use_up_no_passes() -> Done {
    let locks = Store::with_clock(&Clock::manual()).attach(options())?;
    let guard = locks.mutex("m")?.lock().await?;
    for _ in 0..40 {
        let asking = asks(&locks, "m").await;
        asking.abort();
        assert!(asking.await.is_err());
    }
    let (claim, token, next) = (guard.claim(), guard.token().get(), asks(&locks, "m").await);
    guard.release().await?.confirmed()?;
    let guard = granted(next).await;
    assert_eq!((guard.claim(), guard.token().get()), (claim, token + 1));
    guard.release().await?.confirmed()?;
    locks.close().await
}

#[tokio::test]
async fn a_task_in_a_local_line_costs_little() -> Done {
    let locks = Store::new().attach(Options::new().linger(LINGER))?;
    let (mutex, table) = (locks.mutex("m")?, locks.rwlock("t")?);
    let sizes = [
        size_of_val(&*mutex.lock()),
        size_of_val(&*mutex.lock_within(LINGER)),
        size_of_val(&*table.read()),
        size_of_val(&*table.write_within(LINGER)),
    ];
    assert!(sizes.iter().all(|size| *size <= 320), "{sizes:?}"); // and about a hundred more in the line itself
    Ok(())
}

#[tokio::test]
async fn who_is_polled_late_after_each_pass_is_told_that_max_hold_is_too_short() -> Done {
    let clock = Clock::manual();
    let (longest, linger) = (LINGER, Duration::from_secs(1));
    let locks = Store::with_clock(&clock).attach(options().linger(linger).max_hold(longest))?;
    let mutex = locks.mutex("m")?;
    let mut held = mutex.lock().await?;
    let mut waits = std::pin::pin!(mutex.lock());
    assert!(once(waits.as_mut()).await.is_none());
    for passes in 1..=4 {
        held.release().await?.confirmed()?; // passed on
        clock.advance(longest + longest / 10);
        held = mutex.lock().await?;
        let told = once(waits.as_mut()).await.map(|told| told.expect_err("another one holds").kind());
        assert_eq!(told, (passes == 4).then_some(ErrorKind::Lost), "{passes} passes ended");
    }
    held.release().await?.confirmed()?;
    locks.close().await
}

#[tokio::test]
async fn passes_and_grants_that_max_hold_ends_count_together() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let (longest, linger) = (LINGER, Duration::from_secs(1));
    let ours = store.attach(options().linger(linger).max_hold(longest))?;
    let others = store.attach(options())?;
    let mutex = ours.mutex("m")?;
    let mut held = mutex.lock().await?;
    let mut waits = std::pin::pin!(mutex.lock());
    assert!(once(waits.as_mut()).await.is_none());
    for _ in 0..3 {
        held.release().await?.confirmed()?; // passed on
        clock.advance(longest + longest / 10);
        held = mutex.lock().await?;
        assert!(once(waits.as_mut()).await.is_none(), "it stands behind the new holder");
    }
    let theirs = asks(&others, "m").await;
    until("the other client stands in line", async || claims(&others, "m").await == 2).await;
    clock.advance(longest + longest / 10);
    let theirs = granted(theirs).await;
    assert!(once(waits.as_mut()).await.is_none(), "it leads behind the other client");
    theirs.release().await?.confirmed()?;
    clock.advance(longest + longest / 10);
    let error = once(waits.as_mut()).await.expect("three passes and a grant").expect_err("none was in time");
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    drop(held);
    ours.close().await?;
    others.close().await
}
