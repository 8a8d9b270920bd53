//! Turns the errors of etcd and its client library into ours, which say what to do.

use std::error::Error as StdError;

use etcd_client::Error as Said;
use tidelock_core::{Error, ErrorKind};
use tonic::{Code, Status};

use crate::shown::Another;

/// Our error for one of the library's, with the place, `etcd 127.0.0.1:2379`, and what all our keys begin with.
///
/// If the error does not come from the server itself, the outcome of the request is unknown.
pub(crate) fn from(error: Said, place: &str, root: &str) -> Error {
    if let Some(why) = mistrust(&error) {
        return mistrusted(place, &why).because(error);
    }
    let (kind, message) = match &error {
        Said::LeaseKeepAliveError(text) if text.contains("not found") => {
            (ErrorKind::Lost, NO_LEASE.to_owned())
        }
        Said::InvalidArgs(text) if text.starts_with(NO_LOGIN) => {
            (ErrorKind::Unavailable, format!("was not asked: {text}"))
        }
        Said::InvalidArgs(_) | Said::InvalidUri(_) | Said::InvalidMetadataValue(_) => {
            (ErrorKind::InvalidOption, "cannot be used with these options".to_owned())
        }
        Said::GRpcStatus(status) => said(status, root),
        Said::WatchError(text) if text == RENUMBERED => (ErrorKind::Protocol, text.clone()),
        Said::TransportError(_) => (ErrorKind::Unavailable, UNREACHED.to_owned()),
        _ => (ErrorKind::Unavailable, BROKEN.to_owned()),
    };
    Error::new(kind, format!("{place} {message}")).because(error)
}

/// The error of a client and a member that do not accept each other's certificates.
pub(crate) fn mistrusted(place: &str, why: &str) -> Error {
    let wrong = format!("{place} and this client do not accept each other's certificates: {why}");
    Error::new(ErrorKind::Denied, wrong)
}

/// The error of a session whose store is not the one that it was.
pub(crate) fn another_store(place: &str, another: Another) -> Error {
    let wrong = match another {
        Another::Cluster { was, is } => format!(
            "{place} is two clusters, {was:x} and {is:x}, which know nothing of each other's locks; name the members of one"
        ),
        Another::Older { was, is } => format!(
            "{place} was restored from an older copy: it has come to revision {is}, and was at {was} before"
        ),
    };
    Error::new(ErrorKind::Lost, format!("{wrong}; this session is over"))
}

/// How the text of an error begins that the program's own credentials gave.
pub(crate) const NO_LOGIN: &str = "cannot get the credentials";
/// The text of an error that means that what answers gives watches numbers of its own.
pub(crate) const RENUMBERED: &str = "is a gRPC proxy that numbers watches itself (etcd grpc-proxy), or an etcd older than \
                                     3.4, and no lock would be safe behind it; connect to the members themselves";
const NO_LEASE: &str = "no longer has this client's lease: it was not renewed in time, or was revoked";
const UNREACHED: &str = "cannot be reached; check that it is up and that the address is right";
const BROKEN: &str = "did not reply in full: the connection to it was lost";

/// What the server said, in words that say what to do.
fn said(status: &Status, root: &str) -> (ErrorKind, String) {
    let text = status.message();
    let has = |part: &str| text.contains(part);
    let plain = |kind, message: &str| (kind, message.to_owned());
    match status.code() {
        _ if has("requested lease not found") => plain(ErrorKind::Lost, NO_LEASE),
        _ if is_full(status) => plain(
            ErrorKind::Unavailable,
            "refuses writes: its database is full (alarm NOSPACE); compact and defragment it, then: etcdctl alarm disarm",
        ),
        _ if has("too many requests") => {
            plain(ErrorKind::Unavailable, "is overloaded and put this request off")
        }
        _ if has("too many operations in txn") => plain(
            ErrorKind::Unsupported,
            "allows too few operations in a transaction; start it with --max-txn-ops 128",
        ),
        _ if has("authentication is not enabled") => plain(
            ErrorKind::Denied,
            "does not use authentication; leave USER:PASSWORD@ out of the URL, or: etcdctl auth enable",
        ),
        _ if has("authentication failed") || has("user name not found") => {
            plain(ErrorKind::Denied, "refused the user name or the password")
        }
        _ if has("user name is empty") => {
            plain(ErrorKind::Denied, "wants a user; put it into the URL: etcd://USER:PASSWORD@HOST")
        }
        _ if has("invalid auth token") || has("revision of auth store is old") => {
            plain(ErrorKind::Unavailable, "no longer knows this client's login; it logs in again")
        }
        Code::PermissionDenied => {
            let grant = format!("etcdctl role grant-permission ROLE --prefix=true readwrite {root:?}");
            (ErrorKind::Denied, format!("refused: this user lacks a permission; grant it with: {grant}"))
        }
        Code::Unauthenticated => plain(ErrorKind::Denied, "refused the user name or the password"),
        Code::Unimplemented => plain(ErrorKind::Protocol, "is not an etcd, or is older than etcd 3.4"),
        Code::InvalidArgument | Code::OutOfRange => {
            (ErrorKind::Protocol, format!("refused a request: {text}"))
        }
        Code::FailedPrecondition => (ErrorKind::Conflict, format!("refused a request: {text}")),
        Code::ResourceExhausted => (ErrorKind::Unavailable, format!("is out of resources: {text}")),
        _ if has("etcdserver: ") => (
            ErrorKind::Unavailable,
            format!("cannot serve now ({}); has it a leader?", text.trim_start_matches("etcdserver: ")),
        ),
        _ => plain(ErrorKind::Unavailable, BROKEN),
    }
}

/// Why client and server do not accept each other's certificates, if that is the error.
pub(crate) fn mistrust(error: &Said) -> Option<String> {
    let first: &(dyn StdError + 'static) = match error {
        Said::GRpcStatus(status) => status,
        Said::TransportError(error) => error,
        _ => return None,
    };
    let begins = ["invalid peer certificate", "received fatal alert"];
    let mut next = Some(first);
    while let Some(error) = next {
        let text = error.to_string();
        if begins.iter().any(|begin| text.starts_with(begin)) {
            return Some(text);
        }
        next = error.source();
    }
    None
}

/// Whether the server refused because users or passwords have changed since the client logged in. Nothing was done.
pub(crate) fn is_of_an_old_login(error: &Said) -> bool {
    let Said::GRpcStatus(status) = error else { return false };
    let texts = ["revision of auth store is old", "invalid auth token", "authentication failed"];
    status.code() == Code::Unauthenticated || texts.iter().any(|text| status.message().contains(text))
}

/// Whether the server itself refused, so that nothing was done. A full database is no refusal: see [`Blame::Joins`].
pub(crate) fn is_refusal(error: &Said) -> bool {
    let Said::GRpcStatus(status) = error else { return matches!(error, Said::InvalidArgs(_)) };
    if is_full(status) {
        return false;
    }
    // The client library uses some of these codes itself, for answers that it cannot read.
    let is_the_servers = status.message().contains("etcdserver")
        || matches!(status.code(), Code::PermissionDenied | Code::Unauthenticated | Code::Unimplemented);
    is_the_servers
        && matches!(
            status.code(),
            Code::InvalidArgument
                | Code::NotFound
                | Code::PermissionDenied
                | Code::Unauthenticated
                | Code::ResourceExhausted
                | Code::FailedPrecondition
                | Code::OutOfRange
                | Code::Unimplemented
        )
}

/// Whose fault it is that the server has refused several requests in one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// Perhaps that of one alone: the others may be carried out without it.
    One,
    /// That of all joins. The server has room for no more keys, but carries out leaves. It may have carried all of it
    /// out: it looks for room, carries out, and only then says that there was none. Nothing of it arrives later.
    Joins,
    /// Of none in particular: each by itself would be refused, too, and more requests are what the server needs least.
    All,
}

pub(crate) fn blame(error: &Said) -> Blame {
    let Said::GRpcStatus(status) = error else { return Blame::All };
    match status.code() {
        _ if is_full(status) => Blame::Joins,
        _ if is_of_an_old_login(error) => Blame::All,
        Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition | Code::OutOfRange => Blame::One,
        _ => Blame::All,
    }
}

fn is_full(status: &Status) -> bool {
    status.message().contains("database space exceeded")
}

/// Whether the answer is longer than the client library reads.
pub(crate) fn is_too_long(error: &Said) -> bool {
    matches!(error, Said::GRpcStatus(status)
        if status.code() == Code::OutOfRange && status.message().contains("message length too large"))
}

/// Whether the connection is at fault, and another one may do better.
pub(crate) fn is_of_the_connection(error: &Said) -> bool {
    match error {
        Said::GRpcStatus(status) => matches!(
            status.code(),
            Code::Unavailable | Code::Unknown | Code::Internal | Code::Cancelled | Code::DeadlineExceeded
        ),
        Said::InvalidArgs(_) | Said::InvalidUri(_) => false,
        Said::WatchError(text) => text != RENUMBERED,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_says_is_told_in_our_words_and_kinds() {
        let told =
            |code, text: &str| from(Said::GRpcStatus(Status::new(code, text)), "etcd h:1", "tidelock/");
        for (code, text, kind) in [
            (Code::NotFound, "etcdserver: requested lease not found", ErrorKind::Lost),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", ErrorKind::Unavailable),
            (Code::ResourceExhausted, "etcdserver: too many requests", ErrorKind::Unavailable),
            (
                Code::InvalidArgument,
                "etcdserver: authentication failed, invalid user ID or password",
                ErrorKind::Denied,
            ),
            (Code::PermissionDenied, "etcdserver: permission denied", ErrorKind::Denied),
            (Code::Unavailable, "etcdserver: request timed out", ErrorKind::Unavailable),
            (Code::Unknown, "h2 protocol error", ErrorKind::Unavailable),
        ] {
            let error = told(code, text);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().starts_with("etcd h:1 "), "{error}");
        }
        assert!(
            told(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded")
                .to_string()
                .contains("alarm disarm")
        );
    }

    #[test]
    fn only_what_one_request_can_cause_is_blamed_on_one() {
        for (code, text, whose) in [
            (Code::NotFound, "etcdserver: requested lease not found", Blame::One),
            (Code::PermissionDenied, "etcdserver: permission denied", Blame::All), // all keys have one prefix
            (Code::InvalidArgument, "etcdserver: request is too large", Blame::One),
            (Code::InvalidArgument, "etcdserver: duplicate key given in txn request", Blame::One),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded", Blame::Joins),
            (Code::ResourceExhausted, "etcdserver: too many requests", Blame::All),
            (Code::InvalidArgument, "etcdserver: revision of auth store is old", Blame::All),
            (Code::Unauthenticated, "etcdserver: invalid auth token", Blame::All),
            (Code::Unavailable, "etcdserver: no leader", Blame::All),
        ] {
            assert_eq!(blame(&Said::GRpcStatus(Status::new(code, text))), whose, "{text}");
        }
        assert_eq!(blame(&Said::InvalidArgs(NO_LOGIN.to_owned())), Blame::All);
    }

    #[test]
    fn what_a_full_database_refuses_may_have_been_done() {
        let refuses = |text: &str| is_refusal(&Said::GRpcStatus(Status::new(Code::ResourceExhausted, text)));
        assert!(!refuses("etcdserver: mvcc: database space exceeded"));
        assert!(refuses("etcdserver: too many requests"));
    }
}
