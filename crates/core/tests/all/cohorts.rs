//! A hold is passed on among the tasks of one client: to those who wait, in their order, with growing tokens, and not for
//! longer than `linger`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{Backend, Layer, Session, Signals, keepers_caught_up};
use tidelock_core::prelude::*;
use tidelock_core::{ErrorKind, Options, Owner, Reentrant, SessionId, WriteGuard};
use tidelock_memory::{Clock, Store};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use crate::condition::until;
use crate::layered;
use crate::line::until_empty;

type Done = tidelock_core::Result<()>;

const LINGER: Duration = Duration::from_millis(10);
const TTL: Duration = Duration::from_secs(15);

fn options() -> Options {
    Options::new().ttl(TTL).linger(LINGER)
}

/// Asks for a mutex, and has its place in the local line when this returns.
async fn asks(locks: &Arc<dyn Locks>, name: &str) -> JoinHandle<tidelock_core::Result<Guard>> {
    let mutex = locks.mutex(name).expect("a good name");
    let asking = tokio::spawn(async move { mutex.lock().await });
    tokio::task::yield_now().await;
    asking
}

/// Keeps every session from being opened while it is shut.
#[derive(Debug)]
struct Gate {
    is_shut: watch::Sender<bool>,
    opens: AtomicU64,
}

impl Gate {
    fn new() -> Arc<Self> {
        Arc::new(Self { is_shut: watch::Sender::new(false), opens: AtomicU64::new(0) })
    }

    /// The client with this label has no session any more, and is opening one in vain when this returns.
    async fn shut_after_loss(&self, store: &Store, label: &str) {
        self.is_shut.send_replace(true);
        let before = self.opens.load(Ordering::Relaxed);
        assert_eq!(store.faults().lose_sessions_of(label), 1);
        until("a session is being opened", async || self.opens.load(Ordering::Relaxed) > before).await;
    }
}

#[async_trait]
impl Layer for Gate {
    async fn open(
        &self,
        to: &dyn Backend,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> tidelock_core::Result<Arc<dyn Session>> {
        self.opens.fetch_add(1, Ordering::Relaxed);
        let opened = self.is_shut.subscribe().wait_for(|is_shut| !is_shut).await.is_ok();
        assert!(opened, "the gate is there");
        to.open(id, options, signals).await
    }
}

async fn granted(asking: JoinHandle<tidelock_core::Result<Guard>>) -> Guard {
    asking.await.expect("no panic").expect("a grant")
}

/// Who is very impatient may go before the store has answered to the one that leads.
fn or_none<T>(taken: tidelock_core::Result<Option<T>>) -> tidelock_core::Result<Option<T>> {
    match taken {
        Err(error) if error.kind() == ErrorKind::Timeout => Ok(None),
        taken => taken,
    }
}

async fn claims(locks: &Arc<dyn Locks>, name: &str) -> usize {
    locks.inspect(name).await.map_or(0, |line| line.claims.len())
}

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

/// Asks to read, and has its place in the local line when this returns.
async fn asks_to_read(locks: &Arc<dyn Locks>, name: &str) -> JoinHandle<tidelock_core::Result<Guard>> {
    let lock = locks.rwlock(name).expect("a good name");
    let asking = tokio::spawn(async move { lock.read().await });
    tokio::task::yield_now().await;
    asking
}

async fn asks_to_write(locks: &Arc<dyn Locks>, name: &str) -> JoinHandle<tidelock_core::Result<WriteGuard>> {
    let lock = locks.rwlock(name).expect("a good name");
    let asking = tokio::spawn(async move { lock.write().await });
    tokio::task::yield_now().await;
    asking
}

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

/// Time passes, and all that wakes by then does what it can.
async fn pass(clock: &Clock, time: Duration) {
    clock.advance(time);
    for _ in 0..3 {
        assert!(keepers_caught_up(Duration::from_secs(10)), "the keepers do nothing");
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
}

/// Polls it once.
async fn once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    std::future::poll_fn(|cx| match std::pin::Pin::new(&mut future).poll(cx) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}
