//! Renewals go by the time that is left, on a store whose answers come late, prove little, or grant less than before.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{
    Backend, Claim, Grant, Layer, Leave, Left, Moment, Patience, Place, Renewal, Reply, Session, Shard,
    Signals, Sleep,
};
use tidelock_core::prelude::*;
use tidelock_core::{ClaimId, ErrorKind, Name, Options, SessionId, Token, Weight};
use tidelock_memory::{Clock, Store};

use crate::condition::until;
use crate::layered::attach;
use crate::line::waiter;

type Done = tidelock_core::Result<()>;

const TTL: Duration = Duration::from_secs(15);

/// A store whose sessions are leases, where a request proves the lease only as of the renewal before it.
#[derive(Clone, Debug)]
struct Slow {
    clock: Clock,
    store: Store,
    how: Arc<Mutex<How>>,
    lease: Arc<Mutex<Lease>>,
}

#[derive(Clone, Debug)]
struct How {
    open_takes: Duration,
    join_takes: Duration,
    ttl: Duration,
    /// What an answer proves: its own request, or only the one before.
    is_proved_late: bool,
    joined: Vec<ClaimId>,
    left: Vec<(ClaimId, Leave)>,
    signals: Option<Arc<dyn Signals>>,
    /// How many grants are pushed before their joins are answered, and how long before.
    told_early: (usize, Duration),
    renewals: usize,
}

#[derive(Debug)]
struct Lease {
    known: Moment,
    heard: Moment,
}

impl Slow {
    fn locks(
        options: Options,
        change: impl FnOnce(&mut How),
    ) -> tidelock_core::Result<(Self, Arc<dyn Locks>)> {
        let clock = Clock::manual();
        let (open_takes, join_takes, ttl) = (Duration::ZERO, Duration::ZERO, options.ttl);
        let (joined, left) = (Vec::new(), Vec::new());
        let (signals, told_early, renewals) = (None, (0, Duration::ZERO), 0);
        let is_proved_late = false;
        let mut how =
            How { open_takes, join_takes, ttl, is_proved_late, joined, left, signals, told_early, renewals };
        change(&mut how);
        let store = Store::with_clock(&clock);
        let (known, heard) = (clock.now(), clock.now());
        let lease = Arc::new(Mutex::new(Lease { known, heard }));
        let slow = Self { clock, store, how: Arc::new(Mutex::new(how)), lease };
        Ok((slow.clone(), attach(&slow.store, Arc::new(slow.clone()), options)?))
    }

    fn how(&self) -> MutexGuard<'_, How> {
        self.how.lock().expect("no panic")
    }

    fn lease(&self) -> MutexGuard<'_, Lease> {
        self.lease.lock().expect("no panic")
    }

    async fn sleep(&self, how_long: Duration) {
        if !how_long.is_zero() {
            let clock = Backend::clock(&self.store);
            Sleep::until(&clock, clock.now() + how_long).await;
        }
    }

    fn tell_early(&self, id: ClaimId, grant: Grant) {
        let (signals, early) = {
            let mut how = self.how();
            let Some(left) = how.told_early.0.checked_sub(1) else { return };
            how.told_early.0 = left;
            (how.signals.clone(), how.told_early.1)
        };
        signals.expect("it is open").held(id, grant);
        self.clock.advance(early);
    }

    /// Until when the lease lives if a request was sent then.
    fn until(&self, sent: Moment) -> Moment {
        let how = self.how();
        let from = if how.is_proved_late { self.lease().known } else { sent };
        from + how.ttl
    }

    /// Lets this much time pass, in small steps, so that every task that is woken in between runs.
    async fn pass(&self, time: Duration) {
        const STEP: Duration = Duration::from_millis(100);
        for _ in 0..time.as_millis() / STEP.as_millis() {
            self.clock.pass(STEP).await;
            tokio::task::yield_now().await;
        }
    }
}

#[async_trait]
impl Layer for Slow {
    fn signals(self: Arc<Self>, to: Arc<dyn Signals>) -> Arc<dyn Signals> {
        self.how().signals = Some(to.clone());
        to
    }

    async fn open(
        &self,
        to: &dyn Backend,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> tidelock_core::Result<Arc<dyn Session>> {
        let asked = self.clock.now();
        let takes = self.how().open_takes;
        self.sleep(takes).await;
        *self.lease() = Lease { known: asked, heard: asked };
        to.open(id, options, signals).await
    }

    fn ttl(&self, _: &Arc<dyn Session>) -> Duration {
        self.how().ttl
    }

    async fn join(
        &self,
        to: &Arc<dyn Session>,
        claim: &Claim,
        patience: Patience,
    ) -> tidelock_core::Result<Place> {
        let (sent, takes) = (self.clock.now(), self.how().join_takes);
        self.how().joined.push(claim.id);
        let place = to.join(claim, patience).await?;
        self.sleep(takes).await;
        if let Place::Held { grant, .. } = place {
            self.tell_early(claim.id, grant);
        }
        let until = self.until(sent);
        Ok(match place {
            Place::Held { grant, .. } => Place::Held { grant, until },
            Place::Waiting { look_in, .. } => Place::Waiting { until, look_in },
            place => place,
        })
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        self.how().left.push((id, how));
        to.leave(name, id, how)
    }

    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> tidelock_core::Result<Renewal> {
        let sent = self.clock.now();
        self.how().renewals += 1;
        let renewal = to.renew(shard, standing).await?;
        let before = std::mem::replace(&mut self.lease().heard, sent);
        self.lease().known = before;
        Ok(Renewal { until: self.until(sent), ..renewal })
    }
}

/// Runs `work` while time passes.
async fn drive<T: Send + 'static>(slow: &Slow, work: impl Future<Output = T> + Send + 'static) -> T {
    let work = tokio::spawn(work);
    until("it is done", async || {
        if !work.is_finished() {
            slow.pass(Duration::from_millis(100)).await;
        }
        work.is_finished()
    })
    .await;
    work.await.expect("no panic")
}

async fn lock(slow: &Slow, locks: &Arc<dyn Locks>, name: &str) -> tidelock_core::Result<Guard> {
    let mutex = locks.mutex(name)?;
    drive(slow, async move { mutex.lock().await }).await
}

async fn close(slow: &Slow, locks: Arc<dyn Locks>) -> Done {
    drive(slow, async move { locks.close().await }).await
}

#[tokio::test]
async fn a_grant_that_comes_late_is_renewed_before_it_is_handed_out() -> Done {
    let options = Options::new().command_deadline(Duration::from_secs(14));
    let (slow, locks) = Slow::locks(options, |how| how.join_takes = Duration::from_secs(12))?;
    let held = lock(&slow, &locks, "m").await?;
    assert!(held.remaining() > TTL / 2, "only {:?} left", held.remaining());
    slow.pass(TTL * 2).await;
    assert_eq!(held.state(), State::Held);
    held.release().await?.confirmed()?;
    close(&slow, locks).await
}

#[tokio::test]
async fn a_session_whose_opening_took_long_does_not_begin_with_a_spent_deadline() -> Done {
    for late in [8, 11, 14] {
        let options = Options::new().connect_deadline(TTL);
        let (slow, locks) = Slow::locks(options, |how| {
            how.open_takes = Duration::from_secs(late);
            how.is_proved_late = true;
        })?;
        let held = lock(&slow, &locks, "m").await?;
        assert!(held.remaining() > TTL / 3, "opened after {late} s: only {:?} left", held.remaining());
        slow.pass(TTL * 2).await;
        assert_eq!(held.state(), State::Held, "opened after {late} s");
        held.release().await?.confirmed()?;
        close(&slow, locks).await?;
    }
    Ok(())
}

#[tokio::test]
async fn what_is_granted_after_an_outage_stays_held_while_the_store_answers() -> Done {
    for outage in (5..15).map(|half| Duration::from_millis(2_000 + half * 500)) {
        let (slow, locks) = Slow::locks(Options::new(), |how| how.is_proved_late = true)?;
        let before = lock(&slow, &locks, "m").await?;
        slow.pass(TTL / 2).await;
        assert_eq!(before.state(), State::Held);
        slow.store.faults().refuse_all();
        slow.pass(outage).await;
        slow.store.faults().heal();
        if before.state() == State::Lost {
            continue; // no later lease was proved in time
        }
        let after = lock(&slow, &locks, "n").await?;
        slow.pass(TTL).await;
        assert_eq!(
            before.state(),
            State::Held,
            "it was held before the outage, and every renewal since was answered: {outage:?}"
        );
        assert_eq!(
            after.state(),
            State::Held,
            "it was granted after the outage, and every renewal since was answered: {outage:?}"
        );
        before.release().await?.confirmed()?;
        after.release().await?.confirmed()?;
        close(&slow, locks).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_store_that_grants_a_shorter_ttl_at_a_reconnect_is_believed_at_once() -> Done {
    const SHORTER: Duration = Duration::from_secs(4);
    let (slow, locks) = Slow::locks(Options::new(), |_| {})?;
    let held = lock(&slow, &locks, "m").await?;
    assert!(held.remaining() > SHORTER * 3);
    slow.how().ttl = SHORTER;
    let signals = slow.how().signals.clone().expect("it is open");
    signals.look_everywhere(); // as after a reconnect
    until("it is believed", async || held.remaining() < SHORTER).await;
    for _ in 0..40 {
        slow.pass(Duration::from_millis(500)).await;
        assert_eq!(held.state(), State::Held, "and renewed as often as it needs");
        assert!(held.remaining() < SHORTER);
    }
    slow.store.faults().refuse_all();
    slow.pass(SHORTER).await;
    assert_eq!(held.state(), State::Lost);
    slow.store.faults().heal();
    close(&slow, locks).await
}

#[tokio::test]
async fn a_join_whose_answer_comes_too_late_is_asked_again_under_another_id() -> Done {
    let options = Options::new().command_deadline(TTL * 4);
    let (slow, locks) = Slow::locks(options, |how| how.join_takes = TTL * 3)?;
    let clock = slow.clone();
    // The first join is sent at 0, and its answer would come at 3 ttl. From 1 ttl on the store is quick again.
    let quick = tokio::spawn(async move {
        let clock_of_store = Backend::clock(&clock.store);
        Sleep::until(&clock_of_store, clock.clock.now() + TTL / 2).await;
        clock.how().join_takes = Duration::ZERO;
    });
    let began = slow.clock.now();
    let guard = lock(&slow, &locks, "m").await?;
    let took = slow.clock.now().since(began);
    assert!(took >= TTL && took < TTL * 3 / 2, "the wait took {took:?}");
    assert_eq!(guard.state(), State::Held);
    quick.await.expect("no panic");

    // The first claim may have been granted and have ended since. A repeated join would make it stand in the store
    // anew, and an earlier push would be taken for its grant.
    let joined = slow.how().joined.clone();
    let left = slow.how().left.clone();
    let [first, second] = joined[..] else { panic!("asked for twice: {joined:?}") };
    assert_ne!(first, second, "a claim that may have ended is not requested again");
    // By the keeper, by the user that finds it lost, or by both: a join may have come between the two.
    assert!(matches!(left.len(), 1 | 2) && left.iter().all(|left| *left == (first, Leave::Void)), "{left:?}");
    let signals = slow.how().signals.clone().expect("it is open");
    let old = Token::from_order(u64::from(u32::MAX)).expect("small enough");
    signals.held(first, Grant { token: old, capacity: Weight::ONE });
    assert_eq!(guard.state(), State::Held);
    assert_ne!(guard.token(), old);
    drop(guard);
    close(&slow, locks).await
}

#[tokio::test]
async fn no_join_is_asked_again_for_longer_than_one_command_may_take() -> Done {
    let options = Options::new().command_deadline(TTL * 2);
    let (slow, locks) = Slow::locks(options, |how| how.join_takes = TTL * 3)?;
    let began = slow.clock.now();
    let refused = lock(&slow, &locks, "m").await.expect_err("no answer came in time");
    assert_eq!(refused.kind(), ErrorKind::Timeout);
    let took = slow.clock.now().since(began);
    assert!(took >= TTL * 2 && took < TTL * 5 / 2, "the wait took {took:?}");
    close(&slow, locks).await
}

#[tokio::test]
async fn a_join_is_patient_beyond_its_ttl_with_a_store_that_is_away() -> Done {
    let options = Options::new().command_deadline(TTL * 10);
    let (slow, locks) = Slow::locks(options, |_| {})?;
    lock(&slow, &locks, "other").await?.release().await?.confirmed()?;
    slow.store.faults().refuse_all();
    let locking = waiter(&locks, "m");
    slow.pass(TTL * 2).await;
    assert!(!locking.is_finished());
    slow.store.faults().heal();
    let held = drive(&slow, async move { locking.await.expect("no panic") }).await?;
    held.release().await?.confirmed()?;
    close(&slow, locks).await
}

#[tokio::test]
async fn a_join_that_is_asked_again_within_its_ttl_keeps_its_id_and_its_place() -> Done {
    let (slow, locks) = Slow::locks(Options::new(), |_| {})?;
    lock(&slow, &locks, "other").await?.release().await?.confirmed()?;
    slow.how().joined.clear();
    slow.store.faults().lose_replies(2);
    let held = lock(&slow, &locks, "m").await?;
    let joined = slow.how().joined.clone();
    assert!(joined.len() > 1 && joined.iter().all(|id| *id == joined[0]), "{joined:?}");
    held.release().await?.confirmed()?;
    close(&slow, locks).await
}

#[tokio::test]
async fn a_hold_that_is_over_before_its_user_has_it_is_not_handed_out() -> Done {
    let max_hold = Duration::from_millis(100);
    for times in [1, 2, 3] {
        let (slow, locks) = Slow::locks(Options::new().max_hold(max_hold), |how| {
            how.told_early = (times, max_hold);
        })?;
        let held = locks.mutex("m")?.lock().await?;
        assert_eq!(held.state(), State::Held);
        assert_eq!(slow.how().joined.len(), times + 1);
        held.release().await?.confirmed()?;
        close(&slow, locks).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_max_hold_that_no_grant_outlives_is_called_by_its_name() -> Done {
    let max_hold = Duration::from_millis(100);
    let (slow, locks) = Slow::locks(Options::new().max_hold(max_hold), |how| {
        how.told_early = (usize::MAX, max_hold);
    })?;
    let error = locks.mutex("m")?.lock().await.map(drop).unwrap_err();
    assert!(error.to_string().contains("max_hold (100ms) ended every grant"), "{error}");
    close(&slow, locks).await
}

#[tokio::test]
async fn a_store_that_is_away_is_not_asked_for_ever_at_the_first_pause() -> Done {
    let (slow, locks) = Slow::locks(Options::new(), |_| {})?;
    locks.mutex("m")?.lock().await?.release().await?.confirmed()?; // no claim holds or waits
    slow.store.faults().refuse_all();
    slow.pass(TTL * 2).await;
    let before = slow.how().renewals;
    slow.pass(TTL).await;
    let asked = slow.how().renewals - before;
    assert!((5..=30).contains(&asked), "{asked} requests in {TTL:?}; about one a second is right");
    slow.store.faults().heal();
    lock(&slow, &locks, "m").await?.release().await?.confirmed()?;
    close(&slow, locks).await
}

#[tokio::test]
async fn a_backend_without_a_ttl_stops_no_other_session() -> Done {
    let (_slow, locks) = Slow::locks(Options::new(), |how| how.ttl = Duration::ZERO)?;
    let _ = tokio::time::timeout(Duration::from_millis(100), locks.ping()).await;
    let other = Store::new().attach(Options::new())?;
    let opened = tokio::time::timeout(Duration::from_secs(5), other.ping()).await;
    opened.expect("the keeper has time for it")?;
    other.close().await
}
