//! One server, or a sentinel.

use std::collections::BTreeMap;

/// A server, or a sentinel.
pub(super) struct Node {
    pub(super) host: String,
    pub(super) port: u16,
    /// The scripts that it knows, by their hashes.
    pub(super) scripts: BTreeMap<String, &'static str>,
    /// Nobody listens there.
    pub(super) is_down: bool,
}

impl Node {
    pub(super) const fn new(host: String, port: u16) -> Self {
        Self { host, port, scripts: BTreeMap::new(), is_down: false }
    }
}
