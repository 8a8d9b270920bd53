//! What follows from a step: what to tell core, what to watch, and what to read.

use tidelock_core::backend::Grant;
use tidelock_core::{ClaimId, Name};

use super::own_line::{Aim, LineCopy};

/// What to do after a step: what to tell core, what to watch, and what to read.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub(crate) held: Vec<(ClaimId, Grant)>,
    pub(crate) gone: Vec<ClaimId>,
    /// A claim of ours may have to stand elsewhere: look.
    pub(crate) look: bool,
    pub(crate) start: Option<Wanted>,
    pub(crate) stop: Option<i64>,
    /// The line must be read.
    pub(crate) read: bool,
    /// Whether these claims still stand must be looked at, at this revision or later.
    pub(crate) check: Vec<ClaimId>,
    pub(crate) since: i64,
    /// The same for what this watch is about, unless it reports something within [`SOON`].
    pub(crate) gap: Option<i64>,
}

impl News {
    /// Whether these claims stand is looked at, as late as all that is known of the line.
    pub(super) fn looks_at(&mut self, claims: Vec<ClaimId>, copy: &LineCopy) {
        self.check = claims;
        self.since = copy.cleared.max(copy.since.unwrap_or(0));
    }
}

/// A watch to set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) watch: i64,
    pub(crate) name: Name,
    pub(crate) aim: Aim,
    /// The first revision to report. 0: from now on.
    pub(crate) from: i64,
}

/// What the watch stream is to do.
#[derive(Debug)]
pub(crate) enum Command {
    Start(Wanted),
    Stop(i64),
}
