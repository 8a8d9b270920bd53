//! A manual clock, for tests.
//!
//! Time stands still until the test moves it. `advance` jumps, as if the machine had slept. `pass` goes from alarm to
//! alarm, and lets the woken tasks respond before it goes on, so renewals and looks happen when they are due.

use std::future::poll_fn;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tidelock_core::backend::{Alarms, Moment, keepers_caught_up};

use crate::state::StoreState;
use crate::sync::AtomicU64;

/// The time at which a clock begins: late enough to subtract a lease or two without passing the start.
const BEGINNING: Duration = Duration::from_secs(24 * 60 * 60);
/// How long `pass` waits for woken tasks, in real time.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long it waits for the keepers' thread, which may have much to do for another store.
const KEEPERS_PATIENCE: Duration = Duration::from_secs(10);
/// The least that it waits for other tasks, after one did not respond within that time.
const LITTLE_PATIENCE: Duration = Duration::from_millis(20);

/// A clock that a test moves by hand, for one store or several.
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
    /// Held while time passes, so two calls of `pass` run one after the other.
    passing: Mutex<()>,
    /// The stores that go by this clock.
    stores: Mutex<Vec<Weak<StoreState>>>,
}

impl Clock {
    /// A clock that stands still until it is moved.
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

    /// The current time of this clock.
    #[must_use]
    pub fn now(&self) -> Moment {
        tidelock_core::backend::Clock::now(&*self.0)
    }

    /// Jumps, as if the machine had slept for this long: everything that was due meanwhile is late. Waits for no
    /// task.
    pub fn advance(&self, by: Duration) {
        self.0.turn_to(self.now() + by);
    }

    /// Lets this much time pass, as if the machine were awake: each alarm wakes its task when it is due, and time
    /// stands still until the task has responded, so renewals and looks happen in between. Real time is spent only on
    /// that: at most about a second for a task that never responds.
    ///
    /// If the future is dropped half-way, time goes on passing.
    pub async fn pass(&self, by: Duration) {
        let hands = self.0.clone();
        let done = Arc::new(Mutex::new((false, None::<Waker>)));
        let passed = done.clone();
        // On a thread of its own: the woken tasks may need the thread that polls this.
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
    pub(crate) fn hands(&self) -> Arc<dyn tidelock_core::backend::Clock> {
        self.0.clone()
    }

    /// Adds a store that goes by this clock.
    pub(crate) fn drive(&self, store: Weak<StoreState>) {
        let mut stores = self.0.stores.lock().unwrap_or_else(PoisonError::into_inner);
        if stores.len() == stores.capacity() {
            stores.retain(|store| store.strong_count() > 0); // a clock may outlive many stores, and never be moved
        }
        stores.push(store);
    }
}

impl Hands {
    fn turn_to(&self, moment: Moment) {
        // A clock never shows `Moment::NEVER`: an alarm set for that moment would ring again and again.
        let last = Moment::NEVER - Duration::from_nanos(1);
        self.now.fetch_max(moment.min(last).as_nanos(), Ordering::AcqRel);
        self.alarms.ring(tidelock_core::backend::Clock::now(self));
    }

    fn pass(&self, by: Duration) {
        let _one = self.passing.lock().unwrap_or_else(PoisonError::into_inner);
        let end = tidelock_core::backend::Clock::now(self) + by;
        let (mut patience, mut keepers_patience) = (PATIENCE, KEEPERS_PATIENCE);
        loop {
            if !keepers_caught_up(keepers_patience) {
                keepers_patience = LITTLE_PATIENCE;
            }
            if !self.wait_for_renewals(end, patience) {
                patience = LITTLE_PATIENCE;
            }
            let next = self.alarms.first().filter(|first| *first <= end);
            self.turn_to(next.unwrap_or(end));
            if !self.alarms.wait_until_seen(patience) {
                patience = (patience / 2).max(LITTLE_PATIENCE); // not waited for again; another may be slow
            }
            if next.is_none() && self.alarms.first().is_none_or(|first| first > end) {
                return;
            }
        }
    }

    /// A client that is awake sets an alarm before its lease ends, but perhaps has not done so yet: time waits for
    /// that before it runs past a lease. Returns `false` if no such alarm was set in time.
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
        let now = tidelock_core::backend::Clock::now(self);
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        stores.retain(|store| store.strong_count() > 0);
        stores.iter().filter_map(|store| store.upgrade()?.first_lease_end_after(now)).min()
    }
}

impl tidelock_core::backend::Clock for Hands {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.now.load(Ordering::Acquire))
    }

    fn alarms(&self) -> &Alarms {
        &self.alarms
    }
}
