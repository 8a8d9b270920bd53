//! A program's own connections: credentials that change, certificates, and connectors.

use std::error::Error as StdError;
use std::future::{Ready, pending, ready};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{Client, Connection, Value};
use tidelock_redis::{Error, ErrorKind, Guard, Locks, Login, Options, State, Store};
use tokio::net::TcpStream;

use crate::site;
use crate::site::alone::Alone;
use crate::site::cluster::{self, Cluster};
use crate::site::wires::Wires;
use crate::site::{hold, replicated, url};

fn options() -> Options {
    Options::new().connect_deadline(Duration::from_millis(500)).command_deadline(Duration::from_millis(500))
}

type Asked = Result<Login, Box<dyn StdError + Send + Sync>>;

/// Credentials that change while a program runs.
#[derive(Clone, Debug)]
struct Changing(Arc<Mutex<Login>>);

impl Changing {
    fn from(login: Login) -> Self {
        Self(Arc::new(Mutex::new(login)))
    }

    /// A function that returns the current login.
    fn ask(&self) -> impl Fn() -> Ready<Asked> + use<> {
        let login = self.0.clone();
        move || ready(Ok(login.lock().unwrap().clone()))
    }

    fn to(&self, login: Login) {
        *self.0.lock().unwrap() = login;
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_closed_client_keeps_no_connection_however_long_its_handles_live() {
    let _alone = Alone::new().await;
    let wires = Wires::default();
    let locks = wires.store(&url()).connect(Options::new()).await.unwrap();
    let mutex = locks.mutex("closed").unwrap();
    for _ in 0..64 {
        mutex.lock().await.unwrap().release().await.unwrap().confirmed().unwrap(); // so often that this runtime has a connection too
    }
    assert!(wires.stand() >= 2);
    locks.close().await.unwrap();
    site::until("its connections have ended", async || (wires.stand() == 0).then_some(())).await;
    assert_eq!(mutex.lock().await.unwrap_err().kind(), ErrorKind::Closed);
}

/// Ends every connection except those between servers and the one that sends this.
const HANG_UP: [&str; 2] = ["CLIENT KILL TYPE normal", "CLIENT KILL TYPE pubsub"];

/// An operator's connections to servers.
struct Operator(Vec<Connection>);

impl Operator {
    fn of(addresses: &[String]) -> Self {
        let connect = |address: &String| Client::open(format!("redis://{address}")).unwrap().get_connection();
        Self(addresses.iter().map(|address| connect(address).unwrap()).collect())
    }

    fn ask(&mut self, words: &str) {
        for server in &mut self.0 {
            site::command(words).query::<Value>(server).unwrap_or_else(|error| panic!("{words}: {error}"));
        }
    }
}

/// Waits until a lock can be taken: the first request notices a connection that was ended.
async fn can_lock(locks: &Arc<dyn Locks>) {
    let guard = site::until("a lock can be had", async || hold(locks, "other").await.ok()).await;
    guard.release().await.unwrap().confirmed().unwrap();
}

/// Waits until the server of this name is reached: each server has its own connection, with pauses between attempts.
async fn can_ask_for(locks: &Arc<dyn Locks>, name: &str) {
    site::until("a line can be looked at", async || locks.inspect(name).await.ok()).await;
}

/// Waits until a renewal has come through. A lock that was lost is never held again.
async fn is_held(guard: &Guard) {
    site::until("it is held", async || (guard.state() == State::Held).then_some(())).await;
}

/// Changes a password and ends all connections while a lock is held. The lock stays held.
async fn outlives_a_new_password(mut operate: impl FnMut(&str), store: Store, credentials: &Changing) {
    let locks = store.connect(Options::new()).await.unwrap();
    let guard = hold(&locks, "stock").await.unwrap();
    operate("ACL SETUSER app >sesame-2 <sesame-1");
    HANG_UP.into_iter().for_each(&mut operate);
    let denied = async || match hold(&locks, "other").await {
        Err(error) if error.kind() == ErrorKind::Denied => Some(error),
        _ => None,
    };
    let error = site::until("the old one is refused", denied).await;
    assert!(error.to_string().contains("refused the user name or the password"), "{error}");
    assert!(!format!("{error:?} {locks:?}").contains("sesame"), "{error:?}");
    credentials.to(Login::user("app", "sesame-2"));
    can_lock(&locks).await;
    can_ask_for(&locks, "stock").await;
    is_held(&guard).await;
    guard.release().await.unwrap().confirmed().unwrap();
    locks.close().await.unwrap();
}

const FIRST: &str = "ACL SETUSER app reset on >sesame-1 ~* &* +@all";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_vault_that_hangs_has_no_thread_for_each_try() {
    let (is_open, inside) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let (door, asks) = (is_open.clone(), inside.clone());
    let store = Store::open(&url()).unwrap().credentials(move || {
        asks.fetch_add(1, Ordering::SeqCst);
        while !door.load(Ordering::SeqCst) {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        ready(Err("it was closed for long".into()))
    });
    let options = Options::new().connect_deadline(Duration::from_millis(50));
    let locks = tidelock_redis::backend::attach(Arc::new(store), options).unwrap();
    for _ in 0..30 {
        locks.mutex("m").unwrap().lock().await.unwrap_err();
    }
    assert!(inside.load(Ordering::SeqCst) <= 8, "{inside:?} threads wait at its door");
    is_open.store(true, Ordering::SeqCst);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_whose_password_is_changed_is_connected_to_with_the_new_one() {
    let mut alone = Alone::new().await;
    alone.ask(FIRST);
    let credentials = Changing::from(Login::user("app", "sesame-1"));
    let store = Store::open(&url()).unwrap().credentials(credentials.ask());
    outlives_a_new_password(|words| drop(alone.ask(words)), store, &credentials).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn so_is_one_with_a_password_for_all() {
    let mut alone = Alone::new().await;
    alone.ask("CONFIG SET requirepass first");
    let credentials = Changing::from(Login::password("first"));
    let locks = Store::open(&url()).unwrap().credentials(credentials.ask());
    let locks = locks.connect(Options::new()).await.unwrap();
    let guard = hold(&locks, "stock").await.unwrap();
    alone.ask("CONFIG SET requirepass second");
    credentials.to(Login::password("second"));
    HANG_UP.into_iter().for_each(|words| drop(alone.ask(words)));
    can_lock(&locks).await;
    is_held(&guard).await;
    guard.release().await.unwrap().confirmed().unwrap();
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn so_are_the_servers_that_sentinels_name() {
    let mut site = replicated::Replicated::new().await;
    let mut operator = Operator::of(&site.addresses());
    operator.ask(FIRST);
    let credentials = Changing::from(Login::user("app", "sesame-1"));
    let store = Store::open(&replicated::url()).unwrap().credentials(credentials.ask());
    outlives_a_new_password(|words| operator.ask(words), store, &credentials).await;
    operator.ask("ACL DELUSER app");
    drop(site);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn so_are_all_nodes_of_a_cluster() {
    let _turn = Cluster::new().await;
    let url = cluster::url();
    let nodes: Vec<_> = address_of(&url).split(',').map(str::to_owned).collect();
    let mut operator = Operator::of(&nodes);
    operator.ask(FIRST);
    let credentials = Changing::from(Login::user("app", "sesame-1"));
    let store = Store::open(&url).unwrap().credentials(credentials.ask());
    outlives_a_new_password(|words| operator.ask(words), store, &credentials).await;
    operator.ask("ACL DELUSER app");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn sentinels_may_want_a_password_of_their_own() {
    let _site = replicated::Replicated::new().await;
    let url = replicated::url();
    let sentinels: Vec<_> =
        address_of(&url).split('/').next().unwrap().split(',').map(str::to_owned).collect();
    let mut operator = Operator::of(&sentinels);
    operator.ask("ACL SETUSER watcher reset on >eye -@all +sentinel|master");

    let lock = async |store: Store| {
        let locks = store.connect(options()).await?;
        hold(&locks, "stock").await?.release().await?.confirmed()?;
        locks.close().await
    };
    let said = |password: &str| {
        let said = format!("?sentinel_user=watcher&sentinel_pass={password}#");
        Store::open(&url.replace('#', &said)).unwrap()
    };
    lock(said("eye")).await.unwrap();
    let error = lock(said("blind")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    let asked = |login| Store::open(&url).unwrap().sentinel_credentials(Changing::from(login).ask());
    lock(asked(Login::user("watcher", "eye"))).await.unwrap();
    let error = lock(asked(Login::user("watcher", "blind"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    operator.ask("ACL DELUSER watcher");
}

#[tokio::test]
async fn credentials_that_cannot_be_had_are_said_so_in_time() {
    let why = async |store: Store| store.connect(options()).await.unwrap_err();
    let store = || Store::open("redis://127.0.0.1:1").unwrap();
    let error = why(store().credentials(|| ready(Err("the vault is sealed".into())))).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    let text = error.to_string();
    assert!(text.contains("cannot get the credentials") && text.contains("the vault is sealed"), "{text}");
    let error = why(store().credentials(pending)).await;
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
}

// Connectors.

/// A store at that URL with a connector that leads to `to`, or to the given address if that is `None`. Counts its calls
/// in `taken`.
fn store_by(url: &str, to: Option<&str>, taken: &Arc<AtomicU32>) -> Result<Store, Error> {
    let (to, taken) = (to.map(str::to_owned), taken.clone());
    Store::open(url)?.connector(move |host, port| {
        taken.fetch_add(1, Ordering::Relaxed);
        TcpStream::connect(to.clone().unwrap_or_else(|| format!("{host}:{port}")))
    })
}

/// How many connections a mix of operations makes.
async fn connections_of(url: &str, to: Option<&str>) -> u32 {
    let taken = Arc::default();
    let locks = store_by(url, to, &taken).unwrap().connect(options()).await.unwrap();
    let held = hold(&locks, "stock").await.unwrap();
    let next = locks.mutex("stock").unwrap();
    let waits = tokio::spawn(async move { next.lock().await.unwrap().release().await?.confirmed() });
    for i in 0..40 {
        hold(&locks, &format!("name {i}")).await.unwrap().release().await.unwrap().confirmed().unwrap();
    }
    held.release().await.unwrap().confirmed().unwrap();
    waits.await.unwrap().unwrap();
    locks.close().await.unwrap();
    taken.load(Ordering::Relaxed)
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_is_reached_by_a_way_of_ones_own() {
    let mut alone = Alone::new().await;
    let made = connections_of("redis://nowhere.invalid:1", Some(&address_of(&url()))).await;
    assert!(made >= 2, "one for commands, one on the caller's runtime: {made}");
    let nobody = async || {
        let Value::BulkString(clients) = alone.ask("CLIENT LIST") else { panic!() };
        (!String::from_utf8(clients).unwrap().contains("resp=3")).then_some(())
    };
    site::until("every connection has ended", nobody).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn sentinels_and_nodes_of_a_cluster_are_reached_by_it_too() {
    let _turns = (replicated::Replicated::new().await, Cluster::new().await);
    for url in [replicated::url(), cluster::url()] {
        let made = connections_of(&url, None).await;
        assert!(made >= 4, "{made} on {url}");
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_that_is_back_is_used_when_somebody_asks() {
    let mut alone = Alone::new().await;
    let (there, nowhere) = (address_of(&url()), "127.0.0.1:1".to_owned());
    let (to, taken) = (Arc::new(Mutex::new(there.clone())), Arc::new(AtomicU32::new(0)));
    let (way, count) = (to.clone(), taken.clone());
    let store = Store::open(&url()).unwrap().connector(move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
        TcpStream::connect(way.lock().unwrap().clone())
    });
    let rests = options().back_off(Duration::from_millis(20), Duration::from_secs(3600));
    let locks = store.unwrap().connect(rests).await.unwrap();
    *to.lock().unwrap() = nowhere;
    alone.ask("CLIENT KILL TYPE normal");
    alone.ask("CLIENT KILL TYPE pubsub");
    let before = taken.load(Ordering::Relaxed);
    // Two connections with six attempts each: the next attempt is more than a second away.
    let tried = async || (taken.load(Ordering::Relaxed) >= before + 12).then_some(());
    site::until("it is tried again and again", tried).await;
    *to.lock().unwrap() = there;
    hold(&locks, "stock").await.unwrap().release().await.unwrap().confirmed().unwrap();
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_way_that_leads_nowhere_is_an_error_in_time() {
    let _alone = Alone::new().await;
    let store = store_by(&url(), Some("127.0.0.1:1"), &Arc::default()).unwrap();
    let error = store.connect(options()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("cannot be reached"), "{error}");
}

#[test]
fn a_way_of_ones_own_is_for_plain_addresses() {
    for url in ["redis+unix:///tmp/redis.sock", "rediss://127.0.0.1"] {
        let error = store_by(url, None, &Arc::default()).unwrap_err();
        let without_tls = error.kind() == ErrorKind::Unsupported && !cfg!(feature = "tls");
        assert!(error.kind() == ErrorKind::InvalidOption || without_tls, "{url}: {error:?}");
    }
}

/// The URL without its scheme.
fn address_of(url: &str) -> String {
    url.split_once("://").unwrap().1.to_owned()
}

#[cfg(feature = "tls")]
mod certificates {
    use std::net::TcpListener;

    use tidelock_redis::{ClientTlsConfig, TlsCertificates};

    use super::*;

    /// Made for these tests, for 127.0.0.1; nobody has the key of their authority.
    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../xtask/src/servers/certificates");

    fn pem(file: &str) -> Vec<u8> {
        std::fs::read(format!("{FOLDER}/{file}")).unwrap()
    }

    fn authority(file: &str) -> TlsCertificates {
        TlsCertificates { client_tls: None, root_cert: Some(pem(file)) }
    }

    fn known() -> TlsCertificates {
        let client_tls =
            Some(ClientTlsConfig { client_cert: pem("client.pem"), client_key: pem("client.key") });
        TlsCertificates { client_tls, ..authority("ca.pem") }
    }

    /// Makes the server listen with TLS on one more port.
    fn begin(alone: &mut Alone) -> String {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        for (what, file) in [("cert", "server.pem"), ("key", "server.key"), ("ca-cert", "ca.pem")] {
            alone.ask(&format!("CONFIG SET tls-{what}-file {FOLDER}/{file}"));
        }
        alone.ask(&format!("CONFIG SET tls-port {port}"));
        format!("rediss://127.0.0.1:{port}")
    }

    async fn lock(store: Store) -> Result<(), Error> {
        let locks = store.connect(Options::new()).await?;
        hold(&locks, "stock").await?.release().await?.confirmed()?;
        locks.close().await
    }

    #[tokio::test]
    #[ignore = "needs a server: cargo xtask test runs it"]
    async fn a_server_and_a_client_know_each_other_by_ones_own_authority() {
        let mut alone = Alone::new().await;
        let url = begin(&mut alone);
        let store = |certificates| Store::open(&url).unwrap().certificates(&certificates);
        let refused = async |store: Store| {
            let error = lock(store).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        };
        lock(store(known()).unwrap()).await.unwrap();
        lock(Store::from_client(&Client::build_with_tls(&*url, known()).unwrap()).unwrap()).await.unwrap();
        refused(store(authority("stranger.pem")).unwrap()).await;
        refused(Store::open(&url).unwrap()).await; // the system does not know this authority
        refused(store(authority("ca.pem")).unwrap()).await; // the server requires a client certificate
        alone.ask("CONFIG SET tls-auth-clients no");
        lock(store(authority("ca.pem")).unwrap()).await.unwrap();
        alone.ask("CONFIG SET tls-auth-clients yes");
        alone.ask("CONFIG SET tls-port 0");
    }

    #[test]
    fn certificates_are_for_urls_with_tls_and_have_to_be_some() {
        for url in ["redis://127.0.0.1", "redis-sentinel://127.0.0.1#main"] {
            let error = Store::open(url).unwrap().certificates(&known()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{url}: {error:?}");
        }
        for url in ["rediss-sentinel://127.0.0.1#main", "rediss-cluster://127.0.0.1"] {
            Store::open(url).unwrap().certificates(&known()).unwrap();
        }
        let half = ClientTlsConfig { client_cert: pem("client.pem"), client_key: b"secret".to_vec() };
        let wrong = TlsCertificates { client_tls: Some(half), root_cert: None };
        let error = Store::open("rediss://127.0.0.1").unwrap().certificates(&wrong).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error:?}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}
