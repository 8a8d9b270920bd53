//! The traffic of a store. Unlike times, these figures are the same on every machine.

use std::fmt;
use std::ops::Sub;

/// Each figure that the store can report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Requests of clients.
    pub commands: Option<f64>,
    /// Signals of the store.
    pub events: Option<f64>,
    /// How often the store made its disk keep something.
    pub disk_writes: Option<f64>,
    /// Bytes over the wire, in both directions.
    pub bytes: Option<f64>,
}

impl Counts {
    /// The counts for each of this many operations.
    pub fn per(self, operations: usize) -> Self {
        self.each(|figure| figure / operations as f64)
    }

    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        self.with(other, |a, b| a + b)
    }

    /// Every figure with its name, for people and for JSON.
    pub fn named(self) -> [(&'static str, Option<f64>); 4] {
        [
            ("commands", self.commands),
            ("events", self.events),
            ("disk writes", self.disk_writes),
            ("bytes", self.bytes),
        ]
    }

    fn each(self, change: impl Fn(f64) -> f64) -> Self {
        Self {
            commands: self.commands.map(&change),
            events: self.events.map(&change),
            disk_writes: self.disk_writes.map(&change),
            bytes: self.bytes.map(&change),
        }
    }

    fn with(self, other: Self, join: impl Fn(f64, f64) -> f64) -> Self {
        let both = |a: Option<f64>, b: Option<f64>| Some(join(a?, b?));
        Self {
            commands: both(self.commands, other.commands),
            events: both(self.events, other.events),
            disk_writes: both(self.disk_writes, other.disk_writes),
            bytes: both(self.bytes, other.bytes),
        }
    }
}

impl Sub for Counts {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        self.with(earlier, |now, then| now - then)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = self.named().into_iter().filter_map(|(name, figure)| Some((name, figure?)));
        let known: Vec<String> = known.map(|(name, figure)| format!("{figure:.2} {name}")).collect();
        f.write_str(&known.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_cannot_tell_stays_unknown() {
        let then = Counts { commands: Some(10.0), ..Counts::default() };
        let now = Counts { commands: Some(30.0), bytes: Some(7.0), ..Counts::default() };
        assert_eq!((now - then).per(10).to_string(), "2.00 commands");
    }
}
