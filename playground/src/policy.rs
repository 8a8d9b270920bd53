//! The policies that can be compared: Tidelock's line, and what people write instead of it.
//!
//! The naive ones live here and nowhere else: no crate of Tidelock knows them.

/// How a client gets and gives back the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// No lock.
    Nothing,
    /// Tidelock's line: the model.
    Line,
    /// The line, in which the tasks of a process stand behind one claim and pass its hold along.
    Cohort,
    /// `SET NX PX`, poll, and a script that compares and deletes.
    SetNx,
    /// `SET NX` without a ttl.
    NoTtl,
    /// `SETNX`, then `EXPIRE`.
    SetThenExpire,
    /// `GET`, compare here, then `DEL`.
    ReadThenDelete,
    /// `DEL`, whose lock it may be.
    BlindDelete,
    /// The owner is the number of the thread, which is the same in every process.
    ThreadId,
    /// `SET NX`, and nobody looks at the reply.
    Unread,
    /// Redlock on three masters.
    Redlock,
    /// One ephemeral node; everyone who waits watches it.
    Herd,
    /// A release wakes one waiter, by chance, and newcomers may be faster.
    Unfair,
    /// The line, by a task that takes the lock again while it holds it.
    Nested,
    /// The same line, and a lock that its owner may take again.
    Reentrant,
    /// Compare the version while writing, and try again.
    Version,
    /// One atomic decrement; no lock at all.
    Atomic,
    /// The line, but the lock is given back before the commit.
    EarlyRelease,
    /// Two locks, taken in the order in which they were named.
    TwoUnsorted,
    /// Two locks by `lock_all`, which sorts them.
    TwoSorted,
    /// A read-write lock that lets readers in whenever readers hold it.
    ReadersFirst,
}

/// Every policy: its word in a link, and its name on the page.
pub const POLICIES: [(Policy, &str, &str); 21] = [
    (Policy::Nothing, "none", "no lock"),
    (Policy::Line, "line", "Tidelock's line"),
    (Policy::Cohort, "cohort", "Tidelock's cohort"),
    (Policy::SetNx, "setnx", "SET NX PX, polling"),
    (Policy::NoTtl, "nottl", "SET NX without a ttl"),
    (Policy::SetThenExpire, "expire", "SETNX, then EXPIRE"),
    (Policy::ReadThenDelete, "readdel", "GET, compare, DEL"),
    (Policy::BlindDelete, "blinddel", "DEL without an owner check"),
    (Policy::ThreadId, "thread", "thread id as the owner"),
    (Policy::Unread, "unread", "SET NX, result ignored"),
    (Policy::Redlock, "redlock", "Redlock on three masters"),
    (Policy::Herd, "herd", "one ephemeral node, all watch it"),
    (Policy::Unfair, "unfair", "unfair wake-up"),
    (Policy::Nested, "nested", "locked twice by one task"),
    (Policy::Reentrant, "reentrant", "Tidelock, re-entrant owner"),
    (Policy::Version, "version", "version check, retry"),
    (Policy::Atomic, "atomic", "one atomic decrement"),
    (Policy::EarlyRelease, "early", "lock released before the commit"),
    (Policy::TwoUnsorted, "unsorted", "two locks, unsorted"),
    (Policy::TwoSorted, "sorted", "two locks by lock_all"),
    (Policy::ReadersFirst, "readers", "readers first"),
];

impl Policy {
    /// The policy with this word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        POLICIES.iter().find(|row| row.1 == word).map(|row| row.0)
    }

    /// Its word in a link.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.row().1
    }

    /// Its name on the page.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.row().2
    }

    /// Whether its locks are claims in a line of the model, with tokens.
    #[must_use]
    pub const fn has_line(self) -> bool {
        matches!(
            self,
            Self::Line
                | Self::Cohort
                | Self::Nested
                | Self::Reentrant
                | Self::EarlyRelease
                | Self::TwoUnsorted
                | Self::TwoSorted
        )
    }

    /// Whether it takes no lock at all.
    #[must_use]
    pub const fn is_bare(self) -> bool {
        matches!(self, Self::Nothing | Self::Version | Self::Atomic)
    }

    /// How many servers keep its lock.
    #[must_use]
    pub const fn servers(self) -> usize {
        if matches!(self, Self::Redlock) { 3 } else { 1 }
    }

    fn row(self) -> &'static (Self, &'static str, &'static str) {
        POLICIES.iter().find(|row| row.0 == self).unwrap_or(&POLICIES[0])
    }
}
