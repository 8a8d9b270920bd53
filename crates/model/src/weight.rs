//! Weights and capacities: what makes one line serve as a mutex, a read-write lock or a semaphore.

use core::fmt;

/// How much of a line's capacity a claim takes; also that capacity itself. Never zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

impl Weight {
    /// The weight of a mutex's claim, of a reader, of one permit.
    pub const ONE: Self = Self(1);
    /// The weight of a writer, and the capacity of a read-write line: 2^31 − 1.
    pub const MAX: Self = Self((1 << 31) - 1);

    /// A weight of `n`; `None` for zero and for more than [`Weight::MAX`].
    #[must_use]
    pub const fn new(n: u32) -> Option<Self> {
        if n == 0 || n > Self::MAX.0 { None } else { Some(Self(n)) }
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Weight({})", self.0)
    }
}

/// The kind of lock a line serves. A name is one kind while it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// One holder: weight 1, capacity 1.
    Mutex,
    /// Many readers or one writer: weight 1 or [`Weight::MAX`], capacity [`Weight::MAX`].
    RwLock,
    /// N permits: weight n, capacity N.
    Semaphore,
}

impl Kind {
    /// The word people use for it.
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

/// Whether a join may stand in line or must be held at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Patience {
    /// Held at once, or refused and gone from the line.
    Now,
    /// Waits its turn.
    Wait,
}

/// How a claim leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leave {
    /// The join's outcome is known.
    Done,
    /// The join's outcome is unknown: should it arrive later, it is refused.
    Void,
}

/// What a leave found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Left {
    /// The claim was held.
    Held,
    /// The claim was waiting.
    Waiting,
    /// There was no such claim: it left before, or its session ended.
    Absent,
}
