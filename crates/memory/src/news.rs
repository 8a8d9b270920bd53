//! Signals to sessions, kept until the store's lock is released: their receivers may call the store at once.

use std::sync::Arc;

use tidelock_core::ClaimId;
use tidelock_core::backend::{Grant, Signals};

#[derive(Debug, Default)]
pub(crate) struct News(Vec<(Arc<dyn Signals>, Word)>);

/// One thing to tell a session.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    Held(ClaimId, Grant),
    Gone(ClaimId),
    Over,
}

impl News {
    pub(crate) fn add(&mut self, signals: &Arc<dyn Signals>, word: Word) {
        self.0.push((signals.clone(), word));
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn tell(self) {
        for (signals, word) in self.0 {
            match word {
                Word::Held(id, grant) => signals.held(id, grant),
                Word::Gone(id) => signals.gone(id),
                Word::Over => signals.over(),
            }
        }
    }
}
