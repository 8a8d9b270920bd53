//! Time in a trial: turned by hand for a backend in memory, real for a server.
//!
//! A trial says how much time may pass and which condition must hold by then; it never sleeps and hopes. So the same
//! trial takes milliseconds on a clock turned by hand, and a few short ttls on a server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{Backend, Clock, Moment, boot_clock};
use tidelock_memory::Store;

/// How much time passes in one step on a clock turned by hand: a task woken in between must have time to set its next
/// alarm.
const STRIDE: Duration = Duration::from_millis(250);
/// How long other tasks get, in real time, to react after they were woken.
const BREATH: Duration = Duration::from_millis(1);

/// The clock of a server's leases.
#[async_trait]
pub trait Time: fmt::Debug + Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Moment;

    /// Lets this much time pass while everything runs.
    async fn pass(&self, by: Duration);

    /// Lets this much time pass while this thread is blocked and everything else runs.
    fn stick(&self, by: Duration);

    /// Lets other tasks run, and at most `step` pass.
    async fn breathe(&self, step: Duration);

    /// Whether this is the machine's own clock: then it goes on while the machine has no time for us.
    fn is_real(&self) -> bool;
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

    /// A store of the memory backend with this clock.
    #[must_use]
    pub fn store(&self) -> Store {
        self.store.clone()
    }

    /// Jumps forward: nothing runs meanwhile.
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

    fn is_real(&self) -> bool {
        false
    }
}

/// Real time.
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

    fn is_real(&self) -> bool {
        true
    }
}
