//! Releases, closes, guesses and renewals beside others that are under way, late, or wrong.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{
    Backend, Claim, Layer, Leave, Left, Patience, Place, Renewal, Reply, Session, Shard, Signals, Sleep,
};
use tidelock_core::prelude::*;
use tidelock_core::{ClaimId, Error, ErrorKind, Kind, Name, SessionId, Weight};
use tidelock_memory::{Clock, Store};
use tokio::task::JoinHandle;

use crate::condition::until;
use crate::layered::attach;
use crate::line::{stands_once, until_standing, waits};

type Result<T = ()> = tidelock_core::Result<T>;

const TTL: Duration = Duration::from_secs(15);

/// How the answer to a leave goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Leaves {
    #[default]
    Answered,
    /// Carried out at once, and answered after this time.
    Late(Duration),
    /// Not carried out. After this time the session is said to be lost, by the client's own clock.
    GivenUp(Duration),
}

#[derive(Debug)]
struct Rig {
    clock: Arc<dyn tidelock_core::backend::Clock>,
    session: Mutex<Option<Arc<dyn Session>>>,
    signals: Mutex<Option<Arc<dyn Signals>>>,
    is_deaf: AtomicBool,
    leaves: Mutex<Leaves>,
    /// The line "a" if its server, one of two, is away: leaves there are not answered.
    away: Mutex<Option<&'static str>>,
    sent: Mutex<Vec<(String, u64)>>,
    renewals: AtomicUsize,
    joins: AtomicUsize,
    /// The next renewal takes this long and then fails.
    fails_after: Mutex<Option<Duration>>,
    fails: AtomicBool,
}

impl Rig {
    fn new(store: &Store) -> Arc<Self> {
        Arc::new(Self {
            clock: Backend::clock(store),
            session: Mutex::default(),
            signals: Mutex::default(),
            is_deaf: AtomicBool::new(false),
            leaves: Mutex::default(),
            away: Mutex::default(),
            sent: Mutex::default(),
            renewals: AtomicUsize::new(0),
            joins: AtomicUsize::new(0),
            fails_after: Mutex::default(),
            fails: AtomicBool::new(false),
        })
    }

    async fn strand(&self, id: ClaimId, name: &str) -> Result {
        let session = self.session.lock().expect("no panic").clone().expect("it is open");
        let stray = Claim::new(id, Name::new(name)?, Kind::Mutex, Weight::ONE, Weight::ONE);
        session.join(&stray, Patience::Wait).await.map(drop)
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
        *self.signals.lock().expect("no panic") = Some(signals.clone());
        let signals = if self.is_deaf.load(Ordering::SeqCst) { Arc::new(crate::deaf::Deaf) } else { signals };
        let session = to.open(id, options, signals).await?;
        *self.session.lock().expect("no panic") = Some(session.clone());
        Ok(session)
    }

    fn shard(&self, _: &Arc<dyn Session>, name: &Name) -> Shard {
        if name.as_str() == "a" { Shard(1) } else { Shard(0) }
    }

    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        self.joins.fetch_add(1, Ordering::SeqCst);
        to.join(claim, patience).await
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        self.sent.lock().expect("no panic").push((name.to_string(), id.number));
        if *self.away.lock().expect("no panic") == Some(name.as_str()) {
            return Box::pin(std::future::pending());
        }
        let how_answered = *self.leaves.lock().expect("no panic");
        match how_answered {
            Leaves::Answered => to.leave(name, id, how),
            Leaves::Late(takes) => {
                let left = to.leave(name, id, how);
                Box::pin(async move {
                    let answer = left.await;
                    Sleep::until(&self.clock, self.clock.now() + takes).await;
                    answer
                })
            }
            Leaves::GivenUp(after) => Box::pin(async move {
                Sleep::until(&self.clock, self.clock.now() + after).await;
                Err(Error::new(ErrorKind::Lost, "this client's session is lost: it was not renewed in time"))
            }),
        }
    }

    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> Result<Renewal> {
        self.renewals.fetch_add(1, Ordering::SeqCst);
        let is_away = shard == Shard(1) && self.away.lock().expect("no panic").is_some();
        if is_away || self.fails.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Unavailable, "on purpose"));
        }
        let fails = self.fails_after.lock().expect("no panic").take();
        if let Some(after) = fails {
            Sleep::until(&self.clock, self.clock.now() + after).await;
            return Err(Error::new(ErrorKind::Unavailable, "on purpose"));
        }
        let mut renewal = to.renew(shard, standing).await;
        let is_asked = |name: &Name| standing.iter().any(|(asked, _)| asked == name);
        if let Ok(renewal) = &mut renewal {
            renewal.strays.retain(|(name, _)| is_asked(name)); // as on Redis
        }
        renewal
    }
}

fn options() -> Options {
    Options::new().ttl(TTL)
}

/// With renewals every second, each of which may take a second.
fn quick() -> Options {
    Options::new().ttl(Duration::from_secs(3))
}

async fn pass(clock: &Clock, time: Duration) {
    const STEP: Duration = Duration::from_millis(10);
    for _ in 0..time.as_millis() / STEP.as_millis() {
        clock.pass(STEP).await;
        tokio::task::yield_now().await;
    }
}

async fn stands_still(clock: &Clock, held: Guard, waits: &JoinHandle<Result<Guard>>) -> Result<Duration> {
    let began = clock.now();
    held.release().await?;
    tokio::time::sleep(Duration::from_millis(50)).await; // the keeper hears of it before any time passes
    for _ in 0..400 {
        clock.pass(Duration::from_millis(100)).await;
        tokio::task::yield_now().await;
        if waits.is_finished() {
            break;
        }
    }
    Ok(clock.now().since(began))
}

// An eviction that the leave hears of is a loss, whatever `max_hold` is: the lease goes on for 14 s.

async fn release_after_an_eviction(max_hold: Option<Duration>) -> Result<Result<Released>> {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let rig = Rig::new(&store);
    rig.is_deaf.store(true, Ordering::SeqCst);
    let limited = max_hold.map_or(options(), |max_hold| options().max_hold(max_hold));
    let ours = attach(&store, rig.clone(), limited)?;
    let theirs = store.attach(options())?;
    let guard = ours.mutex("m")?.lock().await?;
    assert!(theirs.evict("m", guard.claim()).await?);
    let other = theirs.mutex("m")?.try_lock().await?; // two work under the lock
    assert!(other.is_some());
    pass(&clock, Duration::from_millis(500)).await;
    assert_eq!(guard.state(), State::Held);
    *rig.leaves.lock().expect("no panic") = Leaves::Late(Duration::from_secs(1));
    let releasing = tokio::spawn(guard.release());
    tokio::task::yield_now().await;
    pass(&clock, Duration::from_millis(1_500)).await;
    Ok(releasing.await.expect("no panic"))
}

#[tokio::test]
async fn a_release_after_an_eviction_says_that_the_lock_was_lost() -> Result {
    let released = release_after_an_eviction(None).await?;
    assert!(released.is_err(), "{released:?}");
    Ok(())
}

#[tokio::test]
async fn a_release_after_an_eviction_says_that_the_lock_was_lost_with_max_hold_too() -> Result {
    let released = release_after_an_eviction(Some(Duration::from_secs(1))).await?;
    assert!(released.is_err(), "{released:?}");
    Ok(())
}

// `Confirmed` means that the store has confirmed it, and that the lock is free or someone else's.

#[tokio::test]
async fn a_release_whose_session_the_client_gives_up_is_not_confirmed() -> Result {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let rig = Rig::new(&store);
    let ours = attach(&store, rig.clone(), options())?;
    let theirs = store.attach(options())?;
    let guard = ours.mutex("m")?.lock().await?;
    rig.fails.store(true, Ordering::SeqCst);
    pass(&clock, Duration::from_millis(13_500)).await;
    assert_eq!(guard.state(), State::Jeopardy);
    // The server has heard the client's last renewal, but its answer got lost: there, the lease began anew.
    let session = rig.session.lock().expect("no panic").clone().expect("it is open");
    let name = Name::new("m")?;
    session.renew(Shard(0), &[(name, vec![guard.claim()])]).await?;
    *rig.leaves.lock().expect("no panic") = Leaves::GivenUp(Duration::from_millis(1_700));
    let releasing = tokio::spawn(guard.release());
    tokio::task::yield_now().await;
    pass(&clock, Duration::from_secs(4)).await;
    let released = releasing.await.expect("no panic");
    let standing = theirs.inspect("m").await?.holders().count();
    println!("{released:?}, and {standing} holds in the store");
    let is_confirmed = released.as_ref().is_ok_and(Released::is_confirmed);
    assert!(!is_confirmed || standing == 0, "{released:?}, and {standing} holds in the store");
    Ok(())
}

// A wrong guess does nothing.

/// For how long line "b" stands still, in which an unknown stray stands, if a renewal has just found another one in
/// line "a".
async fn after_a_guess(is_away: bool) -> Result<(Duration, Vec<(String, u64)>)> {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let rig = Rig::new(&store);
    let ours = attach(&store, rig.clone(), options())?;
    let (theirs, next) = (store.attach(options())?, store.attach(options())?);
    let other = ours.mutex("other")?.lock().await?;
    let id = |number| ClaimId { session: other.claim().session, number };
    let (a, b) = (theirs.mutex("a")?.lock().await?, theirs.mutex("b")?.lock().await?);
    stands_once(&ours, "a").await;
    until_standing(&theirs, "a", 1).await;
    stands_once(&ours, "b").await;
    until_standing(&theirs, "b", 1).await;
    rig.strand(id(1_000_001), "a").await?;
    pass(&clock, Duration::from_secs(2)).await;
    a.release().await?.confirmed()?;
    until_standing(&theirs, "a", 0).await; // a renewal has found the stray there
    rig.strand(id(1_000_002), "b").await?;
    let waits = waits(&next, "b", 3).await;
    if is_away {
        *rig.away.lock().expect("no panic") = Some("a"); // its server dies
    }
    let stood_still = stands_still(&clock, b, &waits).await?;
    waits.abort();
    let sent = rig.sent.lock().expect("no panic").clone();
    Ok((stood_still, sent.into_iter().filter(|(_, number)| *number > 1_000_000).collect()))
}

#[tokio::test]
async fn a_wrong_guess_does_nothing() -> Result {
    let (stood_still, sent) = after_a_guess(false).await?;
    assert!(sent.contains(&("a".into(), 1_000_002)), "a guess was made: {sent:?}");
    assert!(stood_still < Duration::from_secs(1), "{stood_still:?}, {sent:?}");
    Ok(())
}

#[tokio::test]
async fn a_wrong_guess_does_nothing_while_the_guessed_lines_server_is_away() -> Result {
    let (stood_still, sent) = after_a_guess(true).await?;
    assert!(sent.contains(&("a".into(), 1_000_002)), "a guess was made: {sent:?}");
    assert!(stood_still < Duration::from_secs(1), "{stood_still:?}, {sent:?}");
    Ok(())
}

// A close does not wait for users: a release that its user does not poll was answered long ago.

#[tokio::test]
async fn a_close_takes_no_time_although_a_release_is_not_polled() -> Result {
    let store = Store::new();
    let rig = Rig::new(&store);
    let ours = attach(&store, rig.clone(), options())?;
    let guard = ours.mutex("m")?.lock().await?;
    *rig.leaves.lock().expect("no panic") = Leaves::Late(Duration::from_millis(1));
    let mut releasing = Box::pin(guard.release());
    assert!(releasing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    tokio::time::sleep(Duration::from_millis(20)).await;
    let began = std::time::Instant::now();
    let closed = ours.close_within(Duration::from_secs(4)).await;
    let took = began.elapsed();
    assert!(took < Duration::from_millis(500), "{took:?}, {closed:?}");
    Ok(())
}

// After a new connection, strays are sought until a renewal with the lines was answered.

/// For how long a line stands still in which a forgotten claim holds. The news of the grant was missed. A new connection
/// for signals is made while a renewal is under way, which fails this long after it began.
async fn after_a_reconnect(fails_after: Duration) -> Result<Duration> {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let rig = Rig::new(&store);
    rig.is_deaf.store(true, Ordering::SeqCst);
    let ours = attach(&store, rig.clone(), quick())?;
    let (theirs, next) = (store.attach(quick())?, store.attach(quick())?);
    let other = ours.mutex("other")?.lock().await?;
    let held = theirs.mutex("m")?.lock().await?;
    stands_once(&ours, "m").await;
    until_standing(&theirs, "m", 1).await;
    rig.strand(ClaimId { session: other.claim().session, number: 1_000_001 }, "m").await?;
    let waits = waits(&next, "m", 3).await;
    let renewals = rig.renewals.load(Ordering::SeqCst);
    if !fails_after.is_zero() {
        *rig.fails_after.lock().expect("no panic") = Some(fails_after);
        until("a renewal is under way", async || {
            clock.pass(Duration::from_millis(5)).await;
            rig.renewals.load(Ordering::SeqCst) > renewals
        })
        .await;
    }
    let signals = rig.signals.lock().expect("no panic").clone().expect("it is open");
    signals.look_everywhere();
    let stood_still = stands_still(&clock, held, &waits).await?;
    assert_ne!(other.state(), State::Lost);
    waits.abort();
    Ok(stood_still)
}

#[tokio::test]
async fn a_stray_is_sought_after_a_reconnect() -> Result {
    let stood_still = after_a_reconnect(Duration::ZERO).await?;
    println!("{stood_still:?}");
    assert!(stood_still < Duration::from_millis(2_100), "{stood_still:?}");
    Ok(())
}

#[tokio::test]
async fn a_stray_is_sought_after_a_reconnect_while_a_renewal_hangs() -> Result {
    let stood_still = after_a_reconnect(Duration::from_millis(995)).await?;
    println!("{stood_still:?}");
    assert!(stood_still < Duration::from_millis(2_100), "{stood_still:?}");
    Ok(())
}

// What a crowd of impatient callers costs on a healthy store.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_of_impatient_callers_costs_one_leave_each() -> Result {
    let store = Store::new();
    let rig = Rig::new(&store);
    let ours = attach(&store, rig.clone(), quick())?;
    let mut holds = Vec::new();
    for hold in 0..50 {
        holds.push(ours.mutex(&format!("hold {hold}"))?.lock().await?);
    }
    store.faults().delay(Duration::from_millis(2));
    let (before, left) = (rig.joins.load(Ordering::SeqCst), rig.sent.lock().expect("no panic").len());
    let renewals = rig.renewals.load(Ordering::SeqCst);
    let began = std::time::Instant::now();
    let mut crowd = Vec::new();
    for task in 0..60_u64 {
        let mutex = ours.mutex(&format!("line {}", task % 4))?;
        crowd.push(tokio::spawn(async move {
            let mut served = 0;
            while began.elapsed() < Duration::from_secs(4) {
                if let Ok(Some(guard)) = mutex.lock_within(Duration::from_millis(20 + task % 40)).await {
                    served += 1;
                    let _ = guard.release().await;
                }
            }
            served
        }));
    }
    let mut served = 0;
    for task in crowd {
        served += task.await.expect("no panic");
    }
    let joins = rig.joins.load(Ordering::SeqCst) - before;
    let leaves = rig.sent.lock().expect("no panic").len() - left;
    let renewals = rig.renewals.load(Ordering::SeqCst) - renewals;
    println!("{served} served, {joins} joins, {leaves} leaves, {renewals} renewals");
    assert!(leaves <= joins + joins / 20, "{joins} joins, {leaves} leaves");
    assert!(renewals <= 12, "{renewals} renewals in 4 s, of two shards");
    Ok(())
}

// The documentation of `Released`: only the second outcome can hide an eviction of which the client has not heard.

#[tokio::test]
async fn a_confirmed_release_hides_no_eviction() -> Result {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let rig = Rig::new(&store);
    rig.is_deaf.store(true, Ordering::SeqCst);
    let ours = attach(&store, rig.clone(), options())?;
    let theirs = store.attach(options())?;
    let guard = ours.mutex("m")?.lock().await?;
    rig.fails.store(true, Ordering::SeqCst);
    assert!(theirs.evict("m", guard.claim()).await?);
    let other = theirs.mutex("m")?.try_lock().await?; // two work under the lock for 13 s
    assert!(other.is_some());
    pass(&clock, Duration::from_millis(13_500)).await;
    assert_eq!(guard.state(), State::Jeopardy);
    *rig.leaves.lock().expect("no panic") = Leaves::Late(Duration::from_millis(1_700));
    let releasing = tokio::spawn(guard.release());
    tokio::task::yield_now().await;
    pass(&clock, Duration::from_millis(2_000)).await;
    let released = releasing.await.expect("no panic");
    println!("{released:?}");
    assert!(!released.as_ref().is_ok_and(Released::is_confirmed), "{released:?}, answered with \"absent\"");
    Ok(())
}

// A drain counts what was lost as given back.

#[tokio::test]
async fn a_drain_waits_for_no_release_in_a_session_that_is_over() -> Result {
    let store = Store::new();
    let rig = Rig::new(&store);
    let ours = attach(&store, rig.clone(), options())?;
    let guard = ours.mutex("m")?.lock().await?;
    *rig.leaves.lock().expect("no panic") = Leaves::Late(Duration::from_millis(1));
    let mut releasing = Box::pin(guard.release());
    assert!(releasing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let signals = rig.signals.lock().expect("no panic").clone().expect("it is open");
    signals.over();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let began = std::time::Instant::now();
    let drained = ours.drain_within(Duration::from_secs(1)).await?;
    let took = began.elapsed();
    println!("{drained}, {took:?}");
    assert!(drained, "{took:?}");
    Ok(())
}
