//! Time as Tidelock counts it: since boot, including the time that the machine is suspended.
//!
//! A lease at the server runs on while this machine sleeps, so a guard's deadline must run on too. The boot clock
//! reads `CLOCK_BOOTTIME` where that exists. Its alarm thread sleeps on a clock that may stand still during suspend,
//! so it checks the boot clock at least every 100 ms while any alarm is set.

use std::fmt;
use std::io;
use std::ops::{Add, Sub};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use crate::backend::Alarms;

/// How long the alarm thread trusts a clock that may stand still.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A moment of one [`Clock`]. Moments of different clocks cannot be compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// A moment that is always in the past.
    pub const START: Self = Self(0);
    /// A moment that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// The moment `nanos` nanoseconds after the clock's start.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to this moment; zero if this moment is not later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;
    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NEVER => f.write_str("never"),
            Self(nanos) => write!(f, "{:?}", Duration::from_nanos(nanos)),
        }
    }
}

/// The clock for a backend's deadlines. Use [`boot_clock`] wherever time is real.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The current moment.
    fn now(&self) -> Moment;
    /// The alarms on this clock. The code that drives the clock has to ring them.
    fn alarms(&self) -> &Alarms;
}

/// This process's boot clock. It never jumps, and runs on while the machine sleeps.
#[must_use]
pub fn boot_clock() -> Arc<dyn Clock> {
    if let Err(error) = drive_boot_clock() {
        crate::backend::unharmed(
            || tracing::error!(%error, "cannot start the clock thread: timeouts in this process will not fire until it starts"),
        );
    }
    the_boot_clock()
}

/// Starts the thread that rings the boot clock's alarms. If no thread is available, the next caller tries again.
pub(crate) fn drive_boot_clock() -> io::Result<()> {
    let clock = the_boot_clock();
    if clock.is_driven.load(Ordering::Acquire) {
        return Ok(());
    }
    let _one = clock.starting.lock().unwrap_or_else(PoisonError::into_inner);
    if !clock.is_driven.load(Ordering::Acquire) {
        let driver = clock.clone();
        thread::Builder::new().name("tidelock-clock".into()).spawn(move || driver.run())?;
        clock.is_driven.store(true, Ordering::Release);
    }
    Ok(())
}

fn the_boot_clock() -> Arc<BootClock> {
    static CLOCK: OnceLock<Arc<BootClock>> = OnceLock::new();
    CLOCK.get_or_init(Arc::default).clone()
}

#[derive(Debug, Default)]
struct BootClock {
    alarms: Alarms,
    is_driven: AtomicBool,
    starting: Mutex<()>,
}

impl BootClock {
    fn run(&self) {
        loop {
            let now = self.now();
            self.alarms.ring(now);
            self.alarms.sleep(now, LOOK_EVERY);
        }
    }
}

impl Clock for BootClock {
    fn now(&self) -> Moment {
        read_boot_clock()
    }

    fn alarms(&self) -> &Alarms {
        &self.alarms
    }
}

#[cfg(unix)]
fn read_boot_clock() -> Moment {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let id = rustix::time::ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let id = rustix::time::ClockId::Monotonic; // on macOS it runs on during sleep; std's Instant does not
    let time = rustix::time::clock_gettime(id);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Moment(seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0)))
}

#[cfg(not(unix))]
fn read_boot_clock() -> Moment {
    // On Windows, std's Instant is the performance counter, which runs on during sleep.
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    Moment::START + START.get_or_init(std::time::Instant::now).elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Sleep;

    #[tokio::test]
    async fn a_sleep_ends_at_its_moment_and_not_before() {
        let clock = boot_clock();
        let at = clock.now() + Duration::from_millis(20);
        Sleep::until(&clock, at).await;
        assert!(clock.now() >= at);
    }

    #[tokio::test]
    async fn the_earlier_of_two_sleeps_ends_first() {
        let clock = boot_clock();
        let now = clock.now();
        let late = Sleep::until(&clock, now + Duration::from_secs(60));
        let early = Sleep::until(&clock, now + Duration::from_millis(5));
        tokio::select! {
            () = late => panic!("the later one ended first"),
            () = early => {}
        }
    }
}
