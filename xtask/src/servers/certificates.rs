//! The certificates of servers with TLS. Made for tests, for 127.0.0.1. The authority's key was not kept.

use std::path::{Path, PathBuf};

use crate::place;
use crate::trouble::Result;

const CERTIFICATE: &str = include_str!("certificates/server.pem");
const KEY: &str = include_str!("certificates/server.key");
const AUTHORITY: &str = include_str!("certificates/ca.pem");

/// Files in a server's folder.
pub(super) struct Certificates {
    /// Its certificate, and its key in the same file.
    pub(super) identity: PathBuf,
    /// Whom it trusts.
    pub(super) authority: PathBuf,
}

pub(super) fn lay_out(folder: &Path) -> Result<Certificates> {
    let [identity, authority] = ["identity.pem", "authority.pem"].map(|file| folder.join(file));
    place::write(&identity, &format!("{CERTIFICATE}{KEY}"))?;
    place::write(&authority, AUTHORITY)?;
    Ok(Certificates { identity, authority })
}
