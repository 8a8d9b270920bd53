//! What the store has said so far to an acquire that is under way, for a caller that waits for it with its own time
//! limit.
//!
//! When that limit is reached, `None` is the right answer only if the store has said "wait". The acquire reports to
//! the future that it is polled in.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Error, deadline};

tokio::task_local! {
    static REPORTED_TO: Progress;
}

/// Where an acquire reports to.
#[derive(Clone, Default)]
pub(crate) struct Progress(Arc<Mutex<Said>>);

#[derive(Default)]
enum Said {
    /// Not known: a user's own mutex may lock another one in a separate task.
    #[default]
    Unknown,
    Nothing,
    Trouble(Error),
    Wait,
    /// It stands behind others of its client. This says whether the store has said "wait" to one of those by now.
    Behind(Box<dyn Fn() -> bool + Send + Sync>),
}

impl Progress {
    /// Runs the acquire and hears its reports from the beginning.
    pub(crate) fn of<F: Future>(&self, acquire: F) -> impl Future<Output = F::Output> + use<F> {
        *self.said() = Said::Unknown;
        REPORTED_TO.scope(self.clone(), acquire)
    }

    /// Why it is not known that another owner holds the lock, if so.
    pub(crate) fn trouble(&self) -> Option<Error> {
        match &*self.said() {
            Said::Unknown | Said::Wait => None,
            Said::Behind(has_to_wait) if has_to_wait() => None,
            Said::Nothing | Said::Behind(_) => Some(deadline::no_answer()),
            Said::Trouble(error) => Some(error.clone()),
        }
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").finish_non_exhaustive()
    }
}

/// The acquire does not know where it stands. An error that it has met says more, and is kept.
pub(crate) fn unanswered() {
    report(|said| {
        if !matches!(said, Said::Trouble(_)) {
            *said = Said::Nothing;
        }
    });
}

/// The acquire met this error and tries again.
pub(crate) fn failed(trouble: &Error) {
    report(|said| *said = Said::Trouble(trouble.clone()));
}

/// The acquire stands in line.
pub(crate) fn waiting() {
    report(|said| *said = Said::Wait);
}

/// The acquire stands behind others of its client, and the question is whether the store has said "wait" to one of those.
pub(crate) fn behind<Q: Fn() -> bool + Send + Sync + 'static>(question: impl FnOnce() -> Q) {
    report(|said| *said = Said::Behind(Box::new(question())));
}

fn report(what: impl FnOnce(&mut Said)) {
    REPORTED_TO.try_with(|progress| what(&mut progress.said())).ok(); // mostly nobody listens
}
