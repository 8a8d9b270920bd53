//! What ZooKeeper and its client library say when something is wrong, as an error of ours that helps.

use tidelock::{Error, ErrorKind};
use zookeeper_client::Error as Said;

/// The error that this one of the library means, with where it happened: `zookeeper 127.0.0.1:2181`.
///
/// What the server has not said itself leaves open what was done.
pub(crate) fn from(error: &Said, place: &str) -> Error {
    let (kind, message) = match error {
        Said::SessionExpired | Said::ClientClosed => (ErrorKind::Lost, "has ended the session"),
        Said::AuthFailed => (ErrorKind::Denied, "refused the user name or the password"),
        Said::NoAuth => (ErrorKind::Denied, DENIED),
        Said::InvalidAcl => (
            ErrorKind::Denied,
            "does not know who this is; only the creator's nodes want USER:PASSWORD@ in the URL",
        ),
        Said::NotReadOnly => {
            (ErrorKind::Unavailable, "is cut off from the others of its ensemble, and lets nobody write")
        }
        Said::QuotaExceeded => (ErrorKind::Unavailable, "has a quota on this path, and it is used up"),
        Said::Throttled => (ErrorKind::Unavailable, "has too much to do, and has put this off"),
        Said::NoChildrenForEphemerals => (
            ErrorKind::Protocol,
            "has a node where this lock's is that can have no children: something else made it",
        ),
        Said::Unimplemented => (ErrorKind::Unsupported, "is older than ZooKeeper 3.6"),
        Said::NoNode => (ErrorKind::Protocol, "has no namespace any more: somebody has deleted its node"),
        Said::NodeExists | Said::NotEmpty | Said::BadVersion => {
            (ErrorKind::Conflict, "had this changed by somebody else meanwhile")
        }
        Said::BadArguments(_) => (ErrorKind::InvalidName, "cannot have a node of that name"),
        Said::Timeout => (ErrorKind::Timeout, "did not answer in time"),
        _ => (ErrorKind::Unavailable, "was not heard out: the connection to it was lost"),
    };
    Error::new(kind, format!("{place} {message}")).because(error.clone())
}

/// What has to be granted to whom, the exact ACL.
pub(crate) const DENIED: &str = "refused for want of a permission; grant it with zkCli: \
    setAcl /NAMESPACE world:anyone:cdrw (or digest:USER:HASH:cdrw), and the same for what is below it: setAcl -R; \
    or name in the URL the user who has it: USER:PASSWORD@";
