//! A connection on which nothing happens for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidelock_etcd::{Options, State, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::site;

/// A way to the server that counts what the client says.
async fn counting_way() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, said) = (listener.local_addr().unwrap().to_string(), Arc::<AtomicUsize>::default());
    let count = said.clone();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let (mut near, mut far) =
                (near.into_split(), TcpStream::connect(site::host()).await.unwrap().into_split());
            let count = count.clone();
            tokio::spawn(async move {
                let mut bytes = [0; 4096];
                while let Ok(more @ 1..) = near.0.read(&mut bytes).await {
                    count.fetch_add(more, Ordering::Relaxed);
                    far.1.write_all(&bytes[..more]).await.unwrap();
                }
            });
            tokio::spawn(async move { tokio::io::copy(&mut far.0, &mut near.1).await });
        }
    });
    (address, said)
}

/// Between two renewals of a long lease nothing is sent otherwise, and a router forgets the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_quiet_connection_is_kept_alive() {
    let (address, said) = counting_way().await;
    let options = Options::new().ttl(Duration::from_secs(600)).namespace(&site::namespace("quiet"));
    let locks = Store::open(&format!("etcd://{address}")).unwrap().connect(options).await.unwrap();
    let held = locks.mutex("m").unwrap().lock().await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await; // what belongs to connecting has been said
    let before = said.load(Ordering::Relaxed);
    let says = async {
        while said.load(Ordering::Relaxed) == before {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(40), says).await.expect("the client says something");
    assert_eq!(held.state(), State::Held);
    held.release().await.unwrap();
    locks.close().await.unwrap();
}
