//! A trial: a name that says which promise it would break, the abilities it needs, and its body.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::failure::Outcome;
use crate::{Ability, Stage};

/// The body of a trial.
type Play = for<'a> fn(&'a Stage) -> Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// One trial.
#[derive(Clone, Copy)]
pub struct Trial {
    /// The promise that it would break.
    pub name: &'static str,
    /// The points of the contract that it tests.
    pub points: &'static [u8],
    /// The mistakes of other libraries that it tests for, by their numbers in [`LESSONS`](crate::LESSONS).
    pub lessons: &'static [u8],
    /// The abilities that the subject needs.
    pub needs: &'static [Ability],
    /// Its body.
    pub(crate) play: Play,
}

impl fmt::Debug for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trial({})", self.name)
    }
}

/// A table of trials: `name: points [..], lessons [..], needs [..];` for functions with these names.
macro_rules! trials {
    ($($name:ident: points $points:expr, lessons $lessons:expr, needs [$($need:ident),*];)*) => {
        pub(super) const TRIALS: &[$crate::Trial] = &[$($crate::Trial {
            name: stringify!($name),
            points: &$points,
            lessons: &$lessons,
            needs: &[$($crate::Ability::$need),*],
            play: |stage| Box::pin($name(stage)),
        }),*];
    };
}
pub(crate) use trials;
