//! Requests, answers and signals in any order, while many tasks lock, give up and release, and the client is drained or
//! closed in the middle of it. No guard is lost before the close, and after it the store has nothing of the client's.
//!
//! Each round has a seed. A failure prints it, and `TIDELOCK_ANY_ORDER_SEED=SEED` repeats its choices alone, again and
//! again; the threads may still take turns in another way. `TIDELOCK_DEEP=1` runs many more rounds.
//!
//! It is a program of its own, because it keeps the keepers' thread busy, which all clients of a process share.

#[path = "all/condition.rs"]
mod condition;
#[path = "all/layered.rs"]
mod layered;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tidelock_core::backend::{
    Backend, Claim, Clock, Layer, Leave, Left, Patience, Place, Renewal, Reply, Session, Shard, Sight,
    Signals, Sleep, boot_clock,
};
use tidelock_core::prelude::*;
use tidelock_core::{ClaimId, Error, ErrorKind, Name, SessionId, Token, Weight};
use tidelock_memory::Store;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use condition::until;
use layered::attach;

type Result<T = ()> = tidelock_core::Result<T>;

const TASKS: usize = 12;
const NAMES: u64 = 3;
/// Nothing that is right takes so long, on a busy machine either.
const LONG: Duration = Duration::from_secs(30);

/// Random numbers for all threads of a round.
#[derive(Debug)]
struct Dice(AtomicU64);

impl Dice {
    fn below(&self, limit: u64) -> u64 {
        let mut mixed = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn micros(&self, limit: u64) -> Duration {
        Duration::from_micros(self.below(limit))
    }
}

/// A store that takes its time with every request and every answer, and loses some.
#[derive(Debug)]
struct Disorder {
    dice: Dice,
    clock: Arc<dyn Clock>,
    /// How long the usual pause is at most, in microseconds: before a request is carried out, and before its answer
    /// comes. Some take much longer.
    longest: u64,
    /// Leaves take their time.
    leaves_late: bool,
    /// How many in a hundred requests and answers are lost.
    lost: u64,
    /// The end of a session repeats its leaves, as on Redis. Otherwise it takes out all claims at once.
    ends_by_leaves: bool,
    leaving: Mutex<HashMap<ClaimId, Name>>,
    signals: Mutex<Option<Arc<dyn Signals>>>,
    runtime: Handle,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disorder {
    async fn pause(&self) {
        let longest = self.longest * [0, 1, 1, 1, 1, 1, 1, 8][pick(&self.dice, 8)];
        if longest > 0 {
            self.sleep(self.dice.micros(longest)).await;
        }
    }

    async fn sleep(&self, length: Duration) {
        Sleep::until(&self.clock, self.clock.now() + length).await;
    }

    /// After a pause, a request or an answer arrives, or is lost.
    async fn arrives(&self) -> Result {
        self.pause().await;
        match self.dice.below(100) < self.lost {
            true => Err(Error::new(ErrorKind::Unavailable, "it was lost on the way")),
            false => Ok(()),
        }
    }

    async fn sees_through(&self, to: &dyn Session, name: &Name, id: ClaimId, how: Leave) -> Result<Left> {
        if self.leaves_late {
            self.sleep(self.dice.micros(self.longest * 5)).await;
        }
        self.arrives().await?;
        let left = to.leave(name, id, how).await?;
        lock(&self.leaving).remove(&id);
        self.arrives().await?;
        Ok(left)
    }
}

#[async_trait]
impl Layer for Disorder {
    async fn open(
        &self,
        to: &dyn Backend,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        self.arrives().await?;
        *lock(&self.signals) = Some(signals.clone());
        let session = to.open(id, options, signals).await;
        self.pause().await;
        session
    }

    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        self.arrives().await?;
        let place = to.join(claim, patience).await?;
        self.arrives().await?;
        Ok(place)
    }

    async fn look(&self, to: &Arc<dyn Session>, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        self.arrives().await?;
        let sight = to.look(name, waiting).await;
        self.pause().await;
        sight
    }

    async fn not_held(
        &self,
        to: &Arc<dyn Session>,
        name: &Name,
        believed: &[(ClaimId, Token)],
    ) -> Result<Vec<ClaimId>> {
        self.arrives().await?;
        let not_held = to.not_held(name, believed).await;
        self.pause().await;
        not_held
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        lock(&self.leaving).insert(id, name.clone());
        let (answer, answered) = oneshot::channel();
        let (to, name, runtime) = (to.clone(), name.clone(), self.runtime.clone());
        runtime.spawn(async move {
            let _ = answer.send(self.sees_through(&*to, &name, id, how).await); // perhaps nobody waits for it
        });
        Box::pin(async move { answered.await.unwrap_or_else(|_| Err(Error::no_answer("the store"))) })
    }

    async fn lighten(&self, to: &Arc<dyn Session>, claim: &Claim, weight: Weight) -> Result<()> {
        self.pause().await;
        let lightened = to.lighten(claim, weight).await;
        self.pause().await;
        lightened
    }

    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> Result<Renewal> {
        self.arrives().await?;
        let renewal = to.renew(shard, standing).await;
        self.pause().await;
        renewal
    }

    async fn close(&self, to: &Arc<dyn Session>) -> Result<()> {
        self.arrives().await?;
        if !self.ends_by_leaves {
            to.close().await?;
            return self.arrives().await;
        }
        let leaving = lock(&self.leaving).clone();
        for (id, name) in leaving {
            self.sees_through(&**to, &name, id, Leave::Void).await?;
        }
        Ok(())
    }
}

/// What the tasks of a round share.
struct Round {
    disorder: Arc<Disorder>,
    locks: Arc<dyn Locks>,
    is_closing: AtomicBool,
    violations: Mutex<Vec<String>>,
}

impl Round {
    fn begin(seed: u64, store: &Store) -> Result<Arc<Self>> {
        let dice = Dice(AtomicU64::new(seed.wrapping_mul(1_000_003)));
        let (longest, lost) = ([50, 1_000, 10_000][pick(&dice, 3)], [0, 0, 10][pick(&dice, 3)]);
        let disorder = Arc::new(Disorder {
            clock: boot_clock(),
            longest,
            lost,
            leaves_late: dice.below(2) == 0,
            ends_by_leaves: dice.below(2) == 0,
            leaving: Mutex::default(),
            signals: Mutex::default(),
            runtime: Handle::current(),
            dice,
        });
        let options = Options::new().back_off(Duration::from_millis(2), Duration::from_millis(20));
        let locks = attach(store, disorder.clone(), options)?;
        let (is_closing, violations) = (AtomicBool::new(false), Mutex::default());
        Ok(Arc::new(Self { disorder, locks, is_closing, violations }))
    }

    fn dice(&self) -> &Dice {
        &self.disorder.dice
    }

    fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::SeqCst)
    }

    fn violated(&self, what: String) {
        lock(&self.violations).push(what);
    }

    /// Locks, gives up, holds and releases, until the client takes no more locks.
    async fn work(self: Arc<Self>) {
        loop {
            let patience = self.dice().micros(8_000);
            let acquired = match self.dice().below(4) {
                0 => timeout(patience, self.acquire()).await.unwrap_or(Ok(None)),
                1 => {
                    let mut acquire = Box::pin(self.acquire());
                    let _ = acquire.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                    sleep(patience / 2).await; // it is not polled meanwhile, and then dropped
                    Ok(None)
                }
                _ => self.acquire().await,
            };
            match acquired {
                Ok(Some(guard)) => self.hold(guard).await,
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::Closed => return,
                Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) => {}
                Err(error) if error.kind() == ErrorKind::Lost && self.is_closing() => {}
                Err(error) => self.violated(format!("an acquire: {error:?}")),
            }
        }
    }

    async fn acquire(&self) -> Result<Option<Guard>> {
        let number = self.dice().below(NAMES);
        let (mutex, rwlock) =
            (self.locks.mutex(&format!("m{number}"))?, self.locks.rwlock(&format!("rw{number}"))?);
        match self.dice().below(4) {
            0 => mutex.lock().await.map(Some),
            1 => mutex.lock_within(self.dice().micros(30_000)).await,
            2 => rwlock.read().await.map(Some),
            _ => rwlock.write().await?.downgrade().await.map(Some),
        }
    }

    async fn hold(&self, guard: Guard) {
        self.disorder.pause().await;
        if self.dice().below(3) == 0 {
            return;
        }
        let shown = format!("{guard:?}");
        let mut release = Box::pin(guard.release());
        let first = release.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let is_before_close = !self.is_closing();
        let released = match first {
            Poll::Ready(released) => released,
            Poll::Pending => release.await,
        };
        if let Err(error) = released
            && is_before_close
        {
            self.violated(format!("a release that began before the close, of {shown}: {error:?}"));
        }
    }

    /// Tells the client again and again that it may have missed signals.
    async fn missed_signals(self: Arc<Self>) {
        loop {
            self.disorder.sleep(self.dice().micros(300)).await;
            let signals = lock(&self.disorder.signals).clone();
            signals.into_iter().for_each(|signals| signals.look_everywhere());
        }
    }

    /// Drains the client, or closes it several times at once.
    async fn end(&self) {
        if self.dice().below(4) == 0 {
            let drained = self.locks.drain_within(LONG).await;
            if !(drained.as_ref().is_ok_and(|all| *all) || drained.is_err() && self.disorder.lost > 0) {
                self.violated(format!("a drain: {drained:?}"));
            }
        } else {
            self.is_closing.store(true, Ordering::SeqCst);
            let close = |_| {
                let locks = self.locks.clone();
                let pauses = [1, 2, 5, 50][pick(self.dice(), 4)];
                let longest = Duration::from_micros(self.disorder.longest * pauses);
                tokio::spawn(async move { locks.close_within(longest).await })
            };
            let closes: Vec<_> = (0..=self.dice().below(3)).map(close).collect();
            for close in closes {
                let _ = close.await.expect("no panic"); // some have too little time
            }
        }
        until("it is closed", async || self.locks.close().await.is_ok()).await;
    }
}

fn pick(dice: &Dice, of: u64) -> usize {
    usize::try_from(dice.below(of)).expect("small")
}

/// One round. Returns what went wrong.
async fn violations_of(seed: u64) -> Result<Vec<String>> {
    let store = Store::new();
    let round = Round::begin(seed, &store)?;
    let tasks: Vec<_> = (0..TASKS).map(|_| tokio::spawn(round.clone().work())).collect();
    let signals = tokio::spawn(round.clone().missed_signals());
    sleep(round.dice().micros(60_000)).await;
    round.end().await;
    signals.abort();
    let other = store.attach(Options::new())?;
    for name in other.names("", None).await? {
        round.violated(format!("the store still has {:?}", other.inspect(name.as_str()).await?));
    }
    for task in tasks {
        timeout(LONG, task).await.expect("a task that locks hears of the close").expect("no panic");
    }
    for name in other.names("", None).await? {
        round.violated(format!("the store has {:?} in the end", other.inspect(name.as_str()).await?));
    }
    let violations = std::mem::take(&mut *lock(&round.violations));
    Ok(violations)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn in_any_order_no_guard_is_lost_and_nothing_is_left() -> Result {
    let is_deep = std::env::var_os("TIDELOCK_DEEP").is_some_and(|deep| deep == "1");
    let rounds = if is_deep { 2_000 } else { 30 };
    let one = std::env::var("TIDELOCK_ANY_ORDER_SEED").ok().and_then(|seed| seed.parse().ok());
    let first = SystemTime::UNIX_EPOCH.elapsed().expect("it is after 1970").subsec_nanos();
    for round in 0..rounds {
        let seed = one.unwrap_or(u64::from(first) + round);
        let violations = violations_of(seed).await?;
        assert!(violations.is_empty(), "round {round}, TIDELOCK_ANY_ORDER_SEED={seed}: {violations:#?}");
    }
    Ok(())
}
