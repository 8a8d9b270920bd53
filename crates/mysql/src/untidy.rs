//! The lines that are being looked after, so that a crowd that meets the same dead looks for them once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidelock_core::Name;

/// By name, whether somebody has met the dead there since the look that is under way was begun.
#[derive(Debug, Default)]
pub(crate) struct Untidy(Mutex<HashMap<Name, bool>>);

impl Untidy {
    /// Somebody has to look after this line. Whether nobody does yet: now the caller has to.
    pub(crate) fn needs_look(&self, name: &Name) -> bool {
        let mut names = self.names();
        match names.get_mut(name) {
            Some(again) => *again = true,
            None => drop(names.insert(name.clone(), false)),
        }
        names.get(name) == Some(&false)
    }

    /// A look is over. Whether another one is needed: what was met since then, it may have missed.
    pub(crate) fn needs_another(&self, name: &Name) -> bool {
        let mut names = self.names();
        let again = names.get_mut(name).is_some_and(std::mem::take);
        if !again {
            names.remove(name);
        }
        again
    }

    fn names(&self) -> MutexGuard<'_, HashMap<Name, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_meets_the_dead_while_they_are_looked_for_lets_it_be_looked_once_more() {
        let (untidy, name) = (Untidy::default(), Name::new("stock").unwrap());
        assert!(untidy.needs_look(&name) && untidy.needs_look(&Name::new("other").unwrap()));
        assert!(!untidy.needs_look(&name) && !untidy.needs_look(&name));
        assert!(untidy.needs_another(&name));
        assert!(!untidy.needs_another(&name));
        assert!(untidy.needs_look(&name));
    }
}
