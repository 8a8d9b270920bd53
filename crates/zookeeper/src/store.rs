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
use zookeeper_client::{Acls, Client, Error as Said};

use crate::address::Address;
use crate::books::Books;
use crate::lease::Lease;
use crate::link::{Link, Serving};
use crate::nodes::Nodes;
use crate::session::{Desk, ZooKeeperSession};
use crate::tls::Tls;
use crate::{check, gathering, trouble};

/// After how long it is asked what is wrong with servers that do not answer.
const PATIENT: Duration = Duration::from_millis(300);

/// How often the library tries to connect before it pauses for longer. It pauses for twice as long after each round of
/// the servers, whatever the ttl: a single one that was away for 7 s would be asked again after 12. Named several times
/// they are asked every 2 s at least until 16 s have passed.
const ROUND: usize = 16;
/// Between two tries to reach servers that are not ready.
const PAUSE: Duration = Duration::from_millis(100);
/// As good as nothing for a session, and enough to open it.
const SHORTEST: Duration = Duration::from_millis(400);

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
    async fn dial_patiently(&self, options: &Options) -> Result<(Client, Serving)> {
        let late = boot_clock().now() + options.connect_deadline * 3 / 4;
        loop {
            match self.dial(options.ttl).await {
                Err(error)
                    if error.kind() == ErrorKind::Unavailable
                        && self.has_served.load(Ordering::Relaxed)
                        && boot_clock().now() < late =>
                {
                    tokio::time::sleep(options.first_pause.max(PAUSE)).await;
                }
                dialled => return dialled,
            }
        }
    }

    async fn dial(&self, ttl: Duration) -> Result<(Client, Serving)> {
        let connecting = self.connect_library(ttl);
        tokio::pin!(connecting);
        let connected = match tokio::time::timeout(PATIENT, &mut connecting).await {
            Ok(connected) => connected,
            Err(_) => tokio::select! {
                connected = &mut connecting => connected,
                wrong = self.is_another() => return Err(wrong),
            },
        };
        match connected {
            Ok(connected) => Ok(connected),
            Err(said) => Err(match check::what_is_wrong(&self.address.hosts, self.tls.as_ref()).await {
                Some(error) => error.because(said),
                None => trouble::from(&said, &self.name),
            }),
        }
    }

    async fn connect_library(&self, ttl: Duration) -> Result<(Client, Serving), Said> {
        // A connection that carries nothing is given up while there is time to make another.
        let connector = Client::connector().with_session_timeout(ttl).with_connection_timeout(ttl / 3);
        let mut connector = connector.with_fail_eagerly();
        if let Some(digest) = &self.address.digest {
            connector = connector.with_auth("digest", digest.as_bytes());
        }
        if let Some(tls) = &self.tls {
            connector = tls.equip(connector);
        }
        let servers = self.address.connect_string(ROUND.div_ceil(self.address.hosts.len()));
        Serving::connect(connector.connect(&servers)).await
    }

    /// Half a tick of the servers, or more: a session that asks for as good as nothing gets two ticks at least.
    async fn half_tick(&self, ttl: Duration) -> Duration {
        match self.connect_library(ttl.min(SHORTEST)).await {
            Ok((client, _)) => client.session_timeout() / 4,
            Err(_) => ttl / 4, // this one has two ticks at least as well
        }
    }

    /// Returns only when something is there that is no ZooKeeper.
    async fn is_another(&self) -> Error {
        match check::what_is_wrong(&self.address.hosts, self.tls.as_ref()).await {
            Some(error) if error.kind() == ErrorKind::Protocol => error,
            _ => std::future::pending().await,
        }
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
        if options.replicas.is_some() {
            let wrong = "a ZooKeeper answers when most of its servers have a grant, and no other number can be waited \
                         for; connect without the option `replicas`";
            return Err(Error::new(ErrorKind::Unsupported, wrong));
        }
        if self.address.has_tls && self.tls.is_none() {
            let wrong = "TLS needs to know whom to trust: Store::certificates";
            return Err(Error::new(ErrorKind::InvalidOption, wrong));
        }
        let clock = boot_clock();
        let nodes = Nodes::of(&options.namespace);
        let asked = clock.now();
        let connected = self.dial_patiently(options).await?;
        let (ttl, states) = (connected.0.session_timeout(), connected.0.state_watcher());
        let link = Link::new(connected, self.acls(), self.name.clone());
        let (server_time, half_tick) =
            tokio::join!(check::permissions(&link, &nodes, id, &*clock), self.half_tick(ttl));
        let (server_time, lease) = (server_time?, Lease::new(ttl, half_tick, asked));
        let desk = Desk {
            id,
            label: options.label.clone(),
            nodes,
            link,
            lease,
            books: Books::default(),
            lane: Lane::new(gathering::MOST),
            clock,
            signals,
            server_time,
            runtime: Handle::current(),
        };
        self.has_served.store(true, Ordering::Relaxed);
        Ok(Arc::new(ZooKeeperSession::new(desk, states)))
    }
}
