//! For how long a server is the one to connect to: until a later election is known that has made another one master.

use redis::ConnectionAddr;
use tokio::sync::watch;

/// Who was made master, by which election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Elected {
    pub(crate) address: ConnectionAddr,
    pub(crate) election: Election,
}

/// Elections in their order: how often they have been counted anew, and the number of this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Election {
    pub(crate) count: u64,
    pub(crate) epoch: u64,
}

/// What a connection knows of its server's.
#[derive(Debug)]
pub(crate) struct Tenure(Option<Box<(Elected, Latest)>>);

/// The latest election, as far as somebody has been told.
pub(crate) type Latest = watch::Receiver<Option<Elected>>;

impl Tenure {
    /// That of a server that nobody elects.
    pub(crate) fn endless() -> Self {
        Self(None)
    }

    pub(crate) fn of(elected: Elected, latest: Latest) -> Self {
        Self(Some(Box::new((elected, latest))))
    }

    /// Waits until it is over. Who tells of an older election has not heard of this one yet.
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
