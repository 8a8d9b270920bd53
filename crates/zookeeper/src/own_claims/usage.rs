//! How names were used lately.

use std::collections::{HashMap, VecDeque};

use tidelock_core::{Name, Weight};

/// How many names are remembered.
const MOST: usize = 4_096;

/// Which clients have used a name lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// Only this client. The line's data had this version, which is even: the line was never resized.
    Alone(i32),
    /// Other clients may use it too.
    Shared,
    /// Another client also took itself for the only one. The short cut is not tried again.
    Contended,
}

/// Names that had a line lately.
#[derive(Debug, Default)]
pub(super) struct Used {
    usage: HashMap<Name, Usage>,
    /// The sizes of semaphores that differ from what this client declares.
    sizes: HashMap<Name, Weight>,
    /// The latest is last.
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

    /// Kept only for a name that is known to be used.
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
