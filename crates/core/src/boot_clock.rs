//! Time as Tidelock counts it: since boot, including the time that the machine is suspended.
//!
//! A lease at the server runs on while this machine sleeps, so a guard's deadline must run on too. The boot clock
//! reads `CLOCK_BOOTTIME` where that exists. Its alarm thread sleeps on a clock that may stand still during suspend,
//! so it checks the boot clock at least every 100 ms while any alarm is set.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use crate::alarms::Alarms;
use crate::clock::Clock;
use crate::moment::Moment;
use crate::shield;

/// How long the alarm thread trusts a clock that may stand still.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// This process's boot clock. It never jumps, and runs on while the machine sleeps.
#[must_use]
pub fn boot_clock() -> Arc<dyn Clock> {
    if let Err(error) = drive() {
        shield::unharmed(
            || tracing::error!(%error, "cannot start the clock thread: timeouts in this process will not fire until it starts"),
        );
    }
    the_boot_clock()
}

/// Starts the thread that rings the boot clock's alarms. If no thread is available, the next caller tries again.
pub(crate) fn drive() -> io::Result<()> {
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
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Moment::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
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
