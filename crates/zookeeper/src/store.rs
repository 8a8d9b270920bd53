//! A ZooKeeper, and how sessions of it are opened.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tidelock::{
    Backend, Clock, Error, ErrorKind, Lane, Locks, Options, Result, Session, SessionId, Signals, boot_clock,
};
use tokio::runtime::Handle;
use zookeeper_client::{Acls, Error as Said};

use crate::address::{Address, SERVERS_OWN};
use crate::books::Books;
use crate::dial::{Dial, Dialled};
use crate::lease::Lease;
use crate::link::Link;
use crate::nodes::Nodes;
use crate::reconnecting::Ticket;
use crate::searching::Searches;
use crate::session::{Desk, ZooKeeperSession};
use crate::silence::Doubt;
use crate::tls::Tls;
use crate::{check, gathering, trouble};

/// Between two tries to reach servers that are not ready.
const PAUSE: Duration = Duration::from_millis(100);
/// A ZooKeeper to keep lines in. Cloning it is cheap; each client that connects has a session of its own.
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
    /// Whether a session was ever opened.
    has_served: Arc<AtomicBool>,
}

impl Store {
    /// The servers at `url`; nothing is connected yet.
    ///
    /// `zookeeper://[USER:PASSWORD@]HOST[:PORT],HOST[:PORT][/CHROOT]`: some servers of one ensemble, the user who is
    /// known by the scheme `digest`, and the node below which everything is. That node has to be there. With the feature
    /// `tls`, `zookeeper+tls://…` and the certificates that [`Store`] is told then.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when that is no such URL.
    pub fn open(url: &str) -> Result<Self> {
        let address = Address::parse(url)?;
        let name = address.name().into();
        Ok(Self { address, name, is_only_the_creators: false, tls: None, has_served: Arc::default() })
    }

    /// Only the user in the URL may do anything with the nodes that are made from now on. By default everyone may.
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

    /// The servers are known by this authority, and this client to them by its certificate, if it has one.
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
    /// [`ErrorKind::InvalidOption`] when they cannot be read, or the URL is of no TLS, or names a host that no
    /// certificate can be for.
    #[cfg(feature = "tls")]
    pub fn certificates(mut self, certificates: &crate::TlsCertificates) -> Result<Self> {
        let wrong = |what: String| Err(Error::new(ErrorKind::InvalidOption, what));
        if !self.address.has_tls {
            return wrong("certificates are for URLs with TLS: zookeeper+tls://".to_owned());
        }
        // The library would panic.
        if let Some(host) = self.address.hosts.iter().find(|host| crate::tls::server_name(host).is_none()) {
            return wrong(format!("there can be no certificate for the host in {host}"));
        }
        self.tls = Some(Tls::of(certificates)?);
        Ok(self)
    }

    /// Locks of this store, their session opened now.
    ///
    /// # Errors
    /// What [`Options::check`] refuses, and whatever is wrong with the servers.
    pub async fn connect(self, options: Options) -> Result<Arc<dyn Locks>> {
        tidelock::connect(Arc::new(self), options).await
    }

    fn acls(&self) -> Acls<'static> {
        if self.is_only_the_creators { Acls::creator_all() } else { Acls::anyone_all() }
    }

    /// Servers that have served once are being started again, or elect somebody: they are given the time for it.
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

    /// What cannot be kept here.
    fn check(&self, options: &Options) -> Result<()> {
        if options.replicas.is_some() {
            let wrong = "a ZooKeeper answers when most of its servers have a grant, and no other number can be waited \
                         for; connect without the option `replicas`";
            return Err(Error::new(ErrorKind::Unsupported, wrong));
        }
        if self.address.has_tls && self.tls.is_none() {
            let wrong = "TLS needs to know whom to trust: Store::certificates";
            return Err(Error::new(ErrorKind::InvalidOption, wrong));
        }
        if self.address.chroot.is_empty() && Nodes::of(&options.namespace).root() == SERVERS_OWN {
            let wrong = "the namespace cannot be \"zookeeper\": the node /zookeeper is the server's own; choose another, \
                         or a path in the URL: zookeeper://HOST/PATH";
            return Err(Error::new(ErrorKind::InvalidOption, wrong));
        }
        Ok(())
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

    async fn open(
        &self,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        self.check(options)?;
        let clock = boot_clock();
        let nodes = Nodes::of(&options.namespace).below(&self.address.chroot);
        let Dialled { connection, host } = self.dial_patiently(options).await?;
        let (session, wire) = (connection.client.session().clone(), connection.wire.clone());
        let lease = Lease::new(connection.client.session_timeout(), connection.asked);
        let doubt = Doubt::new(options.command_deadline, lease.ttl);
        let ticket = Ticket { dial: self.dial(), session, wire, host, doubt };
        let link = Link::new(connection, self.acls(), self.name.clone());
        let server_time = tokio::select! {
            checked = check::permissions(&link, &nodes, id, &*clock) => checked?,
            _ = ticket.wire.ended() => return Err(trouble::from(&Said::ConnectionLoss, &self.name)),
        };
        let desk = Desk {
            id,
            label: options.label.clone(),
            nodes,
            link,
            lease,
            books: Books::of(id),
            lane: Lane::new(gathering::MOST),
            searches: Searches::default(),
            clock,
            signals,
            server_time,
            runtime: Handle::current(),
        };
        self.has_served.store(true, Ordering::Relaxed);
        Ok(Arc::new(ZooKeeperSession::new(desk, ticket)))
    }
}
