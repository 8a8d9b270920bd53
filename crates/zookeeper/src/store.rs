//! A ZooKeeper store, and how it opens sessions.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{Backend, Batcher, Clock, Session, Signals, boot_clock};
use tidelock_core::{Error, ErrorKind, Locks, Options, Result, SessionId};
use tokio::runtime::Handle;
use zookeeper_client::{Acls, Error as Said};

use crate::address::{Address, SERVERS_OWN};
use crate::check::PATIENT;
use crate::dial::{Dial, Dialled};
use crate::given_up::GivenUp;
use crate::joins::Joins;
use crate::lease::Lease;
use crate::link::Link;
use crate::nodes::Nodes;
use crate::open_session::OpenSession;
use crate::own_claims::OwnClaims;
use crate::reconnecting::Ticket;
use crate::searches::Searches;
use crate::session::ZooKeeperSession;
use crate::silence::Doubt;
use crate::tls::Tls;
use crate::{check, gathering, trouble};

/// The pause between two tries to reach servers that are not ready.
const PAUSE: Duration = Duration::from_millis(100);
/// A ZooKeeper that keeps locks. Cloning is cheap; each client that connects has a session of its own.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_zookeeper::Result<()> {
/// use std::time::Duration;
/// use tidelock_zookeeper::{Options, Store};
///
/// let store = Store::open("zookeeper://10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181/production")?;
/// let locks = store.connect(Options::new().ttl(Duration::from_secs(30))).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Store {
    address: Address,
    name: Arc<str>,
    is_only_the_creators: bool,
    tls: Option<Tls>,
    /// Whether this store has ever opened a session.
    has_served: Arc<AtomicBool>,
    given_up: Arc<GivenUp>,
}

impl Store {
    /// A store on the servers at `url`. This does not connect yet.
    ///
    /// `zookeeper://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT][/CHROOT]`: some servers of one ensemble, a user for the
    /// scheme `digest`, and the node below which all nodes are made. That node must exist. With the feature `tls`:
    /// `zookeeper+tls://…`, and the certificates passed to `Store::certificates`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when the URL does not have this form.
    pub fn open(url: &str) -> Result<Self> {
        let address = Address::parse(url)?;
        let name = address.name().into();
        Ok(Self {
            address,
            name,
            is_only_the_creators: false,
            tls: None,
            has_served: Arc::default(),
            given_up: Arc::default(),
        })
    }

    /// Gives only the user in the URL access to the nodes that this store creates from now on. By default everyone has
    /// access.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when the URL names no user.
    pub fn only_for_the_user(mut self) -> Result<Self> {
        if self.address.digest.is_none() {
            return Err(Error::new(
                ErrorKind::InvalidOption,
                "the URL names no user: zookeeper://USER:PASSWORD@…",
            ));
        }
        self.is_only_the_creators = true;
        Ok(self)
    }

    /// Sets the authority that the servers are checked against and, if there is one, this client's certificate.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidelock_zookeeper::{Options, Store, TlsCertificates};
    ///
    /// let root_cert = std::fs::read("/etc/zookeeper/ca.pem")?;
    /// let store = Store::open("zookeeper+tls://10.0.0.1:2281,10.0.0.2:2281,10.0.0.3:2281")?
    ///     .certificates(&TlsCertificates { root_cert, client_tls: None })?;
    /// let locks = store.connect(Options::new()).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when the certificates cannot be read, when the URL does not use TLS, or when it
    /// names a host that no certificate can be for.
    #[cfg(feature = "tls")]
    pub fn certificates(mut self, certificates: &crate::TlsCertificates) -> Result<Self> {
        let wrong = |what: String| Err(Error::new(ErrorKind::InvalidOption, what));
        if !self.address.has_tls {
            return wrong("certificates need a URL with TLS: zookeeper+tls://…".to_owned());
        }
        // The library would panic.
        if let Some(host) = self.address.hosts.iter().find(|host| crate::tls::server_name(host).is_none()) {
            return wrong(format!("no certificate can be valid for the host in {host}"));
        }
        self.tls = Some(Tls::of(certificates)?);
        Ok(self)
    }

    /// Connects a client: its session is opened now. Can be called many times; each client has a session of its own.
    ///
    /// # Errors
    /// What [`Options::check`] refuses, and any trouble with the servers.
    pub async fn connect(&self, options: Options) -> Result<Arc<dyn Locks>> {
        tidelock_core::backend::connect(Arc::new(self.clone()), options).await
    }

    /// Makes a client whose session is opened at first use: a program can start while the servers are down.
    ///
    /// # Errors
    /// What [`Options::check`] refuses.
    pub fn attach(&self, options: Options) -> Result<Arc<dyn Locks>> {
        tidelock_core::backend::attach(Arc::new(self.clone()), options)
    }

    fn acls(&self) -> Acls<'static> {
        if self.is_only_the_creators { Acls::creator_all() } else { Acls::anyone_all() }
    }

    /// Servers that have served before may be restarting or electing a leader: they get time for it.
    async fn dial_patiently(&self, options: &Options) -> Result<Dialled> {
        let dial = self.dial();
        let late = boot_clock().now() + options.connect_deadline * 3 / 4;
        let pause = options.first_pause.max(PAUSE).min(options.connect_deadline / 8);
        loop {
            match dial.open(options.ttl).await {
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
        Dial { address: self.address.clone(), tls: self.tls.clone() }
    }
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
            let wrong = "ZooKeeper answers when most of its servers have a grant, and cannot wait for another number; \
                         connect without the option `replicas`";
            return Err(Error::new(ErrorKind::Unsupported, wrong));
        }
        if self.address.has_tls && self.tls.is_none() {
            let wrong = "zookeeper+tls:// needs the certificates to trust; set them with Store::certificates";
            return Err(Error::new(ErrorKind::InvalidOption, wrong));
        }
        if self.address.chroot.is_empty() && Nodes::of(&options.namespace).root() == SERVERS_OWN {
            let wrong = "the namespace cannot be \"zookeeper\": the node /zookeeper is the server's own; choose another, \
                         or a path in the URL: zookeeper://HOST/PATH";
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
        let clock = boot_clock();
        let nodes = Nodes::of(&options.namespace).below(&self.address.chroot);
        let Dialled { connection, host } = self.dial_patiently(options).await?;
        self.given_up.end_now(PATIENT.min(options.connect_deadline / 8)).await;
        let (session, wire) = (connection.client.session().clone(), connection.wire.clone());
        let lease = Lease::new(connection.client.session_timeout(), connection.asked);
        let doubt = Doubt::new(options.command_deadline, lease.ttl);
        let given_up = self.given_up.clone();
        let ticket = Ticket { dial: self.dial(), session, wire, host, doubt, given_up };
        let link = Link::new(connection, self.acls(), self.name.clone());
        let server_time = tokio::select! {
            checked = check::permissions(&link, &nodes, id, &*clock) => checked?,
            _ = ticket.wire.ended() => return Err(trouble::from(&Said::ConnectionLoss, &self.name)),
        };
        let session = OpenSession {
            id,
            label: options.label.clone(),
            nodes,
            link,
            lease,
            own_claims: OwnClaims::of(id),
            batcher: Batcher::new(gathering::MOST),
            searches: Searches::default(),
            joins: Joins::default(),
            clock,
            signals,
            server_time,
            runtime: Handle::current(),
        };
        self.has_served.store(true, Ordering::Relaxed);
        Ok(Arc::new(ZooKeeperSession::new(session, ticket)))
    }
}
