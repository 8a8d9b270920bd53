//! A failover to a replica that has missed the last commits. It is forced: the replica is another server, which gets the
//! rows that it shall have, and then all clients reach it at the same address.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tidelock_conformance::callers::namespace;
use tidelock_mysql::{Fence, Options, State, Store};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::server::{run, run_at, until, url};

const TTL: Duration = Duration::from_secs(6);

/// An address that leads to a server, and after a failover to another one.
struct Switch {
    address: SocketAddr,
    server: Arc<watch::Sender<String>>,
}

impl Switch {
    async fn to(server: String) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let (address, server) = (listener.local_addr()?, Arc::new(watch::Sender::new(server)));
        let switched = server.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let mut place = switched.subscribe();
                tokio::spawn(async move {
                    let to = place.borrow_and_update().clone();
                    let (mut client, mut server) = (client, TcpStream::connect(to).await?);
                    let _ = (client.set_nodelay(true), server.set_nodelay(true)); // without it, only slower
                    tokio::select! {
                        carried = tokio::io::copy_bidirectional(&mut client, &mut server) => carried.map(drop),
                        _ = place.changed() => Ok(()), // this server is gone
                    }
                });
            }
        });
        Ok(Self { address, server })
    }

    fn fail_over(&self, server: String) {
        self.server.send_replace(server);
    }
}

fn place(url: &str) -> String {
    url.split('@').nth(1).unwrap().split('/').next().unwrap().to_owned()
}

/// Copies the clients of this label, and the lines of this namespace. All of these have at most one claim each.
async fn replicate(from: &str, to: &str, label: &str, namespace: &str) {
    let quoted = |columns: &str| format!("CONCAT_WS(',', {columns})");
    let sessions = format!(
        "SELECT CONCAT('REPLACE INTO tidelock_session VALUES (', {}, ',x''', HEX(label), ''')') \
         FROM tidelock_session WHERE label = '{label}'",
        quoted("id, ttl, expires")
    );
    let lines = format!(
        "SELECT CONCAT('REPLACE INTO tidelock_line VALUES (x''', HEX(name), ''',', {}, ')') \
         FROM tidelock_line WHERE name > CONCAT('{namespace}', x'00') AND name < CONCAT('{namespace}', x'01')",
        quoted("kind, capacity, token, place, spilled, session, number, weight, since, QUOTE(waiters)")
    );
    for rows in [sessions, lines] {
        for row in run_at(from, &rows).await {
            run_at(to, &row[0]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_failover_that_missed_a_grant_is_fenced_and_loses_nothing_else() {
    let (primary, replica) = (url(), std::env::var("TIDELOCK_MARIADB_TLS_URL").unwrap());
    let namespace = namespace("failover");
    let options = Options::new().namespace(&namespace).label(&namespace).ttl(TTL);
    Store::open(&replica).unwrap().connect(options.clone()).await.unwrap().close().await.unwrap(); // makes the tables
    let switch = Switch::to(place(&primary)).await.unwrap();
    let store = Store::open(&primary.replace(&place(&primary), &switch.address.to_string())).unwrap();
    let (a, b) = (store.connect(options.clone()).await.unwrap(), store.connect(options).await.unwrap());
    let known = a.mutex("known").unwrap().lock().await.unwrap();
    replicate(&primary, &replica, &namespace, &namespace).await;
    let missed = a.mutex("missed").unwrap().lock().await.unwrap();
    switch.fail_over(place(&replica));
    let next = timeout(TTL, b.mutex("missed").unwrap().lock()).await.unwrap().unwrap();
    // Both may believe that they hold. The resource knows better.
    let fence = Fence::new();
    fence.accept(next.token()).unwrap();
    fence.accept(missed.token()).unwrap_err();
    timeout(TTL, missed.lost()).await.unwrap();
    assert_ne!(known.state(), State::Lost, "the replica had this one");
    assert!(b.mutex("known").unwrap().try_lock().await.unwrap().is_none());
    known.release().await.unwrap();
    next.release().await.unwrap();
    drop(missed);
    until("nothing is left", async || b.names("", None).await.unwrap().is_empty()).await;
    a.close().await.unwrap();
    b.close().await.unwrap();
    run(&format!("DELETE FROM tidelock_session WHERE label = '{namespace}'")).await; // the primary is gone with them
}
