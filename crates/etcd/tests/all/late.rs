//! Requests that a stalled connection carries long after they were given up and repeated on another one: they change
//! nothing for what has come since.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidelock_conformance::callers::Caller;
use tidelock_etcd::backend::{Backend, Grant, Leave, Patience, Place, Signals};
use tidelock_etcd::{ClaimId, Line, Name, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::site::{self, BUSY, Middleman, is_held, join, name, until, weight};

/// A way to a server that holds the first connection back which carries these bytes there. Nobody is told.
struct HeldBack {
    address: SocketAddr,
    release: Arc<Notify>,
    /// What was held back has been carried, and the server has had time for it.
    carried: Arc<Notify>,
}

impl HeldBack {
    async fn at(server: String, mark: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (release, carried) = (Arc::<Notify>::default(), Arc::<Notify>::default());
        let (is_held, signals) = (Arc::<AtomicBool>::default(), (release.clone(), carried.clone()));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (mut from, mut back) = client.into_split();
                let (mut answers, mut to) = TcpStream::connect(&server).await.unwrap().into_split();
                tokio::spawn(async move { tokio::io::copy(&mut answers, &mut back).await });
                let (is_held, (release, carried)) = (is_held.clone(), signals.clone());
                tokio::spawn(async move {
                    let mut piece = vec![0; 65_536];
                    while let Ok(length @ 1..) = from.read(&mut piece).await {
                        let is_it = piece[..length].windows(mark.len()).any(|part| part == mark);
                        let is_first = is_it && !is_held.swap(true, Ordering::SeqCst);
                        if is_first {
                            release.notified().await;
                        }
                        let _ = to.write_all(&piece[..length]).await;
                        if is_first {
                            // Behind it comes that the client waits no more. The server has begun by then.
                            tokio::time::sleep(Duration::from_millis(300)).await;
                            carried.notify_one();
                        }
                    }
                });
            }
        });
        Self { address, release, carried }
    }
}

fn ids(line: &Line) -> Vec<ClaimId> {
    line.claims.iter().map(|claim| claim.id).collect()
}

/// A claim is to move, because the line is of another size. Then a resize gives it its turn where it stands.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_move_that_comes_late_takes_no_turn_away() {
    let options = site::options("late move").command_deadline(Duration::from_millis(800));
    let route = HeldBack::at(site::host(), b"-s5.1").await;
    let a = Caller::open(&Store::open(&format!("etcd://{}", route.address)).unwrap(), 1, &options).await;
    let b = Caller::open(&site::store(), 2, &options).await;
    let line = name("line");
    assert!(is_held(join(&b, &b.permits(&line, 1, 1, 5)).await));
    let moving = a.permits(&line, 1, 1, 3);
    let first = a.session.join(&moving, Patience::Wait).await;
    assert!(first.is_err(), "{first:?}");
    b.session.resize(&line, weight(5), weight(3)).await.unwrap();
    assert!(is_held(join(&a, &moving).await));
    assert!(is_held(join(&b, &b.permits(&line, 2, 1, 3)).await));
    assert!(!is_held(join(&b, &b.permits(&line, 3, 1, 3)).await));
    let before = a.session.line(&line).await.unwrap();
    route.release.notify_one();
    route.carried.notified().await;
    let after = a.session.line(&line).await.unwrap();
    let sight = b.session.look(&line, &[b.claim(3)]).await.unwrap();
    assert!(sight.held.is_empty() && b.heard.held(b.claim(3)).is_none(), "four permits of three are held");
    assert_eq!(ids(&after), ids(&before));
    for caller in [a, b] {
        caller.session.close().await.unwrap();
    }
}

/// The move is asked for again, and only then the first one arrives.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_that_an_earlier_move_has_moved_stands_where_that_put_it() {
    let options = site::options("two moves").command_deadline(Duration::from_millis(800));
    let mut middleman = Middleman::before(site::host()).await;
    let a = Caller::open(&Store::open(&middleman.url()).unwrap(), 1, &options).await;
    let b = Caller::open(&site::store(), 2, &options).await;
    let line = name("line");
    assert!(is_held(join(&b, &b.permits(&line, 1, 1, 5)).await));
    middleman.stops("/Txn", b"-s5.1");
    let moving = a.permits(&line, 1, 1, 3);
    let first = a.session.join(&moving, Patience::Wait).await;
    assert!(first.is_err(), "{first:?}");
    let first = middleman.stopped().await;
    let moves = async {
        let second = middleman.stopped().await;
        first.pass().await;
        second.pass().await;
    };
    let (place, ()) = tokio::join!(a.session.join(&moving, Patience::Wait), moves);
    let place = place.unwrap();
    assert!(is_held(place), "{place:?}");
    for caller in [a, b] {
        caller.session.close().await.unwrap();
    }
}

/// Which claims a client was told are gone.
#[derive(Debug, Default)]
struct Gone(Mutex<Vec<ClaimId>>);

impl Signals for Gone {
    fn held(&self, _: ClaimId, _: Grant) {}
    fn stray(&self, _: ClaimId) {}
    fn gone(&self, id: ClaimId) {
        self.0.lock().unwrap().push(id);
    }
    fn look(&self, _: &Name) {}
    fn look_everywhere(&self) {}
    fn over(&self) {}
}

/// The move is asked for again. The first one arrives, and the second is refused.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_whose_second_move_is_refused_is_not_gone() {
    let options = site::options("refused move").command_deadline(Duration::from_millis(800));
    let mut middleman = Middleman::before(site::host()).await;
    let store = Store::open(&middleman.url()).unwrap();
    let mut a = Caller::open(&store, 1, &options).await;
    a.session.close().await.unwrap();
    let gone = Arc::<Gone>::default();
    a.session = store.open(a.id, &options, gone.clone()).await.unwrap(); // which listens
    let b = Caller::open(&site::store(), 2, &options).await;
    let line = name("line");
    assert!(is_held(join(&b, &b.permits(&line, 1, 1, 5)).await));
    middleman.stops("/Txn", b"-s5.1");
    let moving = a.permits(&line, 1, 1, 3);
    let first = a.session.join(&moving, Patience::Wait).await;
    assert!(first.is_err(), "{first:?}");
    let first = middleman.stopped().await;
    let moves = async {
        let second = middleman.stopped().await;
        first.pass().await;
        second.refuse(BUSY);
    };
    let (second, ()) = tokio::join!(a.session.join(&moving, Patience::Wait), moves);
    assert!(second.is_err(), "{second:?}");
    middleman.heals();
    let place = join(&a, &moving).await;
    assert!(is_held(place), "{place:?}");
    assert_eq!(*gone.0.lock().unwrap(), []);
    for caller in [a, b] {
        caller.session.close().await.unwrap();
    }
}

/// A client leaves a line and comes again, and the line is resized.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_leave_that_comes_late_takes_no_size_away() {
    let options = site::options("late leave").command_deadline(Duration::from_millis(800));
    let route = HeldBack::at(site::host(), b"size-").await;
    let a = Caller::open(&Store::open(&format!("etcd://{}", route.address)).unwrap(), 1, &options).await;
    let b = Caller::open(&site::store(), 2, &options).await;
    let line = name("line");
    assert!(is_held(join(&a, &a.permits(&line, 1, 1, 5)).await));
    assert!(a.session.leave(&line, a.claim(1), Leave::Done).await.is_err());
    // On a slow machine the connection that has fallen silent may not be replaced yet.
    until("it leaves", async || a.session.leave(&line, a.claim(1), Leave::Done).await.ok()).await;
    assert!(is_held(join(&a, &a.permits(&line, 2, 2, 5)).await));
    a.session.resize(&line, weight(5), weight(2)).await.unwrap();
    route.release.notify_one();
    route.carried.notified().await;
    let place = join(&b, &b.permits(&line, 1, 1, 5)).await;
    assert!(!is_held(place), "three permits of two are held");
    for caller in [a, b] {
        caller.session.close().await.unwrap();
    }
}

/// A `try_lock` whose first join got no answer (the connection stalls with it) is asked again, and refused, because
/// another client has the lock by then. It is given back as void. Then the stalled join arrives.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_refused_try_that_arrives_late_strands_nothing() {
    for is_asked_again in [false, true] {
        let options = site::options("late try").command_deadline(Duration::from_millis(800));
        let route = HeldBack::at(site::host(), b"-m").await;
        let a = Caller::open(&Store::open(&format!("etcd://{}", route.address)).unwrap(), 1, &options).await;
        let b = Caller::open(&site::store(), 2, &options).await;
        let line = name("line");
        let claim = a.mutex(&line, 1);
        let first = a.session.join(&claim, Patience::Now).await;
        assert!(first.is_err(), "{first:?}");
        assert!(is_held(join(&b, &b.mutex(&line, 1)).await));
        if is_asked_again {
            let again =
                until("it is answered", async || a.session.join(&claim, Patience::Now).await.ok()).await;
            assert_eq!(again, Place::Refused);
        }
        until("it is left", async || a.session.leave(&line, claim.id, Leave::Void).await.ok()).await;
        b.session.leave(&line, b.claim(1), Leave::Done).await.unwrap();
        route.release.notify_one();
        route.carried.notified().await;
        let left = b.session.line(&line).await.unwrap();
        assert!(left.claims.is_empty(), "asked again: {is_asked_again}; a claim of nobody holds: {left:?}");
        for caller in [a, b] {
            caller.session.close().await.unwrap();
        }
    }
}
