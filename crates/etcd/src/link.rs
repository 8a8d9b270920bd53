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

use etcd_client::{
    Client, Error as Said, GetOptions, GetResponse, KvClient, ResponseHeader, Txn, TxnResponse,
};
use tidelock_core::backend::{Clock, Moment, Sleep, boot_clock, unharmed};
use tidelock_core::{Error, ErrorKind, Result};
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::dial::{Dial, Dialled, ping};
use crate::login::Member;
use crate::shown::Shown;
use crate::trouble::{self, Blame};

/// The largest answer that is read: a line of a million claims.
pub(crate) const LARGEST: usize = 256 << 20;
/// The most operations in one transaction of ours. A server allows 128 unless it is started with another number, and a
/// client that connects finds out.
pub(crate) const MOST_OPERATIONS: usize = 120;
/// The first and the longest pause between two comparisons of a connection with others.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// After a command's deadline without an answer from anybody all are asked anew. A deadline may be longer than a ttl, or
/// too short to reach another member.
const SHORTEST_ROUND: Duration = Duration::from_secs(1);
const LONGEST_ROUND: Duration = Duration::from_secs(5);
/// How much longer a connection may take than another one, before it counts as silent.
pub(crate) const GRACE: Duration = Duration::from_millis(50);

/// The way of one session to its members.
pub(crate) struct Link {
    dial: Dial,
    place: Arc<str>,
    /// A key that this client may read.
    probe: String,
    /// What all its keys begin with.
    root: String,
    current: Mutex<Arc<Connection>>,
    clock: Arc<dyn Clock>,
    runtime: Handle,
    /// After this time without an answer the connection is compared with others.
    patience: Duration,
    deadline: Duration,
    is_closed: AtomicBool,
    shown: Shown,
    /// Whether the store has become another one.
    is_another: watch::Sender<bool>,
}

/// One connection to one member.
pub(crate) struct Connection {
    pub(crate) member: Member,
    /// Which of the address's hosts it is.
    pub(crate) host: usize,
    is_doubted: AtomicBool,
    is_given_up: watch::Sender<bool>,
}

impl Connection {
    fn new(Dialled { member, host }: Dialled) -> Arc<Self> {
        let is_given_up = watch::Sender::new(false);
        Arc::new(Self { member, host, is_doubted: AtomicBool::new(false), is_given_up })
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
            clock: boot_clock(),
            runtime: Handle::current(),
            patience: (deadline / 4).clamp(Duration::from_millis(20), Duration::from_secs(1)),
            deadline,
            is_closed: AtomicBool::new(false),
            shown: Shown::default(),
            is_another: watch::Sender::new(false),
        })
    }

    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    pub(crate) fn dial(&self) -> &Dial {
        &self.dial
    }

    pub(crate) fn probe(&self) -> &str {
        &self.probe
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    pub(crate) fn connection(&self) -> Arc<Connection> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a request. Needs the keeper's runtime.
    pub(crate) async fn ask<T, F>(self: &Arc<Self>, request: impl Fn(Client) -> F) -> Result<T, Failed>
    where
        F: Future<Output = std::result::Result<T, Said>>,
    {
        let connection = self.connection();
        let member = &connection.member;
        let asking = member.ask(|| request(member.client.clone()));
        self.answer(&connection, asking).await
    }

    /// Reads keys.
    pub(crate) async fn get(self: &Arc<Self>, key: &str, options: GetOptions) -> Result<GetResponse, Failed> {
        let request = |client: Client| {
            let options = options.clone();
            async move { kv(&client).get(key, Some(options)).await }
        };
        let least = self.shown.revision();
        let answer = self.ask(request).await?;
        self.shows(answer.header(), least)?;
        Ok(answer)
    }

    /// Finds out whether the members still accept this client's login, and logs in again if not.
    pub(crate) async fn log_in_again(self: &Arc<Self>) {
        let _ = self.get(&self.probe, GetOptions::new().with_count_only()).await;
    }

    /// Sends a request that opens a stream, and says on which connection.
    pub(crate) async fn ask_on<T, F>(
        self: &Arc<Self>,
        request: impl FnOnce(Client) -> F,
    ) -> (Arc<Connection>, Result<T, Failed>)
    where
        F: Future<Output = std::result::Result<T, Said>>,
    {
        let connection = self.connection();
        let answer = self.answer(&connection, request(connection.member.client.clone())).await;
        (connection, answer)
    }

    /// The answer to a request that is sent beside this connection. Can be polled on any runtime, or none.
    pub(crate) async fn answer<T>(
        self: &Arc<Self>,
        connection: &Arc<Connection>,
        asking: impl Future<Output = std::result::Result<T, Said>>,
    ) -> Result<T, Failed> {
        tokio::pin!(asking);
        let began = self.clock.now();
        let answer = tokio::select! {
            biased;
            answer = &mut asking => answer,
            () = connection.given_up() => return Err(self.cut_off()),
            () = Sleep::until(&self.clock, began + self.patience) => {
                self.doubt(connection);
                tokio::select! {
                    answer = &mut asking => answer,
                    () = connection.given_up() => return Err(self.cut_off()),
                    () = Sleep::until(&self.clock, began + self.deadline) => return Err(self.silent()),
                }
            }
        };
        answer.map_err(|said| {
            if trouble::is_of_the_connection(&said) {
                self.doubt(connection);
            }
            self.failed(said)
        })
    }

    pub(crate) fn failed(&self, said: Said) -> Failed {
        let (is_refused, blame) = (trouble::is_refusal(&said), trouble::blame(&said));
        Failed { error: trouble::from(said, &self.place, &self.root), is_refused, blame }
    }

    pub(crate) async fn transact(self: &Arc<Self>, txn: Txn) -> Result<TxnResponse, Failed> {
        self.transact_since(self.shown.revision(), txn).await
    }

    /// Sends a transaction that only reads what one member has. That may be older than what another one has shown.
    pub(crate) async fn look(self: &Arc<Self>, txn: Txn) -> Result<TxnResponse, Failed> {
        self.transact_since(0, txn).await
    }

    async fn transact_since(self: &Arc<Self>, least: i64, txn: Txn) -> Result<TxnResponse, Failed> {
        let connection = self.connection();
        let answer = self.answer(&connection, send(&connection.member, txn)).await?;
        self.shows(answer.header(), least)?;
        Ok(answer)
    }

    /// The last revision that the store has shown.
    pub(crate) fn revision(&self) -> i64 {
        self.shown.revision()
    }

    /// An answer has this header, and is not older than `least`. An error: the store is not the one that it was, so the
    /// session is over.
    pub(crate) fn shows(&self, header: Option<&ResponseHeader>, least: i64) -> Result<(), Failed> {
        let Some(Err(another)) = header.map(|header| self.shown.shows(header, least)) else { return Ok(()) };
        let error = trouble::another_store(&self.place, another);
        if !self.is_another.send_replace(true) {
            unharmed(|| tracing::warn!(%error, "the session is over"));
        }
        Err(Failed { error, is_refused: false, blame: Blame::All })
    }

    /// Waits until the store is not the one that it was.
    pub(crate) async fn meets_another_store(&self) {
        let _ = self.is_another.subscribe().wait_for(|is| *is).await;
    }

    pub(crate) fn cut_off(&self) -> Failed {
        let wrong = format!("{} fell silent on one connection; another is used now", self.place);
        Failed { error: Error::new(ErrorKind::Unavailable, wrong), is_refused: false, blame: Blame::All }
    }

    fn silent(&self) -> Failed {
        Failed { error: Error::no_answer(&self.place), is_refused: false, blame: Blame::All }
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

/// Sends a transaction.
pub(crate) async fn send(member: &Member, txn: Txn) -> std::result::Result<TxnResponse, Said> {
    if !member.has_login() {
        return kv(&member.client).txn(txn).await;
    }
    member.ask(|| async { kv(&member.client).txn(txn.clone()).await }).await
}

/// Repeats a request that got no answer, in the time that there is. Repeating it changes nothing.
pub(crate) async fn patiently<T, F>(late: Moment, request: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    loop {
        match request().await {
            Err(error) if error.can_retry() && boot_clock().now() < late => {
                tokio::time::sleep(PAUSE / 4).await;
            }
            answer => return answer,
        }
    }
}

/// The key-value service, which may answer with a long line.
fn kv(client: &Client) -> KvClient {
    client.kv_client().max_decoding_message_size(LARGEST)
}

/// Asks this connection and the other members until one of them answers.
async fn compare(link: Weak<Link>, connection: Arc<Connection>) {
    loop {
        let Some(strong) = link.upgrade().filter(|link| link.is_current(&connection)) else { return };
        let (dial, probe, deadline) = (strong.dial.clone(), strong.probe.clone(), strong.deadline);
        drop(strong);
        // Either may serve again at any moment, so each is asked again when it has failed.
        let this = async {
            while let Err(said) = ping(&connection.member.client, &probe).await
                && trouble::is_of_the_connection(&said)
            {
                tokio::time::sleep(PAUSE).await;
            }
        };
        // This one was asked first, and gets a moment longer: on a slow network both answer at the same time.
        let other = async {
            let mut pause = PAUSE;
            loop {
                if let Ok(dialled) = dial.open(connection.host + 1, &probe).await {
                    tokio::time::sleep(GRACE).await;
                    return dialled;
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        };
        let found = tokio::time::timeout(deadline.clamp(SHORTEST_ROUND, LONGEST_ROUND), async {
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
    /// If it was several requests, in one transaction.
    pub(crate) blame: Blame,
}

impl Failed {
    /// The server has answered, so what was sent does not arrive later. It may have been carried out.
    pub(crate) fn is_answered(&self) -> bool {
        self.is_refused || self.blame == Blame::Joins
    }

    pub(crate) fn ended() -> Self {
        Self {
            error: Error::new(ErrorKind::Unavailable, "the client was closed meanwhile"),
            is_refused: false,
            blame: Blame::All,
        }
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}
