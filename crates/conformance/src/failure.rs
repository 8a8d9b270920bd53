//! Why a trial failed.

use std::fmt;

/// Why a trial failed, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(String);

/// The outcome of a trial.
pub type Outcome<T = ()> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure with that reason.
    #[must_use]
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<tidelock_core::Error> for Failure {
    fn from(error: tidelock_core::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<tokio::task::JoinError> for Failure {
    fn from(error: tokio::task::JoinError) -> Self {
        Self(error.to_string())
    }
}

/// Fails the trial with this sentence unless the condition holds.
macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        let holds: bool = $holds;
        if !holds {
            return Err($crate::Failure::new(format!($($why)+)));
        }
    };
}
pub(crate) use ensure;
