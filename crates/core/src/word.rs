//! What the store has said so far to an acquire that is under way: for one who waits for it with a patience of its own.
//!
//! When that ends, `None` is true only if the store has said "wait". The acquire tells whatever future it is polled in.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Error, deadline};

tokio::task_local! {
    static HEARD_BY: Word;
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Word(Arc<Mutex<Said>>);

#[derive(Debug, Default)]
enum Said {
    /// Not known: a user's own mutex may lock another one in a task of its own.
    #[default]
    Unheard,
    Nothing,
    Trouble(Error),
    Wait,
}

impl Word {
    /// The same acquire, heard from its beginning on.
    pub(crate) fn of<F: Future>(&self, acquire: F) -> impl Future<Output = F::Output> + use<F> {
        *self.said() = Said::Unheard;
        HEARD_BY.scope(self.clone(), acquire)
    }

    /// Why nobody can say now that the lock is another's, if so.
    pub(crate) fn trouble(&self) -> Option<Error> {
        match &*self.said() {
            Said::Unheard | Said::Wait => None,
            Said::Nothing => Some(deadline::no_answer()),
            Said::Trouble(error) => Some(error.clone()),
        }
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The acquire that calls this does not know where it stands. What trouble it had says more than that.
pub(crate) fn asks() {
    tell(|said| {
        if !matches!(said, Said::Trouble(_)) {
            *said = Said::Nothing;
        }
    });
}

/// It tries again after this.
pub(crate) fn had(trouble: &Error) {
    tell(|said| *said = Said::Trouble(trouble.clone()));
}

/// It stands in line.
pub(crate) fn waits() {
    tell(|said| *said = Said::Wait);
}

fn tell(what: impl FnOnce(&mut Said)) {
    HEARD_BY.try_with(|word| what(&mut word.said())).ok(); // mostly nobody listens
}
