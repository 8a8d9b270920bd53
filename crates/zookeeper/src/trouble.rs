//! Turns the errors of ZooKeeper and its client library into ours, which say what to do.

use tidelock_core::{Error, ErrorKind};
use zookeeper_client::Error as Said;

/// Our error for one of the library's, with the server: `zookeeper 127.0.0.1:2181`.
///
/// If the error does not come from the server itself, the outcome of the request is unknown.
pub(crate) fn from(error: &Said, place: &str) -> Error {
    if matches!(error, Said::Timeout) {
        return Error::no_answer(place).because(error.clone());
    }
    if matches!(error, Said::SessionExpired | Said::ClientClosed) {
        // The library says both by its own clock too, so the server may still have the session.
        let lost =
            format!("this client's session at {place} is lost: it was not renewed in time, or was closed");
        return Error::new(ErrorKind::Lost, lost);
    }
    let (kind, message) = match error {
        Said::AuthFailed => (ErrorKind::Denied, "refused the user name or the password"),
        Said::NoAuth => (ErrorKind::Denied, DENIED),
        Said::InvalidAcl => (
            ErrorKind::Denied,
            "does not know this user; nodes for their creator alone need USER:PASSWORD@ in the URL",
        ),
        Said::NotReadOnly => (ErrorKind::Unavailable, "is read-only: it is cut off from its ensemble"),
        Said::QuotaExceeded => (ErrorKind::Unavailable, "refused: the quota of this path is used up"),
        Said::Throttled => (ErrorKind::Unavailable, "is overloaded and put this request off"),
        Said::NoChildrenForEphemerals => (
            ErrorKind::Protocol,
            "has a node at this lock's path that cannot have children: something else created it",
        ),
        Said::Unimplemented => (ErrorKind::Unsupported, "is older than ZooKeeper 3.6"),
        Said::NoNode => (ErrorKind::Protocol, "no longer has the namespace: its node was deleted"),
        Said::NodeExists | Said::NotEmpty | Said::BadVersion => {
            (ErrorKind::Conflict, "reports that another client changed this at the same time")
        }
        Said::BadArguments(_) => (ErrorKind::InvalidName, "cannot have a node with this name"),
        _ => (ErrorKind::Unavailable, "did not reply in full: the connection to it was lost"),
    };
    Error::new(kind, format!("{place} {message}")).because(error.clone())
}

/// The exact ACL to grant.
pub(crate) const DENIED: &str = "refused: this user lacks a permission; grant it with zkCli: \
    setAcl /NAMESPACE world:anyone:cdrw (or digest:USER:HASH:cdrw), and the same for what is below it: setAcl -R; \
    or put a user with this permission in the URL: USER:PASSWORD@";
