//! A clock that a test turns by hand.
//!
//! Nothing moves until it is told to. `advance` jumps, as over a machine that slept. `pass` goes from alarm to
//! alarm instead and lets whoever was woken deal with it before it goes on, so that renewals and looks happen when
//! they would.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tidelock::{Alarms, Moment};

use crate::store::Shared;
use crate::sync::AtomicU64;

/// Where a clock begins: late enough that whoever reckons back a lease or two does not fall off the start.
const BEGINNING: Duration = Duration::from_secs(24 * 60 * 60);
/// How long, in real time, `pass` waits for those who were woken.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long it waits for the others at least, once somebody did not look within that time.
const LITTLE_PATIENCE: Duration = Duration::from_millis(20);

/// A clock that a test turns by hand, for one store or several.
///
/// ```
/// use std::time::{Duration, Instant};
/// use tidelock_memory::{Clock, Store};
///
/// let clock = Clock::manual();
/// let store = Store::with_clock(&clock);
/// let before = clock.now();
/// clock.advance(Duration::from_secs(60)); // takes no time
/// assert_eq!(clock.now().since(before), Duration::from_secs(60));
/// # drop(store);
/// ```
#[derive(Clone, Debug)]
pub struct Clock(Arc<Hands>);

#[derive(Debug)]
struct Hands {
    now: AtomicU64,
    alarms: Alarms,
    /// Held while time passes, so that two who let it pass do it one after the other.
    passing: Mutex<()>,
    /// The stores that go by this clock.
    stores: Mutex<Vec<Weak<Shared>>>,
}

impl Clock {
    /// A clock that stands still until it is turned.
    #[must_use]
    pub fn manual() -> Self {
        let beginning = Moment::START + BEGINNING;
        Self(Arc::new(Hands {
            now: AtomicU64::new(beginning.as_nanos()),
            alarms: Alarms::default(),
            passing: Mutex::new(()),
            stores: Mutex::new(Vec::new()),
        }))
    }

    /// What it shows.
    #[must_use]
    pub fn now(&self) -> Moment {
        tidelock::Clock::now(&*self.0)
    }

    /// Jumps, as if the machine had been asleep for so long: whatever was due meanwhile is late. Waits for nobody.
    pub fn advance(&self, by: Duration) {
        self.0.turn_to(self.now() + by);
    }

    /// Lets so much time pass, as if awake: everyone who set an alarm is woken when it is due, and time stands
    /// still until they have dealt with it, so renewals and looks happen in between. Real time is spent only on
    /// that, and at most about a second on somebody who never looks.
    ///
    /// Dropped half-way, it goes on by itself.
    pub async fn pass(&self, by: Duration) {
        let hands = self.0.clone();
        let done = Arc::new(Mutex::new((false, None::<Waker>)));
        let passed = done.clone();
        // On a thread of its own: those who were woken may need the one that polls this.
        let spawned = thread::Builder::new().name("tidelock-pass".into()).spawn(move || {
            hands.pass(by);
            let waker = {
                let mut done = passed.lock().unwrap_or_else(PoisonError::into_inner);
                done.0 = true;
                done.1.take()
            };
            waker.into_iter().for_each(Waker::wake);
        });
        if spawned.is_err() {
            return self.0.pass(by);
        }
        poll_fn(|cx| {
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            if done.0 {
                return Poll::Ready(());
            }
            done.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// The same clock, as a store reads it.
    pub(crate) fn hands(&self) -> Arc<dyn tidelock::Clock> {
        self.0.clone()
    }

    /// One more store goes by it.
    pub(crate) fn drive(&self, store: Weak<Shared>) {
        let mut stores = self.0.stores.lock().unwrap_or_else(PoisonError::into_inner);
        if stores.len() == stores.capacity() {
            stores.retain(|store| store.strong_count() > 0); // a clock may outlive many stores, and never be turned
        }
        stores.push(store);
    }
}

impl Hands {
    fn turn_to(&self, moment: Moment) {
        // A clock never shows the moment that never comes: whoever waits for that would be rung again and again.
        let last = Moment::NEVER - Duration::from_nanos(1);
        self.now.fetch_max(moment.min(last).as_nanos(), Ordering::AcqRel);
        self.alarms.ring(tidelock::Clock::now(self));
    }

    fn pass(&self, by: Duration) {
        let _one = self.passing.lock().unwrap_or_else(PoisonError::into_inner);
        let end = tidelock::Clock::now(self) + by;
        let mut patience = PATIENCE;
        loop {
            if !self.wait_for_renewals(end, patience) {
                patience = LITTLE_PATIENCE;
            }
            let next = self.alarms.first().filter(|first| *first <= end);
            self.turn_to(next.unwrap_or(end));
            if !self.alarms.wait_until_seen(patience) {
                patience = (patience / 2).max(LITTLE_PATIENCE); // they are not waited for again, but another may be slow
            }
            if next.is_none() && self.alarms.first().is_none_or(|first| first > end) {
                return;
            }
        }
    }

    /// A client that is awake sets an alarm before its lease ends, but perhaps it is just about to: time does not
    /// run past a lease without having waited for that. Says whether there was no need to, or it helped.
    fn wait_for_renewals(&self, end: Moment, patience: Duration) -> bool {
        let Some(lease_ends) = self.first_lease_end().filter(|at| *at <= end) else {
            return true;
        };
        let is_early = |first: Option<Moment>| first.is_some_and(|first| first <= lease_ends);
        let enough = Instant::now() + patience;
        while !is_early(self.alarms.first()) {
            let left = enough.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.alarms.wait(|first| Some(if is_early(first) { Duration::ZERO } else { left }));
        }
        true
    }

    fn first_lease_end(&self) -> Option<Moment> {
        let now = tidelock::Clock::now(self);
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|store| store.strong_count() > 0);
        stores.iter().filter_map(|store| store.upgrade()?.first_lease_end_after(now)).min()
    }
}

impl tidelock::Clock for Hands {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.now.load(Ordering::Acquire))
    }

    fn alarms(&self) -> &Alarms {
        &self.alarms
    }
}
