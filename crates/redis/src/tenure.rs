//! How long a server stays the one to connect to: until a later election is known to have made another server master.

use redis::ConnectionAddr;
use tokio::sync::watch;

/// A server that was made master, and the election that did it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Elected {
    pub(crate) address: ConnectionAddr,
    pub(crate) election: Election,
}

/// An election, ordered by time: how often the count was started anew, and the number of this election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Election {
    pub(crate) count: u64,
    pub(crate) epoch: u64,
}

/// A connection's knowledge of how long its server is master.
#[derive(Debug)]
pub(crate) struct Tenure(Option<Box<(Elected, Latest)>>);

/// The latest election that the sentinels have reported.
pub(crate) type Latest = watch::Receiver<Option<Elected>>;

impl Tenure {
    /// For a server that is not elected.
    pub(crate) fn endless() -> Self {
        Self(None)
    }

    pub(crate) fn of(elected: Elected, latest: Latest) -> Self {
        Self(Some(Box::new((elected, latest))))
    }

    /// Waits until the tenure is over. A report of an older election does not end it: that sentinel is only behind.
    pub(crate) async fn ends(&mut self) {
        if let Some((own, latest)) = self.0.as_deref_mut() {
            let is_later = |latest: &Elected| latest.election > own.election && latest.address != own.address;
            if latest.wait_for(|latest| latest.as_ref().is_some_and(is_later)).await.is_ok() {
                return;
            }
        }
        std::future::pending::<()>().await;
    }
}
