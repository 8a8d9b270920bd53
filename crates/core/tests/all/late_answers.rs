//! Answers, grants and callers that come late, or while something else is under way. Each test has a twin in which
//! they come in time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{
    Backend, Claim, Layer, Layered, Leave, Left, Patience, Place, Renewal, Reply, Session, Shard, Signals,
    Sleep,
};
use tidelock_core::prelude::*;
use tidelock_core::{ClaimId, Error, ErrorKind, Kind, Name, SessionId, Weight};
use tidelock_memory::{Clock, Store};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::condition::until;
use crate::layered::attach;
use crate::line::{stands_once, until_standing, waits};

type Result<T = ()> = tidelock_core::Result<T>;

const TTL: Duration = Duration::from_secs(15);
/// Enough for a busy machine.
const A_MOMENT: Duration = Duration::from_secs(10);

/// A store whose answers can be late, and whose session a test can use itself.
#[derive(Debug)]
struct Rig {
    clock: Arc<dyn tidelock_core::backend::Clock>,
    session: Mutex<Option<Arc<dyn Session>>>,
    /// How long the answer to a join takes. It is carried out at once.
    join_takes: Mutex<Duration>,
    /// How long the answers to the next renewals take, and to all others.
    renewals_take: Mutex<(VecDeque<Duration>, Duration)>,
    renewals: AtomicUsize,
    fails_renewals: AtomicBool,
    /// Answers to leaves are held back. The leaves are carried out at once.
    holds_answers_to_leaves: AtomicBool,
    answers: Arc<Notify>,
    leaves: AtomicUsize,
}

impl Rig {
    fn new(store: &Store) -> Arc<Self> {
        Arc::new(Self {
            clock: Backend::clock(store),
            session: Mutex::default(),
            join_takes: Mutex::default(),
            renewals_take: Mutex::default(),
            renewals: AtomicUsize::new(0),
            fails_renewals: AtomicBool::new(false),
            holds_answers_to_leaves: AtomicBool::new(false),
            answers: Arc::default(),
            leaves: AtomicUsize::new(0),
        })
    }

    async fn sleep(&self, how_long: Duration) {
        if !how_long.is_zero() {
            Sleep::until(&self.clock, self.clock.now() + how_long).await;
        }
    }

    /// Puts this claim, which has left, into the line again: the store that answers now has missed its leave.
    async fn stands_there_all_the_same(&self, id: ClaimId, name: &str) -> Result {
        let session = self.session.lock().expect("no panic").clone().expect("it is open");
        let stray = Claim::new(id, Name::new(name)?, Kind::Mutex, Weight::ONE, Weight::ONE);
        let place = session.join(&stray, Patience::Wait).await?;
        assert!(matches!(place, Place::Waiting { .. }), "{place:?}");
        Ok(())
    }
}

#[async_trait]
impl Layer for Rig {
    async fn open(
        &self,
        to: &dyn Backend,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        let session = to.open(id, options, signals).await?;
        *self.session.lock().expect("no panic") = Some(session.clone());
        Ok(session)
    }

    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        let sent = self.clock.now();
        let mut place = to.join(claim, patience).await;
        if let Ok(Place::Held { until, .. } | Place::Waiting { until, .. }) = &mut place {
            *until = sent + to.ttl(); // as on Redis: each claim has its own lease
        }
        let takes = *self.join_takes.lock().expect("no panic");
        self.sleep(takes).await;
        place
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        self.leaves.fetch_add(1, Ordering::SeqCst);
        let left = to.leave(name, id, how);
        if !self.holds_answers_to_leaves.load(Ordering::SeqCst) {
            return left;
        }
        let answers = self.answers.clone();
        Box::pin(async move {
            let answer = left.await;
            answers.notified().await;
            answer
        })
    }

    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> Result<Renewal> {
        self.renewals.fetch_add(1, Ordering::SeqCst);
        if self.fails_renewals.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "on purpose"));
        }
        let mut renewal = to.renew(shard, standing).await;
        let is_asked = |name: &Name| standing.iter().any(|(asked, _)| asked == name);
        if let Ok(renewal) = &mut renewal {
            renewal.strays.retain(|(name, _)| is_asked(name)); // as on Redis
        }
        let takes = {
            let mut takes = self.renewals_take.lock().expect("no panic");
            takes.0.pop_front().unwrap_or(takes.1)
        };
        self.sleep(takes).await;
        renewal
    }
}

fn options() -> Options {
    Options::new().ttl(TTL)
}

async fn pass(clock: &Clock, time: Duration) {
    const STEP: Duration = Duration::from_millis(50);
    for _ in 0..time.as_millis() / STEP.as_millis() {
        clock.pass(STEP).await;
        tokio::task::yield_now().await;
    }
}

/// For how long a line stands still after its holder has left, until this waiter is granted.
async fn stands_still<T>(clock: &Clock, held: Guard, waits: &JoinHandle<T>) -> Result<Duration> {
    let began = clock.now();
    held.release().await?;
    stands_still_since(clock, began, waits).await
}

async fn stands_still_since<T>(
    clock: &Clock,
    began: tidelock_core::backend::Moment,
    waits: &JoinHandle<T>,
) -> Result<Duration> {
    for _ in 0..250 {
        clock.pass(Duration::from_millis(100)).await;
        if waits.is_finished() {
            break; // otherwise it stands still for more than 25 s
        }
    }
    Ok(clock.now().since(began))
}

// A claim with little time left, learnt of while a renewal is under way, is renewed once more.

/// The state, 4 s after the session was opened, of a guard whose join took 1.8 s. Each renewal is answered, the one
/// that is under way when the guard comes within `takes`, all others within 0.4 s.
async fn granted_late(takes: Duration) -> Result<(State, usize)> {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let rig = Rig::new(&store);
    let quick = Duration::from_millis(50);
    *rig.renewals_take.lock().expect("no panic") = ([quick, takes].into(), Duration::from_millis(400));
    *rig.join_takes.lock().expect("no panic") = Duration::from_millis(1_800);
    let ours = attach(&store, rig.clone(), Options::new().ttl(Duration::from_secs(3)))?;
    let opened = clock.now();
    let _ = ours.inspect("m").await?; // opens the session at 0 s: renewals are due at 1 s, 2 s, 3 s
    pass(&clock, Duration::from_millis(300)).await;
    let mutex = ours.mutex("m")?;
    let lock = tokio::spawn(async move { mutex.lock().await }); // its answer comes at 2.1 s, with 1.19 s left
    tokio::task::yield_now().await;
    pass(&clock, Duration::from_millis(1_900)).await;
    while !lock.is_finished() {
        pass(&clock, Duration::from_millis(50)).await;
    }
    let left = Duration::from_millis(4_000).saturating_sub(clock.now().since(opened));
    assert!(
        left > Duration::from_millis(1_700),
        "granted before the renewal under way was answered: {left:?}"
    );
    let guard = lock.await.expect("no panic")?;
    assert_eq!(guard.state(), State::Held);
    pass(&clock, left).await;
    Ok((guard.state(), rig.renewals.load(Ordering::SeqCst)))
}

#[tokio::test]
async fn a_guard_with_little_time_left_is_renewed_early() -> Result {
    let (state, _) = granted_late(Duration::from_millis(50)).await?;
    assert_eq!(state, State::Held);
    Ok(())
}

#[tokio::test]
async fn a_guard_with_little_time_left_is_renewed_early_although_a_renewal_was_under_way() -> Result {
    let (state, renewals) = granted_late(Duration::from_millis(400)).await?;
    assert_eq!(state, State::Held, "the store has answered each of {renewals} renewals within 0.4 s");
    Ok(())
}

// The line that was left last is remembered longest, however old the claim that left it.

/// For how long a line stands still in which a forgotten claim stands that has left it last, before or after the
/// client's claims have left 128 other lines which they joined later.
async fn left_by_an_old_claim(leaves_last: bool) -> Result<Duration> {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let rig = Rig::new(&store);
    let ours = attach(&store, rig.clone(), options())?;
    let (theirs, next) = (store.attach(options())?, store.attach(options())?);
    let (_other, held) = (ours.mutex("other")?.lock().await?, theirs.mutex("m")?.lock().await?);
    let mut busy = Vec::new();
    for line in 0..128 {
        busy.push(theirs.mutex(&format!("line {line}"))?.lock().await?);
    }
    let mut old = None;
    let stand_in_other_lines = async || {
        for line in 0..128 {
            stands_once(&ours, &format!("line {line}")).await;
        }
    };
    if !leaves_last {
        stand_in_other_lines().await;
    }
    old.replace(waits(&ours, "m", 2).await);
    let id = theirs.inspect("m").await?.waiters().next().expect("it waits").id;
    if leaves_last {
        stand_in_other_lines().await;
    }
    old.take().expect("it waits").abort();
    until_standing(&theirs, "m", 1).await; // "m" is the line that was left last
    for _ in 0..1_025 {
        stands_once(&ours, "line 127").await; // the claim is forgotten, and no line is
    }
    rig.stands_there_all_the_same(id, "m").await?;
    let waits = waits(&next, "m", 3).await;
    let stood_still = stands_still(&clock, held, &waits).await?;
    waits.abort();
    Ok(stood_still)
}

#[tokio::test]
async fn a_line_that_was_left_last_by_the_latest_claim_is_remembered() -> Result {
    let stood_still = left_by_an_old_claim(false).await?;
    assert!(stood_still < Duration::from_secs(1), "{stood_still:?}");
    Ok(())
}

#[tokio::test]
async fn a_line_that_was_left_last_by_an_old_claim_is_remembered() -> Result {
    let stood_still = left_by_an_old_claim(true).await?;
    assert!(stood_still < Duration::from_secs(1), "{stood_still:?}");
    Ok(())
}

// A grant that is told before the answer to the leave.

#[tokio::test]
async fn a_grant_that_overtakes_the_answer_to_the_leave_is_given_back() -> Result {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let rig = Rig::new(&store);
    let ours = attach(&store, rig.clone(), options())?;
    let (theirs, next) = (store.attach(options())?, store.attach(options())?);
    let (_other, held) = (ours.mutex("other")?.lock().await?, theirs.mutex("m")?.lock().await?);
    let old = waits(&ours, "m", 2).await;
    let id = theirs.inspect("m").await?.waiters().next().expect("it waits").id;
    rig.holds_answers_to_leaves.store(true, Ordering::SeqCst);
    old.abort();
    until_standing(&theirs, "m", 1).await; // it has left, and its answer is on its way
    rig.stands_there_all_the_same(id, "m").await?; // on the server that takes over
    let waits = waits(&next, "m", 3).await;
    let began = clock.now();
    held.release().await?; // it is granted there, and that is told
    rig.holds_answers_to_leaves.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(20)).await;
    rig.answers.notify_waiters(); // now comes the first server's answer
    tokio::time::sleep(Duration::from_millis(20)).await;
    let stood_still = stands_still_since(&clock, began, &waits).await?;
    let leaves = rig.leaves.load(Ordering::SeqCst);
    assert!(stood_still < Duration::from_secs(1), "{stood_still:?}, {leaves} leaves");
    waits.abort();
    Ok(())
}

// A stray of which only the line is known is sought until a renewal was answered.

/// For how long a line stands still in which a forgotten claim stands, if renewals fail for `outage` from its grant.
async fn after_an_outage(outage: Duration) -> Result<Duration> {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let rig = Rig::new(&store);
    let ours = attach(&store, rig.clone(), options())?;
    let (theirs, next) = (store.attach(options())?, store.attach(options())?);
    let (other, held) = (ours.mutex("other")?.lock().await?, theirs.mutex("m")?.lock().await?);
    stands_once(&ours, "m").await;
    until_standing(&theirs, "m", 1).await;
    let forgotten = ClaimId { session: other.claim().session, number: 1_000_001 };
    rig.stands_there_all_the_same(forgotten, "m").await?;
    let waits = waits(&next, "m", 3).await;
    let began = clock.now();
    rig.fails_renewals.store(!outage.is_zero(), Ordering::SeqCst);
    held.release().await?;
    pass(&clock, outage).await;
    rig.fails_renewals.store(false, Ordering::SeqCst);
    let stood_still = stands_still_since(&clock, began, &waits).await?;
    assert_eq!(other.state(), State::Held);
    waits.abort();
    Ok(stood_still)
}

#[tokio::test]
async fn a_stray_is_found_after_a_short_outage() -> Result {
    let stood_still = after_an_outage(Duration::from_secs(4)).await?;
    assert!(stood_still < Duration::from_secs(6), "{stood_still:?}");
    Ok(())
}

#[tokio::test]
async fn a_stray_is_found_after_a_longer_outage() -> Result {
    let stood_still = after_an_outage(Duration::from_secs(6)).await?;
    assert!(stood_still < Duration::from_secs(8), "{stood_still:?}");
    Ok(())
}

// A close waits for a release that is unanswered, or says that the lock is not free.

/// A store that keeps nothing of a session without claims, as Redis, and can be away.
#[derive(Debug, Default)]
struct Away {
    is_away: AtomicBool,
    is_back: Notify,
    /// Whether the client hears nothing unasked.
    is_deaf: bool,
}

impl Away {
    async fn answers(&self) {
        if self.is_away.load(Ordering::SeqCst) {
            self.is_back.notified().await;
        }
    }
}

#[async_trait]
impl Layer for Away {
    fn signals(self: Arc<Self>, to: Arc<dyn Signals>) -> Arc<dyn Signals> {
        if self.is_deaf { Arc::new(crate::deaf::Deaf) } else { to }
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let (to, name) = (to.clone(), name.clone());
        Box::pin(async move {
            self.answers().await;
            to.leave(&name, id, how).await
        })
    }

    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> Result<Renewal> {
        self.answers().await;
        let mut renewal = to.renew(shard, standing).await?;
        if standing.is_empty() {
            renewal.until = tidelock_core::backend::Moment::START;
        }
        Ok(renewal)
    }

    async fn close(&self, to: &Arc<dyn Session>) -> Result<()> {
        self.answers().await;
        to.close().await
    }
}

/// What a close says, and whether the lock is still taken then, if the store went away right after the lock was
/// granted. The guard is released before the close, or kept.
async fn closes_without_answers(releases: bool) -> Result<(Result<()>, usize)> {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let away = Arc::new(Away::default());
    let ours = attach(&store, away.clone(), options())?;
    let theirs = store.attach(options())?;
    let _ = ours.inspect("m").await?; // opens the session
    pass(&clock, TTL * 2).await; // a program that locks now and then
    let guard = ours.mutex("m")?.lock().await?;
    away.is_away.store(true, Ordering::SeqCst);
    let mut kept = Some(guard);
    let releasing =
        releases.then(|| kept.take().expect("it is held")).map(|guard| tokio::spawn(guard.release()));
    tokio::task::yield_now().await; // the leave is sent and not answered
    let closing = tokio::spawn(async move { ours.close_within(Duration::from_secs(1)).await });
    tokio::task::yield_now().await;
    pass(&clock, Duration::from_millis(1_500)).await;
    let closed = closing.await.expect("no panic");
    let standing = theirs.inspect("m").await?.holders().count();
    if let Some(releasing) = releasing {
        releasing.abort();
    }
    Ok((closed, standing))
}

#[tokio::test]
async fn a_close_whose_guard_was_kept_says_that_the_lock_is_not_free() -> Result {
    let (closed, standing) = closes_without_answers(false).await?;
    assert!(closed.is_err() && standing == 1, "{closed:?}, {standing} holds");
    Ok(())
}

#[tokio::test]
async fn a_close_during_a_release_says_that_the_lock_is_not_free() -> Result {
    let (closed, standing) = closes_without_answers(true).await?;
    assert!(closed.is_err() || standing == 0, "{closed:?}, {standing} holds");
    Ok(())
}

// A close that is asked for again knows when every lease has ended.

#[tokio::test]
async fn a_close_that_is_asked_for_again_succeeds_once_every_lease_has_ended() -> Result {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let away = Arc::new(Away::default());
    let ours = attach(&store, away.clone(), options())?;
    let guard = ours.mutex("m")?.lock().await?;
    away.is_away.store(true, Ordering::SeqCst);
    let close = async || {
        let ours = ours.clone();
        let closing = tokio::spawn(async move { ours.close_within(Duration::from_secs(1)).await });
        tokio::task::yield_now().await;
        pass(&clock, Duration::from_millis(1_500)).await;
        closing.await.expect("no panic")
    };
    let first = close().await;
    assert!(first.is_err(), "the lease goes on");
    drop(guard);
    pass(&clock, TTL * 2).await;
    let theirs = store.attach(options())?;
    drop(theirs.mutex("m")?.try_lock().await?.expect("it is free: the lease has ended"));
    // The keeper may have come to the first close only while the time passed.
    until("a close succeeds", async || close().await.is_ok()).await;
    Ok(())
}

#[tokio::test]
async fn a_close_with_much_time_ends_when_every_lease_has_ended() -> Result {
    let store = Store::new();
    let ours = store.attach(Options::new().ttl(Duration::from_secs(3)))?;
    let guard = ours.mutex("m")?.lock().await?;
    store.faults().refuse_all();
    let first = ours.close_within(Duration::from_millis(50)).await;
    assert!(first.is_err(), "the lease goes on");
    drop(guard);
    tokio::time::timeout(A_MOMENT, ours.close_within(Duration::MAX))
        .await
        .expect("it does not wait for a store that has nothing of it any more")
}

#[tokio::test]
async fn a_close_tries_again_while_it_has_time_on_a_clock_that_stands_still_too() -> Result {
    let store = Store::with_clock(&Clock::manual());
    let ours = store.attach(options())?;
    let guard = ours.mutex("m")?.lock().await?;
    store.faults().refuse_all();
    assert!(ours.close_within(Duration::from_millis(50)).await.is_err());
    drop(guard);
    let closing = tokio::spawn(async move { ours.close_within(A_MOMENT).await });
    tokio::time::sleep(Duration::from_millis(100)).await; // some tries are refused
    assert!(!closing.is_finished());
    store.faults().heal();
    closing.await.expect("no panic")?;
    let theirs = store.attach(options())?;
    drop(theirs.mutex("m")?.try_lock().await?.expect("it is free"));
    theirs.close().await
}

// An acquire that nobody polls, whose grant was told before the answer to its join.

/// For how long a lock is taken that was granted to a future that nobody polls.
async fn taken_by_a_future_that_nobody_polls(is_told_first: bool) -> Result<Duration> {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let (hangs, other) = (store.attach(options())?, store.attach(options())?);
    for locks in [&hangs, &other] {
        locks.mutex("warm")?.lock().await?.release().await?.confirmed()?;
    }
    let first = match is_told_first {
        true => Some(other.mutex("m")?.lock().await?),
        false => None,
    };
    let mutex = hangs.mutex("m")?;
    let mut asking = mutex.lock();
    store.faults().delay(Duration::from_millis(10));
    let mut poll = || asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
    assert!(poll());
    clock.advance(Duration::from_millis(5));
    assert!(poll()); // the request has arrived; the answer comes, and nobody polls any more
    store.faults().heal();
    if let Some(first) = first {
        first.release().await?.confirmed()?;
    }
    let began = clock.now();
    while other.mutex("m")?.try_lock().await?.is_none() && clock.now().since(began) < TTL * 20 {
        clock.pass(TTL / 3).await;
    }
    Ok(clock.now().since(began))
}

#[tokio::test]
async fn a_future_that_nobody_polls_keeps_a_grant_for_little_more_than_a_ttl() -> Result {
    let taken = taken_by_a_future_that_nobody_polls(false).await?;
    assert!(taken <= TTL * 3 / 2, "{taken:?}");
    Ok(())
}

#[tokio::test]
async fn a_future_that_nobody_polls_keeps_a_grant_that_was_told_first_no_longer() -> Result {
    let taken = taken_by_a_future_that_nobody_polls(true).await?;
    assert!(taken <= TTL * 3 / 2, "{taken:?}");
    Ok(())
}

// A lease that ends during a release.

#[tokio::test]
async fn a_lease_that_ends_during_a_release_is_no_loss_of_what_was_done_before() -> Result {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let away = Arc::new(Away::default());
    let ours = attach(&store, away.clone(), options())?;
    let guard = ours.mutex("m")?.lock().await?;
    away.is_away.store(true, Ordering::SeqCst);
    pass(&clock, Duration::from_millis(13_500)).await;
    assert_eq!(guard.state(), State::Jeopardy, "{guard:?}"); // the work is done and committed
    let releasing = tokio::spawn(guard.release());
    tokio::task::yield_now().await;
    pass(&clock, Duration::from_millis(1_700)).await; // the lease ends
    away.is_away.store(false, Ordering::SeqCst);
    away.is_back.notify_waiters();
    let released = releasing.await.expect("no panic");
    assert!(released.is_ok(), "{released:?}");
    Ok(())
}

// A close that overtakes a release.

/// A store to which leaves take a while, for example because they gather behind a request under way. So does its
/// answer to a close.
#[derive(Debug)]
struct LateLeaves {
    clock: Arc<dyn tidelock_core::backend::Clock>,
    closes_after: Duration,
}

impl LateLeaves {
    fn attach(store: &Store, closes_after: Duration) -> Result<Arc<dyn Locks>> {
        attach(store, Arc::new(Self { clock: Backend::clock(store), closes_after }), options())
    }
}

#[async_trait]
impl Layer for LateLeaves {
    async fn close(&self, to: &Arc<dyn Session>) -> Result<()> {
        let closed = to.close().await;
        Sleep::until(&self.clock, self.clock.now() + self.closes_after).await;
        closed
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let (to, name) = (to.clone(), name.clone());
        Box::pin(async move {
            Sleep::until(&self.clock, self.clock.now() + Duration::from_millis(200)).await;
            to.leave(&name, id, how).await
        })
    }
}

#[tokio::test]
async fn a_close_lets_a_release_that_is_under_way_come_first() -> Result {
    let store = Store::new();
    let ours = LateLeaves::attach(&store, Duration::ZERO)?;
    let guard = ours.mutex("m")?.lock().await?;
    assert_eq!(guard.state(), State::Held);
    let releasing = tokio::spawn(guard.release());
    tokio::task::yield_now().await; // its leave is on its way
    ours.close().await?;
    let released = releasing.await.expect("no panic");
    assert!(released.is_ok(), "{released:?}");
    Ok(())
}

/// Half of the close's time is over before the leave arrives, so the end of the session comes first.
#[tokio::test]
async fn a_release_that_a_close_overtakes_is_no_loss() -> Result {
    let store = Store::new();
    let ours = LateLeaves::attach(&store, Duration::from_millis(200))?;
    let guard = ours.mutex("m")?.lock().await?;
    assert_eq!(guard.state(), State::Held);
    let releasing = tokio::spawn(guard.release());
    tokio::task::yield_now().await; // its leave is on its way
    let _ = ours.close_within(Duration::from_millis(300)).await;
    let released = releasing.await.expect("no panic");
    assert!(released.is_ok(), "{released:?}");
    Ok(())
}

/// The answer to the release comes before the session is ended, so it was no close that took the claim out.
#[tokio::test]
async fn a_close_hides_no_eviction_from_a_release_that_it_waits_for() -> Result {
    let store = Store::new();
    let deaf =
        Arc::new(Layered::new(Arc::new(store.clone()), Arc::new(Away { is_deaf: true, ..Away::default() })));
    let late = LateLeaves { clock: Backend::clock(&store), closes_after: Duration::ZERO };
    let ours = tidelock_core::backend::attach(Arc::new(Layered::new(deaf, Arc::new(late))), options())?;
    let guard = ours.mutex("m")?.lock().await?;
    assert!(store.attach(options())?.evict("m", guard.claim()).await?);
    assert_eq!(guard.state(), State::Held, "it has not heard of it");
    let mut releasing = Box::pin(guard.release());
    assert!(releasing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    ours.close().await?;
    assert_eq!(releasing.await.unwrap_err().kind(), ErrorKind::Lost);
    Ok(())
}

/// The same with a guard that is dropped a moment before: the close waits for that one.
#[tokio::test]
async fn a_close_waits_for_a_dropped_guard() -> Result {
    let store = Store::new();
    let ours = LateLeaves::attach(&store, Duration::ZERO)?;
    drop(ours.mutex("m")?.lock().await?);
    let began = std::time::Instant::now();
    ours.close().await?;
    assert!(began.elapsed() >= Duration::from_millis(190), "{:?}", began.elapsed());
    Ok(())
}
