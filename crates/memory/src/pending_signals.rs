//! Signals to sessions, kept until the store's lock is released: their receivers may call the store at once.

use std::sync::Arc;

use tidelock_core::ClaimId;
use tidelock_core::backend::{Grant, Signals};

#[derive(Debug, Default)]
pub(crate) struct PendingSignals(Vec<(Arc<dyn Signals>, Signal)>);

/// One thing to tell a session.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signal {
    Held(ClaimId, Grant),
    Gone(ClaimId),
    Over,
}

impl PendingSignals {
    pub(crate) fn add(&mut self, signals: &Arc<dyn Signals>, word: Signal) {
        self.0.push((signals.clone(), word));
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn tell(self) {
        for (signals, word) in self.0 {
            match word {
                Signal::Held(id, grant) => signals.held(id, grant),
                Signal::Gone(id) => signals.gone(id),
                Signal::Over => signals.over(),
            }
        }
    }
}
