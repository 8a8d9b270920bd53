//! Things that are found by a small index. The index of a removed thing is used again.

#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<usize>,
}

/// A slab larger than this frees its memory when it becomes empty.
const KEPT: usize = 1024;

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.slots.get(index)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.slots.get_mut(index)?.as_mut()
    }

    pub(crate) fn insert(&mut self, thing: T) -> usize {
        if let Some(index) = self.free.pop() {
            self.slots[index] = Some(thing);
            return index;
        }
        self.slots.push(Some(thing));
        self.slots.len() - 1
    }

    pub(crate) fn remove(&mut self, index: usize) {
        let Some(slot) = self.slots.get_mut(index).filter(|slot| slot.is_some()) else {
            return;
        };
        *slot = None; // dropped in place: a line is costly to move
        self.free.push(index);
        if self.free.len() == self.slots.len() && self.slots.len() > KEPT {
            *self = Self::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_used_again_and_an_emptied_slab_is_small() {
        let mut slab = Slab::new();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        slab.remove(a);
        slab.remove(a);
        assert_eq!(slab.insert('c'), a);
        assert_eq!((slab.get(a), slab.get(b), slab.get(9)), (Some(&'c'), Some(&'b'), None));

        let many: Vec<_> = (0..2 * KEPT).map(|_| slab.insert('d')).collect();
        many.into_iter().chain([a, b]).for_each(|index| slab.remove(index));
        assert_eq!(slab.slots.capacity(), 0);
    }
}
