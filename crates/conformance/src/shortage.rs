//! Whether the processors were short while something ran.
//!
//! Linux counts for how long anybody has waited for a processor. Where nobody counts, nothing is known to be short.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Part of the time in which somebody waited: beyond this, trials that run side by side are in each other's way. A run on
/// two idle processors has a third of it, on average.
const SHORT: f64 = 0.4;
/// A moment in which the processors are looked at, and how many there may be until they have room.
const LOOK: Duration = Duration::from_millis(500);
const LOOKS: u32 = 120;

/// The time since something began.
#[derive(Debug)]
pub(crate) struct Shortage {
    began: Instant,
    waited: Option<Duration>,
}

impl Shortage {
    /// Begins to measure.
    pub(crate) fn since_now() -> Self {
        Self { began: Instant::now(), waited: waited() }
    }

    /// Whether the processors have been short since then.
    pub(crate) fn is_one(&self) -> bool {
        let waited =
            self.waited.zip(waited()).map_or(Duration::ZERO, |(before, now)| now.saturating_sub(before));
        waited > self.began.elapsed().mul_f64(SHORT)
    }

    /// Waits until the processors have room, but not for ever: other programs may need them for hours.
    pub(crate) fn wait_until_over() {
        for _ in 0..LOOKS {
            let look = Self::since_now();
            thread::sleep(LOOK);
            if !look.is_one() {
                return;
            }
        }
    }
}

/// For how long somebody has waited for a processor, since the machine was started.
fn waited() -> Option<Duration> {
    parse(&fs::read_to_string("/proc/pressure/cpu").ok()?)
}

fn parse(pressure: &str) -> Option<Duration> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some.split(' ').find_map(|figure| figure.strip_prefix("total="))?;
    total.parse().ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read() {
        let pressure = "some avg10=8.65 avg60=10.96 avg300=7.88 total=69749083\nfull avg10=0.00 total=7\n";
        assert_eq!(parse(pressure), Some(Duration::from_micros(69_749_083)));
        assert_eq!(parse("full avg10=0.00 total=7\n"), None);
    }

    #[test]
    fn what_nobody_counts_is_not_short() {
        let began = Instant::now().checked_sub(Duration::from_secs(10)).unwrap_or_else(Instant::now);
        assert!(!Shortage { began, waited: None }.is_one());
        let Some(now) = waited() else { return };
        assert!(Shortage { began, waited: Some(now.saturating_sub(Duration::from_secs(9))) }.is_one());
    }
}
