//! What a client checks when it connects: the server's version, the tables, and its permissions.

use tidelock_core::backend::boot_clock;
use tidelock_core::{Error, ErrorKind, Result};

use crate::link::{Answer, Link};
use crate::sql::{self, MIGRATION, VERSION, put};
use crate::trouble::{self, NO_TABLE, Said};
use crate::which_server::WhichServer;

const TABLES: &str = "SELECT version, store FROM tidelock_version";

async fn ask(link: &Link, text: &str) -> Result<Answer, Said> {
    link.ask_until(text, boot_clock().now() + link.connect_within).await
}

/// What a client has to know of a store.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) is_mariadb: bool,
    /// The number that no other store has.
    pub(crate) store: u64,
    pub(crate) server: WhichServer,
}

/// Checks the server, and creates the tables if they are missing and `migrates` is set.
pub(crate) async fn server(link: &Link, migrates: bool) -> Result<Found> {
    let said = |said: Said| trouble::from(&said, link.place());
    link.connect().await.map_err(said)?;
    let mut text = "SELECT VERSION();\n".to_owned();
    put(&mut text, sql::WHICH_SERVER, &[]);
    let answer = ask(link, &text).await.map_err(said)?;
    let server = WhichServer::of(&answer.rows).unwrap_or_default();
    let version = answer.rows.first().map(|row| String::from_utf8_lossy(row.bytes(0)).into_owned());
    let version = version.unwrap_or_default();
    check_version(&version, link.place())?;
    let mut found = ask(link, TABLES).await;
    // The version comes last: without it, another client is creating the tables now, or did not get to the end.
    let is_missing = match &found {
        Ok(answer) => answer.rows.is_empty(),
        Err(error) => error.number() == Some(NO_TABLE),
    };
    if is_missing && migrates {
        ask(link, MIGRATION).await.map_err(said)?;
        found = ask(link, TABLES).await;
    }
    let tables = found.map_err(said)?.rows.into_iter().max_by_key(|row| row.number(0));
    check_tables(tables.as_ref().map(|row| row.number(0)), link.place())?;
    let mut text = String::new();
    put(&mut text, sql::CHECK, &[]);
    ask(link, &text).await.map_err(said)?;
    Ok(Found { is_mariadb: is_mariadb(&version), store: tables.map_or(0, |row| row.number(1)), server })
}

/// `10.11.19-MariaDB-0+deb12u1`, `8.0.36`, or `5.5.5-10.6.1-MariaDB` by an old protocol.
fn check_version(version: &str, place: &str) -> Result<()> {
    let is_mariadb = is_mariadb(version);
    let numbers = version.strip_prefix("5.5.5-").filter(|_| is_mariadb).unwrap_or(version);
    let mut parts = numbers.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let least = if is_mariadb { (10, 6) } else { (8, 0) };
    if found >= least {
        return Ok(());
    }
    let wrong = format!("{place} has the version {version}; locks need MariaDB 10.6 or MySQL 8.0");
    Err(Error::new(ErrorKind::Unsupported, wrong))
}

fn is_mariadb(version: &str) -> bool {
    version.contains("MariaDB")
}

fn check_tables(found: Option<u64>, place: &str) -> Result<()> {
    let wrong = match found {
        Some(VERSION) => return Ok(()),
        Some(newer) if newer > VERSION => format!(
            "{place} has tables of version {newer}, and this program knows version {VERSION}; use a newer Tidelock"
        ),
        Some(older) => format!(
            "{place} has tables of version {older}, and this program needs version {VERSION}; run \
             tidelock_mysql::MIGRATION when no older program uses them"
        ),
        None => format!("{place} has an empty table tidelock_version; run tidelock_mysql::MIGRATION"),
    };
    Err(Error::new(ErrorKind::Unsupported, wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_refused_by_their_version() {
        for (version, is_fine) in [
            ("10.11.19-MariaDB-0+deb12u1", true),
            ("5.5.5-10.6.1-MariaDB-log", true),
            ("10.5.9-MariaDB", false),
            ("8.0.36", true),
            ("9.1.0", true),
            ("5.7.44-log", false),
            ("nonsense", false),
        ] {
            assert_eq!(check_version(version, "x").is_ok(), is_fine, "{version}");
        }
    }

    #[test]
    fn tables_of_another_version_are_told_apart() {
        assert!(check_tables(Some(VERSION), "x").is_ok());
        assert!(check_tables(Some(VERSION + 1), "x").unwrap_err().to_string().contains("newer Tidelock"));
        assert!(check_tables(Some(0), "x").unwrap_err().to_string().contains("MIGRATION"));
    }
}
