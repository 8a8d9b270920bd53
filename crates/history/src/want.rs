//! How a trial's client wants a name.

use std::fmt;

use tidelock_model::Kind;

/// How a name is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// To lock it.
    Lock,
    /// To read.
    Read,
    /// To write.
    Write,
    /// This many permits of this many.
    Permits(u32, u32),
}

impl Want {
    /// One want of each kind that excludes every other claim.
    pub const ALONE: [Self; 3] = [Self::Lock, Self::Write, Self::Permits(1, 1)];

    /// The kind of lock that the name must be.
    #[must_use]
    pub const fn kind(self) -> Kind {
        match self {
            Self::Lock => Kind::Mutex,
            Self::Read | Self::Write => Kind::RwLock,
            Self::Permits(..) => Kind::Semaphore,
        }
    }

    /// Its weight.
    #[must_use]
    pub const fn weight(self) -> u32 {
        match self {
            Self::Lock | Self::Read => 1,
            Self::Write => tidelock_model::Weight::MAX.get(),
            Self::Permits(n, _) => n,
        }
    }

    /// The capacity of the line, as this client believes.
    #[must_use]
    pub const fn capacity(self) -> u32 {
        match self {
            Self::Lock => 1,
            Self::Read | Self::Write => tidelock_model::Weight::MAX.get(),
            Self::Permits(_, of) => of,
        }
    }

    /// Whether it excludes every other claim, so that a fence orders its holds.
    #[must_use]
    pub const fn is_alone(self) -> bool {
        self.weight() == self.capacity()
    }
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock => f.write_str("lock"),
            Self::Read => f.write_str("read"),
            Self::Write => f.write_str("write"),
            Self::Permits(n, of) => write!(f, "{n} of {of} permits"),
        }
    }
}
