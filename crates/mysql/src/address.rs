//! Where the server is, and how to connect to it.

use std::error::Error as StdError;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sqlx::ConnectOptions;
use sqlx::mysql::MySqlConnectOptions;
#[cfg(feature = "tls")]
use sqlx::mysql::MySqlSslMode;
#[cfg(feature = "tls")]
use tidelock_core::backend::TlsCertificates;
use tidelock_core::backend::{Credentials, MUST_BE_ENCODED};
use tidelock_core::{Error, ErrorKind, Result};

const FORM: &str = "mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE";
/// What a URL may say behind a `?`. The library ignores all that it does not know, and Tidelock sets the rest itself.
const PARAMETERS: [&str; 9] =
    ["socket", "ssl-mode", "sslmode", "ssl-ca", "sslca", "ssl-cert", "sslcert", "ssl-key", "sslkey"];

#[derive(Clone)]
pub(crate) struct Address {
    options: MySqlConnectOptions,
    name: Arc<str>,
    credentials: Option<Credentials>,
}

/// The program's own credentials gave an error in place of a login.
#[derive(Debug)]
pub(crate) struct NoLogin(Box<dyn StdError + Send + Sync>);

impl fmt::Display for NoLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for NoLogin {}

impl Address {
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when it is not the URL of a database.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let wrong = |what: &str| Error::new(ErrorKind::InvalidOption, format!("{what}: {FORM}"));
        if !url.starts_with("mysql://") && !url.starts_with("mariadb://") {
            return Err(wrong("this is not the URL of a MySQL or MariaDB database"));
        }
        check(url).map_err(|wrong| Error::new(ErrorKind::InvalidOption, wrong))?;
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
        Ok(Self { options, name, credentials: None })
    }

    pub(crate) fn with_credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Certificates to check the server with, and the client's own.
    #[cfg(feature = "tls")]
    pub(crate) fn with_certificates(mut self, certificates: &TlsCertificates) -> Self {
        self.options = self.options.ssl_ca_from_pem(certificates.root_cert.clone());
        if !matches!(self.options.get_ssl_mode(), MySqlSslMode::VerifyCa) {
            self.options = self.options.ssl_mode(MySqlSslMode::VerifyIdentity);
        }
        if let Some(client) = &certificates.client_tls {
            self.options = self
                .options
                .ssl_client_cert_from_pem(&client.client_cert)
                .ssl_client_key_from_pem(&client.client_key);
        }
        self
    }

    /// The settings of a new connection, with the current login.
    pub(crate) async fn to_connect(&self) -> Result<MySqlConnectOptions, sqlx::Error> {
        // A choice of the program wins. Without any, the library would panic if two providers are available.
        #[cfg(feature = "tls")]
        let _ = rustls::crypto::ring::default_provider().install_default();
        let options = self.options.clone();
        let Some(credentials) = &self.credentials else { return Ok(options) };
        let login =
            credentials.ask().await.map_err(|error| sqlx::Error::Configuration(NoLogin(error).into()))?;
        let (user, password) = login.into_parts();
        let options = options.password(&password);
        Ok(match user {
            Some(user) => options.username(&user),
            None => options,
        })
    }

    pub(crate) fn options(&self) -> &MySqlConnectOptions {
        &self.options
    }

    /// `mysql 10.0.0.7:3306/shop`
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Says which part of the URL would be ignored. No message has any part of the URL but the name of a parameter: a misplaced
/// password may be in each of them.
fn check(url: &str) -> std::result::Result<(), String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let tail = &rest[rest.find(['/', '?', '#']).unwrap_or(rest.len())..];
    if tail.contains('@') {
        return Err(MUST_BE_ENCODED.into());
    }
    let (tail, fragment) = tail.split_once('#').unwrap_or((tail, ""));
    if !fragment.is_empty() {
        return Err(format!("the URL of a database must have nothing after a #: {FORM}"));
    }
    let query = tail.split_once('?').map_or("", |(_, query)| query);
    let mut keys =
        query.split('&').filter(|part| !part.is_empty()).map(|part| part.split('=').next().unwrap_or(part));
    if let Some(key) = keys.find(|key| !PARAMETERS.contains(key)) {
        let is_name = key.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        let shown = if is_name { format!("`{key}`, which is none of them") } else { "another one".into() };
        return Err(format!(
            "the URL of a database takes only ?socket, ssl-mode, ssl-ca, ssl-cert and ssl-key; it has {shown}"
        ));
    }
    Ok(())
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

    #[test]
    fn what_a_url_says_is_used_or_refused_with_the_part_that_is_wrong() {
        for (url, part) in [
            ("mysql://app@h/shop?ssl_mode=VERIFY_IDENTITY", "`ssl_mode`"),
            ("mysql://app@h/shop?socket=/s&tls=true", "`tls`"),
            ("mysql://app@h/shop?ssl%2Dmode=VERIFY_IDENTITY", "only"),
            ("mysql://app@h/shop?timezone=secret", "`timezone`"),
            ("mysql://app@h/shop?charset=latin1", "`charset`"),
            ("mysql://app@h/shop?password=secret", "`password`"),
            ("mysql://app@h/shop?se cret", "only"),
            ("mysql://app@h/shop#secret", "after a #"),
            ("mysql://app@h/shop?socket=/s#secret", "after a #"),
            ("mysql://admin:2024/07secret@db:3306/shop", "percent-encoded"),
            ("mysql://admin:20?secret@db:3306/shop", "percent-encoded"),
            ("mariadb://admin:20#secret@db:3306/shop", "percent-encoded"),
        ] {
            let wrong = Address::parse(url).map(|address| address.name().to_owned()).expect_err(url);
            assert_eq!(wrong.kind(), ErrorKind::InvalidOption, "{url}");
            let text = format!("{wrong:?} {wrong}");
            assert!(text.contains(part), "{url}: {text}");
            assert!(!text.contains("secret") && !text.contains("cret"), "{url}: {text}");
        }
        for url in [
            "mysql://app:p%40ss@h/shop",
            "mysql://app@h/shop?",
            "mysql://app@h/shop?socket=/run/s",
            "mysql://app@h/shop?ssl-mode=VERIFY_CA&ssl-ca=/ca.pem&ssl-cert=/c.pem&ssl-key=/k.pem",
            "mysql://app@h/shop?sslmode=REQUIRED&sslca=/ca.pem&sslcert=/c.pem&sslkey=/k.pem",
        ] {
            Address::parse(url).expect(url);
        }
    }
}
