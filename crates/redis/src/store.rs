//! A Redis store, and how sessions on it are opened.

use std::error::Error as StdError;
use std::io;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use redis::{Client, ConnectionAddr, ConnectionInfo};
use tidelock_core::backend::{
    Backend, Clock, Credentials, LOCAL_BY_DEFAULT, Login, Moment, Session, Signals, boot_clock,
};
use tidelock_core::{Error, ErrorKind, Locks, Options, Result, SessionId};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;

use crate::address::{self, Address};
use crate::calls::Calls;
use crate::check::{self, NamedBy};
#[cfg(feature = "cluster")]
use crate::cluster::Cluster;
use crate::connector::Connector;
use crate::dial::{Dial, Manner, Target};
use crate::fleet::{Fleet, SingleServer};
use crate::keys::Keys;
use crate::link::{Settings, Timeouts};
use crate::news::News;
use crate::replicas::{Gate, ReplicatedSession};
use crate::sentinels::Sentinels;
use crate::server::Server;
use crate::session::{Leaving, RedisSession};
use crate::strangers;

/// A Redis that keeps lines. Cloning a `Store` is cheap; each client that connects gets its own connections.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_redis::Result<()> {
/// use std::time::Duration;
/// use tidelock_redis::{Options, Store};
///
/// let store = Store::open("redis://127.0.0.1")?;
/// let locks = store.connect(Options::new().ttl(Duration::from_secs(30))).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Store {
    address: Address,
    servers: Manner,
    sentinels: Manner,
    name: Arc<str>,
    has_locals: bool,
}

impl Store {
    /// The server at `url`. Does not connect yet.
    ///
    /// | | |
    /// |---|---|
    /// | one server | `redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]` |
    /// | with TLS (feature `tls`) | `rediss://…` |
    /// | by a Unix socket | `redis+unix:///PATH[?db=DATABASE][&user=USER][&pass=PASSWORD]` |
    /// | a cluster (feature `cluster`), some of its nodes | `redis-cluster://[USER[:PASSWORD]@]HOST:PORT,HOST:PORT` |
    /// | sentinels | `redis-sentinel://[USER[:PASSWORD]@]HOST:PORT,HOST:PORT[/DATABASE][?sentinel_user=USER&sentinel_pass=PASSWORD]#MASTER` |
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when `url` is not one of these.
    pub fn open(url: &str) -> Result<Self> {
        Ok(Self::of(Address::parse(url)?))
    }

    /// The server that this client of the `redis` crate connects to. Tidelock connects with RESP3 and TCP_NODELAY.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when this build cannot connect to the client's kind of address.
    pub fn from_client(client: &Client) -> Result<Self> {
        let info = address::tuned(client.get_connection_info().clone());
        match info.addr().is_supported() {
            true => Ok(Self::of(Address::One(info))),
            false => {
                let wrong = "this build cannot connect to the client's address: TLS needs the feature `tls` of \
                             tidelock-redis, and Unix sockets need a Unix system";
                Err(Error::new(ErrorKind::InvalidOption, wrong))
            }
        }
    }

    /// The credentials for the servers, in place of the user and the password in the URL.
    ///
    /// Tidelock calls `ask` each time it makes a connection, so the next connection uses a changed password. Existing
    /// connections are not authenticated again, because Redis does not do that either. `ask` may block: it runs on a
    /// thread of its own. Its time counts as connecting time, so its future is dropped at `connect_deadline`. Callers
    /// that wait for the connection see its error as [`ErrorKind::Unavailable`]; the error must not contain a password.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_redis::Result<()> {
    /// use tidelock_redis::{Login, Options, Store};
    ///
    /// let secret = || async { Ok(Login::user("app", std::fs::read_to_string("/run/secrets/redis")?.trim())) };
    /// let locks = Store::open("redis://10.0.0.7")?.credentials(secret).connect(Options::new()).await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn credentials<F>(mut self, ask: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = std::result::Result<Login, Box<dyn StdError + Send + Sync>>> + Send + 'static,
    {
        self.servers.credentials = Some(Credentials::of(ask));
        self
    }

    /// The credentials for the sentinels, in place of those in the URL. Works like [`Store::credentials`].
    #[must_use]
    pub fn sentinel_credentials<F>(mut self, ask: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = std::result::Result<Login, Box<dyn StdError + Send + Sync>>> + Send + 'static,
    {
        self.sentinels.credentials = Some(Credentials::of(ask));
        self
    }

    /// Sets the certificate authority that servers and sentinels are verified with, or this client's own certificate,
    /// or both.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidelock_redis::{Options, Store, TlsCertificates};
    ///
    /// let root_cert = Some(std::fs::read("/etc/redis/ca.pem")?);
    /// let store = Store::open("rediss-sentinel://10.0.0.1:26379,10.0.0.2:26379#main")?
    ///     .certificates(&TlsCertificates { client_tls: None, root_cert })?;
    /// let locks = store.connect(Options::new()).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when the certificates cannot be read, or the URL is not a TLS URL.
    #[cfg(feature = "tls")]
    pub fn certificates(mut self, certificates: &redis::TlsCertificates) -> Result<Self> {
        for info in self.address.all() {
            if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
                let wrong =
                    "certificates need a URL with TLS: rediss://, rediss-sentinel:// or rediss-cluster://";
                return Err(Error::new(ErrorKind::InvalidOption, wrong));
            }
            let unreadable = |error| {
                Error::new(ErrorKind::InvalidOption, "the certificates cannot be read").because(error)
            };
            let client = Client::build_with_tls(info.clone(), certificates.clone()).map_err(unreadable)?;
            *info = client.get_connection_info().clone();
        }
        Ok(self)
    }

    /// Opens each connection to a server or a sentinel with `connect`, in place of a plain TCP connection: through a
    /// tunnel or a proxy, or with its own TLS.
    ///
    /// `connect` gets the host and the port that the URL, the sentinels or the cluster name. It is called in several
    /// tokio runtimes, Tidelock's own among them, each time on a thread of its own, so it may block. The stream is used
    /// in the runtime in which it was opened. The call is dropped at `connect_deadline`.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock_redis::Result<()> {
    /// use tidelock_redis::{Options, Store};
    /// use tokio::net::TcpStream;
    ///
    /// // The same ports, but another host.
    /// let outside = |_host: String, port: u16| async move {
    ///     let stream = TcpStream::connect(("redis.example.com", port)).await?;
    ///     stream.set_nodelay(true)?;
    ///     Ok(stream)
    /// };
    /// let locks = Store::open("redis://10.0.0.7")?.connector(outside)?.connect(Options::new()).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] when the URL asks for TLS, which a connector adds itself, or for a Unix socket.
    pub fn connector<F, S>(
        mut self,
        connect: impl Fn(String, u16) -> F + Send + Sync + 'static,
    ) -> Result<Self>
    where
        F: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        if self.address.all().iter().any(|info| !matches!(info.addr(), ConnectionAddr::Tcp(..))) {
            let wrong = "a connector needs a URL without TLS: redis://HOST:PORT; it can add TLS itself";
            return Err(Error::new(ErrorKind::InvalidOption, wrong));
        }
        let connector = Some(Connector::of(connect));
        (self.sentinels.connector, self.servers.connector) = (connector.clone(), connector);
        Ok(self)
    }

    /// Whether each tokio runtime that sends many requests gets its own connection, so that a request wakes no other
    /// thread.
    ///
    /// The default is `true`, unless the program is built with `panic = "abort"`. A runtime cannot be asked whether it
    /// does I/O, and tokio panics where it does not. So Tidelock tries it once for each runtime, in a task of its own.
    /// Where that fails, Tidelock's own connection serves.
    ///
    /// Set `false`:
    /// - if one of your runtimes does no I/O (it was built without `enable_io` or `enable_all`),
    /// - if one is not driven for long periods (for example when `Handle::block_on` runs tasks on a current-thread
    ///   runtime: tokio does no I/O there meanwhile),
    /// - or if connections are scarce.
    ///
    /// Set `true` in a program with `panic = "abort"` if all of its runtimes do I/O.
    #[must_use]
    pub fn connection_for_each_runtime(mut self, has_one: bool) -> Self {
        self.has_locals = has_one;
        self
    }

    /// Connects a client: its session is opened now. Can be called many times; each client has connections of its own.
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

    fn of(address: Address) -> Self {
        let name = name(&address).into();
        let (servers, sentinels) = Default::default();
        Self { address, servers, sentinels, name, has_locals: LOCAL_BY_DEFAULT }
    }

    async fn open_fleet(&self, settings: Settings) -> Result<Arc<dyn Fleet>> {
        match self.connected(settings).await {
            Err(error) => Err(strangers::explain(error, self.named()).await),
            opened => opened,
        }
    }

    /// The servers, sentinels or nodes that the URL names.
    fn named(&self) -> Vec<Target> {
        let all = |infos: &[ConnectionInfo], manner: &Manner| {
            infos.iter().map(|info| Target::new(info.clone(), manner.clone())).collect()
        };
        match &self.address {
            Address::One(info) => all(std::slice::from_ref(info), &self.servers),
            Address::Sentinels { sentinels, .. } => all(sentinels, &self.sentinels),
            #[cfg(feature = "cluster")]
            Address::Cluster(nodes) => all(nodes, &self.servers),
        }
    }

    async fn connected(&self, settings: Settings) -> Result<Arc<dyn Fleet>> {
        let target = |info: &ConnectionInfo| Target::new(info.clone(), self.servers.clone());
        let (dial, named_by): (Arc<dyn Dial>, _) = match &self.address {
            Address::One(info) => (Arc::new(target(info)), NamedBy::TheProgram),
            Address::Sentinels { sentinels, master, server } => {
                let sentinel = |info: &ConnectionInfo| Target::new(info.clone(), self.sentinels.clone());
                let sentinels = sentinels.iter().map(sentinel).collect();
                let runtime = settings.runtime.clone();
                let sentinels = Sentinels::new(sentinels, master.clone(), target(server), runtime);
                (Arc::new(sentinels), NamedBy::Sentinels)
            }
            #[cfg(feature = "cluster")]
            Address::Cluster(nodes) => {
                return Ok(Arc::new(Cluster::open(nodes.iter().map(target).collect(), settings).await?));
            }
        };
        let server = Server::connect(dial, settings).await?;
        check::server(&server.commands, named_by).await?;
        Ok(Arc::new(SingleServer(Arc::new(server))))
    }
}

/// The store's name. It is the same in every process, whatever the order of the addresses.
/// Two deployments often use the same master name, so the sentinels' addresses are part of it.
fn name(address: &Address) -> String {
    match address {
        Address::One(info) => format!("redis {}/{}", info.addr(), info.redis_settings().db()),
        Address::Sentinels { sentinels, master, server } => {
            format!("redis sentinel {master}/{} of {}", server.redis_settings().db(), places(sentinels))
        }
        #[cfg(feature = "cluster")]
        Address::Cluster(nodes) => format!("redis cluster {}", places(nodes)),
    }
}

fn places(servers: &[ConnectionInfo]) -> String {
    let mut addresses: Vec<_> = servers.iter().map(|server| server.addr().to_string()).collect();
    addresses.sort_unstable();
    addresses.join(",")
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
        let keys = Keys::of(&options.namespace);
        let gate = options.replicas.map(|replicas| (replicas, Gate::new(id, signals.clone())));
        let signals = gate.as_ref().map_or(signals, |(_, (gate, _))| gate.clone() as Arc<dyn Signals>);
        let settings = Settings {
            news: Arc::new(News { session: id, signals }),
            channel: Some(keys.channel(id)),
            timeouts: Timeouts::of(options),
            runtime: Handle::current(),
            has_locals: self.has_locals,
            has_slots: false,
        };
        let fleet = self.open_fleet(settings).await?;
        check::permissions(&*fleet, &keys, id).await?;
        let session = RedisSession {
            calls: Calls { session: id, ttl: options.ttl, label: options.label.clone(), keys },
            renew_within: options.command_deadline.min(options.ttl / 3),
            clock: boot_clock(),
            runtime: Handle::current(),
            fleet,
            leaving: Leaving::default(),
            beaten: Mutex::new(Moment::START),
        };
        let Some((replicas, (gate, to_ask))) = gate else {
            return Ok(Arc::new(session));
        };
        check::replicas(&*session.fleet, id, replicas.count).await?;
        Ok(Arc::new(ReplicatedSession::start(session, gate, to_ask, replicas, options)))
    }
}

#[cfg(test)]
mod tests {
    use std::future::{Ready, ready};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_stores_name_tells_it_from_others_and_hides_its_password() {
        let name = |url: &str| Store::open(url).unwrap().store().to_owned();
        let one = name("redis-sentinel://me:secret@a:1,b:2?sentinel_pass=hidden#mymaster");
        assert_ne!(one, name("redis-sentinel://c:1,d:2#mymaster"));
        assert_eq!(one, name("redis-sentinel://b:2,a:1#mymaster"), "the order does not matter");
        assert!(!one.contains("secret") && !one.contains("hidden"), "{one}");
        assert_ne!(name("redis://a:1/0"), name("redis://a:1/1"));
    }

    /// While the program's code blocks one connection attempt, another client can connect.
    async fn stalls_nobody(slow: Store, is_asked: Arc<AtomicBool>) {
        let blocked = tokio::spawn(async move { slow.connect(Options::new()).await });
        while !is_asked.load(Ordering::Acquire) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let began = Instant::now();
        let quick = nowhere().credentials(|| ready(Err("the vault is sealed".into())));
        let refused = quick.connect(Options::new()).await.unwrap_err();
        assert!(format!("{refused:?}").contains("sealed"), "{refused:?}");
        assert!(began.elapsed() < BLOCKS / 2, "it took {:?}", began.elapsed());
        assert!(blocked.await.unwrap().is_err());
    }

    const BLOCKS: Duration = Duration::from_secs(3);

    fn nowhere() -> Store {
        Store::open("redis://127.0.0.1:1").unwrap()
    }

    #[tokio::test]
    async fn credentials_that_block_stall_nobody() {
        let is_asked = Arc::new(AtomicBool::new(false));
        let asked = is_asked.clone();
        let slow = nowhere().credentials(move || {
            asked.store(true, Ordering::Release);
            std::thread::sleep(BLOCKS);
            ready(Err("at last, and in vain".into()))
        });
        stalls_nobody(slow, is_asked).await;
    }

    #[tokio::test]
    async fn a_connector_that_blocks_stalls_nobody() {
        let is_asked = Arc::new(AtomicBool::new(false));
        let asked = is_asked.clone();
        let slow = nowhere().connector(move |_, _| {
            asked.store(true, Ordering::Release);
            std::thread::sleep(BLOCKS);
            ready(Err::<tokio::net::TcpStream, _>(io::Error::other("at last, and in vain")))
        });
        stalls_nobody(slow.unwrap(), is_asked).await;
    }

    #[tokio::test]
    async fn a_connector_that_panics_is_an_error() {
        let wrong = |_: String, _: u16| -> Ready<io::Result<tokio::net::TcpStream>> { panic!("on purpose") };
        let refused = nowhere().connector(wrong).unwrap().connect(Options::new()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused:?}");
    }
}
