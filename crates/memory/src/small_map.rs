//! Things in order of their keys, with the first one stored in place.
//!
//! Most lines have one holder and no waiter, most sessions one claim, and many stores one name in use: such a map
//! allocates no memory. The others are in an ordered map, so an entry among 100 000 is a few steps away.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;

#[derive(Debug)]
pub(crate) struct SmallMap<K, T> {
    first: Option<(K, T)>,
    /// All keys in here are greater than the first one; empty if there is none.
    others: BTreeMap<K, T>,
}

impl<K: Ord, T> SmallMap<K, T> {
    pub(crate) const fn new() -> Self {
        Self { first: None, others: BTreeMap::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&T>
    where
        K: Borrow<Q>,
    {
        match &self.first {
            Some((first, thing)) if first.borrow() == key => Some(thing),
            _ => self.others.get(key),
        }
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut T> {
        match &mut self.first {
            Some((first, thing)) if first == key => Some(thing),
            _ => self.others.get_mut(key),
        }
    }

    /// Inserts a thing, or replaces the one with this key.
    pub(crate) fn insert(&mut self, key: K, thing: T) {
        match &mut self.first {
            Some((first, _)) if *first < key => drop(self.others.insert(key, thing)),
            Some((first, _)) if *first == key => self.first = Some((key, thing)),
            first => self.others.extend(first.replace((key, thing))),
        }
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<T> {
        match &self.first {
            Some((first, _)) if first == key => {
                let next = self.others.pop_first();
                std::mem::replace(&mut self.first, next).map(|(_, thing)| thing)
            }
            _ => self.others.remove(key),
        }
    }

    /// All of them in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &T)> {
        self.first.iter().map(|(key, thing)| (key, thing)).chain(&self.others)
    }

    /// Those at `start` and after it, in order.
    pub(crate) fn from<Q: Ord + ?Sized>(&self, start: Bound<&Q>) -> impl Iterator<Item = (&K, &T)>
    where
        K: Borrow<Q>,
    {
        let range = (start, Bound::Unbounded);
        let first = self.first.iter().filter(|(key, _)| match start {
            Bound::Included(start) => key.borrow() >= start,
            Bound::Excluded(start) => key.borrow() > start,
            Bound::Unbounded => true,
        });
        // At most one, found here while `start` is borrowed.
        let first = first.map(|(key, thing)| (key, thing)).next();
        first.into_iter().chain(self.others.range::<Q, _>(range))
    }

    /// The one with the greatest key.
    pub(crate) fn last(&self) -> Option<(&K, &T)> {
        let first = self.first.as_ref().map(|(key, thing)| (key, thing));
        self.others.last_key_value().or(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(map: &SmallMap<u64, u64>, start: Bound<&u64>) -> Vec<u64> {
        map.from(start).map(|(key, _)| *key).collect()
    }

    #[test]
    fn a_map_is_in_order_however_it_was_filled_and_thinned() {
        let mut map = SmallMap::new();
        for key in [5, 2, 9, 7, 1, 2, 1] {
            map.insert(key, key * 10);
        }
        assert_eq!(keys(&map, Bound::Unbounded), [1, 2, 5, 7, 9]);
        assert_eq!(keys(&map, Bound::Included(&1)), [1, 2, 5, 7, 9]);
        assert_eq!(keys(&map, Bound::Excluded(&1)), [2, 5, 7, 9]);
        assert_eq!(keys(&map, Bound::Included(&6)), [7, 9]);
        for (key, left) in [(1, Some(10)), (5, Some(50)), (5, None), (9, Some(90))] {
            assert_eq!(map.remove(&key), left);
        }
        assert_eq!(map.iter().collect::<Vec<_>>(), [(&2, &20), (&7, &70)]);
        assert_eq!((map.get(&2), map.get(&5), map.last()), (Some(&20), None, Some((&7, &70))));
        assert_eq!(map.get_mut(&7), Some(&mut 70));
        assert_eq!((map.remove(&2), map.last()), (Some(20), Some((&7, &70))));
        assert_eq!((map.remove(&7), map.is_empty()), (Some(70), true));
    }
}
