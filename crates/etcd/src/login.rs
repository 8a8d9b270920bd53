//! Logging in again, when a member no longer accepts a client's login.
//!
//! Users, roles and passwords change for all requests at once, and the members take long over each login, one after the
//! other, for all clients. So a client logs in once for all of its requests that were refused. That does not depend on
//! who was refused first: a task may be dropped, and its runtime may stand still.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use etcd_client::{Client, Error as Said};
use tidelock_core::backend::{Credentials, Sleep, boot_clock};
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::trouble::{self, NO_LOGIN};

/// The pauses between two attempts of a request for which the login is too old. Before the first there is none.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);
/// How long a login may take: the members are slow when many clients log in.
const LONGEST: Duration = Duration::from_secs(5);

/// The connection to one member, with this client's login there.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) client: Client,
    who: Who,
    logins: Arc<Logins>,
}

/// Whom to log in as.
#[derive(Clone)]
pub(crate) struct Who {
    /// In place of the user in the address.
    pub(crate) credentials: Option<Credentials>,
    pub(crate) user: Option<(String, String)>,
}

/// Logins on one connection, one at a time.
#[derive(Debug)]
struct Logins {
    /// Where they are made: the connection's runtime.
    runtime: Handle,
    /// How many were tried.
    count: AtomicU64,
    /// What became of the last one.
    turn: Mutex<Result<(), Said>>,
}

impl Logins {
    fn on(runtime: Handle) -> Arc<Self> {
        Arc::new(Self { runtime, count: AtomicU64::new(0), turn: Mutex::new(Ok(())) })
    }
}

impl Member {
    /// The member that was connected to on this runtime.
    pub(crate) fn new(client: Client, who: Who) -> Self {
        Self { client, who, logins: Logins::on(Handle::current()) }
    }

    pub(crate) fn has_login(&self) -> bool {
        self.who.credentials.is_some() || self.who.user.is_some()
    }

    /// A request that the server may refuse because users, roles or this client's password have changed since it logged
    /// in. It has done nothing then, so it is sent again, with what the program says now. To give a user its role takes
    /// several changes, and each makes every login too old: so it is tried a few times.
    pub(crate) async fn ask<T, F>(&self, request: impl Fn() -> F) -> Result<T, Said>
    where
        F: Future<Output = Result<T, Said>>,
    {
        let (clock, mut pause) = (boot_clock(), FIRST_PAUSE);
        loop {
            let before = self.logins.count();
            let answer = request().await;
            let is_too_old = answer.as_ref().is_err_and(trouble::is_of_an_old_login) && self.has_login();
            if !is_too_old || pause > LONGEST_PAUSE {
                return answer;
            }
            if pause > FIRST_PAUSE {
                Sleep::until(&clock, clock.now() + pause).await; // on whatever runtime this is
            }
            pause *= 2;
            let (who, mut client) = (self.who.clone(), self.client.clone());
            // The library logs in again only when a token is unknown. One that was signed before users changed is known.
            let login = async move {
                let login = who.ask().await?;
                client.update_user(login).await
            };
            self.logins.once_since(before, login).await?;
        }
    }
}

impl Who {
    /// The user to log in as, and the password, as the program says now.
    pub(crate) async fn ask(&self) -> Result<Option<(String, String)>, Said> {
        let Some(credentials) = &self.credentials else { return Ok(self.user.clone()) };
        let unknown = |error| Said::InvalidArgs(format!("{NO_LOGIN}: {error}"));
        let (user, password) = credentials.ask().await.map_err(unknown)?.into_parts();
        let named = self.user.as_ref().map(|(user, _)| user.clone());
        let user = user.or(named).ok_or_else(|| unknown("they name no user".into()))?;
        Ok(Some((user, password)))
    }
}

impl Logins {
    fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Logs in, unless that was tried since there were so many logins. All who were refused before hear the same.
    async fn once_since(
        self: &Arc<Self>,
        before: u64,
        login: impl Future<Output = Result<(), Said>> + Send + 'static,
    ) -> Result<(), Said> {
        let logins = self.clone();
        let logging_in = self.runtime.spawn(async move {
            let mut last = logins.turn.lock().await;
            if logins.count() == before {
                *last = in_time(login).await;
                logins.count.fetch_add(1, Ordering::Release);
            }
            again(&last)
        });
        logging_in.await.unwrap_or_else(|error| Err(Said::Internal(error.to_string())))
    }
}

/// The outcome of a login. One that hangs, in the program's own code or on its way, is given up: all others wait for it.
async fn in_time(login: impl Future<Output = Result<(), Said>>) -> Result<(), Said> {
    let clock = boot_clock(); // this may be a runtime without timers
    tokio::select! {
        done = login => done,
        () = Sleep::until(&clock, clock.now() + LONGEST) => {
            Err(Said::InvalidArgs(format!("{NO_LOGIN}, or log in with them, within {LONGEST:?}")))
        }
    }
}

/// The same outcome for one more.
fn again(done: &Result<(), Said>) -> Result<(), Said> {
    match done {
        Ok(()) => Ok(()),
        Err(Said::GRpcStatus(status)) => Err(Said::GRpcStatus(status.clone())),
        Err(Said::InvalidArgs(text)) => Err(Said::InvalidArgs(text.clone())),
        Err(other) => Err(Said::Internal(other.to_string())),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // all of this is a test
mod tests {
    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn however_many_requests_are_refused_there_is_one_login() {
        let (logins, done) = (Logins::on(Handle::current()), Arc::new(AtomicU64::new(0)));
        let login = || {
            let done = done.clone();
            async move {
                tokio::task::yield_now().await;
                done.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        };
        for told in join_all((0..100).map(|_| logins.once_since(0, login()))).await {
            told.unwrap();
        }
        assert_eq!((done.load(Ordering::Relaxed), logins.count()), (1, 1));
        // What is refused after that login needs another one.
        logins.once_since(1, login()).await.unwrap();
        assert_eq!(done.load(Ordering::Relaxed), 2);
    }

    /// The task that was refused first may be dropped.
    #[tokio::test]
    async fn a_login_does_not_depend_on_who_asked_for_it() {
        let logins = Logins::on(Handle::current());
        let slow = async {
            tokio::task::yield_now().await;
            Ok(())
        };
        {
            tokio::select! {
                biased;
                _ = logins.once_since(0, slow) => panic!("it takes a while"),
                () = async {} => {} // the first is dropped
            }
        }
        let never = async { panic!("it is under way already") };
        logins.once_since(0, never).await.unwrap();
        assert_eq!(logins.count(), 1);
    }

    #[tokio::test]
    async fn a_login_that_fails_is_told_to_all_who_were_refused_before() {
        let logins = Logins::on(Handle::current());
        let wrong = || async {
            tokio::task::yield_now().await;
            Err(Said::InvalidArgs("wrong".to_owned()))
        };
        for told in join_all((0..3).map(|_| logins.once_since(0, wrong()))).await {
            assert!(matches!(told, Err(Said::InvalidArgs(text)) if text == "wrong"));
        }
        assert_eq!(logins.count(), 1);
    }

    /// The program asks a service that does not answer, and answers the next time.
    #[tokio::test]
    async fn a_login_that_hangs_is_given_up() {
        let logins = Logins::on(Handle::current());
        let hangs = logins.once_since(0, std::future::pending());
        assert!(matches!(hangs.await, Err(Said::InvalidArgs(text)) if text.starts_with(NO_LOGIN)));
        logins.once_since(1, std::future::ready(Ok(()))).await.unwrap();
    }
}
