//! Anything wrong with servers, permissions or nodes gives a typed error at once. The error says what to do and
//! contains no password, and nothing is left behind.

use std::error::Error as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use tidelock_zookeeper::backend::{Patience, Place};
use tidelock_zookeeper::{Error, ErrorKind, Options, Store};
use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Permission};

use crate::site;
use crate::site::{host, name, namespace, plain};
use tidelock_conformance::callers::Caller;

/// How long connecting may take where nothing but its refusal keeps a server busy.
const DEADLINE: Duration = Duration::from_secs(1);

fn options() -> Options {
    Options::new().ttl(Duration::from_secs(10))
}

/// The error of connecting to this URL.
async fn refused(url: &str) -> Error {
    let start = Instant::now();
    let store = Store::open(url).unwrap();
    assert!(!format!("{store:?}").contains("secret"), "{store:?}");
    let error = store.connect(options().connect_deadline(DEADLINE)).await.unwrap_err();
    assert!(start.elapsed() < DEADLINE * 2, "it took {:?} to say {error}", start.elapsed());
    let mut said = format!("{error} {error:?}");
    let mut source = error.source();
    while let Some(cause) = source {
        said += &format!(" {cause} {cause:?}");
        source = cause.source();
    }
    assert!(!said.contains("secret"), "{said}");
    error
}

fn assert_says(error: &Error, kind: ErrorKind, what: &str) {
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(error.to_string().contains(what), "{error} (without {what:?})");
}

/// A server that does this with every connection.
fn serve(answer: impl Fn(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("zookeeper://app:secret@{}", listener.local_addr().unwrap());
    std::thread::spawn(move || listener.incoming().for_each(|stream| answer(stream.unwrap())));
    url
}

#[tokio::test]
async fn a_web_server_is_no_zookeeper() {
    let url = serve(|mut stream| {
        let _ = stream.read(&mut [0; 512]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    assert_says(&refused(&url).await, ErrorKind::Protocol, "is a web server, not a ZooKeeper");
}

#[tokio::test]
async fn a_server_that_waits_for_more_is_no_zookeeper() {
    let url = serve(|mut stream| {
        std::thread::spawn(move || {
            let mut asked = [0; 512];
            while let Ok(1..) = stream.read(&mut asked) {
                if asked.starts_with(b"srvr") {
                    let _ = stream.write_all(b"-ERR unknown command\r\n"); // and keeps the connection open
                }
            }
        });
    });
    assert_says(&refused(&url).await, ErrorKind::Protocol, "is a Redis, not a ZooKeeper");
}

/// This server closes the connection unless it gets HTTP.
#[tokio::test]
async fn an_etcd_is_known_at_once() {
    let url = serve(|mut stream| {
        let mut asked = [0; 512];
        let _ = stream.read(&mut asked);
        if asked.starts_with(b"GET /version HTTP/1.1\r\n") {
            let answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 45\r\n\
                           Connection: close\r\n\r\n{\"etcdserver\":\"3.4.23\",\"etcdcluster\":\"3.4.0\"}";
            let _ = stream.write_all(answer);
        }
    });
    let start = Instant::now();
    assert_says(&refused(&url).await, ErrorKind::Protocol, "is an etcd, not a ZooKeeper");
    assert!(start.elapsed() < DEADLINE / 2, "{:?}", start.elapsed());
}

/// This server waits for a whole request.
#[tokio::test]
async fn a_patient_web_server_is_known_at_once() {
    let url = serve(|mut stream| {
        std::thread::spawn(move || {
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                let mut more = [0; 512];
                let Ok(read @ 1..) = stream.read(&mut more) else { return };
                asked.extend_from_slice(&more[..read]);
            }
            let _ = stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        });
    });
    let start = Instant::now();
    assert_says(&refused(&url).await, ErrorKind::Protocol, "is a web server, not a ZooKeeper");
    assert!(start.elapsed() < DEADLINE, "{:?}", start.elapsed());
}

/// This server speaks first.
#[tokio::test]
async fn a_mariadb_is_known_at_once() {
    let url = serve(|mut stream| {
        let _ = stream.write_all(b"\x5b\0\0\0\x0a5.5.5-10.11.19-MariaDB\0");
        let _ = stream.read(&mut [0; 512]);
    });
    assert_says(&refused(&url).await, ErrorKind::Protocol, "is a MySQL or a MariaDB, not a ZooKeeper");
}

#[tokio::test]
async fn something_unknown_is_asked_about() {
    let url = serve(|mut stream| {
        let _ = stream.write_all(b"220 mail.example ESMTP\r\n");
        let _ = stream.read(&mut [0; 512]);
    });
    assert_says(&refused(&url).await, ErrorKind::Protocol, "is it one?");
}

#[tokio::test]
async fn the_servers_own_node_is_no_namespace() {
    let url = serve(drop);
    let own = options().namespace("zookeeper");
    let error = Store::open(&url).unwrap().connect(own.clone()).await.unwrap_err();
    assert_says(&error, ErrorKind::InvalidOption, "/zookeeper is the server's own");
    // Below another path the name is allowed: this server only hangs up.
    let error = Store::open(&format!("{url}/path")).unwrap().connect(own).await.unwrap_err();
    assert_says(&error, ErrorKind::Unavailable, "without a reply");
    let inside = Store::open(&format!("{url}/zookeeper/quota")).unwrap_err();
    assert_says(&inside, ErrorKind::InvalidOption, "/zookeeper is the server's own");
}

#[tokio::test]
async fn one_that_says_nothing_is_not_waited_for() {
    let url = serve(|mut stream| drop(std::thread::spawn(move || stream.read_to_end(&mut Vec::new()))));
    assert_eq!(refused(&url).await.kind(), ErrorKind::Timeout);
}

#[tokio::test]
async fn a_closed_port_is_said_so() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("zookeeper://app:secret@{}", listener.local_addr().unwrap());
    drop(listener);
    assert_says(&refused(&url).await, ErrorKind::Unavailable, "no server answers at 127.0.0.1:");
}

#[tokio::test]
async fn an_ensemble_without_a_majority_is_said_so() {
    let url = serve(|mut stream| {
        let mut asked = [0; 512];
        let _ = stream.read(&mut asked);
        if asked.starts_with(b"srvr") {
            let _ = stream.write_all(b"This ZooKeeper instance is not currently serving requests\n");
        }
    });
    assert_says(&refused(&url).await, ErrorKind::Unavailable, "no majority");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_path_that_is_not_there_is_said_so() {
    let url = format!("{}/nowhere/at/all", site::url());
    assert_says(&refused(&url).await, ErrorKind::InvalidOption, "zkCli: create");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn everything_may_be_below_a_path() {
    let root = format!("/{}", namespace("chroot"));
    let client = plain().await;
    client.create(&root, b"", &CreateMode::Persistent.with_acls(Acls::anyone_all())).await.unwrap();
    let locks = Store::open(&format!("{}{root}", site::url())).unwrap().connect(options()).await.unwrap();
    let hold = locks.mutex("m").unwrap().lock().await.unwrap();
    assert_eq!(client.list_children(&format!("{root}/tidelock/m")).await.unwrap().len(), 1);
    hold.release().await.unwrap().confirmed().unwrap();
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn somebody_elses_nodes_in_the_way_are_said_so() {
    let options = options().namespace(&namespace("strangers"));
    let root = format!("/{}", options.namespace);
    let caller = Caller::open(&site::store(), 1, &options).await;
    let client = plain().await;
    let open = Acls::anyone_all();
    client.create(&format!("{root}/curator"), b"", &CreateMode::Persistent.with_acls(open)).await.unwrap();
    let mode = CreateMode::EphemeralSequential.with_acls(open);
    client.create(&format!("{root}/curator/_c_1-lock-"), b"", &mode).await.unwrap();
    client.create(&format!("{root}/leaf"), b"", &CreateMode::Ephemeral.with_acls(open)).await.unwrap();
    for (number, line, children) in [(1, "curator", 1), (2, "leaf", 0)] {
        let claim = caller.mutex(&name(line), number);
        let error = caller.session.join(&claim, Patience::Wait).await.unwrap_err();
        assert_says(&error, ErrorKind::Protocol, "something else");
        assert_eq!(client.list_children(&format!("{root}/{line}")).await.unwrap().len(), children);
        caller.session.leave(&claim.name, claim.id, tidelock_zookeeper::backend::Leave::Void).await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn nodes_may_be_the_users_alone() {
    let as_user = |who: &str| Store::open(&site::url().replacen("://", &format!("://{who}@"), 1)).unwrap();
    let error = site::store().only_for_the_user().unwrap_err();
    assert_says(&error, ErrorKind::InvalidOption, "USER:PASSWORD");
    let options = options().namespace(&namespace("private"));
    let locks = as_user("app:secret").only_for_the_user().unwrap().connect(options.clone()).await.unwrap();
    let hold = locks.mutex("m").unwrap().lock().await.unwrap();
    hold.release().await.unwrap().confirmed().unwrap();
    let same = as_user("app:secret").connect(options.clone()).await.unwrap();
    same.mutex("m").unwrap().lock().await.unwrap().release().await.unwrap().confirmed().unwrap();
    for other in [as_user("app:wrong-secret"), site::store()] {
        let error = other.connect(options.clone()).await.unwrap_err();
        assert_says(&error, ErrorKind::Denied, "setAcl");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
    let [locks, same] = [locks.close().await, same.close().await];
    locks.and(same).unwrap();
}

/// The permissions that the guide tells users to grant.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn exactly_these_permissions_are_enough() {
    let client = Client::connector().with_auth("digest", b"admin:admin").connect(&host()).await.unwrap();
    let read_write = [Permission::CREATE, Permission::DELETE, Permission::READ, Permission::WRITE];
    for missing in [None, Some(0), Some(2), Some(3)] {
        let root = namespace("granted");
        client
            .create(&format!("/{root}"), b"", &CreateMode::Persistent.with_acls(Acls::creator_all()))
            .await
            .unwrap();
        let granted = read_write.iter().enumerate().filter(|(which, _)| Some(*which) != missing);
        let mut acls: Vec<Acl> =
            granted.map(|(_, permission)| Acl::new(*permission, AuthId::anyone())).collect();
        acls.extend(
            Acls::creator_all().iter().map(|_| {
                Acl::new(Permission::ALL, AuthId::new("digest", "admin:x1nq8J5GOJVPY6zgzhtTtA9izLc="))
            }),
        );
        client.set_acl(&format!("/{root}"), &acls, None).await.unwrap();
        let options = options().namespace(&root);
        match (site::store().connect(options).await, missing) {
            (Ok(locks), None) => {
                let hold = locks.rwlock("m").unwrap().write().await.unwrap();
                hold.release().await.unwrap().confirmed().unwrap();
                assert_eq!(locks.names("", None).await.unwrap(), []);
                locks.close().await.unwrap();
            }
            (Err(error), Some(_)) => assert_says(&error, ErrorKind::Denied, "setAcl"),
            (other, missing) => panic!("without {missing:?}: {:?}", other.map(drop)),
        }
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_namespace_that_was_deleted_is_made_again() {
    let options = options().namespace(&namespace("deleted"));
    let caller = Caller::open(&site::store(), 1, &options).await;
    plain().await.delete(&format!("/{}", options.namespace), None).await.unwrap();
    let place = caller.session.join(&caller.mutex(&name("m"), 1), Patience::Wait).await.unwrap();
    assert!(matches!(place, Place::Held { .. }));
}
