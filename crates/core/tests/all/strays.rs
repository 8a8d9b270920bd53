//! A claim that has left stands in line all the same, as on a master that takes over from another. It delays its line
//! only until it is granted: then it is given back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{
    Backend, Claim, Grant, Layer, Leave, Left, Patience, Place, Renewal, Reply, Session, Shard, Signals,
    Sleep,
};
use tidelock_core::prelude::*;
use tidelock_core::{ClaimId, ErrorKind, Kind, Name, SessionId, Token, Weight};
use tidelock_memory::{Clock, Store};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::condition::until;
use crate::layered::attach;
use crate::line::{until_waiting, waiter};

type Result<T = ()> = tidelock_core::Result<T>;

const TTL: Duration = Duration::from_secs(15);
/// How long the answer to a renewal takes, if it is to take long.
const SLOW: Duration = Duration::from_millis(1_500);

/// Keeps the session, so that a test can make a stray of it, and has renewals take a while.
#[derive(Debug)]
struct Watched {
    clock: Arc<dyn tidelock_core::backend::Clock>,
    session: Mutex<Option<Arc<dyn Session>>>,
    signals: Mutex<Option<Arc<dyn Signals>>>,
    is_slow: AtomicBool,
    is_renewing: AtomicBool,
    /// Whether renewals do not get to the lines that are named without claims.
    misses_lines: AtomicBool,
    /// The name of a lock that cannot be given back until it is healed.
    stuck: Mutex<Option<&'static str>>,
    /// Whether the answers to leaves are held up.
    stuck_answer: Mutex<bool>,
    healed: Arc<Notify>,
}

impl Watched {
    fn new(store: &Store) -> Self {
        Self {
            clock: Backend::clock(store),
            session: Mutex::default(),
            signals: Mutex::default(),
            is_slow: AtomicBool::new(false),
            is_renewing: AtomicBool::new(false),
            misses_lines: AtomicBool::new(false),
            stuck: Mutex::default(),
            stuck_answer: Mutex::default(),
            healed: Arc::default(),
        }
    }

    /// Puts a claim of this client into a line, of which the client does not know.
    async fn strand(&self, client: SessionId, name: &str) -> Result {
        let session = self.session.lock().expect("no panic").clone().expect("it is open");
        let id = ClaimId { session: client, number: 1_000_001 };
        let stray = Claim::new(id, Name::new(name)?, Kind::Mutex, Weight::ONE, Weight::ONE);
        session.join(&stray, Patience::Wait).await.map(drop)
    }

    fn tell_look_everywhere(&self) {
        self.signals.lock().expect("no panic").as_ref().expect("it is open").look_everywhere();
    }

    /// Tells the client that a claim is granted, which may be news to the store.
    fn tell_held(&self, id: ClaimId, token: u64) {
        let grant = Grant { token: Token::from_order(token).expect("small"), capacity: Weight::ONE };
        self.signals.lock().expect("no panic").as_ref().expect("it is open").held(id, grant);
    }
}

#[async_trait]
impl Layer for Watched {
    async fn open(
        &self,
        to: &dyn Backend,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        *self.signals.lock().expect("no panic") = Some(signals.clone());
        let session = to.open(id, options, signals).await?;
        *self.session.lock().expect("no panic") = Some(session.clone());
        Ok(session)
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let is_stuck = *self.stuck.lock().expect("no panic") == Some(name.as_str());
        let (to, name) = (to.clone(), name.clone());
        Box::pin(async move {
            if is_stuck {
                self.healed.notified().await;
            }
            let left = to.leave(&name, id, how).await;
            if *self.stuck_answer.lock().expect("no panic") {
                self.healed.notified().await;
            }
            left
        })
    }

    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> Result<Renewal> {
        let mut renewal = to.renew(shard, standing).await;
        let is_asked = |name: &Name| standing.iter().any(|(asked, _)| asked == name);
        if let Ok(renewal) = &mut renewal {
            renewal.strays.retain(|(name, _)| is_asked(name)); // as on Redis
            if self.misses_lines.load(Ordering::SeqCst) {
                let missed = standing.iter().filter(|(_, ids)| ids.is_empty()).map(|(name, _)| name.clone());
                renewal.missed = missed.collect();
                renewal.strays.retain(|(name, _)| !renewal.missed.contains(name));
            }
        }
        if self.is_slow.load(Ordering::SeqCst) {
            self.is_renewing.store(true, Ordering::SeqCst);
            Sleep::until(&self.clock, self.clock.now() + SLOW).await;
            self.is_renewing.store(false, Ordering::SeqCst);
        }
        renewal
    }
}

/// For how long a line stands still after its holder has left, until this waiter is granted.
async fn stands_still<T>(clock: &Clock, held: Guard, waits: &JoinHandle<T>) -> Result<Duration> {
    let began = clock.now();
    held.release().await?;
    until("it is granted", async || {
        clock.pass(Duration::from_millis(100)).await;
        waits.is_finished()
    })
    .await;
    Ok(clock.now().since(began))
}

/// For how long the line of a mutex stands still after its holder has left, if a stray is next.
async fn stands_still_for(is_renewing: bool) -> Result<Duration> {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let watched = Arc::new(Watched::new(&store));
    watched.is_slow.store(is_renewing, Ordering::SeqCst);
    let ours = attach(&store, watched.clone(), Options::new().ttl(TTL))?;
    let holder = store.attach(Options::new().ttl(TTL))?;
    let other = ours.mutex("other")?.lock().await?;
    let held = holder.mutex("m")?.lock().await?;
    if is_renewing {
        until("a renewal is under way", async || {
            clock.pass(Duration::from_millis(100)).await;
            watched.is_renewing.load(Ordering::SeqCst)
        })
        .await;
    }
    watched.strand(other.claim().session, "m").await?;
    let waits = waiter(&ours, "m");
    until_waiting(&holder, "m", 2).await; // the stray, and a claim behind it
    let stood_still = stands_still(&clock, held, &waits).await?;
    drop(waits.await.expect("no panic")?);
    drop(other);
    ours.close().await?;
    holder.close().await?;
    Ok(stood_still)
}

#[tokio::test]
async fn a_stray_that_is_granted_is_given_back_at_once() -> Result {
    let stood_still = stands_still_for(false).await?;
    assert!(stood_still < Duration::from_secs(1), "{stood_still:?}");
    Ok(())
}

/// The renewal under way may have passed its line before the stray was granted.
#[tokio::test]
async fn a_stray_that_is_granted_during_a_renewal_is_found_by_the_next_which_follows_at_once() -> Result {
    let stood_still = stands_still_for(true).await?;
    assert!(stood_still < SLOW * 2 + Duration::from_secs(1), "{stood_still:?}");
    Ok(())
}

/// So many claims have left since that this one is forgotten, but not its line.
#[tokio::test]
async fn a_stray_in_a_line_where_nobody_of_ours_stands_is_found_too() -> Result {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let watched = Arc::new(Watched::new(&store));
    let ours = attach(&store, watched.clone(), Options::new().ttl(TTL))?;
    let (theirs, next) = (store.attach(Options::new().ttl(TTL))?, store.attach(Options::new().ttl(TTL))?);
    let (other, held) = (ours.mutex("other")?.lock().await?, theirs.mutex("m")?.lock().await?);
    let mutex = ours.mutex("m")?;
    let waits = tokio::spawn(async move { mutex.lock().await });
    let standing = async |count| theirs.inspect("m").await.is_ok_and(|line| line.claims.len() == count);
    until("it waits", async || standing(2).await).await;
    waits.abort();
    until("it has left", async || standing(1).await).await;
    watched.strand(other.claim().session, "m").await?;
    let mutex = next.mutex("m")?;
    let waits = tokio::spawn(async move { mutex.lock().await });
    until("a claim waits behind the stray", async || standing(3).await).await;
    let stood_still = stands_still(&clock, held, &waits).await?;
    assert!(stood_still < Duration::from_secs(1), "{stood_still:?}");
    waits.await.expect("no panic")?.release().await.map(drop)
}

/// A new master has a claim that has left, and fails at its line just when the client asks about all that it has left.
#[tokio::test]
async fn a_stray_in_a_line_that_a_renewal_missed_is_found_by_the_next() -> Result {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let watched = Arc::new(Watched::new(&store));
    let ours = attach(&store, watched.clone(), Options::new().ttl(TTL))?;
    let other = ours.mutex("other")?.lock().await?;
    let look = store.attach(Options::new().ttl(TTL))?;
    let held = look.mutex("m")?.lock().await?;
    let mutex = ours.mutex("m")?;
    let waits = tokio::spawn(async move { mutex.lock().await });
    let standing = async |count| look.inspect("m").await.is_ok_and(|line| line.claims.len() == count);
    until("it waits", async || standing(2).await).await;
    waits.abort();
    until("it has left", async || standing(1).await).await;
    held.release().await?;
    watched.strand(other.claim().session, "m").await?; // it holds at once, so no grant is told
    watched.misses_lines.store(true, Ordering::SeqCst);
    watched.tell_look_everywhere();
    clock.pass(Duration::from_secs(1)).await;
    watched.misses_lines.store(false, Ordering::SeqCst);
    let mutex = store.attach(Options::new().ttl(TTL))?.mutex("m")?;
    let waits = tokio::spawn(async move { mutex.lock().await });
    until("a claim waits behind the stray", async || standing(2).await).await;
    for _ in 0..60 {
        clock.pass(Duration::from_millis(100)).await;
    }
    assert!(waits.is_finished(), "the stray is sought until a renewal has got to its line");
    waits.await.expect("no panic")?.release().await.map(drop)
}

/// A client whose claim waits behind another client's, and the claim.
async fn waits_behind(
    store: &Store,
    watched: &Arc<Watched>,
) -> Result<(Guard, JoinHandle<Result<Guard>>, ClaimId)> {
    let ours = attach(store, watched.clone(), Options::new().ttl(TTL))?;
    let held = store.attach(Options::new().ttl(TTL))?.mutex("m")?.lock().await?;
    let mutex = ours.mutex("m")?;
    let waits = tokio::spawn(async move { mutex.lock().await });
    let look = store.attach(Options::new().ttl(TTL))?;
    let waiters = async || look.inspect("m").await.map_or(0, |line| line.waiters().count());
    until("it waits", async || waiters().await == 1).await;
    let id = look.inspect("m").await?.waiters().next().expect("it waits").id;
    Ok((held, waits, id))
}

/// The master that granted it is gone, and the one that answers now has it waiting.
#[tokio::test]
async fn a_hold_that_the_store_has_waiting_is_lost_by_the_next_renewal_and_leaves() -> Result {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let watched = Arc::new(Watched::new(&store));
    let (theirs, waits, id) = waits_behind(&store, &watched).await?;
    watched.tell_held(id, 1_000);
    let ours = waits.await.expect("no panic")?;
    assert_eq!(ours.state(), State::Held);
    clock.pass(TTL / 3 + Duration::from_secs(1)).await;
    assert_eq!((theirs.state(), ours.state()), (State::Held, State::Lost));
    let line = store.attach(Options::new())?.inspect("m").await?;
    assert_eq!((line.holders().count(), line.waiters().count()), (1, 0));
    let error = ours.release().await.expect_err("it was lost");
    assert_eq!(error.kind(), ErrorKind::Lost);
    theirs.release().await.map(drop)
}

/// The store answers that it waits, and then grants it. The grant overtakes the answer.
#[tokio::test]
async fn a_hold_that_was_granted_during_a_renewal_outlives_the_renewals_answer() -> Result {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let watched = Arc::new(Watched::new(&store));
    let (theirs, waits, _) = waits_behind(&store, &watched).await?;
    watched.is_slow.store(true, Ordering::SeqCst);
    until("a renewal is under way", async || {
        clock.pass(Duration::from_millis(100)).await;
        watched.is_renewing.load(Ordering::SeqCst)
    })
    .await;
    theirs.release().await?;
    let ours = waits.await.expect("no panic")?;
    assert!(watched.is_renewing.load(Ordering::SeqCst), "its answer comes later");
    clock.pass(TTL * 2).await;
    assert_eq!(ours.state(), State::Held);
    ours.release().await.map(drop)
}

/// A hold stays where it is while its semaphore shrinks.
#[tokio::test]
async fn a_hold_of_a_shrunk_semaphore_is_no_claim_that_waits() -> Result {
    let clock = Clock::manual();
    let locks = Store::with_clock(&clock).attach(Options::new().ttl(TTL))?;
    let semaphore = locks.semaphore("s", 3)?;
    let (_one, holds) = (semaphore.acquire(1).await?, semaphore.acquire(2).await?);
    semaphore.resize(1).await?;
    clock.pass(TTL * 2).await;
    assert_eq!(holds.state(), State::Held);
    Ok(())
}

#[tokio::test]
async fn a_stray_that_is_granted_during_a_close_is_given_back() -> Result {
    let store = Store::new();
    let watched = Arc::new(Watched::new(&store));
    let ours = attach(&store, watched.clone(), Options::new().ttl(TTL))?;
    let holder = store.attach(Options::new().ttl(TTL))?;
    let (kept, held) = (ours.mutex("kept")?.lock().await?, holder.mutex("m")?.lock().await?);
    assert!(ours.mutex("m")?.lock_within(Duration::from_millis(50)).await?.is_none());
    let session = watched.session.lock().expect("no panic").clone().expect("it is open");
    let id = ClaimId { session: kept.claim().session, number: kept.claim().number + 1 };
    until("it has left", async || holder.inspect("m").await.is_ok_and(|line| line.claims.len() == 1)).await;
    let stray = Claim::new(id, Name::new("m")?, Kind::Mutex, Weight::ONE, Weight::ONE);
    let place = session.join(&stray, Patience::Wait).await?; // the store has missed its leave
    assert!(matches!(place, Place::Waiting { .. }), "{place:?}");
    *watched.stuck.lock().expect("no panic") = Some("kept");
    let closing = tokio::spawn(async move { ours.close_within(TTL * 2).await });
    until("it is being closed", async || kept.state() == State::Lost).await;
    held.release().await?;
    until("the stray has left", async || holder.inspect("m").await.is_ok_and(|line| line.claims.is_empty()))
        .await;
    assert!(!closing.is_finished(), "its end takes all claims with it");
    watched.healed.notify_waiters();
    closing.await.expect("no panic")
}

/// A release was carried out by the old master, and its answer lies unread (its runtime is
/// busy). The new master has the claim waiting, and grants it. The news comes before the answer is read.
#[tokio::test]
async fn a_stray_that_is_granted_before_the_answer_to_its_leave_is_read_is_given_back() -> Result {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let watched = Arc::new(Watched::new(&store));
    let ours = attach(&store, watched.clone(), Options::new().ttl(TTL))?;
    let (theirs, next) = (store.attach(Options::new().ttl(TTL))?, store.attach(Options::new().ttl(TTL))?);
    let first = theirs.mutex("m")?.lock().await?;
    let waits = waiter(&ours, "m");
    until_waiting(&theirs, "m", 1).await;
    first.release().await?;
    let held = waits.await.expect("no panic")?;
    let id = held.claim();
    // It is given back: the store carries that out, and the answer is on its way.
    *watched.stuck_answer.lock().expect("no panic") = true;
    let releasing = tokio::spawn(held.release());
    until("it has left", async || theirs.inspect("m").await.is_ok_and(|line| line.claims.is_empty())).await;
    // A failover: in the new master's line another client's claim holds, and ours waits.
    let second = theirs.mutex("m")?.lock().await?;
    let session = watched.session.lock().expect("no panic").clone().expect("it is open");
    let stray = Claim::new(id, Name::new("m")?, Kind::Mutex, Weight::ONE, Weight::ONE);
    session.join(&stray, Patience::Wait).await?;
    let waits = waiter(&next, "m");
    until_waiting(&theirs, "m", 2).await;
    second.release().await?; // the store grants the stray, and says so
    tokio::task::yield_now().await;
    *watched.stuck_answer.lock().expect("no panic") = false;
    watched.healed.notify_waiters(); // now the answer is read
    releasing.await.expect("no panic")?;
    let began = clock.now();
    until("the next is granted", async || {
        clock.pass(Duration::from_millis(100)).await;
        waits.is_finished()
    })
    .await;
    let stood_still = clock.now().since(began);
    assert!(stood_still < Duration::from_secs(1), "the line stood still for {stood_still:?}");
    Ok(())
}

/// The same, and the news of the new master's grant was lost: a renewal finds the claim before the answer is read.
#[tokio::test]
async fn a_stray_that_is_found_before_the_answer_to_its_leave_is_read_is_given_back() -> Result {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let watched = Arc::new(Watched::new(&store));
    let ours = attach(&store, watched.clone(), Options::new().ttl(TTL))?;
    let next = store.attach(Options::new().ttl(TTL))?;
    let held = ours.mutex("m")?.lock().await?;
    let id = held.claim();
    *watched.stuck_answer.lock().expect("no panic") = true;
    let releasing = tokio::spawn(held.release());
    until("it has left", async || next.inspect("m").await.is_ok_and(|line| line.claims.is_empty())).await;
    let session = watched.session.lock().expect("no panic").clone().expect("it is open");
    let stray = Claim::new(id, Name::new("m")?, Kind::Mutex, Weight::ONE, Weight::ONE);
    session.join(&stray, Patience::Wait).await?;
    watched.signals.lock().expect("no panic").as_ref().expect("it is open").look_everywhere();
    let waits = waiter(&next, "m");
    until_waiting(&next, "m", 1).await;
    clock.pass(Duration::from_millis(100)).await; // it is renewed
    *watched.stuck_answer.lock().expect("no panic") = false;
    watched.healed.notify_waiters();
    releasing.await.expect("no panic")?;
    let began = clock.now();
    until("the next is granted", async || {
        clock.pass(Duration::from_millis(100)).await;
        waits.is_finished()
    })
    .await;
    let stood_still = clock.now().since(began);
    assert!(stood_still < Duration::from_secs(1), "the line stood still for {stood_still:?}");
    Ok(())
}

/// A renewal may find only the stray that holds, and each renewal keeps the others alive.
#[tokio::test]
async fn unknown_strays_delay_a_line_for_a_ttl_at_most() -> Result {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let watched = Arc::new(Watched::new(&store));
    let ours = attach(&store, watched.clone(), Options::new().ttl(TTL))?;
    let holder = store.attach(Options::new().ttl(TTL))?;
    let other = ours.mutex("other")?.lock().await?;
    let held = holder.mutex("m")?.lock().await?;
    let session = watched.session.lock().expect("no panic").clone().expect("it is open");
    for number in 0..400 {
        let id = ClaimId { session: other.claim().session, number: 1_000_001 + number };
        let stray = Claim::new(id, Name::new("m")?, Kind::Mutex, Weight::ONE, Weight::ONE);
        session.join(&stray, Patience::Wait).await?;
    }
    let waits = waiter(&ours, "m");
    until_waiting(&holder, "m", 401).await;
    let stood_still = stands_still(&clock, held, &waits).await?;
    assert!(stood_still < TTL + TTL / 10, "{stood_still:?}");
    waits.await.expect("no panic")?.release().await.map(drop)
}

/// The claim never waited. It was held for too long, and given back; the new master has missed that.
#[tokio::test]
async fn a_hold_that_was_too_long_is_given_back_by_a_new_master_too() -> Result {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let watched = Arc::new(Watched::new(&store));
    let longest = Duration::from_secs(1);
    let ours = attach(&store, watched.clone(), Options::new().ttl(TTL).max_hold(longest))?;
    let theirs = store.attach(Options::new().ttl(TTL))?;
    let standing = async |count| theirs.inspect("m").await.is_ok_and(|line| line.claims.len() == count);
    let held = ours.mutex("m")?.lock().await?;
    clock.pass(longest * 2).await;
    until("it was given back", async || standing(0).await).await;
    let session = watched.session.lock().expect("no panic").clone().expect("it is open");
    let stray = Claim::new(held.claim(), Name::new("m")?, Kind::Mutex, Weight::ONE, Weight::ONE);
    session.join(&stray, Patience::Wait).await?;
    let waits = waiter(&theirs, "m");
    until("another waits behind it", async || standing(2).await).await;
    watched.signals.lock().expect("no panic").as_ref().expect("it is open").look_everywhere();
    let began = clock.now();
    until("the other is granted", async || {
        clock.pass(Duration::from_millis(100)).await;
        waits.is_finished()
    })
    .await;
    let stood_still = clock.now().since(began);
    assert!(stood_still < Duration::from_secs(1), "the line stood still for {stood_still:?}");
    Ok(())
}
