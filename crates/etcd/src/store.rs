//! An etcd that keeps locks, and how it opens sessions.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use etcd_client::{Compare, CompareOp, DeleteOptions, GetOptions, LeaseGrantOptions, PutOptions, Txn, TxnOp};
use tidelock_core::backend::{
    Backend, Clock, Credentials, LOCAL_BY_DEFAULT, Login, Session, Signals, boot_clock,
};
use tidelock_core::{Error, ErrorKind, Locks, Options, Result, SessionId};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, Notify, mpsc};

use crate::address::Address;
use crate::busy::Busy;
use crate::dial::{Dial, Dialled};
use crate::keys::Keys;
use crate::lane::Lanes;
use crate::lease::Lease;
use crate::link::{Link, MOST_OPERATIONS, patiently};
use crate::looks::Looks;
use crate::open_session::{OpenSession, lease_id};
use crate::own_claims::OwnClaims;
use crate::session::EtcdSession;
use crate::tls::Tls;

/// The pause between two tries to reach members that are not ready.
const PAUSE: Duration = Duration::from_millis(100);

/// An etcd that keeps locks. Cloning is cheap; each client that connects has a session of its own.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_etcd::Result<()> {
/// use std::time::Duration;
/// use tidelock_etcd::{Options, Store};
///
/// let store = Store::open("etcd://10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379/production")?;
/// let locks = store.connect(Options::new().ttl(Duration::from_secs(30))).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Store {
    address: Address,
    name: Arc<str>,
    tls: Option<Tls>,
    credentials: Option<Credentials>,
    /// Whether callers' runtimes get lanes of their own.
    has_lanes: bool,
    /// Whether this store has ever opened a session.
    has_served: Arc<AtomicBool>,
}

impl Store {
    /// A store on the members at `url`. This does not connect yet.
    ///
    /// `etcd://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT][/PREFIX]`: some members of one cluster, a user, and what the keys
    /// of all locks begin with, before the namespace. With the feature `tls`: `etcds://…`, and the certificates passed
    /// to `Store::certificates`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when the URL does not have this form.
    pub fn open(url: &str) -> Result<Self> {
        let address = Address::parse(url)?;
        let name = address.name().into();
        Ok(Self {
            address,
            name,
            tls: None,
            credentials: None,
            has_lanes: LOCAL_BY_DEFAULT,
            has_served: Arc::default(),
        })
    }

    /// The credentials for the members, in place of the user and the password in the URL.
    ///
    /// Tidelock calls `ask` each time it logs in: when it connects, and when the members no longer accept the last login.
    /// So a password can change while the program runs. `ask` may block: it runs on a thread of its own. Its error is
    /// shown as [`ErrorKind::Unavailable`], and must not contain a password.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_etcd::Result<()> {
    /// use tidelock_etcd::{Login, Options, Store};
    ///
    /// let secret = || async { Ok(Login::user("app", std::fs::read_to_string("/run/secrets/etcd")?.trim())) };
    /// let locks = Store::open("etcd://10.0.0.1")?.credentials(secret).connect(Options::new()).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn credentials<F>(mut self, ask: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = std::result::Result<Login, Box<dyn StdError + Send + Sync>>> + Send + 'static,
    {
        self.credentials = Some(Credentials::of(ask));
        self
    }

    /// Sets the authority that the members are checked against and, if there is one, this client's certificate.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidelock_etcd::{Options, Store, TlsCertificates};
    ///
    /// let root_cert = std::fs::read("/etc/etcd/ca.pem")?;
    /// let store = Store::open("etcds://10.0.0.1,10.0.0.2,10.0.0.3")?
    ///     .certificates(&TlsCertificates { root_cert, client_tls: None })?;
    /// let locks = store.connect(Options::new()).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when the URL does not use TLS, or the certificates cannot be read.
    #[cfg(feature = "tls")]
    pub fn certificates(mut self, certificates: &crate::TlsCertificates) -> Result<Self> {
        if !self.address.has_tls {
            let wrong = "certificates need a URL with TLS: etcds://…";
            return Err(Error::new(ErrorKind::InvalidOption, wrong));
        }
        self.tls = Some(Tls::of(certificates)?);
        Ok(self)
    }

    /// Sets whether each tokio runtime from which locks are used often gets its own connection, which makes them faster.
    /// Otherwise all requests go through one connection on Tidelock's own thread. By default runtimes get connections,
    /// unless the program is built with `panic = "abort"`.
    ///
    /// Tokio panics if a runtime without I/O makes a connection. That panic is caught, and the runtime is not tried
    /// again. If panics abort the program, set `true` only if all its runtimes do I/O.
    ///
    /// ```no_run
    /// # fn main() -> tidelock_etcd::Result<()> {
    /// use tidelock_etcd::Store;
    ///
    /// let store = Store::open("etcd://10.0.0.1")?.connection_for_each_runtime(false);
    /// # let _ = store; Ok(()) }
    /// ```
    #[must_use]
    pub fn connection_for_each_runtime(mut self, has_one: bool) -> Self {
        self.has_lanes = has_one;
        self
    }

    /// Connects a client: its session is opened now. Can be called many times; each client has a session of its own.
    ///
    /// # Errors
    /// What [`Options::check`] refuses, and any trouble with the members.
    pub async fn connect(&self, options: Options) -> Result<Arc<dyn Locks>> {
        tidelock_core::backend::connect(Arc::new(self.clone()), options).await
    }

    /// Makes a client whose session is opened at first use: a program can start while the members are down.
    ///
    /// # Errors
    /// What [`Options::check`] refuses.
    pub fn attach(&self, options: Options) -> Result<Arc<dyn Locks>> {
        tidelock_core::backend::attach(Arc::new(self.clone()), options)
    }

    /// What all our keys begin with, before the namespace.
    pub(crate) fn prefix(&self) -> &str {
        &self.address.prefix
    }

    /// Members that have served before may be restarting or electing a leader: they get time for it.
    async fn dial_patiently(&self, first: usize, probe: &str, options: &Options) -> Result<Dialled> {
        let dial = self.dial();
        let late = boot_clock().now() + options.connect_deadline * 3 / 4;
        let pause = options.first_pause.max(PAUSE).min(options.connect_deadline / 8);
        loop {
            match dial.open(first, probe).await {
                Err(error)
                    if error.kind() == ErrorKind::Unavailable
                        && self.has_served.load(Ordering::Relaxed)
                        && boot_clock().now() < late =>
                {
                    tokio::time::sleep(pause).await;
                }
                dialled => return dialled,
            }
        }
    }

    fn dial(&self) -> Dial {
        Dial { address: self.address.clone(), tls: self.tls.clone(), credentials: self.credentials.clone() }
    }
}

/// Whole seconds, as the server counts them.
fn seconds(ttl: Duration) -> i64 {
    i64::try_from(ttl.as_millis().div_ceil(1000)).unwrap_or(i64::MAX)
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.address).finish()
    }
}

#[async_trait]
impl Backend for Store {
    fn clock(&self) -> Arc<dyn Clock> {
        boot_clock()
    }

    fn store(&self) -> &str {
        &self.name
    }

    fn check(&self, options: &Options) -> Result<()> {
        if options.replicas.is_some() {
            let wrong = "etcd answers when most of its members have a grant, and cannot wait for another number; \
                         connect without the option `replicas`";
            return Err(Error::new(ErrorKind::Unsupported, wrong));
        }
        if self.address.has_tls && self.tls.is_none() {
            let wrong = "etcds:// needs the certificates to trust; set them with Store::certificates";
            return Err(Error::new(ErrorKind::InvalidOption, wrong));
        }
        Ok(())
    }

    async fn open(
        &self,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        let (clock, keys) = (boot_clock(), Keys::of(self.prefix(), &options.namespace));
        // Clients are spread over the members.
        let first = usize::try_from(id.get() % self.address.hosts.len() as u64).unwrap_or(0);
        let probe = keys.label(id);
        let dialled = self.dial_patiently(first, &probe, options).await?;
        let link = Link::new(self.dial(), dialled, probe, keys.root(), options.command_deadline);
        let late = clock.now() + options.connect_deadline * 3 / 4;
        let sent = clock.now();
        let granted = patiently(late, || grant(&link, id, options.ttl)).await?;
        if let Err(error) = patiently(late, || register(&link, &keys, id, &options.label)).await {
            // Nothing is left of a client that may not lock here.
            let _ = link.ask(|client| async move { client.lease_client().revoke(lease_id(id)).await }).await;
            return Err(error);
        }
        let (watches, commands) = mpsc::unbounded_channel();
        let session = OpenSession {
            id,
            keys,
            link,
            lease: Lease::new(granted, sent),
            own_claims: OwnClaims::of(id),
            busy: Busy::default(),
            looks: Looks::default(),
            looked_at: AtomicUsize::new(0),
            lanes: Lanes::new(&Handle::current(), self.has_lanes),
            watches,
            stirred: Notify::new(),
            pulse: Mutex::default(),
            clock,
            signals,
            runtime: Handle::current(),
        };
        self.has_served.store(true, Ordering::Relaxed);
        Ok(Arc::new(EtcdSession::new(session, commands)))
    }
}

/// The time to live that the server grants. The lease's id is chosen at random and known before it is asked for, so a
/// lease that is there already is ours: an earlier request got no answer.
async fn grant(link: &Arc<Link>, id: SessionId, ttl: Duration) -> Result<Duration> {
    let (wanted, lease) = (seconds(ttl), || Some(LeaseGrantOptions::new().with_id(lease_id(id))));
    let granted = link.ask(|client| async move { client.lease_client().grant(wanted, lease()).await }).await;
    let seconds = match granted {
        Ok(granted) => {
            link.shows(granted.header(), 0)?;
            granted.ttl()
        }
        Err(failed) if failed.error.kind() == ErrorKind::Conflict => {
            let asking = link
                .ask(|client| async move { client.lease_client().time_to_live(lease_id(id), None).await });
            asking.await?.granted_ttl()
        }
        Err(failed) => return Err(failed.error),
    };
    Ok(Duration::from_secs(seconds.unsigned_abs()))
}

/// Writes the session's label. The transaction also names all that a session does, so a user who lacks a permission is
/// told now. And it has as many operations as any that a session sends, so a server that allows fewer refuses it now, and
/// not when many locks are held.
async fn register(link: &Arc<Link>, keys: &Keys, id: SessionId, label: &str) -> Result<()> {
    let all = keys.root().to_owned();
    let put = TxnOp::put(keys.label(id), label, Some(PutOptions::new().with_lease(lease_id(id))));
    let read = TxnOp::get(all.clone(), Some(GetOptions::new().with_prefix().with_count_only().with_limit(1)));
    let delete = TxnOp::delete(all, Some(DeleteOptions::new().with_prefix()));
    let always = Compare::version(keys.label(id), CompareOp::Greater, -1);
    let more = std::iter::repeat_n(TxnOp::get(keys.label(id), None), MOST_OPERATIONS - 1);
    // What is done otherwise is never done.
    let txn = Txn::new()
        .when([always])
        .and_then([put, read])
        .or_else(std::iter::once(delete).chain(more).collect::<Vec<_>>());
    link.transact(txn).await?;
    Ok(())
}
