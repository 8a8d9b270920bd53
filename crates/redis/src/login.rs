//! Credentials: a user and a password, requested each time a connection is made.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::aside::Aside;

/// A password, with or without a user name.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: String,
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
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The outcome of asking for a login.
pub(crate) type Asked = Result<Login, Box<dyn Error + Send + Sync>>;

/// Asks the program for the current login.
#[derive(Clone)]
pub(crate) struct Credentials(Arc<dyn Fn() -> Asking + Send + Sync>, Aside);

type Asking = Pin<Box<dyn Future<Output = Asked> + Send>>;

impl Credentials {
    pub(crate) fn of<F: Future<Output = Asked> + Send + 'static>(
        ask: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move || Box::pin(ask())), Aside::default())
    }

    pub(crate) async fn ask(&self) -> Asked {
        let ask = self.0.clone();
        self.1.run(move || ask()).await?
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}
