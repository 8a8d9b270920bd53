//! What Redis and its client library say when something is wrong, as an error of ours that helps.

use redis::{RedisError, ServerErrorKind, Value};
use tidelock::{Error, ErrorKind, Result};

/// The error that this one of the library means, with where it happened: `Redis at 127.0.0.1:6379`.
pub(crate) fn from(error: RedisError, place: &str) -> Error {
    use redis::ErrorKind as Said;
    let code = error.code().unwrap_or_default().to_owned();
    let detail = error.detail().unwrap_or_default().to_owned();
    let (kind, message) = match error.kind() {
        Said::Server(kind) => said(kind, &code, &detail),
        Said::Extension => extension(&code, &detail),
        Said::AuthenticationFailed => (ErrorKind::Denied, "refused the user name or the password".into()),
        Said::Io if error.is_timeout() => (ErrorKind::Timeout, "did not answer in time".into()),
        Said::Io => (ErrorKind::Unavailable, format!("cannot be reached: {error}")),
        Said::RESP3NotSupported => (ErrorKind::Unsupported, "is older than Redis 6.2".into()),
        Said::InvalidClientConfig => {
            (ErrorKind::InvalidOption, format!("cannot be connected to so: {error}"))
        }
        Said::Parse | Said::UnexpectedReturnType => {
            (ErrorKind::Protocol, "does not answer as Redis does; is it one?".into())
        }
        _ => (ErrorKind::Unavailable, format!("failed: {error}")),
    };
    Error::new(kind, format!("{place} {message}")).because(error)
}

/// A reply, or the error that it is.
pub(crate) fn checked(value: Value, place: &str) -> Result<Value> {
    match value {
        Value::ServerError(error) => Err(from(error.into(), place)),
        value => Ok(value),
    }
}

/// Whether a server was asked that may not write: it was master once.
pub(crate) fn is_read_only(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if error.code() == "READONLY")
}

/// A reply that is not what a script of ours answers.
pub(crate) fn strange(value: &Value) -> Error {
    Error::new(ErrorKind::Protocol, format!("Redis answered strangely: {value:?}"))
}

fn said(kind: ServerErrorKind, code: &str, detail: &str) -> (ErrorKind, String) {
    match kind {
        ServerErrorKind::NoPerm => (ErrorKind::Denied, denied(detail)),
        ServerErrorKind::ReadOnly => {
            (ErrorKind::Unavailable, "is a read-only replica; locks need its master".into())
        }
        ServerErrorKind::BusyLoading
        | ServerErrorKind::TryAgain
        | ServerErrorKind::ClusterDown
        | ServerErrorKind::MasterDown => (ErrorKind::Unavailable, format!("is not ready: {code} {detail}")),
        ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::CrossSlot => {
            let wrong =
                "is a node of a cluster; give all of its nodes as redis-cluster://HOST:PORT,HOST:PORT";
            (ErrorKind::Unsupported, wrong.into())
        }
        // A key that the script itself had emptied, in a slot that is being moved. What it did before may be half of
        // the work: whoever asks again finds the rest.
        ServerErrorKind::ResponseError if detail.contains("non local key") => {
            (ErrorKind::Unavailable, format!("is moving the slot: {detail}"))
        }
        // What the handshake is refused is said so.
        ServerErrorKind::ResponseError if detail.contains("no permissions to run") => {
            (ErrorKind::Denied, denied(detail))
        }
        ServerErrorKind::ResponseError if detail.contains("can't run this command") => {
            (ErrorKind::Denied, format!("refused a command for want of a permission: {detail}"))
        }
        _ => (ErrorKind::Protocol, format!("said: {code} {detail}")),
    }
}

/// What to grant, as far as it is said: `this user has no permissions to run the 'eval' command`.
fn denied(detail: &str) -> String {
    let missing = match detail.split('\'').nth(1) {
        Some(command) => format!("+{command}"),
        None if detail.contains("channel") => "&NAMESPACE:*".into(),
        None => "~NAMESPACE:*".into(),
    };
    format!("refused for want of a permission; grant it with: ACL SETUSER … {missing} (it said: {detail})")
}

fn extension(code: &str, detail: &str) -> (ErrorKind, String) {
    match code {
        "NOAUTH" => (ErrorKind::Denied, "wants a password".into()),
        "WRONGPASS" => (ErrorKind::Denied, "refused the user name or the password".into()),
        "WRONGTYPE" => {
            let wrong = "has a key of another type where this lock's is: something else uses the namespace";
            (ErrorKind::Protocol, wrong.into())
        }
        "OOM" => (ErrorKind::Unavailable, "has no memory left (maxmemory)".into()),
        "MISCONF" | "BUSY" | "NOREPLICAS" | "UNBLOCKED" => {
            (ErrorKind::Unavailable, format!("does not take writes now: {code} {detail}"))
        }
        _ => (ErrorKind::Protocol, format!("said: {code} {detail}")),
    }
}
