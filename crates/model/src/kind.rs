//! The kinds of lock. The kind decides nothing about grants; a name is only kept from being two kinds at once.

use core::fmt;

/// The kind of lock a line serves. A name is one kind while it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// One holder: weight 1, capacity 1.
    Mutex,
    /// Many readers or one writer: weight 1 or [`Weight::MAX`](crate::Weight::MAX), capacity
    /// [`Weight::MAX`](crate::Weight::MAX).
    RwLock,
    /// N permits: weight n, capacity N.
    Semaphore,
}

impl Kind {
    /// Its usual name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::RwLock => "read-write lock",
            Self::Semaphore => "semaphore",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
