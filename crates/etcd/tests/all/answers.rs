//! What comes while the answer to a join is under way.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tidelock_conformance::callers::Caller;
use tidelock_etcd::backend::{Leave, Patience};
use tidelock_etcd::{Options, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::site::{self, join, name, until};

/// A proxy that holds back what the server answers on all connections but the first few.
struct Answers {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// Connections with this number or a later one are held back while `is_held`.
    from: Arc<AtomicUsize>,
    is_held: Arc<AtomicBool>,
}

impl Answers {
    async fn at(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, from, is_held) =
            (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (count, since, held) = (connections.clone(), from.clone(), is_held.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let (since, held) = (since.clone(), held.clone());
                let server = TcpStream::connect(&server).await.unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let (mut near_in, mut near_out) = client.into_split();
                let (mut far_in, mut far_out) = server.into_split();
                tokio::spawn(async move { tokio::io::copy(&mut near_in, &mut far_out).await });
                tokio::spawn(async move {
                    let mut piece = vec![0; 65_536];
                    while let Ok(length @ 1..) = far_in.read(&mut piece).await {
                        while held.load(Ordering::SeqCst) && number >= since.load(Ordering::SeqCst) {
                            tokio::time::sleep(Duration::from_millis(2)).await;
                        }
                        if near_out.write_all(&piece[..length]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, connections, from, is_held }
    }
}

/// The lock is free. A join is carried out, its answer is under way on the runtime's own connection, and an operator
/// evicts the claim. The next renewal is ten seconds away.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_that_is_evicted_while_its_answer_is_under_way_does_not_hold() {
    let options = Options::new()
        .ttl(Duration::from_secs(30))
        .command_deadline(Duration::from_secs(4))
        .namespace(&site::namespace("evicted early"));
    let answers = Answers::at(site::host()).await;
    let store = Store::open(&format!("etcd://{}", answers.address)).unwrap();
    let a = store.connect(options.clone()).await.unwrap();
    let operator = site::store().connect(options.clone()).await.unwrap();
    let b = site::store().connect(options).await.unwrap();
    let before = answers.connections.load(Ordering::SeqCst);
    // Until this runtime has a connection of its own.
    until("it has a lane", async || {
        for _ in 0..20 {
            a.mutex("warm").unwrap().lock().await.unwrap().release().await.unwrap();
        }
        (answers.connections.load(Ordering::SeqCst) > before).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    for _ in 0..20 {
        a.mutex("warm").unwrap().lock().await.unwrap().release().await.unwrap();
    }
    answers.from.store(before, Ordering::SeqCst);
    answers.is_held.store(true, Ordering::SeqCst);
    let locking = tokio::spawn({
        let mutex = a.mutex("m").unwrap();
        async move { mutex.lock().await }
    });
    let doomed =
        until("its claim stands", async || Some(operator.inspect("m").await.ok()?.claims.first()?.id)).await;
    assert!(!locking.is_finished());
    assert!(operator.evict("m", doomed).await.unwrap());
    let other = b.mutex("m").unwrap().lock().await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    answers.is_held.store(false, Ordering::SeqCst);
    let guard = tokio::time::timeout(Duration::from_secs(2), locking).await;
    if let Ok(guard) = guard {
        let guard = guard.unwrap().unwrap();
        assert_eq!(guard.claim(), doomed);
        let told = tokio::time::timeout(Duration::from_secs(3), guard.lost()).await;
        assert!(told.is_ok(), "an evicted claim holds beside {:?}, {:?}", other.claim(), guard.state());
    }
    other.release().await.unwrap();
}

/// A runtime's own connection falls silent with a crowd of one name queued behind it. The next join of that runtime goes out by the
/// keeper's, beside the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_join_does_not_overtake_those_queued_on_a_connection_that_broke() {
    const CROWD: u64 = 60;
    let keeper = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let answers = Answers::at(site::host()).await;
    let store = Store::open(&format!("etcd://{}", answers.address)).unwrap();
    let options = site::options("broken lane").command_deadline(Duration::from_secs(4));
    let a = keeper.spawn(async move { Caller::open(&store, 1, &options).await }).await.unwrap();
    let before = answers.connections.load(Ordering::SeqCst);
    let (warm, mutex) = (name("warm"), name("mutex"));
    let mut number = 1_000;
    until("it has a lane", async || {
        for _ in 0..40 {
            number += 1;
            join(&a, &a.mutex(&warm, number)).await;
            a.session.leave(&warm, a.claim(number), Leave::Done).await.unwrap();
        }
        (answers.connections.load(Ordering::SeqCst) > before).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    answers.from.store(before, Ordering::SeqCst);
    answers.is_held.store(true, Ordering::SeqCst);
    let a = Arc::new(a);
    let mut crowd = Vec::new();
    for number in 1..=CROWD {
        let (a, claim) = (a.clone(), a.mutex(&mutex, number));
        crowd.push(tokio::spawn(async move { a.session.join(&claim, Patience::Wait).await }));
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    // The first was carried out, and its answer is held back until the connection is given up.
    let first = crowd.remove(0).await.unwrap();
    assert!(first.is_err(), "{first:?}");
    // Here core asks again for it, and whoever comes now asks, too.
    join(&a, &a.mutex(&mutex, CROWD + 1)).await;
    for joining in crowd {
        joining.await.unwrap().unwrap();
    }
    let line = a.session.line(&mutex).await.unwrap();
    let place = line.claims.iter().position(|claim| claim.id == a.claim(CROWD + 1)).unwrap();
    drop(answers);
    a.session.close().await.unwrap();
    keeper.shutdown_background();
    assert!(place as u64 >= CROWD - 1, "it asked as the last of {CROWD}, and stands behind {place}");
}
