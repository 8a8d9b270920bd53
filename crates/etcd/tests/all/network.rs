//! A proxy between client and member that drops what is idle, as load balancers do.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tidelock_etcd::{Options, State, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::site::{self, until};

/// After this time without a byte a connection is dropped.
const IDLE: Duration = Duration::from_millis(300);

/// How the proxy drops a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drops {
    /// It closes both sides.
    Aloud,
    /// It forgets the connection: nothing passes any more, and nobody is told.
    Silently,
}

/// Starts a proxy, which ends with its runtime.
async fn proxy(drops: Drops) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut ways = JoinSet::new();
        while let Ok((near, _)) = listener.accept().await {
            ways.spawn(pass(near, drops));
        }
    });
    address
}

async fn pass(mut near: TcpStream, drops: Drops) -> std::io::Result<()> {
    let mut far = TcpStream::connect(site::host()).await?;
    let (mut there, mut back) = ([0; 16 << 10], [0; 16 << 10]);
    loop {
        tokio::select! {
            read = near.read(&mut there) => match read? {
                0 => return Ok(()),
                read => far.write_all(&there[..read]).await?,
            },
            read = far.read(&mut back) => match read? {
                0 => return Ok(()),
                read => near.write_all(&back[..read]).await?,
            },
            () = tokio::time::sleep(IDLE) => match drops {
                Drops::Aloud => return Ok(()),
                Drops::Silently => std::future::pending().await,
            },
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn what_a_proxy_drops_costs_no_lock_and_no_turn() {
    for drops in [Drops::Aloud, Drops::Silently] {
        let store = Store::open(&format!("etcd://{}", proxy(drops).await)).unwrap();
        let options = Options::new().ttl(Duration::from_secs(6)).namespace(&site::namespace("idle"));
        let (a, b) = (store.connect(options.clone()).await.unwrap(), store.connect(options).await.unwrap());
        for round in 0..3 {
            let guard =
                a.mutex("m").unwrap().lock().await.unwrap_or_else(|error| panic!("{drops:?}: {error}"));
            let waiting = tokio::spawn({
                let mutex = b.mutex("m").unwrap();
                async move { mutex.lock().await }
            });
            until("the other one waits", async || {
                let line = a.inspect("m").await.ok()?;
                (line.waiters().count() == 1).then_some(())
            })
            .await;
            tokio::time::sleep(IDLE * 3).await; // nothing but renewals passes, and those are rare
            assert_eq!(guard.state(), State::Held, "{drops:?}, round {round}");
            let released = Instant::now();
            guard.release().await.unwrap();
            let next = waiting.await.unwrap().unwrap_or_else(|error| panic!("{drops:?}: {error}"));
            let took = released.elapsed();
            assert!(took < Duration::from_secs(4), "{drops:?}: the hand-off took {took:?}");
            next.release().await.unwrap();
            tokio::time::sleep(IDLE * 2).await;
        }
        a.close().await.unwrap();
        b.close().await.unwrap();
    }
}
