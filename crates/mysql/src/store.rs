//! A database that keeps locks, and how sessions on it are opened.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::mysql::MySqlPool;
use tidelock_core::backend::{
    Backend, Clock, Credentials, LOCAL_BY_DEFAULT, Login, Session, Signals, boot_clock,
};
use tidelock_core::{Error, ErrorKind, Locks, Options, Result, SessionId};

use crate::address::Address;
use crate::check;
use crate::link::{Idling, Link, Reads};
use crate::open_session::{OpenSession, Parts};
use crate::packet::Caller;
use crate::session::MySqlSession;
use crate::sql::{self, Key, Namespace, id as number, put};
use crate::strangers;

/// A MySQL or MariaDB database that keeps lines. Cloning is cheap; each client that connects has its own connections:
/// four.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_mysql::Result<()> {
/// use std::time::Duration;
/// use tidelock_mysql::{Options, Store};
///
/// let store = Store::open("mysql://app:secret@10.0.0.7/shop")?;
/// let locks = store.connect(Options::new().ttl(Duration::from_secs(30))).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    address: Address,
    migrates: bool,
    /// Whether callers' runtimes get lanes of their own.
    has_lanes: bool,
}

impl Store {
    /// The database at `url`. Does not connect yet.
    ///
    /// `mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE`, or `mariadb://…`, with these parameters of `sqlx`:
    /// `?socket=PATH`, and with the feature `tls` `?ssl-mode=VERIFY_IDENTITY&ssl-ca=PATH`, and `&ssl-cert=PATH&ssl-key=PATH` for
    /// the client's own certificate. Any other one is refused.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when it is not the URL of a database.
    pub fn open(url: &str) -> Result<Self> {
        Ok(Self::at(Address::parse(url)?))
    }

    /// The database of this pool of `sqlx`: the same server, user and settings. Tidelock makes connections of its own,
    /// because those of a pool end with the runtime in which they were made.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when the pool's connections use no database.
    pub fn from_pool(pool: &MySqlPool) -> Result<Self> {
        Ok(Self::at(Address::of((*pool.connect_options()).clone())?))
    }

    fn at(address: Address) -> Self {
        Self { address, migrates: true, has_lanes: LOCAL_BY_DEFAULT }
    }

    /// The credentials for the server, in place of the user and the password in the URL.
    ///
    /// Tidelock calls `ask` each time it makes a connection, so a password can change while the program runs; tokens
    /// that live for minutes, as of a cloud's database, are passwords too. `ask` may block: it runs on a thread of its
    /// own. Its error is shown as [`ErrorKind::Unavailable`], and must not contain a password.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_mysql::Result<()> {
    /// use tidelock_mysql::{Login, Options, Store};
    ///
    /// let secret = || async { Ok(Login::user("app", std::fs::read_to_string("/run/secrets/mysql")?.trim())) };
    /// let locks = Store::open("mysql://10.0.0.7/shop")?.credentials(secret).connect(Options::new()).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn credentials<F>(mut self, ask: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = std::result::Result<Login, Box<dyn StdError + Send + Sync>>> + Send + 'static,
    {
        self.address = self.address.with_credentials(Credentials::of(ask));
        self
    }

    /// Sets the authority that the server is checked against and, if there is one, this client's certificate. The
    /// server's name is checked too, unless the URL says `?ssl-mode=VERIFY_CA`.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidelock_mysql::{Options, Store, TlsCertificates};
    ///
    /// let root_cert = std::fs::read("/etc/mysql/ca.pem")?;
    /// let store = Store::open("mysql://app:secret@10.0.0.7/shop")?
    ///     .certificates(&TlsCertificates { root_cert, client_tls: None });
    /// let locks = store.connect(Options::new()).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn certificates(mut self, certificates: &crate::TlsCertificates) -> Self {
        self.address = self.address.with_certificates(certificates);
        self
    }

    /// Whether to create the tables when they are missing. The default is `true`. Otherwise create them with
    /// [`MIGRATION`](crate::MIGRATION), as a user with the permission to do so.
    #[must_use]
    pub fn migrate(mut self, migrates: bool) -> Self {
        self.migrates = migrates;
        self
    }

    /// Whether a tokio runtime that often takes locks gets a connection of its own, beside the four of the client: that
    /// saves two wakes of another thread for each request. The default is `true`, for eight runtimes at most; it is
    /// `false` in programs that abort on a panic, because Tokio cannot say whether a runtime does I/O, and panics where
    /// it does none.
    #[must_use]
    pub fn connection_for_each_runtime(mut self, has_one: bool) -> Self {
        self.has_lanes = has_one;
        self
    }

    /// Connects a client: its session is opened now. Can be called many times; each client has its own connections.
    ///
    /// # Errors
    /// What [`Options::check`] refuses, and any trouble with the server.
    pub async fn connect(&self, options: Options) -> Result<Arc<dyn Locks>> {
        tidelock_core::backend::connect(Arc::new(self.clone()), options).await
    }

    /// Makes a client whose session is opened at first use: a program can start while the server is down.
    ///
    /// # Errors
    /// What [`Options::check`] refuses.
    pub fn attach(&self, options: Options) -> Result<Arc<dyn Locks>> {
        tidelock_core::backend::attach(Arc::new(self.clone()), options)
    }

    fn link(&self, reads: Reads, idling: Idling, options: &Options, within: Duration) -> Link {
        Link::new(self.address.clone(), reads, idling, within, options.connect_deadline * 6 / 10)
    }
}

#[async_trait]
impl Backend for Store {
    fn clock(&self) -> Arc<dyn Clock> {
        boot_clock()
    }

    fn store(&self) -> &str {
        self.address.name()
    }

    fn check(&self, options: &Options) -> Result<()> {
        if options.replicas.is_some() {
            let wrong = "MySQL's own semi-synchronous replication makes a commit wait for replicas; connect without the \
                         option `replicas`";
            return Err(Error::new(ErrorKind::Unsupported, wrong));
        }
        Ok(())
    }

    async fn open(
        &self,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        let within = options.command_deadline.min(options.ttl);
        let short = within.min(options.ttl / 3);
        let lane = self.link(Reads::Committed, Idling::Pings, options, within);
        let found = match check::server(&lane, self.migrates).await {
            Ok(found) => found,
            Err(error) => {
                return Err(strangers::explain(error, &self.address, options.connect_deadline / 8).await);
            }
        };
        // The first renewal, look or hand-off must not wait for a handshake.
        let link = |reads| self.link(reads, Idling::Repeats, options, short).beside(&lane);
        let (beats, looks, bell) = (link(Reads::Committed), link(Reads::Committed), link(Reads::Uncommitted));
        let connected = tokio::try_join!(beats.connect(), looks.connect(), bell.connect());
        connected.map_err(|said| crate::trouble::from(&said, lane.place()))?;
        let clock = boot_clock();
        let asked = clock.now();
        let ttl = u64::try_from(options.ttl.as_micros()).unwrap_or(u64::MAX >> 2);
        let mut text = String::new();
        let label = Key::of_bytes(options.label.as_bytes());
        put(&mut text, sql::OPEN, &[("me", &number(id)), ("ttl", &ttl), ("label", &label)]);
        let late = asked + options.connect_deadline;
        lane.ask_until(&text, late).await.map_err(|said| crate::trouble::from(&said, lane.place()))?;
        let session = OpenSession::new(Parts {
            id,
            ttl: options.ttl,
            within,
            caller: Caller {
                session: id,
                namespace: Namespace::of(&options.namespace),
                has_returning: found.is_mariadb,
                store: found.store,
                slots: sql::SLOTS,
            },
            lane: lane.into(),
            has_lanes: self.has_lanes,
            looks: looks.into(),
            beats: beats.into(),
            server: found.server,
            bell: bell.into(),
            clock,
            signals,
            until: asked + options.ttl,
        });
        Ok(Arc::new(MySqlSession::start(session)))
    }
}
