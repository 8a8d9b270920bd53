//! Futures that are polled and then neither polled nor dropped: what they requested must not stay taken for ever.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tidelock_core::backend::{Backend, Claim, Patience, Place};
use tidelock_core::prelude::*;
use tidelock_core::{ClaimId, Kind, Name, Options, Weight};
use tidelock_memory::{Clock, Store};

use crate::deaf::Deaf;

type Done = tidelock_core::Result<()>;

const TTL: Duration = Duration::from_secs(15);
const MAX_HOLD: Duration = Duration::from_secs(2);
const ANSWER_TAKES: Duration = Duration::from_millis(10);

struct Stage {
    clock: Clock,
    store: Store,
    hangs: Arc<dyn Locks>,
    other: Arc<dyn Locks>,
}

impl Stage {
    async fn new() -> tidelock_core::Result<Self> {
        let clock = Clock::manual();
        let store = Store::with_clock(&clock);
        let hangs = store.attach(Options::new().ttl(TTL).max_hold(MAX_HOLD))?;
        let other = store.attach(Options::new().ttl(TTL))?;
        for locks in [&hangs, &other] {
            locks.mutex("warm")?.lock().await?.release().await?.confirmed()?;
        }
        Ok(Self { clock, store, hangs, other })
    }

    /// Polls it until its request has arrived, and never again, although the answer comes.
    fn leave_lying<T>(&self, asking: &mut Pin<Box<impl Future<Output = T> + ?Sized>>) {
        self.store.faults().delay(ANSWER_TAKES);
        let mut poll = || asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
        assert!(poll());
        self.clock.advance(ANSWER_TAKES / 2);
        assert!(poll());
        self.store.faults().heal();
    }

    /// The time until another client has the lock.
    async fn free_after(&self, name: &str, step: Duration) -> tidelock_core::Result<Duration> {
        let began = self.clock.now();
        while self.other.mutex(name)?.try_lock().await?.is_none() {
            self.clock.pass(step).await;
            assert!(self.clock.now().since(began) < TTL * 4, "{:?}", self.other.inspect(name).await?);
        }
        Ok(self.clock.now().since(began))
    }
}

#[tokio::test]
async fn max_hold_counts_for_a_grant_that_is_told_before_its_join_is_answered() -> Done {
    let stage = Stage::new().await?;
    let first = stage.other.mutex("m")?.lock().await?;
    let mutex = stage.hangs.mutex("m")?;
    let mut asking = mutex.lock();
    stage.leave_lying(&mut asking);
    first.release().await?.confirmed()?;
    let held_for = stage.free_after("m", MAX_HOLD / 4).await?;
    assert!(held_for < MAX_HOLD * 3 / 2, "held for {held_for:?}");
    Ok(())
}

#[tokio::test]
async fn what_was_granted_to_a_future_that_nobody_polls_is_given_back() -> Done {
    let stage = Stage::new().await?;
    let mutex = stage.hangs.mutex("m")?;
    let mut asking = mutex.lock();
    stage.leave_lying(&mut asking);
    let held_for = stage.free_after("m", TTL / 3).await?;
    assert!(held_for <= TTL * 3 / 2, "held for {held_for:?}");
    // It is polled again after all, and stands in line anew.
    let again = stage.clock.clone();
    let held = tokio::select! {
        held = asking => held?,
        () = async { loop { again.pass(TTL / 3).await } } => unreachable!(),
    };
    assert_eq!(held.state(), State::Held);
    held.release().await?.confirmed()
}

#[tokio::test]
async fn a_join_that_is_polled_after_its_leave_stands_in_nobodys_way() -> Done {
    let stage = Stage::new().await?;
    let mutex = stage.hangs.mutex("m")?;
    let mut asking = mutex.lock();
    let mut poll = || asking.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    stage.store.faults().delay(ANSWER_TAKES);
    assert!(poll().is_pending()); // the request is on its way
    stage.store.faults().heal();
    stage.clock.pass(TTL * 4).await; // its leave is done and forgotten
    match poll() {
        Poll::Ready(held) => held?.release().await?.confirmed()?,
        Poll::Pending => drop(asking),
    }
    assert_eq!(stage.free_after("m", MAX_HOLD / 4).await?, Duration::ZERO);
    Ok(())
}

#[tokio::test]
async fn what_comes_alive_after_its_leave_is_given_back_with_its_future() -> Done {
    let stage = Stage::new().await?;
    let id = stage.hangs.mutex("warm")?.lock().await?.claim();
    let mutex = stage.hangs.mutex("m")?;
    let mut asking = mutex.lock();
    stage.store.faults().delay(ANSWER_TAKES);
    assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    stage.store.faults().heal();
    stage.clock.pass(TTL * 4).await;
    // A connection may have carried it there all the same: as if it were requested only now.
    let late = stage.store.open(id.session, &Options::new().ttl(TTL), std::sync::Arc::new(Deaf)).await?;
    let id = ClaimId { number: id.number + 1, ..id };
    let claim = Claim::new(id, Name::new("m")?, Kind::Mutex, Weight::ONE, Weight::ONE);
    assert!(matches!(late.join(&claim, Patience::Wait).await?, Place::Held { .. }));
    drop(asking);
    assert_eq!(stage.free_after("m", MAX_HOLD / 4).await?, Duration::ZERO);
    Ok(())
}

#[tokio::test]
async fn a_store_is_not_blamed_for_a_user_who_is_late_again_and_again() -> Done {
    let stage = Stage::new().await?;
    let mutex = stage.hangs.mutex("m")?;
    let mut asking = mutex.lock();
    stage.store.faults().delay(ANSWER_TAKES);
    for turn in 0..5 {
        if let Poll::Ready(held) = asking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            panic!("turn {turn}: {held:?}");
        }
        stage.clock.pass(TTL * 2).await; // another task computes
    }
    stage.store.faults().heal();
    let again = stage.clock.clone();
    let held = tokio::select! {
        held = asking => held?,
        () = async { loop { again.pass(TTL / 10).await } } => unreachable!(),
    };
    held.release().await?.confirmed()
}

#[tokio::test]
async fn a_release_hears_of_its_leave_though_renewals_come_in_between() -> Done {
    let stage = Stage::new().await?;
    let guard = stage.other.mutex("m")?.lock().await?;
    stage.clock.pass(TTL * 3 / 10).await; // soon everything is renewed
    let third = TTL / 3;
    stage.store.faults().delay(TTL / 15); // less than a command may take
    let began = stage.clock.now();
    let releasing = tokio::spawn(guard.release());
    while stage.clock.now().since(began) < third {
        tokio::task::yield_now().await;
        stage.clock.pass(TTL / 100).await;
    }
    releasing.await.expect("no panic")?.confirmed()
}

#[tokio::test]
async fn locks_that_are_released_together_are_given_back_though_nobody_polls() -> Done {
    let stage = Stage::new().await?;
    let all = stage.hangs.lock_all(&["a", "b", "c"]).await?;
    let mut releasing = Box::pin(all.release());
    stage.leave_lying(&mut releasing);
    for name in ["a", "b", "c"] {
        let held_for = stage.free_after(name, MAX_HOLD / 4).await?;
        assert_eq!(held_for, Duration::ZERO, "{name} is held by nobody");
    }
    stage.clock.pass(ANSWER_TAKES).await;
    releasing.await?.confirmed()
}

#[tokio::test]
async fn an_hour_passes_quickly_by_a_future_that_nobody_polls() -> Done {
    let stage = Stage::new().await?;
    let mutex = stage.hangs.mutex("m")?;
    let mut asking = mutex.lock();
    stage.leave_lying(&mut asking);
    let began = Instant::now();
    stage.clock.pass(Duration::from_secs(60 * 60)).await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(6), "it took {took:?}");
    Ok(())
}

/// Locks m on a store that answers all requests within 10 ms, except perhaps one. Its user is away for this long in
/// the meantime.
async fn lock_while_away(away: Duration, is_refused: bool, deadline: Duration) -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let locks = store.attach(Options::new().ttl(TTL).command_deadline(deadline))?;
    locks.mutex("warm")?.lock().await?.release().await?.confirmed()?;
    match is_refused {
        true => store.faults().refuse_next(1), // it is sent again after a pause
        false => store.faults().delay(ANSWER_TAKES),
    }
    let mutex = locks.mutex("m")?;
    let mut asking = Box::pin(async move { mutex.lock().await.map(drop) });
    assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    clock.pass(away).await; // another task computes
    let asking = tokio::spawn(asking);
    while !asking.is_finished() {
        tokio::task::yield_now().await;
        clock.pass(ANSWER_TAKES / 2).await;
    }
    asking.await.expect("no panic")
}

#[tokio::test]
async fn a_store_that_answers_is_not_blamed_for_the_absence_of_its_user() {
    let mut cases = tokio::task::JoinSet::new();
    for seconds in [2, 12, 15, 16] {
        for (is_refused, deadline) in [(false, 1), (true, 1), (false, 5), (true, 5)] {
            cases.spawn(async move {
                let [away, deadline] = [seconds, deadline].map(Duration::from_secs);
                let locked = lock_while_away(away, is_refused, deadline).await;
                let case = format!("away for {away:?}, {deadline:?} for a command, refused {is_refused}");
                (case, locked)
            });
        }
    }
    while let Some(case) = cases.join_next().await {
        let (case, locked) = case.expect("no panic");
        assert!(locked.is_ok(), "{case}: {locked:?}");
    }
}
