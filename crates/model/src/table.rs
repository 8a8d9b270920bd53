//! A few values by key: a vector in the order of its keys.
//!
//! A world has a handful of lines and sessions, so this is quicker to clone, to hash and to compare than a tree, which
//! is what an exploration does most; and three trees would be a fifth of the playground's module.

use alloc::vec::Vec;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Table<K, V>(Vec<(K, V)>);

impl<K: Ord, V> Table<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.place(key).ok().map(|place| &self.0[place].1)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.place(key).ok().map(|place| &mut self.0[place].1)
    }

    /// The value of this key; if there is none, this one from now on.
    pub(crate) fn get_or_insert(&mut self, key: K, value: V) -> &mut V {
        let place = match self.place(&key) {
            Ok(place) => place,
            Err(place) => {
                self.0.insert(place, (key, value));
                place
            }
        };
        &mut self.0[place].1
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.place(key).ok().map(|place| self.0.remove(place).1)
    }

    pub(crate) fn retain(&mut self, mut stays: impl FnMut(&K) -> bool) {
        self.0.retain(|(key, _)| stays(key));
    }

    fn place(&self, key: &K) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.cmp(key))
    }
}

impl<K, V> Table<K, V> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_the_order_of_their_keys() {
        let mut table = Table::new();
        for key in [3, 1, 2, 1] {
            *table.get_or_insert(key, 0) += 1;
        }
        assert!(table.iter().eq([(&1, &2), (&2, &1), (&3, &1)]));
        assert_eq!((table.get(&1), table.get(&4)), (Some(&2), None));
        assert_eq!((table.remove(&2), table.remove(&2)), (Some(1), None));
        table.retain(|key| *key != 1);
        assert_eq!(table.get_mut(&3), Some(&mut 1));
        assert_eq!(table.iter().count(), 1);
    }
}
