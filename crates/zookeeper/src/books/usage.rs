//! How names were used lately.

use std::collections::{HashMap, VecDeque};

use tidelock::{Name, Weight};

/// Of how many names it is remembered.
const MOST: usize = 4_096;

/// Who has used a name lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// This client by itself: and so had the line's data this version, which is even: it was never resized.
    Alone(i32),
    /// Others may as well.
    Shared,
    /// Others who thought themselves alone: it is not tried again.
    Contended,
}

/// Names that had a line lately.
#[derive(Debug, Default)]
pub(super) struct Used {
    usage: HashMap<Name, Usage>,
    /// The sizes that semaphores have, other than this client declares.
    sizes: HashMap<Name, Weight>,
    /// The latest last.
    names: VecDeque<Name>,
}

impl Used {
    pub(super) fn get(&self, name: &Name) -> Option<Usage> {
        self.usage.get(name).copied()
    }

    pub(super) fn set(&mut self, name: &Name, usage: Usage) {
        if self.usage.insert(name.clone(), usage).is_some() {
            return;
        }
        self.names.push_back(name.clone());
        if self.names.len() > MOST
            && let Some(oldest) = self.names.pop_front()
        {
            self.forget(&oldest);
        }
    }

    pub(super) fn size(&self, name: &Name) -> Option<Weight> {
        self.sizes.get(name).copied()
    }

    /// Only of a name that is known to be used.
    pub(super) fn set_size(&mut self, name: &Name, size: Option<Weight>) {
        match size.filter(|_| self.usage.contains_key(name)) {
            Some(size) => self.sizes.insert(name.clone(), size),
            None => self.sizes.remove(name),
        };
    }

    pub(super) fn forget(&mut self, name: &Name) {
        self.usage.remove(name);
        self.sizes.remove(name);
    }
}
