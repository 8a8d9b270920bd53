//! How names were used lately.

use std::collections::{HashMap, VecDeque};

use tidelock::Name;

/// Of how many names it is remembered.
const MOST: usize = 4_096;

/// Who has used a name lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// This client by itself: and so had the line's data this version.
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
            self.usage.remove(&oldest);
        }
    }

    pub(super) fn forget(&mut self, name: &Name) {
        self.usage.remove(name);
    }
}
