//! Weights and capacities: what makes one line serve as a mutex, a read-write lock or a semaphore.
//!
//! | request | weight | capacity |
//! |---|---|---|
//! | mutex | 1 | 1 |
//! | read | 1 | MAX |
//! | write | MAX | MAX |
//! | n permits of a semaphore of N | n | N |

use core::fmt;

/// How much of a line's capacity a claim takes; also that capacity itself. Never zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u32);

impl Weight {
    /// The weight of a mutex's claim, a reader, or one permit.
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
