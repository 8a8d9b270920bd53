//! Turns the errors of the server and of the client library into errors that help the user.

use std::sync::Arc;

use sqlx::mysql::MySqlDatabaseError;
use tidelock_core::{Error, ErrorKind};

use crate::address::NoLogin;

/// Why a request got no answer.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    /// The server refused it: nothing was done.
    Server { number: u16, message: String },
    /// The connection failed, and the request may have been carried out.
    Broken(Arc<sqlx::Error>),
    /// The time was over, and the request may have been carried out.
    NoAnswer,
    /// The time was over before it was sent.
    NotSent,
    /// The time to connect was over.
    NotConnected,
}

impl Said {
    pub(crate) fn of(error: sqlx::Error) -> Self {
        if let sqlx::Error::Database(said) = &error
            && let Some(said) = said.try_downcast_ref::<MySqlDatabaseError>()
        {
            return Self::Server { number: said.number(), message: said.message().to_owned() };
        }
        Self::Broken(Arc::new(error))
    }

    pub(crate) fn number(&self) -> Option<u16> {
        if let Self::Server { number, .. } = self { Some(*number) } else { None }
    }
}

const DEADLOCK: u16 = 1213;
const LOCK_WAIT: u16 = 1205;
const RECORD_CHANGED: u16 = 1020;
/// MySQL's group has let another member's transaction pass: at the commit, and this one was rolled back.
const NOT_CERTIFIED: u16 = 3101;
/// There is no such savepoint: no transaction is open in which it was made.
const NO_SAVEPOINT: u16 = 1305;
pub(crate) const DUPLICATE: u16 = 1062;
pub(crate) const NO_TABLE: u16 = 1146;

/// Whether another transaction was in the way, and the same statements can succeed now.
pub(crate) fn retries(said: &Said) -> bool {
    matches!(said.number(), Some(DEADLOCK | LOCK_WAIT | RECORD_CHANGED | NOT_CERTIFIED))
}

/// Whether the server has said this for the last time on that connection: it was idle for too long (MySQL tells that), or
/// killed, or the server shuts down, or serves nobody but its operators.
pub(crate) fn ends_the_connection(number: u16) -> bool {
    matches!(number, 1053 | 1927 | 3032 | 3169 | 4031)
}

/// Whether the server accepts no writes now: it is a replica, perhaps since a moment ago, or a node without its cluster.
/// It has done nothing, and a new connection may lead to another server. A transaction that its user has made read-only is
/// no such case.
pub(crate) fn is_demoted(number: u16) -> bool {
    matches!(number, 1047 | 1290 | 1836)
}

/// Whether this error means that a user's whole transaction was rolled back, or can only be: a deadlock, also with one on
/// another member of a group, or, with `innodb_snapshot_isolation`, a row that has changed since the transaction's snapshot.
pub(crate) fn rolls_back(number: u16) -> bool {
    matches!(number, DEADLOCK | RECORD_CHANGED | NOT_CERTIFIED)
}

/// Whether a statement for a user's transaction has found that it is over: rolled back by this statement, or ended before,
/// perhaps with its connection.
pub(crate) fn ends_a_transaction(said: &Said) -> bool {
    match said {
        Said::Server { number, .. } => {
            rolls_back(*number) || *number == NO_SAVEPOINT || ends_the_connection(*number)
        }
        Said::Broken(error) => matches!(**error, sqlx::Error::Io(_)),
        Said::NoAnswer | Said::NotSent | Said::NotConnected => false,
    }
}

/// The error for the user. `place` is the server: `MariaDB or MySQL at 10.0.0.7:3306/shop`.
pub(crate) fn from(said: &Said, place: &str) -> Error {
    match said {
        Said::Server { number, message } => {
            let (kind, wrong) = of_server(*number, message);
            Error::new(kind, format!("{place} {wrong}")).because(format!("{number}: {message}"))
        }
        Said::Broken(error) => of_connection(error, place),
        Said::NoAnswer => Error::no_answer(place),
        Said::NotSent => Error::new(
            ErrorKind::Unavailable,
            format!("{place} is still busy with earlier requests; check that it is up and can be reached"),
        ),
        Said::NotConnected => Error::new(
            ErrorKind::Unavailable,
            format!("{place} did not accept a connection in time; check that it is up and can be reached"),
        ),
    }
}

fn of_connection(error: &Arc<sqlx::Error>, place: &str) -> Error {
    let (kind, wrong) = match &**error {
        sqlx::Error::Tls(tls) => (ErrorKind::Unavailable, format!("{place} failed the TLS handshake: {tls}")),
        sqlx::Error::Io(error) if error.kind() == std::io::ErrorKind::NotFound => (
            ErrorKind::InvalidOption,
            format!(
                "cannot be reached: a file that the URL names, such as ssl-ca or socket, is missing: {error}"
            ),
        ),
        sqlx::Error::Io(error) if error.to_string().contains("certificate") => (
            ErrorKind::Denied,
            format!("failed the TLS handshake: {error}; check ssl-ca and the host's name in the URL"),
        ),
        sqlx::Error::Protocol(_) => (
            ErrorKind::Protocol,
            format!(
                "{place} does not answer like a MySQL or a MariaDB; check the host and the port in the URL"
            ),
        ),
        sqlx::Error::Configuration(wrong) if wrong.is::<NoLogin>() => (
            ErrorKind::Unavailable,
            format!("{place} was not contacted: cannot get the credentials: {wrong}"),
        ),
        sqlx::Error::Configuration(wrong) => {
            (ErrorKind::InvalidOption, format!("{place} cannot be connected to with these settings: {wrong}"))
        }
        other => (ErrorKind::Unavailable, format!("{place} cannot be reached: {other}")),
    };
    Error::new(kind, wrong).because(error.clone())
}

fn of_server(number: u16, message: &str) -> (ErrorKind, String) {
    match number {
        1045 | 1698 => (ErrorKind::Denied, "refused the user name or the password; check the URL".into()),
        1044 => (ErrorKind::Denied, format!("does not let this user use the database; {}", grant(message))),
        1142 | 1143 => {
            (ErrorKind::Denied, format!("refused: a permission is missing ({message}); {}", grant(message)))
        }
        1130 | 1129 => (ErrorKind::Denied, format!("does not let this host connect: {message}")),
        1820 | 1862 => (ErrorKind::Denied, format!("wants a new password for this user: {message}")),
        1049 => (
            ErrorKind::InvalidOption,
            format!("has no such database ({message}); create it, or change the URL"),
        ),
        1290 | 1836 => {
            (ErrorKind::Unavailable, "is read-only; locks need the server that accepts writes".into())
        }
        1792 => (
            ErrorKind::InvalidOption,
            "was told that this transaction only reads; a lock inside is a change, so begin it without READ ONLY".into(),
        ),
        1040 | 1203 | 1226 => (
            ErrorKind::Unavailable,
            format!("accepts no more connections ({message}); raise max_connections, or share one Locks"),
        ),
        1047 => (ErrorKind::Unavailable, format!("is not part of its Galera cluster now: {message}")),
        NO_TABLE => (
            ErrorKind::Protocol,
            format!("lacks a table of Tidelock ({message}); create it with tidelock_mysql::MIGRATION"),
        ),
        1054 | 1136 | 1364 => (
            ErrorKind::Protocol,
            format!(
                "has a table of Tidelock's name with other columns ({message}); another program uses that name"
            ),
        ),
        1665 => (
            ErrorKind::Unsupported,
            "writes its binary log by statements; locks need binlog_format ROW or MIXED".into(),
        ),
        1064 | 1235 => (
            ErrorKind::Unsupported,
            format!("does not understand a statement; Tidelock needs MariaDB 10.6 or MySQL 8.0: {message}"),
        ),
        DEADLOCK | LOCK_WAIT | RECORD_CHANGED | NOT_CERTIFIED => (
            ErrorKind::Unavailable,
            format!(
                "let other transactions pass for too long; look for one that holds a lock on tidelock_line: {message}"
            ),
        ),
        _ => (ErrorKind::Unavailable, format!("refuses to serve now: {number} {message}")),
    }
}

/// What to grant.
fn grant(message: &str) -> String {
    let user =
        message.split("user ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or("'USER'@'HOST'");
    let creates = message.contains("CREATE command");
    let rights =
        if creates { "CREATE, SELECT, INSERT, UPDATE, DELETE" } else { "SELECT, INSERT, UPDATE, DELETE" };
    format!("grant it with: GRANT {rights} ON DATABASE.* TO {user}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_what_to_do() {
        let said =
            |number, message: &str| from(&Said::Server { number, message: message.into() }, "MySQL at x");
        let denied =
            said(1142, "INSERT command denied to user 'app'@'localhost' for table `shop`.`tidelock_line`");
        assert_eq!(denied.kind(), ErrorKind::Denied);
        assert!(denied.to_string().contains("INSERT command denied"), "{denied}");
        assert!(denied.to_string().contains("TO 'app'@'localhost'"), "{denied}");
        assert_eq!(said(1290, "--read-only").kind(), ErrorKind::Unavailable);
        assert_eq!(said(1792, "Cannot execute statement").kind(), ErrorKind::InvalidOption);
        assert_eq!(said(1049, "Unknown database 'x'").kind(), ErrorKind::InvalidOption);
        assert_eq!(said(1054, "Unknown column 'spilled'").kind(), ErrorKind::Protocol);
    }

    #[test]
    fn what_was_rolled_back_is_sent_again_and_so_is_what_waited_for_too_long() {
        let number = |number| Said::Server { number, message: String::new() };
        for rolled_back in [DEADLOCK, RECORD_CHANGED, NOT_CERTIFIED] {
            assert!(retries(&number(rolled_back)) && rolls_back(rolled_back), "{rolled_back}");
        }
        // Of a user's transaction only that statement is rolled back.
        assert!(retries(&number(LOCK_WAIT)) && !rolls_back(LOCK_WAIT));
    }

    #[test]
    fn a_transaction_is_over_with_its_connection() {
        let number = |number| Said::Server { number, message: String::new() };
        for over in [DEADLOCK, NO_SAVEPOINT, 1053, 1927, 4031] {
            assert!(ends_a_transaction(&number(over)), "{over}");
        }
        assert!(ends_a_transaction(&Said::of(sqlx::Error::Io(std::io::ErrorKind::UnexpectedEof.into()))));
        assert!(!ends_a_transaction(&number(LOCK_WAIT)) && !ends_a_transaction(&number(1142)));
        assert!(!ends_a_transaction(&Said::of(sqlx::Error::Protocol(String::new()))));
    }
}
