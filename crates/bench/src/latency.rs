//! How long an operation took, over all samples of a slice.

use std::time::Duration;

/// In seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Latency {
    /// `None` if there are no samples.
    pub(crate) fn of(mut times: Vec<Duration>) -> Option<Self> {
        times.sort();
        let last = times.len().checked_sub(1)?;
        let at = |hundredth: usize| times[last * hundredth / 100].as_secs_f64();
        Some(Self { p50: at(50), p99: at(99), max: at(100) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_taken_from_what_was_seen() {
        let latency = Latency::of((1..=101).rev().map(Duration::from_secs).collect()).unwrap();
        assert_eq!((latency.p50, latency.p99, latency.max), (51.0, 100.0, 101.0));
        assert!(Latency::of(Vec::new()).is_none());
    }
}
