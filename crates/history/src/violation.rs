//! A promise that was broken, and where.

use serde_json::{Value, json};

use crate::promise::Promise;

/// A promise that was broken, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise.
    pub promise: Promise,
    /// What happened.
    pub sentence: String,
    /// The name.
    pub name: String,
    /// The claims involved.
    pub claims: Vec<u64>,
    /// The first event of the shortest window that shows it.
    pub from: usize,
    /// The last event of that window.
    pub to: usize,
}

impl Violation {
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "promise": self.promise.as_str(),
            "sentence": self.sentence,
            "name": self.name,
            "claims": self.claims,
            "from": self.from,
            "to": self.to,
        })
    }
}
