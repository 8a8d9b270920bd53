//! Credentials: a user and a password, requested each time a connection is made.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::aside::Aside;
use crate::escape::unescape;

/// Says that the user or the password of a URL must be written in another way, without repeating it.
pub const MUST_BE_ENCODED: &str =
    "a user name or a password in the URL must have its / ? # and @ percent-encoded: @ is %40";

/// A password, with or without a user name.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    user: Option<String>,
    password: String,
}

impl Login {
    /// A user name and its password.
    #[must_use]
    pub fn user(user: &str, password: &str) -> Self {
        Self { user: Some(user.to_owned()), password: password.to_owned() }
    }

    /// A password for the user that the URL names, or for the default user.
    #[must_use]
    pub fn password(password: &str) -> Self {
        Self { user: None, password: password.to_owned() }
    }

    /// That of a URL, `USER:PASSWORD`, in which every `%` and two digits is a byte.
    ///
    /// # Errors
    /// If there is no password, or a `%` that is none of a byte. The message does not repeat any of it.
    pub fn of_url(login: &str) -> Result<Self, &'static str> {
        let (user, password) =
            login.split_once(':').ok_or("the user in the URL needs a password: USER:PASSWORD@")?;
        let decoded = |text| {
            unescape(text).ok_or("a % in the user name or the password in the URL must be written as %25")
        };
        Ok(Self::user(&decoded(user)?, &decoded(password)?))
    }

    /// The user name, if there is one, and the password.
    #[must_use]
    pub fn into_parts(self) -> (Option<String>, String) {
        (self.user, self.password)
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The outcome of asking for a login.
pub type Asked = Result<Login, Box<dyn Error + Send + Sync>>;

/// Asks the program for the current login.
#[derive(Clone)]
pub struct Credentials(Arc<dyn Fn() -> Asking + Send + Sync>, Aside);

type Asking = Pin<Box<dyn Future<Output = Asked> + Send>>;

impl Credentials {
    /// Credentials that are asked for by this. It may block: it runs on a thread of its own.
    pub fn of<F: Future<Output = Asked> + Send + 'static>(
        ask: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move || Box::pin(ask())), Aside::default())
    }

    /// The current login.
    ///
    /// # Errors
    /// Those of the program's own code, which may also panic.
    pub async fn ask(&self) -> Asked {
        let ask = self.0.clone();
        self.1.run(move || ask()).await?
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}
