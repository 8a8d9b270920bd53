//! A hold that its backend ties to something that only the present holder has, such as a transaction of the user.

use std::future::Future;
use std::time::Duration;

use crate::{ClaimId, Guard, Name, Token};

tokio::task_local! {
    static ALONE: ();
}

/// Runs an acquire whose claim no other task of its client may get, not even if it is dropped when that holds already. It
/// stands in the store's line, and not behind others of its client.
pub fn alone<F: Future>(acquire: F) -> impl Future<Output = F::Output> {
    ALONE.scope((), acquire)
}

/// Whether the acquire that is polled now is such a one.
pub(crate) fn is_alone() -> bool {
    ALONE.try_with(|()| ()).is_ok()
}

/// A hold that is [passed on](crate::Options::linger) to no other task of its client: when this is dropped, its claim leaves,
/// whoever waits.
#[derive(Debug)]
pub struct Tied(Guard);

/// No other task of its client gets this hold any more. Those that wait for it stand in the store's line at once.
pub fn tie(mut guard: Guard) -> Tied {
    guard.ends_its_turn();
    Tied(guard)
}

impl Tied {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Name {
        self.0.name()
    }

    /// Its claim.
    #[must_use]
    pub fn claim(&self) -> ClaimId {
        self.0.claim()
    }

    /// Its token.
    #[must_use]
    pub fn token(&self) -> Token {
        self.0.token()
    }

    /// How long it can still be trusted if no renewal succeeds. Zero once it is lost: before its claim is taken out.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }
}
