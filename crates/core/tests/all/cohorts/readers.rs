//! Readers share a claim, and writers pass theirs on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidelock_core::ErrorKind;
use tidelock_core::prelude::*;
use tidelock_memory::{Clock, Store};
use tokio::task::JoinSet;

use super::asking::{Done, LINGER, asks, asks_to_read, asks_to_write, claims, granted, options, or_none};
use crate::condition::until;
use crate::line::until_empty;

#[tokio::test]
async fn readers_share_a_claim_and_more_of_them_than_it_has_tokens_take_another() -> Done {
    let locks = Store::with_clock(&Clock::manual()).attach(options())?;
    let lock = locks.rwlock("r")?;
    let mut readers = Vec::new();
    for _ in 0..40 {
        readers.push(lock.read().await?);
    }
    assert_eq!(claims(&locks, "r").await, 2, "one claim for each 32 of them");
    assert!(readers.is_sorted_by_key(Guard::token) && readers[31].claim() != readers[32].claim());
    let (first_lost, second_lost) = (readers[0].lost(), readers[1].lost());
    readers.remove(0).release().await?.confirmed()?;
    first_lost.await;
    assert_eq!(readers[0].state(), State::Held);
    assert!(tokio::time::timeout(Duration::ZERO, second_lost).await.is_err(), "it reads still");
    drop(readers);
    until_empty(&locks, "r").await;
    locks.close().await
}

#[tokio::test]
async fn who_comes_when_nobody_else_may_share_leads_at_once() -> Done {
    let clock = Clock::manual();
    let locks = Store::with_clock(&clock).attach(options())?;
    let first = locks.rwlock("r")?.read().await?;
    clock.advance(LINGER);
    let late = locks.rwlock("r")?.read().await?;
    assert_ne!(first.claim(), late.claim());
    let writer = asks_to_write(&locks, "r").await;
    until("the writer stands in the store's line", async || claims(&locks, "r").await == 3).await;
    let behind = [asks_to_read(&locks, "r").await, asks_to_read(&locks, "r").await];
    assert!(locks.rwlock("r")?.try_read().await?.is_none(), "the writer waits before it");
    first.release().await?.confirmed()?;
    late.release().await?.confirmed()?;
    let writer = writer.await.expect("no panic")?;
    assert!(behind.iter().all(|reader| !reader.is_finished()));
    assert!(locks.rwlock("r")?.try_read().await?.is_none());
    writer.release().await?.confirmed()?;
    let [third, fourth] = behind;
    let (third, fourth) = (granted(third).await, granted(fourth).await);
    assert_eq!(third.claim(), fourth.claim(), "they share");
    let tried = locks.rwlock("r")?.try_read().await?.expect("there is room");
    assert_eq!(tried.claim(), third.claim());
    drop((third, fourth, tried));
    until_empty(&locks, "r").await;
    locks.close().await
}

#[tokio::test]
async fn a_writer_that_becomes_a_reader_shares_its_claim() -> Done {
    let locks = Store::with_clock(&Clock::manual()).attach(options())?;
    let writer = locks.rwlock("r")?.write().await?;
    let (claim, token) = (writer.claim(), writer.token());
    let (reader, next) = (asks_to_read(&locks, "r").await, asks_to_write(&locks, "r").await);
    let own = writer.downgrade().await?;
    let reader = granted(reader).await;
    assert!(reader.claim() == claim && own.claim() == claim && reader.token() > token);
    assert!(!next.is_finished());
    drop(own);
    assert_eq!(reader.state(), State::Held);
    drop(reader);
    next.await.expect("no panic")?.release().await?.confirmed()?;
    until_empty(&locks, "r").await;
    locks.close().await
}

#[tokio::test]
async fn writers_pass_their_hold_on_and_readers_in_between_end_that() -> Done {
    let locks = Store::with_clock(&Clock::manual()).attach(options())?;
    let first = locks.rwlock("r")?.write().await?;
    let second = asks_to_write(&locks, "r").await;
    let (reader, third) = (asks_to_read(&locks, "r").await, asks_to_write(&locks, "r").await);
    let claim = first.claim();
    first.release().await?.confirmed()?;
    let second = second.await.expect("no panic")?;
    assert_eq!(second.claim(), claim);
    second.release().await?.confirmed()?;
    let reader = granted(reader).await;
    assert_ne!(reader.claim(), claim);
    reader.release().await?.confirmed()?;
    third.await.expect("no panic")?.release().await?.confirmed()?;
    locks.close().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_readers_and_writers_of_several_clients_excludes_whom_it_should() -> Done {
    const WRITES: u64 = 1 << 32;
    let store = Store::new();
    let (newest, inside) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let locks = store.connect(options()).await?;
        for task in 0..16 {
            let (lock, newest, inside) = (locks.rwlock("r")?, newest.clone(), inside.clone());
            tasks.spawn(async move {
                for round in 0..100 {
                    let patience =
                        Duration::from_micros(if (task + round) % 5 == 0 { 50 } else { 10_000_000 });
                    if (task + round) % 4 == 0 {
                        let Some(guard) = or_none(lock.write_within(patience).await)? else { continue };
                        assert_eq!(inside.fetch_add(WRITES, Ordering::SeqCst), 0, "a writer is alone");
                        let token = guard.token().get();
                        assert!(newest.fetch_max(token, Ordering::SeqCst) < token);
                        inside.fetch_sub(WRITES, Ordering::SeqCst);
                        if round % 3 == 0 {
                            drop(guard.downgrade().await?);
                        }
                    } else {
                        let Some(guard) = or_none(lock.read_within(patience).await)? else { continue };
                        assert!(
                            inside.fetch_add(1, Ordering::SeqCst) < WRITES,
                            "a reader is not beside a writer"
                        );
                        newest.fetch_max(guard.token().get(), Ordering::SeqCst);
                        tokio::task::yield_now().await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        if round % 2 == 0 {
                            guard.release().await?.confirmed()?;
                        }
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
    until_empty(&locks, "r").await;
    locks.close().await
}

#[tokio::test]
async fn who_takes_a_name_for_another_kind_is_told_so_at_once() -> Done {
    let locks = Store::new().attach(options())?;
    let guard = locks.mutex("m")?.lock().await?;
    let asking = asks(&locks, "m").await;
    let writing = tokio::time::timeout(Duration::from_secs(5), locks.rwlock("m")?.write()).await;
    let error = writing.expect("an answer").expect_err("it is a mutex");
    assert_eq!(error.kind(), ErrorKind::KindMismatch, "{error}");
    let tried = locks.rwlock("m")?.try_read().await;
    assert_eq!(tried.expect_err("it is a mutex").kind(), ErrorKind::KindMismatch);
    assert_eq!(locks.inspect("m").await?.claims[0].behind, 1);
    guard.release().await?.confirmed()?;
    granted(asking).await.release().await?.confirmed()?;
    locks.close().await
}

#[tokio::test]
async fn a_downgrade_that_is_dropped_passes_nothing_on() -> Done {
    let (clock, delay) = (Clock::manual(), Duration::from_millis(1));
    let store = Store::with_clock(&clock);
    let locks = store.attach(options())?;
    let writer = locks.rwlock("r")?.write().await?;
    let (claim, next) = (writer.claim(), asks_to_write(&locks, "r").await);
    store.faults().delay(delay);
    let mut downgrade = Box::pin(writer.downgrade());
    assert!(tokio::time::timeout(Duration::ZERO, downgrade.as_mut()).await.is_err(), "it has begun");
    drop(downgrade); // others may read by now
    store.faults().heal();
    clock.advance(delay);
    let next = next.await.expect("no panic")?;
    assert_ne!(next.claim(), claim);
    next.release().await?.confirmed()?;
    until_empty(&locks, "r").await;
    locks.close().await
}

#[tokio::test]
async fn a_drain_lets_nobody_share() -> Done {
    let locks = Store::with_clock(&Clock::manual()).attach(options())?;
    let lock = locks.rwlock("r")?;
    let guard = lock.read().await?;
    let draining = {
        let locks = locks.clone();
        tokio::spawn(async move { locks.drain().await })
    };
    tokio::task::yield_now().await;
    assert_eq!(lock.try_read().await.expect_err("it takes no locks").kind(), ErrorKind::Closed);
    drop(guard);
    draining.await.expect("no panic").map(drop)
}

#[tokio::test]
async fn who_gave_up_before_takes_no_place_from_those_behind() -> Done {
    let store = Store::new();
    let (ours, others) = (store.attach(options())?, store.attach(options())?);
    let held = others.rwlock("r")?.write().await?;
    let (leader, reader) = (asks_to_write(&ours, "r").await, asks_to_read(&ours, "r").await);
    let next = asks_to_write(&ours, "r").await;
    until("it stands in line", async || claims(&ours, "r").await == 2).await;
    let place = ours.inspect("r").await?.claims[1].id;
    reader.abort();
    assert!(reader.await.is_err());
    leader.abort();
    assert!(leader.await.is_err());
    held.release().await?.confirmed()?;
    let writer = next.await.expect("no panic")?;
    assert_eq!(writer.claim(), place);
    writer.release().await?.confirmed()?;
    ours.close().await?;
    others.close().await
}
