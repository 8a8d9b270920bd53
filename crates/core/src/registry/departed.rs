//! The latest claims of this session that have waited in a line and left it.
//!
//! A store can grant such a claim all the same. Mostly its grant was on the way while it left. But a store that took
//! over from another may not know that it has left: then it stands in everyone's way until it leaves again, and only
//! this memory has the name of its line. If the claim itself is forgotten, its line may still be among the latest.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::Name;

/// How many claims are remembered, and how many lines. All these lines are asked about at once.
const MOST: usize = 1024;
const MOST_LINES: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Departed {
    names: HashMap<u64, Name>,
    /// Their numbers, the earliest first.
    order: VecDeque<u64>,
    /// How many claims have left. The lines, each with this number when it was left last; and the same by number.
    count: u64,
    lines: HashMap<Name, u64>,
    latest: BTreeMap<u64, Name>,
}

impl Departed {
    pub(super) fn add(&mut self, number: u64, name: Name) {
        self.add_line(&name);
        if self.names.insert(number, name).is_some() {
            return;
        }
        self.order.push_back(number);
        if self.order.len() > MOST
            && let Some(earliest) = self.order.pop_front()
        {
            self.names.remove(&earliest);
        }
    }

    fn add_line(&mut self, name: &Name) {
        self.count += 1;
        if let Some(before) = self.lines.insert(name.clone(), self.count) {
            self.latest.remove(&before);
        }
        self.latest.insert(self.count, name.clone());
        if self.latest.len() > MOST_LINES
            && let Some((_, earliest)) = self.latest.pop_first()
        {
            self.lines.remove(&earliest);
        }
    }

    /// The lines that claims have left lately.
    pub(super) fn lines(&self) -> impl Iterator<Item = &Name> {
        self.lines.keys()
    }

    /// The line that the claim has left.
    pub(super) fn line_of(&self, number: u64) -> Option<Name> {
        self.names.get(&number).cloned()
    }
}

#[cfg(all(test, not(tidelock_loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_are_remembered() {
        let mut departed = Departed::default();
        let name = |number: u64| Name::new(&format!("line {number}")).expect("a name");
        let most = u64::try_from(MOST).expect("a small number");
        for number in 0..=most {
            departed.add(number, name(number));
            departed.add(number, name(number));
        }
        assert_eq!(departed.line_of(0), None);
        assert_eq!(departed.line_of(1), Some(name(1)));
        assert_eq!(departed.line_of(most), Some(name(most)));
        assert_eq!((departed.names.len(), departed.order.len()), (MOST, MOST));
        assert_eq!((departed.lines.len(), departed.latest.len()), (MOST_LINES, MOST_LINES));
        for number in most + 1..most * 2 {
            departed.add(number, name(most));
        }
        assert_eq!(departed.lines().count(), MOST_LINES, "a busy line makes no other one forgotten");
        let left_last = name(most * 3);
        departed.add(0, left_last.clone());
        assert!(departed.lines().any(|line| *line == left_last), "however early the claim came");
    }
}
