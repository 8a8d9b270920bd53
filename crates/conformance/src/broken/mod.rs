//! Backends that are broken on purpose.
use crate::subjects::Seam;

/// A backend that is broken on purpose, and the trial that is about it.
#[derive(Debug)]
pub struct Broken {
    /// What is wrong with it.
    pub name: &'static str,
    /// The trial that has to catch it.
    pub trial: &'static str,
}

impl Broken {
    /// The subject.
    #[must_use]
    pub fn subject(&self) -> Seam {
        crate::subjects::memory()
    }
}

/// Every one of them.
#[must_use]
pub fn all() -> Vec<Broken> {
    Vec::new()
}
