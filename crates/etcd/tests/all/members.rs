//! Members that stop serving, all at once, and of which only another one comes back.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidelock_etcd::{ErrorKind, Options, State, Store};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::site;

/// A way to the member that can be closed. It ends with its runtime.
#[derive(Clone)]
struct Way {
    address: SocketAddr,
    is_open: Arc<watch::Sender<bool>>,
    is_used: Arc<AtomicBool>,
}

impl Way {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (is_open, is_used) = (Arc::new(watch::Sender::new(true)), Arc::<AtomicBool>::default());
        let way = Self { address, is_open, is_used };
        let here = way.clone();
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(here.clone().pass(near));
            }
        });
        way
    }

    async fn pass(self, mut near: TcpStream) {
        let mut is_open = self.is_open.subscribe();
        if *is_open.borrow() {
            self.is_used.store(true, Ordering::Relaxed);
            let mut far = TcpStream::connect(site::host()).await.unwrap();
            tokio::select! {
                _ = copy_bidirectional(&mut near, &mut far) => {}
                _ = is_open.wait_for(|is| !is) => {}
            }
        }
    }
}

/// While a command may take longer than the ttl, a client must not wait that long before it asks the members again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn after_an_outage_of_all_the_first_member_that_serves_is_used() {
    let ways = [Way::open().await, Way::open().await];
    let ttl = Duration::from_secs(6);
    let options = Options::new().ttl(ttl).command_deadline(ttl * 10).namespace(&site::namespace("members"));
    let store = Store::open(&format!("etcd://{},{}", ways[0].address, ways[1].address)).unwrap();
    let locks = store.connect(options).await.unwrap();
    let guard = locks.mutex("m").unwrap().lock().await.unwrap();

    let (used, other) = if ways[0].is_used.load(Ordering::Relaxed) { (0, 1) } else { (1, 0) };
    ways[used].is_open.send_replace(false); // for ever
    ways[other].is_open.send_replace(false);
    let another = locks.mutex("another").unwrap();
    let asked = tokio::spawn(async move { another.lock().await });
    tokio::time::sleep(ttl / 6).await;
    ways[other].is_open.send_replace(true);

    let another = tokio::time::timeout(ttl, asked).await.expect("the other member serves");
    another.unwrap().unwrap().release().await.unwrap();
    tokio::time::sleep(ttl).await;
    assert_eq!(guard.state(), State::Held);
    guard.release().await.unwrap();
    locks.close().await.unwrap();
}

/// A port that somebody else listens on for a member, while that member is down: a load balancer, a container's host.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_proxy_with_nothing_behind_it_is_worth_another_try() {
    let way = Way::open().await;
    way.is_open.send_replace(false);
    let store = Store::open(&format!("etcd://{}", way.address)).unwrap();
    let error = store.connect(site::options("proxy")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("closes every connection"), "{error}");
    let locks = store.attach(site::options("proxy")).unwrap();
    let asked = tokio::spawn({
        let mutex = locks.mutex("m").unwrap();
        async move { mutex.lock().await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    way.is_open.send_replace(true);
    asked.await.unwrap().expect("the member serves").release().await.unwrap();
    locks.close().await.unwrap();
}
