//! Requests, on the connection in use; and the next connection when that one fails or falls silent.
//!
//! A session is not bound to a connection: its lease is known to all members. So a silent connection is compared with
//! others, and the first member that answers a read is used from then on. Requests on a connection that was given up
//! have an unknown outcome at once, and nobody waits for them any longer.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use etcd_client::{Client, Error as Said, Txn, TxnResponse};
use tidelock_core::{Error, ErrorKind, Result};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::dial::{Dial, Dialled, ping};
use crate::trouble;

/// The largest answer that is read: a line of a million claims.
const LARGEST: usize = 256 << 20;
/// The pause between two comparisons of a connection with others.
const PAUSE: Duration = Duration::from_millis(100);

/// The way of one session to its members.
pub(crate) struct Link {
    dial: Dial,
    place: Arc<str>,
    /// A key that this client may read.
    probe: String,
    /// What all its keys begin with.
    root: String,
    current: Mutex<Arc<Connection>>,
    runtime: Handle,
    /// After this time without an answer the connection is compared with others.
    patience: Duration,
    deadline: Duration,
    is_closed: AtomicBool,
}

/// One connection to one member.
pub(crate) struct Connection {
    pub(crate) client: Client,
    host: usize,
    is_doubted: AtomicBool,
    is_given_up: watch::Sender<bool>,
}

impl Connection {
    fn new(Dialled { client, host }: Dialled) -> Arc<Self> {
        let is_given_up = watch::Sender::new(false);
        Arc::new(Self { client, host, is_doubted: AtomicBool::new(false), is_given_up })
    }

    /// Waits until another connection is used instead.
    pub(crate) async fn given_up(&self) {
        let _ = self.is_given_up.subscribe().wait_for(|is| *is).await;
    }
}

impl Link {
    pub(crate) fn new(
        dial: Dial,
        dialled: Dialled,
        probe: String,
        root: &str,
        deadline: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            place: dial.name().into(),
            dial,
            probe,
            root: root.to_owned(),
            current: Mutex::new(Connection::new(dialled)),
            runtime: Handle::current(),
            patience: (deadline / 4).clamp(Duration::from_millis(20), Duration::from_secs(1)),
            deadline,
            is_closed: AtomicBool::new(false),
        })
    }

    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    pub(crate) fn connection(&self) -> Arc<Connection> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a request. Needs the keeper's runtime.
    pub(crate) async fn ask<T, F>(self: &Arc<Self>, request: impl FnOnce(Client) -> F) -> Result<T, Failed>
    where
        F: Future<Output = std::result::Result<T, Said>>,
    {
        self.ask_on(request).await.1
    }

    /// The same, and the connection that was asked.
    pub(crate) async fn ask_on<T, F>(
        self: &Arc<Self>,
        request: impl FnOnce(Client) -> F,
    ) -> (Arc<Connection>, Result<T, Failed>)
    where
        F: Future<Output = std::result::Result<T, Said>>,
    {
        let connection = self.connection();
        let answer = self.ask_this(&connection, request).await;
        (connection, answer)
    }

    async fn ask_this<T, F>(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        request: impl FnOnce(Client) -> F,
    ) -> Result<T, Failed>
    where
        F: Future<Output = std::result::Result<T, Said>>,
    {
        let asking = request(connection.client.clone());
        tokio::pin!(asking);
        let answer = tokio::select! {
            answer = &mut asking => answer,
            () = connection.given_up() => return Err(self.cut_off()),
            () = tokio::time::sleep(self.patience) => {
                self.doubt(connection);
                tokio::select! {
                    answer = &mut asking => answer,
                    () = connection.given_up() => return Err(self.cut_off()),
                    () = tokio::time::sleep(self.deadline.saturating_sub(self.patience)) => return Err(self.silent()),
                }
            }
        };
        answer.map_err(|said| {
            if trouble::is_of_the_connection(&said) {
                self.doubt(connection);
            }
            Failed {
                is_refused: trouble::is_refusal(&said),
                error: trouble::from(said, &self.place, &self.root),
            }
        })
    }

    pub(crate) async fn transact(self: &Arc<Self>, txn: Txn) -> Result<TxnResponse, Failed> {
        self.ask(|client| async move { client.kv_client().max_decoding_message_size(LARGEST).txn(txn).await })
            .await
    }

    fn cut_off(&self) -> Failed {
        let wrong = format!("{} fell silent on one connection; another is used now", self.place);
        Failed { error: Error::new(ErrorKind::Unavailable, wrong), is_refused: false }
    }

    fn silent(&self) -> Failed {
        Failed { error: Error::no_answer(&self.place), is_refused: false }
    }

    /// Compares the connection with others, once at a time.
    pub(crate) fn doubt(self: &Arc<Self>, connection: &Arc<Connection>) {
        if !connection.is_doubted.swap(true, Ordering::Relaxed) {
            let (link, connection) = (Arc::downgrade(self), connection.clone());
            self.runtime.spawn(compare(link, connection));
        }
    }

    /// Whether this connection is in use.
    fn is_current(&self, connection: &Arc<Connection>) -> bool {
        Arc::ptr_eq(&self.connection(), connection) && !self.is_closed.load(Ordering::Relaxed)
    }

    fn replace(&self, connection: &Connection, dialled: Dialled) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Connection::new(dialled);
        connection.is_given_up.send_replace(true);
    }

    /// No other connection is opened any more.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }
}

/// Asks this connection and the other members until one of them answers.
async fn compare(link: Weak<Link>, connection: Arc<Connection>) {
    loop {
        let Some(strong) = link.upgrade().filter(|link| link.is_current(&connection)) else { return };
        let (dial, probe, deadline) = (strong.dial.clone(), strong.probe.clone(), strong.deadline);
        drop(strong);
        let this = async {
            match ping(&connection.client, &probe).await {
                Err(said) if trouble::is_of_the_connection(&said) => std::future::pending().await,
                _ => {}
            }
        };
        let other = async {
            match dial.open(connection.host + 1, &probe).await {
                Ok(dialled) => dialled,
                Err(_) => std::future::pending().await,
            }
        };
        let found = tokio::time::timeout(deadline, async {
            tokio::select! {
                biased;
                () = this => None,
                dialled = other => Some(dialled),
            }
        });
        match found.await {
            Ok(None) => break,
            Ok(Some(dialled)) => {
                if let Some(link) = link.upgrade().filter(|link| link.is_current(&connection)) {
                    link.replace(&connection, dialled);
                }
                return;
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
    connection.is_doubted.store(false, Ordering::Relaxed);
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link to {}", self.place)
    }
}

/// Why a request failed.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) error: Error,
    /// The server refused it, so nothing was done.
    pub(crate) is_refused: bool,
}

impl Failed {
    pub(crate) fn ended() -> Self {
        Self {
            error: Error::new(ErrorKind::Unavailable, "the client was closed meanwhile"),
            is_refused: false,
        }
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}
