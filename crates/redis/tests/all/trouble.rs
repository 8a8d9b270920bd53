//! Any problem with a server becomes a typed error at once. The error says what to do and contains no password, nothing
//! in the store has changed, and nothing hangs past its deadline.

use std::error::Error as _;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidelock_redis::backend::{Claim, Leave, Left, Patience, Place, Shard};
use tidelock_redis::{Error, ErrorKind, Kind, Name, Options, Store, Weight};
use tracing::field::{Field, Visit};
use tracing::span;

use crate::site;
use crate::site::alone::Alone;
use crate::site::replicated::url_of_sentinel;
use crate::site::{Caller, fake, name, url, url_of, weight};

/// The deadline for connecting and for a command here.
const DEADLINE: Duration = Duration::from_millis(300);

fn options() -> Options {
    Options::new().connect_deadline(DEADLINE).command_deadline(DEADLINE)
}

/// The error of connecting there.
async fn refused(url: &str) -> Error {
    let start = Instant::now();
    let store = Store::open(url).unwrap();
    assert!(!format!("{store:?}").contains("secret"), "{store:?}");
    let error = store.connect(options()).await.unwrap_err();
    assert!(start.elapsed() < DEADLINE * 4, "it took {:?} to say {error}", start.elapsed());
    says_no_password(&error);
    error
}

fn says_no_password(error: &Error) {
    let mut said = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(cause) = source {
        said += &format!(" {cause} {cause:?}");
        source = cause.source();
    }
    assert!(!said.contains("secret"), "{said}");
}

fn assert_says(error: &Error, kind: ErrorKind, what: &[&str]) {
    assert_eq!(error.kind(), kind, "{error:?}");
    for word in what {
        assert!(error.to_string().contains(word), "{error} (without {word:?})");
    }
}

// Servers that are not Redis, or not the right one.

#[tokio::test]
async fn a_web_server_is_no_redis() {
    let url = fake::serve(|mut stream| {
        let _ = stream.read(&mut [0; 512]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let said = ["127.0.0.1:", "is a web server, not a Redis; check the host and the port in the URL"];
    assert_says(&refused(&url).await, ErrorKind::Protocol, &said);
}

/// A server that hangs up on any request that it does not know.
fn stranger(answer: impl Fn(&[u8]) -> Option<&'static str> + Clone + Send + 'static) -> String {
    fake::serve(move |mut stream| {
        let mut said = [0; 512];
        let length = stream.read(&mut said).unwrap_or(0);
        if let Some(answer) = answer(&said[..length]) {
            let _ = stream.write_all(answer.as_bytes());
        }
    })
}

fn zookeeper() -> String {
    stranger(|said| said.starts_with(b"srvr").then_some("Zookeeper version: 3.8.0-5a02a05eddb59aee6ac7\n"))
}

#[tokio::test]
async fn a_zookeeper_is_called_by_its_name() {
    let url = zookeeper();
    assert_says(&refused(&url).await, ErrorKind::Protocol, &["127.0.0.1:", "is a ZooKeeper, not a Redis"]);
    for url in ["redis-sentinel", "redis-cluster"].map(|kind| url.replacen("redis", kind, 1)) {
        if cfg!(feature = "cluster") || url.contains("sentinel") {
            let url = if url.contains("sentinel") { format!("{url}#main") } else { url };
            assert_says(&refused(&url).await, ErrorKind::Protocol, &["is a ZooKeeper, not a Redis"]);
        }
    }
}

#[tokio::test]
async fn an_etcd_is_called_by_its_name() {
    const VERSION: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 45\r\n\r\n\
                           {\"etcdserver\":\"3.4.23\",\"etcdcluster\":\"3.4.0\"}";
    let url = stranger(|said| said.starts_with(b"GET /version").then_some(VERSION));
    assert_says(&refused(&url).await, ErrorKind::Protocol, &["127.0.0.1:", "is an etcd, not a Redis"]);
}

#[tokio::test]
async fn a_mariadb_is_called_by_its_name() {
    let url = fake::serve(|mut stream| {
        let _ = stream.write_all(b"\x5b\x00\x00\x00\x0a5.5.5-10.11.19-MariaDB\x00\x01\x00\x00\x00");
        let _ = stream.read(&mut [0; 512]);
    });
    assert_says(&refused(&url).await, ErrorKind::Protocol, &["is a MySQL or a MariaDB, not a Redis"]);
}

#[tokio::test]
async fn one_that_only_hangs_up_is_not_called_names() {
    let error = refused(&stranger(|_| None)).await;
    assert_says(&error, ErrorKind::Unavailable, &["Redis at 127.0.0.1:"]);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_redis_given_as_a_sentinel_is_refused() {
    let _alone = Alone::new().await;
    let address = url().replace("redis://", "");
    let error = refused(&format!("redis-sentinel://app:secret@{address}#main")).await;
    let redis = format!("{address} is a Redis server, not a sentinel");
    assert_says(&error, ErrorKind::Unsupported, &[&redis, &format!("redis://{address}")]);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_master_that_no_sentinel_knows_is_said_so() {
    let url = site::replicated::url().replace("#tidelock", "#nobody").replace("://", "://app:secret@");
    assert_says(&refused(&url).await, ErrorKind::Unsupported, &["no master called \"nobody\""]);
}

#[tokio::test]
async fn one_that_says_nothing_is_not_waited_for() {
    let url = fake::serve(|mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    assert_says(&refused(&url).await, ErrorKind::Timeout, &["did not answer in time"]);
}

#[tokio::test]
async fn one_that_falls_silent_is_not_waited_for() {
    let url = fake::redis(|words| match words[0].as_str() {
        "EVALSHA" | "EVAL" => Some(String::new()),
        _ => fake::usual(words, "redis_version:7.0.0\r\nrole:master\r\n"),
    });
    assert_says(&refused(&url).await, ErrorKind::Timeout, &["did not answer in time"]);
}

#[tokio::test]
async fn a_closed_port_is_said_so() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://app:secret@{}", listener.local_addr().unwrap());
    drop(listener);
    let error = refused(&url).await;
    assert_says(&error, ErrorKind::Unavailable, &["Redis at 127.0.0.1:", "cannot be reached"]);
    assert!(error.can_retry());
}

#[tokio::test]
async fn a_url_of_something_else_is_refused_without_its_password() {
    for url in [
        "http://app:secret@127.0.0.1",
        "redis://app:secret@127.0.0.1:port",
        "redis://app:secret@h/x",
        "secret",
    ] {
        let error = Store::open(url).unwrap_err();
        assert_says(&error, ErrorKind::InvalidOption, &["redis://"]);
        says_no_password(&error);
    }
}

#[tokio::test]
async fn a_server_that_is_too_old_is_refused() {
    let old = "redis_version:6.0.16\r\nrole:master\r\n";
    let error = refused(&fake::redis(move |words| fake::usual(words, old))).await;
    assert_says(&error, ErrorKind::Unsupported, &["6.0.16", "6.2"]);
    let ancient = fake::redis(|words| match words[0].as_str() {
        "HELLO" => Some("-ERR unknown command `HELLO`, with args beginning with: `3`\r\n".into()),
        _ => fake::usual(words, "redis_version:5.0.14\r\n"),
    });
    assert_says(&refused(&ancient).await, ErrorKind::Unsupported, &["6.2"]);
}

#[tokio::test]
async fn a_cluster_given_as_one_server_is_refused() {
    let node = "redis_version:7.0.0\r\nrole:master\r\ncluster_enabled:1\r\n";
    let error = refused(&fake::redis(move |words| fake::usual(words, node))).await;
    assert_says(&error, ErrorKind::Unsupported, &["cluster", "redis-cluster://"]);
}

#[tokio::test]
async fn a_sentinel_given_as_one_server_is_refused() {
    let sentinel = "redis_version:7.2.4\r\nserver_mode:sentinel\r\nsentinel_masters:1\r\n";
    let error = refused(&fake::redis(move |words| match words[0].as_str() {
        "EVALSHA" => Some("-ERR unknown command 'EVALSHA'\r\n".into()),
        _ => fake::usual(words, sentinel),
    }))
    .await;
    assert_says(&error, ErrorKind::Unsupported, &["is a sentinel", "redis-sentinel://"]);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn so_is_a_real_one() {
    let first = url_of_sentinel();
    let error = Store::open(&first).unwrap().connect(options()).await.unwrap_err();
    assert_says(&error, ErrorKind::Unsupported, &["is a sentinel", "redis-sentinel://"]);
}

// Passwords.

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_wrong_password_is_denied() {
    let mut alone = Alone::new().await;
    alone.ask("ACL SETUSER app on >secret ~* &* +@all");
    let error = refused(&url_of("app", "secret-not")).await;
    assert_says(&error, ErrorKind::Denied, &["refused the user name or the password"]);
    assert!(!error.can_retry());
    let error = refused(&url_of("nobody", "secret")).await;
    assert_says(&error, ErrorKind::Denied, &["refused the user name or the password"]);
    assert_eq!(alone.contents(), []);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn no_password_is_denied_where_one_is_wanted() {
    let mut alone = Alone::new().await;
    alone.ask("CONFIG SET requirepass secret");
    assert_says(&refused(&url()).await, ErrorKind::Denied, &["requires a password"]);
    let wrong = refused(&url_of("", "secret-not")).await;
    assert_says(&wrong, ErrorKind::Denied, &["refused the user name or the password"]);
    let locks = Store::open(&url_of("", "secret")).unwrap().connect(options()).await.unwrap();
    assert!(!format!("{locks:?}").contains("secret"), "{locks:?}");
    locks.close().await.unwrap();
    assert_eq!(alone.contents(), []);
}

// Servers that refuse some commands.

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_read_only_replica_is_refused_and_one_that_became_so_says_it() {
    let mut alone = Alone::new().await;
    let locks = Store::open(&url()).unwrap().connect(options()).await.unwrap();
    alone.ask("REPLICAOF 127.0.0.1 1");
    let error = refused(&url()).await;
    assert_says(&error, ErrorKind::Unsupported, &["read-only replica", "127.0.0.1:1"]);

    let start = Instant::now();
    let error = locks.mutex("stock").unwrap().lock().await.unwrap_err();
    assert_says(&error, ErrorKind::Unavailable, &["cannot lock \"stock\"", "read-only replica", "master"]);
    assert!(start.elapsed() < DEADLINE * 4, "{:?}", start.elapsed());
    assert_eq!(alone.contents(), []);
    alone.ask("REPLICAOF NO ONE");
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_full_memory_keeps_out_who_comes_and_nobody_from_leaving() {
    let mut alone = Alone::new().await;
    let store = Store::open(&url()).unwrap();
    let (first, second) =
        (Caller::open(&store, 1, &options()).await, Caller::open(&store, 2, &options()).await);
    let name = name("stock");
    let holds = first.session.join(&first.mutex(&name, 1), Patience::Wait).await.unwrap();
    assert!(matches!(holds, Place::Held { .. }));
    let waits = second.session.join(&second.mutex(&name, 1), Patience::Wait).await.unwrap();
    assert!(matches!(waits, Place::Waiting { .. }));
    let before = alone.contents();
    alone.ask("CONFIG SET maxmemory 1");

    let error = first.session.join(&first.mutex(&site::name("other"), 2), Patience::Wait).await.unwrap_err();
    assert_says(&error, ErrorKind::Unavailable, &["no memory left", "maxmemory"]);
    assert!(error.can_retry());
    let error = first.session.join(&first.mutex(&name, 3), Patience::Wait).await.unwrap_err();
    assert_says(&error, ErrorKind::Unavailable, &["no memory left"]);
    assert_eq!(alone.contents(), before, "a refused join has changed nothing");

    let standing = [(name.clone(), vec![first.claim(1)])];
    let renewal = first.session.renew(Shard(0), &standing).await.unwrap();
    assert_eq!((renewal.gone, renewal.unsure), (vec![], vec![]), "a holder may renew");
    let sight = second.session.look(&name, &[second.claim(1)]).await.unwrap();
    assert_eq!((sight.held, sight.gone), (vec![], vec![]), "a waiter may look");
    assert_eq!(first.session.leave(&name, first.claim(1), Leave::Done).await.unwrap(), Left::Held);
    second.heard.grant(second.claim(1)).await;
    assert_eq!(second.session.leave(&name, second.claim(1), Leave::Done).await.unwrap(), Left::Held);
    alone.ask("CONFIG SET maxmemory 0");
    assert_eq!(first.session.line(&name).await.unwrap().claims, []);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn each_of_several_may_leave_although_memory_is_full() {
    let mut alone = Alone::new().await;
    let store = Store::open(&url()).unwrap();
    let caller = Caller::open(&store, 1, &options()).await;
    let name = name("seats");
    for number in 1..=3 {
        let seat = Claim::new(caller.claim(number), name.clone(), Kind::Semaphore, Weight::ONE, weight(3));
        caller.session.join(&seat, Patience::Now).await.unwrap();
    }
    alone.ask("CONFIG SET maxmemory 1");
    for number in 1..=3 {
        let left = caller.session.leave(&name, caller.claim(number), Leave::Done).await.unwrap();
        assert_eq!(left, Left::Held);
    }
    assert_eq!(caller.session.line(&name).await.unwrap().claims, []);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_writer_can_downgrade_although_memory_is_full() {
    let mut alone = Alone::new().await;
    let store = Store::open(&url()).unwrap();
    let (first, second) =
        (Caller::open(&store, 1, &options()).await, Caller::open(&store, 2, &options()).await);
    for (number, others) in [(1, 0), (2, 1), (3, 2)] {
        let (page, seats) = (name(&format!("page {number}")), name(&format!("seats {number}")));
        let write = Claim::new(first.claim(number), page.clone(), Kind::RwLock, Weight::MAX, Weight::MAX);
        let seat = Claim::new(first.claim(number + 10), seats.clone(), Kind::Semaphore, weight(2), weight(2));
        first.session.join(&write, Patience::Wait).await.unwrap();
        first.session.join(&seat, Patience::Wait).await.unwrap();
        for other in 0..others {
            let of = |name: &Name, kind| {
                let id = second.claim(number * 100 + other * 10 + u64::from(kind == Kind::RwLock));
                let capacity = if kind == Kind::RwLock { Weight::MAX } else { weight(2) };
                Claim::new(id, name.clone(), kind, Weight::ONE, capacity)
            };
            second.session.join(&of(&page, Kind::RwLock), Patience::Wait).await.unwrap();
            second.session.join(&of(&seats, Kind::Semaphore), Patience::Wait).await.unwrap();
        }
        alone.ask("CONFIG SET maxmemory 1");
        first.session.lighten(&write, Weight::ONE).await.unwrap();
        first.session.lighten(&seat, Weight::ONE).await.unwrap();
        first.session.resize(&seats, weight(2), weight(3)).await.unwrap();
        alone.ask("CONFIG SET maxmemory 0");
        let others = usize::try_from(others).unwrap();
        for name in [page, seats] {
            let line = first.session.line(&name).await.unwrap();
            let held = line.claims.iter().filter(|claim| claim.token.is_some()).count();
            assert_eq!((line.claims[0].weight, held), (Weight::ONE, 1 + others), "{name:?}: {line:?}");
        }
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_that_may_evict_locks_is_warned_of_once() {
    let mut alone = Alone::new().await;
    alone.ask("CONFIG SET maxmemory 100gb");
    alone.ask("CONFIG SET maxmemory-policy allkeys-lru");
    let warnings = Warnings::default();
    let listening = tracing::subscriber::set_default(warnings.clone());
    let store = Store::open(&url()).unwrap();
    for session in 1..=2 {
        Caller::open(&store, session, &options()).await;
    }
    drop(listening);
    let said = warnings.0.lock().unwrap();
    let of_eviction: Vec<_> =
        said.iter().filter(|said| said.contains("maxmemory-policy to noeviction")).collect();
    assert_eq!(of_eviction.len(), 1, "{said:?}");
    assert!(of_eviction[0].contains("allkeys-lru"), "{said:?}");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_key_of_another_type_is_named_and_left_alone() {
    let mut alone = Alone::new().await;
    let locks = Store::open(&url()).unwrap().connect(options()).await.unwrap();
    alone.ask("SET tidelock:{stock}:held mine");
    let before = alone.contents();
    let error = locks.mutex("stock").unwrap().lock().await.unwrap_err();
    assert_says(&error, ErrorKind::Protocol, &["cannot lock \"stock\"", "another type"]);
    assert!(!error.can_retry());
    let error = locks.inspect("stock").await.unwrap_err();
    assert_says(&error, ErrorKind::Protocol, &["another type"]);
    assert_eq!(alone.contents(), before);
    let guard = locks.mutex("other").unwrap().lock().await.unwrap();
    guard.release().await.unwrap().confirmed().unwrap();
    locks.close().await.unwrap();
}

/// The warnings that were logged on this thread.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut said = Said(String::new());
        event.record(&mut said);
        self.0.lock().unwrap().push(said.0);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

struct Said(String);

impl Visit for Said {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{field}={value:?} ");
    }
}
