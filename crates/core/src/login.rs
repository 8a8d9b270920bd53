//! Credentials: a user and a password, requested each time a connection is made.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use crate::aside::Aside;
use crate::escape::unescaped;

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
    /// If there is no password, a `%` that is none of a byte, or bytes that are no text. The message does not repeat any of it.
    pub fn of_url(login: &str) -> Result<Self, &'static str> {
        let (user, password) =
            login.split_once(':').ok_or("the user in the URL needs a password: USER:PASSWORD@")?;
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

fn decoded(text: &str) -> Result<String, &'static str> {
    // Unlike in a name, a digit may be in either case.
    let digit = |byte| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let bytes = unescaped(text, digit)
        .ok_or("a % in the user name or the password in the URL must be written as %25")?;
    String::from_utf8(bytes).map_err(|_| "the user name or the password in the URL is not UTF-8")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_of_a_url_is_decoded() {
        let parts = |login| Login::of_url(login).map(Login::into_parts);
        for text in ["%75:p%2fq%c3%a9", "u:p%2Fq%C3%A9", "u:p/qé"] {
            assert_eq!(parts(text), Ok((Some("u".to_owned()), "p/qé".to_owned())), "{text}");
        }
        for (wrong, says) in
            [("u", "password"), ("u:%", "%25"), ("u:%2", "%25"), ("u:%zz", "%25"), ("u:%FF", "UTF-8")]
        {
            let error = parts(wrong).unwrap_err();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }
}
