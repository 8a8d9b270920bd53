//! The result of everything here.

/// What everything here returns: trouble of any kind ends the run.
pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;
