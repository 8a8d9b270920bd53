//! A cohort: the tasks of one client that want the same mutex stand in one local line, behind one claim in the store.
//!
//! The first of them *leads*: it stands in the store's line for all. When it gives the hold back, the hold is passed to the
//! next of the local line, with the next token, until [`Options::linger`](crate::Options::linger) has passed since the
//! store granted the claim, or the token has no number left for another pass. From that moment on the next of the local
//! line leads: it stands in the store's line anew, behind the others. The claim leaves when its last holder gives it back.
//!
//! A leader that gives up while its claim waits, or before its join is answered, leaves that claim to the next one, with its
//! place. If the claim is lost while somebody holds it, the next one leads at once, whatever that holder does. A leader that
//! the store does not serve takes along those that have waited for an answer as long as a command may take; the next one
//! tries for the rest of that.
//!
//! The readers of a read-write lock share a claim: the leader's, together with all readers that stand behind it without a
//! writer in between, and those that come later. Whoever comes and can share no more, a writer or a reader after that
//! time, leads at once, while they still read: so a writer has its place in the store's line as soon as without a cohort.
//! A writer's claim is passed on like a mutex, to writers only; one that becomes a reader begins to share its claim.
//!
//! A name that is used as a mutex and as a read-write lock has two local lines: the store refuses one of them.
//!
//! A turn has a number. Whoever leads or holds acts for the line only as long as the number is its own.

mod bell;
mod heard;
mod line;
#[cfg(all(test, tidelock_loom))]
mod loom;
mod share;
mod sharing;
mod turn;
mod waiting;

use std::sync::Arc;

use self::line::{Cohort, Cohorts as Lines};
use self::turn::turn_away;
pub(crate) use self::turn::{Baton, Behind, Lead, Leading, News};
pub(crate) use self::waiting::Waiting;
use crate::backend::{Clock, Moment};
use crate::{ClaimId, Error, Kind, Name};

/// All local lines of a client.
pub(crate) type Cohorts = Lines<News>;

/// The local line in which a task stands.
pub(crate) struct Stood(Arc<Cohort<News>>);

impl Stood {
    /// Whether the store has said that this one has to wait: it is asked for one of them only.
    pub(crate) fn has_to_wait(&self, waiting: &Waiting<News>) -> bool {
        self.0.has_to_wait(waiting.waiter.answers)
    }

    /// The same for whoever wants to know it later, while that one still waits.
    pub(crate) fn question(&self, waiting: &Waiting<News>) -> impl Fn() -> bool + Send + Sync + use<> {
        let (line, answers) = (Arc::downgrade(&self.0), waiting.waiter.answers);
        move || line.upgrade().is_some_and(|line| line.has_to_wait(answers))
    }
}

/// What becomes of a task that wants a name.
pub(crate) enum Entered {
    Leads(Lead),
    /// It shares what others of this client read.
    Shares(Baton),
    Waits(Waiting<News>, Stood),
    /// The client takes no more locks.
    Closed,
}

impl Lines<News> {
    /// Stands in the local line of a name, for a lock that `reads` or that excludes all others.
    pub(crate) fn enter(
        self: &Arc<Self>,
        kind: Kind,
        name: &Name,
        reads: bool,
        clock: &Arc<dyn Clock>,
    ) -> Entered {
        let mut table = self.table.lock();
        if table.is_closed {
            return Entered::Closed;
        }
        #[cfg(tidelock_simulation)]
        crate::simulation::arrives(name);
        if let Some(cohort) = table.of(kind).get(name).cloned() {
            let entered = cohort.enter(reads, clock); // under this lock: a moment later that line may be over
            drop(table);
            if let Entered::Waits(..) = entered {
                cohort.watch(clock);
            }
            return entered;
        }
        let cohort = Cohort::new(kind, name.clone(), Arc::downgrade(self));
        table.of(kind).insert(name.clone(), cohort.clone());
        drop(table);
        Entered::Leads(Lead::first_of(cohort))
    }

    /// What the local line says to somebody without patience: a share, or `None` because a task of this client holds the
    /// lock or has waited for it. If it says nothing, the store has to be asked.
    pub(crate) fn tried(&self, kind: Kind, name: &Name, reads: bool, now: Moment) -> Option<Option<Baton>> {
        let mut table = self.table.lock();
        let cohort = table.of(kind).get(name).cloned()?;
        if table.is_closed {
            return None;
        }
        drop(table);
        let shared = if reads { cohort.try_share(now) } else { None };
        match shared {
            Some(baton) => Some(Some(baton)),
            None => cohort.excludes(reads).then_some(None),
        }
    }

    /// How many wait in the local line of a name, and are not among the claims that are shown.
    pub(crate) fn waiting(&self, name: &Name, is_shown: impl Fn(ClaimId) -> bool) -> usize {
        let mut table = self.table.lock();
        let all = [Kind::Mutex, Kind::RwLock].map(|kind| table.of(kind).get(name).cloned());
        drop(table);
        all.iter().flatten().map(|cohort| cohort.waiting(&is_shown)).sum()
    }

    /// Nobody enters any more, and those that wait hear this error.
    pub(crate) fn close(&self, error: &Error) {
        let mut table = self.table.lock();
        table.is_closed = true;
        let all = table.all();
        drop(table);
        for cohort in all {
            let waiting = std::mem::take(&mut cohort.line.lock().waiting);
            turn_away(waiting, error);
        }
    }
}
