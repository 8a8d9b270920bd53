//! An error as one sentence for the user.
//!
//! Nothing in xtask depends on the kind of an error, so there are no kinds. The code that meets an error adds what it
//! was doing, and `main` prints it.

use std::fmt;

pub(crate) type Result<T, E = Trouble> = std::result::Result<T, E>;

/// A sentence that helps.
#[derive(Debug)]
pub(crate) struct Trouble(String);

impl Trouble {
    /// For a summary.
    pub(crate) fn first_line(&self) -> &str {
        self.0.lines().next().unwrap_or_default()
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for Trouble {
    fn from(sentence: String) -> Self {
        Self(sentence)
    }
}

impl From<&str> for Trouble {
    fn from(sentence: &str) -> Self {
        Self(sentence.to_owned())
    }
}

impl From<lexopt::Error> for Trouble {
    fn from(error: lexopt::Error) -> Self {
        Self(format!("{error}; see `--help`"))
    }
}

/// Adds what was being done when an error occurred.
pub(crate) trait While<T> {
    fn when(self, doing: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> While<T> for std::result::Result<T, E> {
    fn when(self, doing: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Trouble(format!("cannot {}: {error}", doing())))
    }
}
