//! The time of a world. It stands still while anything can run, and then moves on to the next thing that is due.
//!
//! Due is an event of the agenda (a message arrives, a trouble begins), or an alarm of a clock: the world's own, by which
//! the stores live, or a client's. A client's clock runs a little too fast or too slow, and while its machine is suspended
//! it goes on although none of its alarms rings.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use tidelock_core::backend::{Alarms, Clock, Moment};
use tidelock_memory::Store;
use tidelock_model::Dice;

/// How many turns time may take without moving on. More is a loop without end.
const MOST_TURNS: u64 = 100_000;

type Event = Box<dyn FnOnce() + Send>;

/// The time of one world.
pub(crate) struct Time {
    turned: tidelock_memory::Clock,
    clock: Arc<dyn Clock>,
    began: Moment,
    agenda: Mutex<Agenda>,
    clients: Mutex<Vec<Arc<ClientClock>>>,
    dice: Dice,
    /// How often it turned without moving on.
    turns: AtomicU64,
    root: Mutex<Option<Waker>>,
    is_stuck: AtomicBool,
}

#[derive(Default)]
struct Agenda {
    events: BTreeMap<(Moment, u64), Event>,
    next_number: u64,
}

impl Time {
    pub(crate) fn new(seed: u64) -> Arc<Self> {
        let turned = tidelock_memory::Clock::manual();
        let clock = tidelock_core::backend::Backend::clock(&Store::with_clock(&turned));
        let began = clock.now();
        Arc::new(Self {
            turned,
            clock,
            began,
            agenda: Mutex::default(),
            clients: Mutex::default(),
            dice: Dice::new(seed, "time"),
            turns: AtomicU64::new(0),
            root: Mutex::default(),
            is_stuck: AtomicBool::new(false),
        })
    }

    /// The world's own clock.
    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// A store that lives by this time.
    pub(crate) fn store(&self) -> Store {
        Store::with_clock(&self.turned)
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// How long the world has lived.
    pub(crate) fn age(&self) -> Duration {
        self.now().since(self.began)
    }

    /// The moment at which the world is this old.
    pub(crate) fn at_age(&self, age: Duration) -> Moment {
        self.began + age
    }

    /// A clock of a client that gains so many millionths.
    pub(crate) fn client_clock(&self, ppm: i64) -> Arc<ClientClock> {
        let clock = Arc::new(ClientClock {
            true_time: self.clock.clone(),
            began: self.began,
            ppm,
            suspended_until: AtomicU64::new(0),
            alarms: Alarms::default(),
        });
        lock(&self.clients).push(clock.clone());
        clock
    }

    /// Enters an event of that moment, or of now.
    pub(crate) fn at(&self, moment: Moment, event: impl FnOnce() + Send + 'static) {
        let mut agenda = lock(&self.agenda);
        let key = (moment.max(self.now()), agenda.next_number);
        agenda.next_number += 1;
        agenda.events.insert(key, Box::new(event));
    }

    pub(crate) fn after(&self, pause: Duration, event: impl FnOnce() + Send + 'static) {
        self.at(self.now() + pause, event);
    }

    /// Nothing of the world is left to do: drops all events.
    pub(crate) fn forget_events(&self) {
        let events = std::mem::take(&mut lock(&self.agenda).events);
        drop(events); // may run any code
    }

    /// Whether an alarm is set on any clock, of the clients or of the world.
    pub(crate) fn has_alarms(&self) -> bool {
        let clients = lock(&self.clients).clone();
        self.clock.alarms().first().is_some() || clients.iter().any(|clock| clock.alarms.first().is_some())
    }

    /// Nothing can run: moves on to what is due next, and wakes the tasks that wait for it.
    pub(crate) fn turn(&self) {
        let before = self.now();
        let clients = lock(&self.clients).clone();
        let next_event = lock(&self.agenda).events.first_key_value().map(|((at, _), _)| *at);
        let alarms = clients.iter().filter_map(|clock| clock.rings_at());
        let next = alarms.chain(next_event).chain(self.clock.alarms().first()).min();
        match next {
            Some(next) => {
                self.turned.advance(next.since(before));
                let events_first = self.dice.one_in(2);
                if events_first {
                    self.do_what_is_due();
                }
                clients
                    .iter()
                    .filter(|clock| !clock.is_suspended())
                    .for_each(|clock| clock.alarms.ring(clock.now()));
                if !events_first {
                    self.do_what_is_due();
                }
            }
            None => self.is_stuck.store(true, Ordering::Relaxed),
        }
        let turns = if self.now() == before { self.turns.fetch_add(1, Ordering::Relaxed) } else { 0 };
        if turns == 0 {
            self.turns.store(0, Ordering::Relaxed);
        } else if turns > MOST_TURNS {
            self.is_stuck.store(true, Ordering::Relaxed);
        }
        let root = lock(&self.root).take();
        root.into_iter().for_each(Waker::wake);
    }

    fn do_what_is_due(&self) {
        let now = self.now();
        loop {
            let event = {
                let mut agenda = lock(&self.agenda);
                let is_due = agenda.events.first_key_value().is_some_and(|((at, _), _)| *at <= now);
                if is_due { agenda.events.pop_first() } else { None }
            };
            match event {
                Some((_, event)) => event(),
                None => return,
            }
        }
    }

    /// Waits until `is_over`; `false` if the world can do no more before that.
    pub(crate) async fn until(&self, is_over: impl Fn() -> bool) -> bool {
        poll_fn(|cx| {
            if is_over() {
                return Poll::Ready(true);
            }
            if self.is_stuck.load(Ordering::Relaxed) {
                return Poll::Ready(false);
            }
            *lock(&self.root) = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Time({:?})", self.age())
    }
}

/// The clock of one client's machine.
#[derive(Debug)]
pub(crate) struct ClientClock {
    true_time: Arc<dyn Clock>,
    began: Moment,
    /// How many millionths it gains.
    ppm: i64,
    suspended_until: AtomicU64,
    alarms: Alarms,
}

impl ClientClock {
    /// The machine sleeps until then, on the world's clock.
    pub(crate) fn suspend(&self, until: Moment) {
        self.suspended_until.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }

    /// Until when the machine sleeps, or slept last.
    pub(crate) fn suspended_until(&self) -> Moment {
        Moment::from_nanos(self.suspended_until.load(Ordering::Relaxed))
    }

    pub(crate) fn is_suspended(&self) -> bool {
        self.true_time.now() < self.suspended_until()
    }

    /// When its first alarm is due, on the world's clock.
    fn rings_at(&self) -> Option<Moment> {
        let first = self.alarms.first()?;
        let shown = first.since(self.began).as_nanos();
        let million = 1_000_000_u128;
        let rate = million.saturating_add_signed(self.ppm.into());
        let mut at =
            self.began + Duration::from_nanos(u64::try_from(shown * million / rate).unwrap_or(u64::MAX));
        while self.shown_at(at) < first {
            at = at + Duration::from_nanos(1);
        }
        Some(at.max(self.suspended_until()))
    }

    /// What it shows at that moment of the world.
    pub(crate) fn shown_at(&self, moment: Moment) -> Moment {
        let lived = i128::from(u64::try_from(moment.since(self.began).as_nanos()).unwrap_or(u64::MAX));
        let shown = lived + lived * i128::from(self.ppm) / 1_000_000;
        self.began + Duration::from_nanos(u64::try_from(shown).unwrap_or(u64::MAX))
    }
}

impl Clock for ClientClock {
    fn now(&self) -> Moment {
        self.shown_at(self.true_time.now())
    }

    fn alarms(&self) -> &Alarms {
        &self.alarms
    }
}

/// Nothing panics here while it holds a lock, and a world has one thread.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
