//! The slots of this session's claims in one line. A new claim takes the lowest that is free.
//!
//! A slot is free again when core has forgotten its claim, unless a join of that claim may still arrive: then it is never
//! used again, so that nothing can come to a slot but the claim that has it.

use std::collections::BTreeSet;

/// The slots of one line.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// All from here on were never used.
    next: u64,
    /// Those below that are free.
    free: BTreeSet<u64>,
    in_use: BTreeSet<u64>,
    is_any_given_up: bool,
}

impl Slots {
    pub(super) fn take(&mut self) -> u64 {
        let slot = self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        self.in_use.insert(slot);
        slot
    }

    pub(super) fn give_back(&mut self, slot: u64, may_be_used_again: bool) {
        self.in_use.remove(&slot);
        match may_be_used_again {
            true => drop(self.free.insert(slot)),
            false => self.is_any_given_up = true,
        }
    }

    /// Whether there is nothing to remember.
    pub(super) fn is_unused(&self) -> bool {
        self.in_use.is_empty() && !self.is_any_given_up
    }

    pub(super) fn is_in_use(&self, slot: u64) -> bool {
        self.in_use.contains(&slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_slot_is_taken() {
        let mut slots = Slots::default();
        assert_eq!([slots.take(), slots.take(), slots.take()], [0, 1, 2]);
        slots.give_back(1, true);
        slots.give_back(0, true);
        assert_eq!([slots.take(), slots.take(), slots.take()], [0, 1, 3]);
    }

    #[test]
    fn a_slot_to_which_a_join_may_come_is_never_used_again() {
        let mut slots = Slots::default();
        let slot = slots.take();
        slots.give_back(slot, false);
        assert!(!slots.is_unused());
        assert_ne!(slots.take(), slot);
    }

    #[test]
    fn nothing_is_remembered_of_a_line_that_is_not_used() {
        let mut slots = Slots::default();
        let slot = slots.take();
        assert!(!slots.is_unused());
        slots.give_back(slot, true);
        assert!(slots.is_unused());
    }
}
