//! A proxy between client and member: it drops what is idle, as load balancers do, or it is slow.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidelock_etcd::{Options, State, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::site::{self, until};

/// After this time without a byte a connection is dropped.
const IDLE: Duration = Duration::from_millis(300);

/// What is wrong with the proxy.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It closes both sides of an idle connection.
    DropsAloud,
    /// It forgets an idle connection: nothing passes any more, and nobody is told.
    DropsSilently,
    /// Everything takes so many milliseconds, each way.
    IsSlow(&'static AtomicU64),
}

/// Starts a proxy, which ends with its runtime.
async fn proxy(fault: Fault) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut ways = JoinSet::new();
        while let Ok((near, _)) = listener.accept().await {
            ways.spawn(async move {
                match fault {
                    Fault::IsSlow(lag) => pass_slowly(near, lag).await,
                    _ => pass(near, fault).await,
                }
            });
        }
    });
    address
}

async fn pass(mut near: TcpStream, fault: Fault) -> std::io::Result<()> {
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
            () = tokio::time::sleep(IDLE) => match fault {
                Fault::DropsAloud => return Ok(()),
                _ => std::future::pending().await,
            },
        }
    }
}

async fn pass_slowly(near: TcpStream, lag: &AtomicU64) -> std::io::Result<()> {
    let far = TcpStream::connect(site::host()).await?;
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    tokio::try_join!(delay(near_in, far_out, lag), delay(far_in, near_out, lag)).map(drop)
}

/// Passes everything on, as it came, but later.
async fn delay(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, lag: &AtomicU64) -> std::io::Result<()> {
    let (late, mut due) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let read = async move {
        let mut bytes = [0; 16 << 10];
        while let read @ 1.. = from.read(&mut bytes).await? {
            let lag = Duration::from_millis(lag.load(Ordering::Relaxed));
            let _ = late.send((Instant::now() + lag, bytes[..read].to_vec()));
        }
        Ok::<_, std::io::Error>(())
    };
    let write = async move {
        while let Some((at, bytes)) = due.recv().await {
            tokio::time::sleep_until(at.into()).await;
            to.write_all(&bytes).await?;
        }
        Ok(())
    };
    tokio::try_join!(read, write).map(drop)
}

/// A keep-alive and its proof are two round trips, which are more than a third of this ttl.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn on_a_slow_network_a_renewal_is_one_round_trip() {
    // On a machine that is busy beside it, a round trip may take as long as two. With two, each try fails.
    let mut failed = None;
    for _ in 0..3 {
        match stays_held_on_a_slow_network().await {
            Ok(()) => return,
            Err(after) => failed = Some(after),
        }
    }
    panic!("the last of three guards was in jeopardy after {failed:?}");
}

/// Or after how long the guard was in jeopardy.
async fn stays_held_on_a_slow_network() -> Result<(), Duration> {
    static LAG: AtomicU64 = AtomicU64::new(0);
    LAG.store(0, Ordering::Relaxed);
    let ttl = Duration::from_secs(3);
    let store = Store::open(&format!("etcd://{}", proxy(Fault::IsSlow(&LAG)).await)).unwrap();
    let options = Options::new().ttl(ttl).namespace(&site::namespace("slow"));
    let locks = store.connect(options).await.unwrap();
    let guard = locks.mutex("m").unwrap().lock().await.unwrap();
    LAG.store(280, Ordering::Relaxed); // only now: a session is opened with more round trips
    let began = Instant::now();
    while began.elapsed() < ttl * 4 {
        tokio::time::sleep(ttl / 60).await;
        if guard.state() != State::Held {
            return Err(began.elapsed());
        }
    }
    guard.release().await.unwrap();
    locks.close().await.unwrap();
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn what_a_proxy_drops_costs_no_lock_and_no_turn() {
    for drops in [Fault::DropsAloud, Fault::DropsSilently] {
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
