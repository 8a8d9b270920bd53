//! Where the server is, and how to connect to it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sqlx::ConnectOptions;
use sqlx::mysql::MySqlConnectOptions;
use tidelock_core::{Error, ErrorKind, Result};

const FORM: &str = "mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE";

#[derive(Clone)]
pub(crate) struct Address {
    options: MySqlConnectOptions,
    name: Arc<str>,
}

impl Address {
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when it is not the URL of a database.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let wrong = |what: &str| Error::new(ErrorKind::InvalidOption, format!("{what}: {FORM}"));
        if !url.starts_with("mysql://") && !url.starts_with("mariadb://") {
            return Err(wrong("this is not the URL of a MySQL or MariaDB database"));
        }
        // Its error may contain a part of the URL, and so the password.
        let options = MySqlConnectOptions::from_str(url).map_err(|_| wrong("this URL cannot be read"))?;
        Self::of(options)
    }

    pub(crate) fn of(options: MySqlConnectOptions) -> Result<Self> {
        let Some(database) = options.get_database().filter(|database| !database.is_empty()) else {
            let wrong = format!("name the database in which the tables of the locks are: {FORM}");
            return Err(Error::new(ErrorKind::InvalidOption, wrong));
        };
        let place = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        let name = format!("mysql {place}/{database}").into();
        let options = options
            .statement_cache_capacity(0)
            .pipes_as_concat(false)
            .no_engine_substitution(false)
            .timezone(None)
            .set_names(false)
            .disable_statement_logging();
        Ok(Self { options, name })
    }

    pub(crate) fn options(&self) -> &MySqlConnectOptions {
        &self.options
    }

    /// `mysql 10.0.0.7:3306/shop`
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_database_and_its_password_stays_hidden() {
        let address = Address::parse("mariadb://app:secret@10.0.0.7:3307/shop").unwrap();
        assert_eq!(address.name(), "mysql 10.0.0.7:3307/shop");
        assert!(!format!("{address:?}").contains("secret"));
        for url in [
            "redis://127.0.0.1",
            "mysql://app@127.0.0.1",
            "mysql://app@127.0.0.1/",
            "mysql://app:secret@h:x/d",
        ] {
            let wrong = Address::parse(url).unwrap_err();
            assert_eq!(wrong.kind(), ErrorKind::InvalidOption, "{url}");
            assert!(!format!("{wrong:?}").contains("secret"), "{wrong:?}");
        }
    }
}
