//! The states that a search has seen, by their keys: an open table. The library's set would be a part of the module that
//! is larger than the whole search.

/// A set of keys, which are mixed already.
pub(crate) struct Seen {
    slots: Vec<u128>,
    count: usize,
}

/// An empty slot. A key that is zero counts as one.
const EMPTY: u128 = 0;

impl Seen {
    pub(crate) fn new() -> Self {
        Self { slots: vec![EMPTY; 1 << 12], count: 0 }
    }

    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Adds a key. False: it was there.
    pub(crate) fn insert(&mut self, key: u128) -> bool {
        if self.count * 2 > self.slots.len() {
            self.grow();
        }
        let is_new = put(&mut self.slots, key.max(1));
        self.count += usize::from(is_new);
        is_new
    }

    fn grow(&mut self) {
        let mut larger = vec![EMPTY; self.slots.len() * 2];
        for key in self.slots.iter().filter(|key| **key != EMPTY) {
            put(&mut larger, *key);
        }
        self.slots = larger;
    }
}

fn put(slots: &mut [u128], key: u128) -> bool {
    let mask = slots.len() - 1; // a power of two
    let mut at = key as usize & mask;
    while slots[at] != EMPTY {
        if slots[at] == key {
            return false;
        }
        at = (at + 1) & mask;
    }
    slots[at] = key;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_new_once_also_after_it_has_grown() {
        let mut seen = Seen::new();
        let key = |n: u128| n.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        assert!((1..20_000).all(|n| seen.insert(key(n))));
        assert!((1..20_000).all(|n| !seen.insert(key(n))));
        assert_eq!(seen.count(), 19_999);
    }
}
