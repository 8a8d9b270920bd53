//! Time as a trial spends it: turned by hand over a backend in memory, real over a server.
//!
//! A trial says how much time may pass and what has to come true meanwhile; it never sleeps and hopes. So the same
//! trial takes milliseconds on a clock that is turned, and a few short ttls on a server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock::{Backend, Clock, Moment, boot_clock};
use tidelock_memory::Store;

/// How much passes at once on a clock that is turned: whoever is woken in between shall have set its next alarm.
const STRIDE: Duration = Duration::from_millis(250);
/// How long the others get, in real time, to do what they were woken for.
const BREATH: Duration = Duration::from_millis(1);

/// The time that a server's leases go by.
#[async_trait]
pub trait Time: fmt::Debug + Send + Sync + 'static {
    /// What it is now.
    fn now(&self) -> Moment;

    /// Lets so much pass while everyone is awake.
    async fn pass(&self, by: Duration);

    /// Lets so much pass while this thread is stuck and everything else is awake.
    fn stick(&self, by: Duration);

    /// Lets the others do something, and at most `step` pass.
    async fn breathe(&self, step: Duration);
}

/// The time of a [`tidelock_memory::Clock`].
#[derive(Clone, Debug)]
pub struct ManualTime {
    clock: tidelock_memory::Clock,
    store: Store,
}

impl ManualTime {
    /// A time that stands still until a trial lets it pass.
    #[must_use]
    pub fn new() -> Self {
        let clock = tidelock_memory::Clock::manual();
        let store = Store::with_clock(&clock);
        Self { clock, store }
    }

    /// The clock, for a backend to read.
    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.store.clock()
    }

    /// The memory backend's store that goes by this time.
    #[must_use]
    pub fn store(&self) -> Store {
        self.store.clone()
    }

    /// Jumps: nobody is awake meanwhile.
    pub fn jump(&self, by: Duration) {
        self.clock.advance(by);
    }
}

impl Default for ManualTime {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Time for ManualTime {
    fn now(&self) -> Moment {
        self.clock.now()
    }

    async fn pass(&self, by: Duration) {
        let end = self.now() + by;
        while self.now() < end {
            self.clock.pass(end.since(self.now()).min(STRIDE)).await;
            tokio::task::yield_now().await;
        }
    }

    fn stick(&self, by: Duration) {
        let clock = self.clock.clone();
        let passing = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a small runtime");
            runtime.block_on(clock.pass(by));
        });
        passing.join().expect("passing does not panic");
    }

    async fn breathe(&self, step: Duration) {
        tokio::time::sleep(BREATH).await;
        self.clock.pass(step).await;
    }
}

/// Everybody's time.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealTime;

#[async_trait]
impl Time for RealTime {
    fn now(&self) -> Moment {
        boot_clock().now()
    }

    async fn pass(&self, by: Duration) {
        tokio::time::sleep(by).await;
    }

    fn stick(&self, by: Duration) {
        std::thread::sleep(by);
    }

    async fn breathe(&self, step: Duration) {
        tokio::time::sleep(step.min(5 * BREATH)).await;
    }
}
