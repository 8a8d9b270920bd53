//! The latest claims of this session that have left a line.
//!
//! A store can grant a claim that has waited although it has left. Mostly its grant was on the way while it left. But a
//! store that took over from another may not know that a claim has left, whether it waited or not: then it stands in
//! everyone's way until it leaves again, and only this memory has the name of its line. If the claim itself is
//! forgotten, its line may still be among the latest.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use crate::Name;

/// How many claims are remembered, and how many lines of each kind. All these lines are asked about at once.
const MOST: usize = 1024;
const MOST_LINES: usize = 128;

#[derive(Debug, Default)]
pub(super) struct Departed {
    names: HashMap<u64, Name>,
    /// Their numbers, the earliest first.
    order: VecDeque<u64>,
    /// The lines of claims that can be granted late.
    waited_in: Lines,
    /// The lines of the other ones. There are many more of these, and they must not make the first ones forgotten.
    held_in: Lines,
}

impl Departed {
    /// A claim has left that can still be granted.
    pub(super) fn add(&mut self, number: u64, name: Name) {
        self.waited_in.add(&name);
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

    /// A claim that held has left this line.
    pub(super) fn add_holder(&mut self, line: &Name) {
        self.held_in.add(line);
    }

    /// The lines that claims have left lately.
    pub(super) fn lines(&self) -> BTreeSet<Name> {
        self.waited_in.latest().chain(self.held_in.latest()).cloned().collect()
    }

    /// The line that the claim has left.
    pub(super) fn line_of(&self, number: u64) -> Option<Name> {
        self.names.get(&number).cloned()
    }
}

/// The lines that were left last. A busy line makes no other one forgotten.
#[derive(Debug, Default)]
struct Lines {
    /// How many claims have left, and for each line this number when it was left last. Up to twice as many lines as are
    /// of interest, so that it is tidied up seldom.
    count: u64,
    left: HashMap<Name, u64>,
}

impl Lines {
    fn add(&mut self, line: &Name) {
        self.count += 1;
        if let Some(last) = self.left.get_mut(line) {
            *last = self.count;
            return;
        }
        if self.left.len() == MOST_LINES * 2 {
            let latest: HashSet<Name> = self.latest().cloned().collect();
            self.left.retain(|line, _| latest.contains(line));
        }
        self.left.insert(line.clone(), self.count);
    }

    fn latest(&self) -> impl Iterator<Item = &Name> {
        let mut lines: Vec<_> = self.left.iter().collect();
        lines.sort_unstable_by_key(|(_, last)| Reverse(**last));
        lines.into_iter().take(MOST_LINES).map(|(line, _)| line)
    }
}

#[cfg(all(test, not(tidelock_loom)))]
mod tests {
    use super::*;

    fn name(number: u64) -> Name {
        Name::new(&format!("line {number}")).expect("a name")
    }

    fn most() -> u64 {
        u64::try_from(MOST).expect("a small number")
    }

    #[test]
    fn only_the_latest_are_remembered() {
        let (mut departed, most) = (Departed::default(), most());
        for number in 0..=most {
            departed.add(number, name(number));
            departed.add(number, name(number));
        }
        assert_eq!(departed.line_of(0), None);
        assert_eq!(departed.line_of(1), Some(name(1)));
        assert_eq!(departed.line_of(most), Some(name(most)));
        assert_eq!((departed.names.len(), departed.order.len()), (MOST, MOST));
        let lines = departed.lines();
        assert_eq!(lines.len(), MOST_LINES);
        assert!((0..128).all(|before| lines.contains(&name(most - before))), "the latest");
        for number in most + 1..most * 2 {
            departed.add(number, name(most));
        }
        assert_eq!(departed.lines(), lines, "a busy line makes no other one forgotten");
        departed.add(0, name(most * 3));
        assert!(departed.lines().contains(&name(most * 3)), "however early the claim came");
    }

    #[test]
    fn many_holders_that_leave_make_no_line_forgotten_that_was_waited_in() {
        let (mut departed, most) = (Departed::default(), most());
        departed.add(1, name(1));
        for number in 2..most {
            departed.add_holder(&name(number));
        }
        let lines = departed.lines();
        assert_eq!(lines.len(), 1 + MOST_LINES);
        assert!(lines.contains(&name(1)) && lines.contains(&name(most - 1)));
        assert!(departed.held_in.left.len() <= MOST_LINES * 2);
    }
}
