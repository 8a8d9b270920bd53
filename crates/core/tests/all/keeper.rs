//! The promises of the keeper, over the memory backend with faults and a clock that is turned by hand.

use std::sync::Arc;
use std::time::Duration;

use tidelock_core::backend::{Backend, Claim, Patience, Place};
use tidelock_core::prelude::*;
use tidelock_core::{ClaimId, ErrorKind, Kind, Name, Options, SessionId, Weight};
use tidelock_memory::{Clock, Store};

use crate::condition::until;
use crate::deaf::Deaf;
use crate::line::{until_empty, until_waiting, waiter};

type Done = tidelock_core::Result<()>;

const TTL: Duration = Duration::from_secs(15);

fn store() -> (Clock, Store) {
    let clock = Clock::manual();
    (clock.clone(), Store::with_clock(&clock))
}

#[tokio::test]
async fn renewals_keep_a_hold_for_many_ttls() -> Done {
    let (clock, store) = store();
    let locks = store.attach(Options::new())?;
    let held = locks.mutex("m")?.lock().await?;
    clock.pass(TTL * 10).await;
    assert_eq!(held.state(), State::Held);
    assert!(held.remaining() > TTL / 2);
    held.release().await?.confirmed()?;
    locks.close().await
}

#[tokio::test]
async fn one_failed_renewal_is_jeopardy_and_not_loss() -> Done {
    let (clock, store) = store();
    let locks = store.attach(Options::new())?;
    let held = locks.mutex("m")?.lock().await?;
    store.faults().refuse_all();
    clock.pass(TTL / 2).await;
    assert_eq!(held.state(), State::Jeopardy);
    store.faults().heal();
    clock.pass(Duration::from_secs(2)).await;
    assert_eq!(held.state(), State::Held);
    assert!(held.remaining() > TTL / 2);
    held.release().await?.confirmed()?;
    locks.close().await
}

#[tokio::test]
async fn loss_is_told_before_the_store_can_have_given_the_place_away() -> Done {
    let (clock, store) = store();
    let locks = store.attach(Options::new())?;
    let before = clock.now();
    let held = locks.mutex("m")?.lock().await?;
    let lost = tokio::spawn(held.lost());
    store.faults().refuse_all();
    while held.state() != State::Lost {
        assert!(
            clock.now().since(before) < TTL,
            "the store may have given it away, and the guard does not know"
        );
        clock.pass(Duration::from_millis(10)).await;
    }
    until("the future is ready", async || lost.is_finished()).await;
    assert_eq!(held.remaining(), Duration::ZERO);
    store.faults().heal();
    assert_eq!(held.state(), State::Lost, "what was lost stays lost");
    assert_eq!(held.release().await.unwrap_err().kind(), ErrorKind::Lost);
    clock.pass(Duration::from_secs(1)).await;
    until_empty(&locks, "m").await;
    locks.close().await
}

#[tokio::test]
async fn a_waiter_gets_on_without_any_signal_within_a_third_of_the_ttl() -> Done {
    let (clock, store) = store();
    let (a, b) = (store.attach(Options::new())?, store.attach(Options::new())?);
    let held = a.mutex("m")?.lock().await?;
    let waiting = waiter(&b, "m");
    until_waiting(&a, "m", 1).await;
    clock.pass(TTL * 2).await;
    store.faults().drop_signals();
    held.release().await?.confirmed()?;
    clock.pass(TTL / 3).await;
    until("it was granted", async || waiting.is_finished()).await;
    waiting.await.expect("no panic")?.release().await?.confirmed()?;
    a.close().await?;
    b.close().await
}

#[tokio::test]
async fn a_dead_holder_delays_the_line_by_its_ttl_and_a_tenth() -> Done {
    let (clock, store) = store();
    let locks = store.attach(Options::new())?;
    // A session without a keeper stands for a client that has died.
    let id = ClaimId { session: SessionId::from_bits(7), number: 1 };
    let dead = store.open(id.session, &Options::new(), Arc::new(Deaf)).await?;
    let claim = Claim::new(id, Name::new("m")?, Kind::Mutex, Weight::ONE, Weight::ONE);
    assert!(matches!(dead.join(&claim, Patience::Wait).await?, Place::Held { .. }));
    let waiting = waiter(&locks, "m");
    until_waiting(&locks, "m", 1).await;
    store.faults().drop_signals();
    clock.pass(TTL - Duration::from_millis(1)).await;
    assert!(!waiting.is_finished());
    clock.pass(TTL / 10).await;
    until("it was granted", async || waiting.is_finished()).await;
    waiting.await.expect("no panic")?.release().await?.confirmed()?;
    locks.close().await
}

#[tokio::test]
async fn a_lost_reply_to_join_strands_nothing_and_is_no_refusal() -> Done {
    let (clock, store) = store();
    let locks = store.attach(Options::new())?;
    locks.mutex("other")?.lock().await?.release().await?.confirmed()?;
    store.faults().lose_replies(usize::MAX);
    let trying = tokio::spawn({
        let mutex = locks.mutex("m")?;
        async move { mutex.try_lock().await }
    });
    while !trying.is_finished() {
        clock.pass(Duration::from_millis(100)).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(trying.await.expect("no panic").unwrap_err().kind(), ErrorKind::Timeout);
    store.faults().heal();
    clock.pass(Duration::from_secs(1)).await;
    until_empty(&locks, "m").await;
    assert!(locks.mutex("m")?.try_lock().await?.is_some());
    locks.close().await
}

#[tokio::test]
async fn a_leave_is_repeated_until_the_store_is_back() -> Done {
    let (clock, store) = store();
    let locks = store.attach(Options::new())?;
    let held = locks.mutex("m")?.lock().await?;
    store.faults().refuse_all();
    drop(held);
    clock.pass(Duration::from_secs(5)).await;
    store.faults().heal();
    clock.pass(Duration::from_secs(1)).await;
    until_empty(&locks, "m").await;
    locks.close().await
}

#[tokio::test]
async fn max_hold_ends_a_hold_however_healthy_its_keeper() -> Done {
    let (clock, store) = store();
    let locks = store.attach(Options::new().max_hold(Duration::from_secs(3)))?;
    let held = locks.mutex("m")?.lock().await?;
    let waiting = waiter(&locks, "m");
    until_waiting(&locks, "m", 1).await;
    clock.pass(Duration::from_secs(2)).await;
    assert_eq!(held.state(), State::Held);
    clock.pass(Duration::from_secs(1)).await;
    assert_eq!(held.state(), State::Lost);
    let next = waiting.await.expect("no panic")?;
    assert!(held.release().await.unwrap_err().to_string().contains("max_hold"));
    next.release().await?.confirmed()?;
    locks.close().await
}

#[tokio::test]
async fn an_ended_session_loses_its_guards_and_its_waiters_stand_in_line_anew() -> Done {
    let (_, store) = store();
    let a = store.attach(Options::new().label("a"))?;
    let b = store.attach(Options::new().label("b"))?;
    let held = a.mutex("m")?.lock().await?;
    let other = b.mutex("n")?.lock().await?;
    let waiting = waiter(&a, "n");
    until_waiting(&b, "n", 1).await;
    assert_eq!(store.faults().lose_sessions_of("a"), 1);
    held.lost().await;
    assert_eq!(held.state(), State::Lost);
    until_waiting(&b, "n", 1).await;
    other.release().await?.confirmed()?;
    waiting.await.expect("no panic")?.release().await?.confirmed()?;
    a.mutex("m")?.lock().await?.release().await?.confirmed()?;
    a.close().await?;
    b.close().await
}

#[tokio::test]
async fn an_evicted_holder_is_told_and_its_release_frees_no_successor() -> Done {
    let (_, store) = store();
    let (a, operator) = (store.attach(Options::new())?, store.attach(Options::new())?);
    let held = a.mutex("m")?.lock().await?;
    let holder = operator.inspect("m").await?.claims[0].id;
    assert!(operator.evict("m", holder).await?);
    assert!(!operator.evict("m", holder).await?);
    held.lost().await;
    let next = operator.mutex("m")?.lock().await?;
    assert!(next.token() > held.token());
    assert_eq!(held.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(operator.inspect("m").await?.holders().count(), 1);
    assert_eq!(next.state(), State::Held);
    next.release().await?.confirmed()?;
    a.close().await?;
    operator.close().await
}

#[tokio::test]
async fn the_last_handle_that_goes_ends_the_session() -> Done {
    let (_, store) = store();
    let (a, b) = (store.attach(Options::new())?, store.attach(Options::new())?);
    let held = a.mutex("m")?.lock().await?;
    let waiting = waiter(&b, "m");
    until_waiting(&a, "m", 1).await;
    drop(a);
    assert_eq!(held.state(), State::Held, "a guard keeps its client");
    drop(held);
    waiting.await.expect("no panic")?.release().await?.confirmed()?;
    b.close().await
}

#[tokio::test]
async fn run_stops_the_work_when_the_guard_is_lost() -> Done {
    let (_, store) = store();
    let locks = store.attach(Options::new())?;
    let held = locks.mutex("m")?.lock().await?;
    assert_eq!(held.run(async { 7 }).await?, 7);
    let (result, _) = tokio::join!(held.run(std::future::pending::<()>()), async {
        tokio::task::yield_now().await;
        store.faults().lose_sessions()
    });
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Lost);
    locks.close().await
}

#[tokio::test]
async fn dropping_an_acquire_after_any_number_of_polls_leaves_nothing() -> Done {
    let (clock, store) = store();
    let locks = store.attach(Options::new())?;
    locks.mutex("other")?.lock().await?.release().await?.confirmed()?;
    for taken in [false, true] {
        let held = match taken {
            true => Some(locks.mutex("m")?.lock().await?),
            false => None,
        };
        store.faults().delay(Duration::from_millis(40));
        for polls in 0..12 {
            let mutex = locks.mutex("m")?;
            let mut acquire = Box::pin(mutex.lock());
            for _ in 0..polls {
                let waker = std::task::Waker::noop();
                if acquire.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_ready() {
                    break;
                }
                clock.advance(Duration::from_millis(10));
            }
            drop(acquire);
            clock.pass(Duration::from_millis(900)).await;
            let line = tokio::spawn({
                let locks = locks.clone();
                async move { locks.inspect("m").await }
            });
            until("the line is told", async || {
                clock.pass(Duration::from_millis(40)).await;
                line.is_finished()
            })
            .await;
            let line = line.await.expect("no panic")?;
            assert_eq!(line.claims.len(), usize::from(taken), "after {polls} polls: {line:?}");
        }
        store.faults().heal();
        drop(held);
        until_empty(&locks, "m").await;
    }
    locks.close().await
}

#[test]
fn one_locks_serves_many_runtimes() -> Done {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let locks = runtime().block_on(async { tidelock_memory::connect() });
    let held = runtime().block_on(async { locks.mutex("m")?.lock().await })?;
    let other = locks.clone();
    let waiting = std::thread::spawn(move || runtime().block_on(async { other.mutex("m")?.lock().await }));
    runtime().block_on(until_waiting(&locks, "m", 1));
    drop(held); // outside every runtime
    let next = waiting.join().expect("no panic")?;
    runtime().block_on(async {
        next.release().await?.confirmed()?;
        locks.close().await
    })
}

#[tokio::test]
async fn a_panicking_holder_gives_back() -> Done {
    let locks = tidelock_memory::connect();
    let mutex = locks.mutex("m")?;
    let panicked = tokio::spawn(async move {
        let _held = mutex.lock().await.expect("granted");
        panic!("on purpose");
    });
    assert!(panicked.await.is_err());
    until_empty(&locks, "m").await;
    locks.close().await
}

#[tokio::test]
async fn close_says_what_the_store_did_not_confirm() -> Done {
    let (clock, store) = store();
    let locks = store.attach(Options::new())?;
    let _held = locks.mutex("m")?.lock().await?;
    store.faults().refuse_all();
    let closing = tokio::spawn(async move { locks.close().await });
    until("it ends", async || {
        clock.pass(Duration::from_millis(500)).await;
        closing.is_finished()
    })
    .await;
    let error = closing.await.expect("no panic").unwrap_err();
    assert!(error.to_string().contains("\"m\""), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_leave_that_failed_once_is_sent_again_soon_however_long_pauses_are() -> Done {
    let (clock, store) = store();
    let pause = TTL * 40;
    let drops = store.attach(Options::new().back_off(pause, pause))?;
    let other = store.attach(Options::new())?;
    other.mutex("warm")?.lock().await?.release().await?.confirmed()?;
    let (guard, kept) = (drops.mutex("m")?.lock().await?, drops.mutex("kept")?.lock().await?);
    store.faults().refuse_all();
    drop(guard);
    clock.pass(Duration::from_millis(100)).await; // the user's leave fails, and so does the keeper's
    store.faults().heal();
    let began = clock.now();
    while other.mutex("m")?.try_lock().await?.is_none() {
        clock.pass(TTL / 30).await;
        assert!(clock.now().since(began) <= TTL / 5, "the lock is free, but a claim is still in the way");
    }
    assert_eq!(kept.state(), State::Held);
    Ok(())
}
