//! The promises about acquiring, over the memory backend.

use std::sync::Arc;
use std::time::Duration;

use tidelock_core::prelude::*;
use tidelock_core::{ErrorKind, Options, Semaphore};
use tidelock_memory::{Clock, Store};

use crate::condition::until;
use crate::line::{until_empty, until_waiting, waiter};

type Done = tidelock_core::Result<()>;

fn line_is_empty(line: &tidelock_core::Line) -> bool {
    line.claims.is_empty()
}

#[tokio::test]
async fn a_second_lock_waits_for_the_first() -> Done {
    let locks = tidelock_memory::connect();
    let mutex = locks.mutex("m")?;
    let first = mutex.lock().await?;
    assert!(mutex.try_lock().await?.is_none());
    assert!(mutex.lock_within(Duration::from_millis(5)).await?.is_none());
    let waiting = waiter(&locks, "m");
    until_waiting(&locks, "m", 1).await;
    let token = first.token();
    first.release().await?.confirmed()?;
    let second = waiting.await.expect("no panic")?;
    assert!(second.token() > token);
    second.release().await?.confirmed()?;
    assert!(line_is_empty(&locks.inspect("m").await?));
    locks.close().await
}

#[tokio::test]
async fn a_dropped_guard_gives_back_also_outside_a_runtime() -> Done {
    let locks = tidelock_memory::connect();
    let guard = locks.mutex("m")?.lock().await?;
    std::thread::spawn(move || drop(guard)).join().expect("no panic");
    until_empty(&locks, "m").await;
    locks.close().await
}

#[tokio::test]
async fn a_dropped_acquire_leaves_the_line() -> Done {
    let locks = tidelock_memory::connect();
    let mutex = locks.mutex("m")?;
    let held = mutex.lock().await?;
    let waiting = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.lock().await.map(drop) }
    });
    until_waiting(&locks, "m", 1).await;
    waiting.abort();
    until_waiting(&locks, "m", 0).await;
    held.release().await?.confirmed()?;
    locks.close().await
}

#[tokio::test]
async fn two_clients_of_one_store_exclude_each_other() -> Done {
    let store = Store::new();
    let (a, b) = (store.attach(Options::new())?, store.attach(Options::new())?);
    let held = a.mutex("m")?.lock().await?;
    assert!(b.mutex("m")?.try_lock().await?.is_none());
    let waiting = waiter(&b, "m");
    until_waiting(&a, "m", 1).await;
    held.release().await?.confirmed()?;
    waiting.await.expect("no panic")?.release().await?.confirmed()?;
    a.close().await?;
    b.close().await
}

#[tokio::test]
async fn readers_share_and_a_downgrade_lets_them_in() -> Done {
    let locks = tidelock_memory::connect();
    let lock = locks.rwlock("rw")?;
    let writing = lock.write().await?;
    assert!(lock.try_read().await?.is_none());
    let token = writing.token();
    let reading = writing.downgrade().await?;
    assert_eq!(reading.token(), token);
    let other = lock.read().await?;
    assert!(lock.try_write().await?.is_none());
    drop((reading, other));
    lock.write().await?.release().await?.confirmed()?;
    locks.close().await
}

#[tokio::test]
async fn permits_are_counted_and_a_resize_wakes() -> Done {
    let locks = tidelock_memory::connect();
    let semaphore = locks.semaphore("s", 3)?;
    let two = semaphore.acquire(2).await?;
    assert!(semaphore.try_acquire(2).await?.is_none());
    let waiting = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire(2).await }
    });
    until_waiting(&locks, "s", 1).await;
    semaphore.resize(4).await?;
    let more = waiting.await.expect("no panic")?;
    assert_eq!(semaphore.size().await?, 4);
    drop((two, more));
    locks.close().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_resize_at_the_same_moment_each_get_a_turn() -> Done {
    let store = Store::new();
    let clients: Vec<_> = (0..4).map(|_| store.attach(Options::new())).collect::<Result<_, _>>()?;
    let held = clients[0].semaphore("s", 3)?.acquire(1).await?;
    store.faults().delay(Duration::from_millis(2)); // so that each resize races with the others
    let resizes: Vec<_> = (0..40)
        .map(|n| {
            let semaphore = clients[n % 4].semaphore("s", 3).expect("a good name");
            let to = u32::try_from(10 + n).expect("small");
            tokio::spawn(async move { semaphore.resize(to).await })
        })
        .collect();
    for resize in resizes {
        resize.await.expect("no panic")?;
    }
    assert!((10..50).contains(&clients[1].semaphore("s", 3)?.size().await?));
    held.release().await?.confirmed()?;
    for client in clients {
        client.close().await?;
    }
    Ok(())
}

#[tokio::test]
async fn bad_input_is_a_typed_error_at_once() -> Done {
    let locks = tidelock_memory::connect();
    assert_eq!(locks.mutex("a\0b").unwrap_err().kind(), ErrorKind::InvalidName);
    assert_eq!(locks.semaphore("s", 0).unwrap_err().kind(), ErrorKind::InvalidPermits);
    let semaphore = locks.semaphore("s", 2)?;
    assert_eq!(semaphore.acquire(0).await.unwrap_err().kind(), ErrorKind::InvalidPermits);
    assert_eq!(semaphore.acquire(3).await.unwrap_err().kind(), ErrorKind::InvalidPermits);
    let held = semaphore.acquire(1).await?;
    assert_eq!(locks.mutex("s")?.lock().await.unwrap_err().kind(), ErrorKind::KindMismatch);
    assert!(locks.with_ttl(Duration::from_millis(1)).is_err());
    held.release().await?.confirmed()?;
    assert!(line_is_empty(&locks.inspect("s").await?));
    locks.close().await
}

#[tokio::test]
async fn a_semaphore_of_another_size_is_served_under_the_lines() -> Done {
    let store = Store::new();
    let (old, new) = (store.attach(Options::new())?, store.attach(Options::new())?);
    let held = old.semaphore("s", 1)?.acquire(1).await?;
    let wider: Arc<dyn Semaphore> = new.semaphore("s", 5)?;
    assert!(wider.try_acquire(1).await?.is_none());
    assert_eq!(wider.size().await?, 1);
    held.release().await?.confirmed()?;
    old.close().await?;
    new.close().await
}

#[tokio::test]
async fn closing_gives_everything_back_and_ends_waits() -> Done {
    let store = Store::new();
    let (a, b) = (store.attach(Options::new())?, store.attach(Options::new())?);
    let held = a.mutex("m")?.lock().await?;
    let other = b.mutex("n")?.lock().await?;
    let waiting = waiter(&a, "n");
    until_waiting(&b, "n", 1).await;
    a.close().await?;
    assert_eq!(held.state(), State::Lost);
    assert_eq!(waiting.await.expect("no panic").unwrap_err().kind(), ErrorKind::Closed);
    assert!(b.mutex("m")?.try_lock().await?.is_some());
    assert_eq!(b.inspect("n").await?.claims.len(), 1);
    assert_eq!(a.mutex("m")?.lock().await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(held.release().await.unwrap_err().kind(), ErrorKind::Lost);
    other.release().await?.confirmed()?;
    b.close().await
}

#[tokio::test]
async fn a_guard_is_lost_by_its_own_clock_before_the_next_is_granted() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let (a, b) = (store.attach(Options::new())?, store.attach(Options::new())?);
    let held = a.mutex("m")?.lock().await?;
    let lost = held.lost();
    clock.advance(Duration::from_secs(16)); // like a machine that was asleep
    assert_eq!(held.state(), State::Lost);
    lost.await;
    let next = b.mutex("m")?.lock().await?;
    assert!(next.token() > held.token());
    assert_eq!(held.release().await.unwrap_err().kind(), ErrorKind::Lost);
    next.release().await?.confirmed()?;
    a.close().await?;
    b.close().await
}

#[tokio::test]
async fn a_loop_that_looks_at_a_line_lets_others_run() -> Done {
    let locks = tidelock_memory::connect();
    locks.ping().await?;
    let ran = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let other = ran.clone();
    tokio::spawn(async move { other.store(true, std::sync::atomic::Ordering::SeqCst) });
    for _ in 0..1_000 {
        locks.inspect("m").await?;
        locks.names("", None).await?;
        locks.semaphore("s", 3)?.size().await?;
    }
    assert!(
        ran.load(std::sync::atomic::Ordering::SeqCst),
        "3 000 answers were awaited, and no other task ran"
    );
    Ok(())
}

#[tokio::test]
async fn a_resize_that_nobody_waits_for_changes_its_handle_too() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let locks = store.attach(Options::new())?;
    let calls = locks.semaphore("calls", 3)?;
    let one = calls.acquire(1).await?;
    store.faults().delay(Duration::from_millis(10));
    let mut resizing = calls.resize(5);
    let line = |locks: Arc<dyn Locks>| async move { locks.inspect("calls").await.ok()?.capacity };
    for _ in 0..3 {
        let _ = resizing.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        clock.pass(Duration::from_millis(5)).await;
    }
    drop(resizing);
    store.faults().heal();
    until("what was under way arrives", async || {
        clock.pass(Duration::from_millis(20)).await;
        line(locks.clone()).await.map(tidelock_core::Weight::get) == Some(5)
    })
    .await;
    one.release().await?.confirmed()?;
    until("what the line had last is known", async || calls.size().await.is_ok_and(|size| size == 5)).await;
    Ok(())
}

#[tokio::test]
async fn an_acquire_goes_on_for_as_long_as_a_command_may_take_whatever_the_ttl() -> Done {
    for millis in [1_500, 2_500, 3_500] {
        let (clock, ttl) = (Clock::manual(), Duration::from_millis(millis));
        let (store, command) = (Store::with_clock(&clock), ttl * 20);
        let locks = store.attach(Options::new().ttl(ttl).command_deadline(command))?;
        locks.mutex("other")?.lock().await?.release().await?.confirmed()?;
        store.faults().refuse_all();
        let (locking, began) = (waiter(&locks, "m"), clock.now());
        while !locking.is_finished() {
            clock.pass(Duration::from_millis(100)).await;
        }
        let (tried, error) = (clock.now().since(began), locking.await.expect("no panic").unwrap_err());
        assert!(tried >= command - ttl, "{ttl:?}: it gave up after {tried:?} of {command:?}: {error}");
        assert!(error.to_string().contains("a test made the store refuse this request"), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn the_last_resize_stays_in_its_handle_though_the_one_before_is_answered_later() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let locks = store.attach(Options::new())?;
    let (calls, other) = (locks.semaphore("calls", 3)?, locks.semaphore("other", 1)?);
    let one = calls.acquire(1).await?;
    store.faults().delay(Duration::from_millis(10));
    let mut first = calls.resize(4);
    for _ in 0..3 {
        let _ = first.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        tokio::time::sleep(Duration::from_millis(20)).await; // another thread sends it, and the test cannot see when
        clock.advance(Duration::from_millis(5));
    }
    store.faults().heal();
    until("it has arrived", async || {
        let capacity = locks.inspect("calls").await.ok().and_then(|line| line.capacity);
        let has_arrived = capacity.map(tidelock_core::Weight::get) == Some(4);
        if !has_arrived {
            let _ = first.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
            clock.advance(Duration::from_millis(1));
        }
        has_arrived
    })
    .await;
    drop(first);
    calls.resize(5).await?;
    clock.pass(Duration::from_secs(1)).await; // only now is the first one answered
    other.resize(2).await?; // by the end of this call the first resize has dealt with its answer
    one.release().await?.confirmed()?;
    assert_eq!(calls.size().await?, 5, "what was asked for last");
    Ok(())
}

#[tokio::test]
async fn a_waiter_that_stands_in_line_anew_declares_the_size_of_now() -> Done {
    let store = Store::new();
    let (locks, other) = (store.attach(Options::new())?, store.attach(Options::new())?);
    let (calls, theirs) = (locks.semaphore("calls", 3)?, other.semaphore("calls", 3)?);
    let all = theirs.acquire(3).await?;
    let waits = calls.clone();
    let waiting = tokio::spawn(async move { waits.acquire(3).await });
    until_waiting(&locks, "calls", 1).await;
    calls.resize(5).await?;
    store.faults().lose_sessions(); // empties the line, so that the next claim sets its size
    let held = waiting.await.expect("no panic")?;
    assert_eq!(calls.size().await?, 5);
    drop((all, held));
    Ok(())
}
