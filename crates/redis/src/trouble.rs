//! Turns the errors of Redis and of its client library into errors that help the user.

use redis::{RedisError, ServerError, ServerErrorKind, Value};
use tidelock_core::{Error, ErrorKind, Result};

const REFUSED_LOGIN: &str =
    "refused the user name or the password; check the URL, or what Store::credentials gives";

/// Our error for an error of the library, with the place where it happened: `Redis at 127.0.0.1:6379`.
pub(crate) fn from(error: RedisError, place: &str) -> Error {
    use redis::ErrorKind as Said;
    if let (Said::MasterNameNotFoundBySentinel, Some(wrong)) = (error.kind(), error.detail()) {
        return Error::new(ErrorKind::Unsupported, wrong);
    }
    if matches!(error.kind(), Said::Io) && error.is_timeout() {
        return Error::no_answer(place).because(error);
    }
    let code = error.code().unwrap_or_default().to_owned();
    let detail = error.detail().unwrap_or_default().to_owned();
    let (kind, message) = match error.kind() {
        Said::Server(kind) => said(kind, &code, &detail),
        Said::Extension => extension(&code, &detail),
        Said::AuthenticationFailed => (ErrorKind::Denied, REFUSED_LOGIN.into()),
        Said::Io => (ErrorKind::Unavailable, format!("cannot be reached: {error}")),
        Said::RESP3NotSupported => (ErrorKind::Unsupported, "is older than Redis 6.2".into()),
        Said::InvalidClientConfig => {
            (ErrorKind::InvalidOption, format!("cannot be connected to with these settings: {error}"))
        }
        Said::Parse | Said::UnexpectedReturnType => {
            (ErrorKind::Protocol, "does not answer like a Redis server; check the address".into())
        }
        _ => (ErrorKind::Unavailable, format!("failed: {error}")),
    };
    Error::new(kind, format!("{place} {message}")).because(error)
}

/// A reply, or the error that it is. An error of one command in a script says nothing about the commands before it.
pub(crate) fn checked(value: Value, place: &str) -> Result<Value> {
    match value {
        Value::ServerError(error) => {
            let (is_of_script, error) = (is_of_script(&error), bare(error));
            // Not for WRONGTYPE: another program's key stops a leave too.
            let may_be_taken_back = is_of_script && error.code() != "WRONGTYPE";
            let error = from(error.into(), place);
            Err(if may_be_taken_back { error.perhaps_done() } else { error })
        }
        value => Ok(value),
    }
}

/// Whether the server is a read-only replica: it was master before.
pub(crate) fn is_read_only(value: &Value) -> bool {
    matches!(value, Value::ServerError(error) if bare(error.clone()).code() == "READONLY")
}

/// Whether the error came from a line inside a script, not before the script began.
fn is_of_script(error: &ServerError) -> bool {
    error.details().is_some_and(|detail| detail.contains("@user_script"))
}

/// The error of a command in a script, in the form it has outside a script. Redis 6.2 wraps it: `ERR Error running
/// script (call to f_…): @user_script:25: @user_script: 25: -OOM command not allowed …`, or `…: @user_script:9:
/// WRONGTYPE Operation …`.
fn bare(error: ServerError) -> ServerError {
    let wrapped = error.details().and_then(|detail| detail.strip_prefix("Error running script"));
    let place = |c: char| c.is_ascii_digit() || c == ':' || c == ' ';
    let inner = wrapped.and_then(|detail| detail.rsplit_once("@user_script")).map(|(_, inner)| {
        let inner = inner.trim_start_matches(place);
        inner.strip_prefix('-').unwrap_or(inner)
    });
    let coded = inner.filter(|inner| {
        inner.split_once(' ').is_some_and(|(code, _)| code.bytes().all(|b| b.is_ascii_uppercase()))
    });
    match coded.map(|inner| redis::parse_redis_value(format!("-{inner}\r\n").as_bytes())) {
        Some(Ok(Value::ServerError(inner))) => inner,
        _ => error,
    }
}

/// The error for a reply that no script of ours sends.
pub(crate) fn strange(value: &Value) -> Error {
    Error::new(
        ErrorKind::Protocol,
        format!("Redis sent a reply that Tidelock does not understand: {value:?}"),
    )
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
        // The script itself emptied this key, in a slot that is being moved. It may have done half of its work; a
        // repeated request does the rest.
        ServerErrorKind::ResponseError if detail.contains("non local key") => {
            (ErrorKind::Unavailable, format!("is moving the slot: {detail}"))
        }
        ServerErrorKind::ResponseError if detail.contains("max number of clients") => {
            (ErrorKind::Unavailable, format!("accepts no more connections (maxclients is reached): {detail}"))
        }
        ServerErrorKind::ResponseError if detail.contains("DB index is out of range") => {
            let wrong = "has no database of that number; choose a smaller one in the URL (redis://HOST:PORT/0), or \
                         raise `databases` in its configuration";
            (ErrorKind::InvalidOption, wrong.into())
        }
        // A refused handshake, or a command that a script is not permitted to run.
        ServerErrorKind::ResponseError if is_denied(detail) => (ErrorKind::Denied, denied(detail)),
        _ => (ErrorKind::Protocol, format!("answered with an error: {code} {detail}")),
    }
}

/// Whether a command was refused because a permission is missing. In a script the error has no code NOPERM: before
/// Redis 7.2 it says that the script's user can't do it, since then that the user has no permissions to.
pub(crate) fn is_denied(said: &str) -> bool {
    let ways = ["NOPERM", "no permissions to", "No permissions to", "The user executing the script can't"];
    ways.iter().any(|way| said.contains(way))
}

/// What to grant, as far as the error says it: `this user has no permissions to run the 'eval' command`.
fn denied(detail: &str) -> String {
    let command = detail.split(" run the '").nth(1).and_then(|rest| rest.split('\'').next());
    let missing = match command {
        Some(command) => format!("+{command}"),
        None if detail.contains("channel") => "&NAMESPACE:*".into(),
        None if detail.contains("key") => "~NAMESPACE:*".into(),
        None => return format!("refused a command because a permission is missing: {detail}"),
    };
    format!("refused: a permission is missing; grant it with: ACL SETUSER … {missing} (Redis said: {detail})")
}

fn extension(code: &str, detail: &str) -> (ErrorKind, String) {
    match code {
        "NOAUTH" => {
            let wrong = "requires a password; give it in the URL (redis://:PASSWORD@HOST:PORT) or to Store::credentials";
            (ErrorKind::Denied, wrong.into())
        }
        "WRONGPASS" => (ErrorKind::Denied, REFUSED_LOGIN.into()),
        "WRONGTYPE" => {
            let wrong =
                "has a key of another type in place of this lock's: another program uses the namespace";
            (ErrorKind::Protocol, wrong.into())
        }
        "OOM" => {
            let wrong = "has no memory left (maxmemory); raise that limit, or delete other data";
            (ErrorKind::Unavailable, wrong.into())
        }
        "MISCONF" | "BUSY" | "NOREPLICAS" | "UNBLOCKED" => {
            (ErrorKind::Unavailable, format!("refuses writes now: {code} {detail}"))
        }
        _ => (ErrorKind::Protocol, format!("answered with an error: {code} {detail}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stops_a_script_is_the_same_in_the_words_of_redis_6_2() {
        let wrapped = |inner: &str| {
            let script = "f_06e7c6476c37ff9bb10e7aa54f7253e3d2d9e56f";
            let error = format!("-ERR Error running script (call to {script}): @user_script:25: {inner}\r\n");
            redis::parse_redis_value(error.as_bytes()).unwrap()
        };
        let replica = "@user_script: 25: -READONLY You can't write against a read only replica.";
        assert!(is_read_only(&wrapped(replica)));
        for (inner, kind) in [
            (replica, ErrorKind::Unavailable),
            (
                "@user_script: 25: -OOM command not allowed when used memory > 'maxmemory'.",
                ErrorKind::Unavailable,
            ),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", ErrorKind::Protocol),
            ("@user_script: 25: The user executing the script can't run this command", ErrorKind::Denied),
            ("attempt to index a nil value", ErrorKind::Protocol),
        ] {
            let error = checked(wrapped(inner), "Redis at here").unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert_eq!(is_read_only(&wrapped(inner)), inner == replica, "{inner}");
        }
        let type_error = checked(wrapped("WRONGTYPE Operation against a key"), "Redis at here").unwrap_err();
        assert!(type_error.to_string().contains("another type"), "{type_error}");
    }

    #[test]
    fn what_the_user_can_change_is_told_with_what_to_do() {
        for (error, kind, next) in [
            ("-ERR DB index is out of range", ErrorKind::InvalidOption, "choose a smaller one"),
            (
                "-OOM command not allowed when used memory > 'maxmemory'.",
                ErrorKind::Unavailable,
                "raise that limit",
            ),
            ("-NOAUTH Authentication required.", ErrorKind::Denied, "give it in the URL"),
            ("-WRONGPASS invalid username-password pair", ErrorKind::Denied, "check the URL"),
        ] {
            let said = redis::parse_redis_value(format!("{error}\r\n").as_bytes()).unwrap();
            let told = checked(said, "Redis at here").unwrap_err();
            assert_eq!(told.kind(), kind, "{told}");
            assert!(told.to_string().contains(next), "{told}");
        }
    }

    #[test]
    fn what_a_script_may_not_is_denied_in_the_words_of_every_version() {
        for (detail, named) in [
            ("The user executing the script can't run this command or subcommand", "a command"),
            ("The user executing the script can't access at least one of the keys mentioned", "~NAMESPACE:*"),
            ("The user executing the script can't publish to the channel mentioned", "&NAMESPACE:*"),
            ("ACL failure in script: User a has no permissions to run the 'hset' command", "+hset"),
            ("ACL failure in script: No permissions to access a key", "~NAMESPACE:*"),
            ("ACL failure in script: No permissions to access a channel", "&NAMESPACE:*"),
        ] {
            let (kind, message) = said(ServerErrorKind::ResponseError, "ERR", detail);
            assert_eq!(kind, ErrorKind::Denied, "{detail}");
            assert!(message.contains(named), "{message}");
        }
    }
}
