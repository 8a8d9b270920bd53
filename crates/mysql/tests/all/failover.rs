//! A failover to a replica that has missed the last commits, and a switchover to one that has all of them. Both are forced:
//! the replica is another server, which gets the rows that it shall have, and then all clients reach it at the same address.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidelock_conformance::callers::namespace;
use tidelock_mysql::backend::{Backend, Grant, Shard, Signals};
use tidelock_mysql::{ClaimId, Fence, Locks, MIGRATION, Name, Options, SessionId, State, Store, lock_in};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::LocalSet;
use tokio::time::{Instant, timeout};

use crate::server::{SECOND_SERVER, run, run_at, until, url};

const TTL: Duration = Duration::from_secs(6);

/// An address that leads to a server, and later to another one.
struct Switch {
    address: SocketAddr,
    server: Arc<watch::Sender<Server>>,
    /// How many connections were made.
    made: Arc<AtomicUsize>,
}

struct Server {
    place: String,
    /// How many have gone before it.
    gone: usize,
}

impl Switch {
    async fn to(place: String) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let server = Arc::new(watch::Sender::new(Server { place, gone: 0 }));
        let (address, switched, made) =
            (listener.local_addr()?, server.clone(), Arc::<AtomicUsize>::default());
        let counted = made.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let mut server = switched.subscribe();
                tokio::spawn(async move {
                    let (to, gone) = {
                        let server = server.borrow();
                        (server.place.clone(), server.gone)
                    };
                    let (mut client, mut served) = (client, TcpStream::connect(to).await?);
                    let _ = (client.set_nodelay(true), served.set_nodelay(true)); // without it, only slower
                    tokio::select! {
                        carried = tokio::io::copy_bidirectional(&mut client, &mut served) => carried.map(drop),
                        _ = server.wait_for(|server| server.gone > gone) => Ok(()),
                    }
                });
            }
        });
        Ok(Self { address, server, made })
    }

    /// The server is gone, and with it all connections.
    fn fail_over(&self, place: String) {
        self.server.send_modify(|server| *server = Server { place, gone: server.gone + 1 });
    }

    /// New connections lead to another server, and those of before stand.
    fn switch_over(&self, place: String) {
        self.server.send_modify(|server| server.place = place);
    }

    fn made(&self) -> usize {
        self.made.load(Ordering::Relaxed)
    }
}

fn place(url: &str) -> String {
    url.split('@').nth(1).unwrap().split('/').next().unwrap().to_owned()
}

/// Copies the clients of this label, and the lines of this namespace. All of these have at most one holder each, and are no
/// claims in rows.
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
    let bells = format!(
        "SELECT CONCAT('REPLACE INTO tidelock_bell VALUES (', {}, ')') FROM tidelock_bell \
         WHERE session IN (SELECT id FROM tidelock_session WHERE label = '{label}')",
        quoted("session, rung")
    );
    for rows in [sessions, bells, lines] {
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

/// Two clients of a primary, and a replica that stands still since both were there.
struct Behind {
    replica: String,
    namespace: String,
    switch: Switch,
    a: Arc<dyn Locks>,
    b: Arc<dyn Locks>,
}

impl Behind {
    async fn new() -> Self {
        let (primary, replica) = (url(), std::env::var("TIDELOCK_MARIADB_TLS_URL").unwrap());
        let namespace = namespace("behind");
        let options = Options::new().namespace(&namespace).label(&namespace).ttl(TTL);
        Store::open(&replica).unwrap().connect(options.clone()).await.unwrap().close().await.unwrap(); // makes the tables
        let switch = Switch::to(place(&primary)).await.unwrap();
        let store = Store::open(&primary.replace(&place(&primary), &switch.address.to_string())).unwrap();
        let (a, b) = (store.connect(options.clone()).await.unwrap(), store.connect(options).await.unwrap());
        Self { replica, namespace, switch, a, b }
    }

    /// What is done from now on, the replica misses.
    async fn replicate(&self) {
        replicate(&url(), &self.replica, &self.namespace, &self.namespace).await;
    }

    fn fail_over(&self) {
        self.switch.fail_over(place(&self.replica));
    }

    async fn close(self) {
        self.a.close().await.unwrap();
        self.b.close().await.unwrap();
        run(&format!("DELETE FROM tidelock_session WHERE label = '{}'", self.namespace)).await; // the primary is gone with them
    }
}

/// Its client has nothing else there, and nobody asks for that name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn what_a_failover_has_missed_the_release_of_is_given_back_within_a_ttl() {
    let servers = Behind::new().await;
    let held = servers.a.mutex("released").unwrap().lock().await.unwrap();
    servers.replicate().await;
    held.release().await.unwrap().confirmed().unwrap();
    servers.fail_over();
    let next = timeout(TTL, servers.b.mutex("released").unwrap().lock()).await;
    next.expect("it stands in nobody's way").unwrap().release().await.unwrap().confirmed().unwrap();
    servers.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_downgrade_that_a_failover_has_missed_is_repeated_within_a_ttl() {
    let servers = Behind::new().await;
    let wrote = servers.a.rwlock("page").unwrap().try_write().await.unwrap().unwrap();
    servers.replicate().await;
    let reads = wrote.downgrade().await.unwrap();
    servers.fail_over();
    let other = timeout(TTL, servers.b.rwlock("page").unwrap().read()).await;
    other.expect("it reads beside").unwrap().release().await.unwrap().confirmed().unwrap();
    reads.release().await.unwrap().confirmed().unwrap();
    servers.close().await;
}

/// How often core was told that signals may have been missed.
#[derive(Debug, Default)]
struct Told(AtomicUsize);

impl Told {
    fn often(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Signals for Told {
    fn held(&self, _: ClaimId, _: Grant) {}
    fn stray(&self, _: ClaimId) {}
    fn gone(&self, _: ClaimId) {}
    fn look(&self, _: &Name) {}
    fn look_everywhere(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
    fn over(&self) {}
}

/// Core renews and looks anew at all that waits when it is told of a failover.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_new_connection_is_no_failover() {
    let (primary, replica) = (url(), std::env::var("TIDELOCK_MARIADB_TLS_URL").unwrap());
    let namespace = namespace("connections");
    let options = Options::new().namespace(&namespace).label(&namespace).ttl(TTL);
    Store::open(&replica).unwrap().connect(options.clone()).await.unwrap().close().await.unwrap(); // makes the tables
    let switch = Switch::to(place(&primary)).await.unwrap();
    let store = Store::open(&primary.replace(&place(&primary), &switch.address.to_string())).unwrap();
    let (id, told) = (SessionId::from_bits(getrandom::u64().unwrap()), Arc::<Told>::default());
    let session = Backend::open(&store, id, &options, told.clone()).await.unwrap();
    let renew_elsewhere = async || {
        let made = switch.made();
        until("it renews on a new connection", async || {
            session.renew(Shard(0), &[]).await.unwrap();
            switch.made() > made
        })
        .await;
    };
    for _ in 0..3 {
        switch.fail_over(place(&primary));
        renew_elsewhere().await;
        assert_eq!(told.often(), 0, "the server is the same");
    }
    replicate(&primary, &replica, &namespace, &namespace).await;
    switch.fail_over(place(&replica));
    renew_elsewhere().await;
    session.renew(Shard(0), &[]).await.unwrap();
    assert_eq!(told.often(), 1, "the server is another one");
    session.close().await.unwrap();
    run(&format!("DELETE FROM tidelock_session WHERE label = '{namespace}'")).await; // the primary is gone with them
}

/// Two servers with a database of a test's own, and an ordinary user of it, whom a read-only server refuses.
struct Pair {
    database: &'static str,
    /// Their URLs for the operator.
    old: String,
    new: String,
    switch: Switch,
    /// Of clients.
    options: Options,
}

impl Pair {
    async fn new(database: &'static str) -> Self {
        let servers = [std::env::var("TIDELOCK_MARIADB_TLS_URL").unwrap(), url()];
        let [old, new] = servers.map(|server| format!("{}/{database}", server.rsplit_once('/').unwrap().0));
        for server in [&old, &new] {
            let tables = format!(
                "DROP DATABASE IF EXISTS {database}; CREATE DATABASE {database}; USE {database}; {MIGRATION} \
                 UPDATE tidelock_version SET store = 7; CREATE OR REPLACE USER '{database}'@'%'; \
                 GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO '{database}'@'%'"
            );
            run_at(&server.replace(&format!("/{database}"), "/mysql"), &tables).await;
        }
        let switch = Switch::to(place(&old)).await.unwrap();
        let options = Options::new().namespace(&namespace(database)).label(database).ttl(TTL);
        Self { database, old, new, switch, options }
    }

    async fn client(&self, options: &Options) -> Arc<dyn Locks> {
        let url = format!("mysql://{0}@{1}/{0}", self.database, self.switch.address);
        let store = Store::open(&url).unwrap().connection_for_each_runtime(false);
        store.connect(options.clone()).await.unwrap()
    }

    /// The client's connections to the old server. The oldest one, which comes first, is that for its joins.
    async fn connections(&self) -> Vec<String> {
        let all = format!(
            "SELECT id FROM information_schema.PROCESSLIST WHERE user = '{}' ORDER BY id",
            self.database
        );
        run_at(&self.old, &all).await.into_iter().map(|mut row| row.swap_remove(0)).collect()
    }

    async fn kill_all_but_that_for_joins(&self) {
        for other in &self.connections().await[1..] {
            run_at(&self.old, &format!("KILL {other}")).await;
        }
    }

    /// The old server becomes a replica of the new one, and its connections stand.
    async fn switch_over(&self) {
        run_at(&self.old, "SET GLOBAL read_only = 1").await;
        replicate(&self.old, &self.new, &self.options.label, &self.options.namespace).await;
        self.switch.switch_over(place(&self.new));
    }
}

/// Whatever becomes of the story, the old server accepts writes again.
async fn of_two_servers<F>(database: &'static str, story: impl FnOnce(Arc<Pair>) -> F)
where
    F: Future<Output = ()> + 'static,
{
    let _alone = SECOND_SERVER.lock().await;
    let pair = Arc::new(Pair::new(database).await);
    let story = story(pair.clone());
    let told = LocalSet::new().run_until(async { tokio::task::spawn_local(story).await }).await;
    for server in [&pair.old, &pair.new] {
        let end = format!("SET GLOBAL read_only = 0; DROP USER '{database}'@'%'; DROP DATABASE {database}");
        run_at(server, &end).await;
    }
    told.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_switchover_loses_nothing() {
    of_two_servers("tidelock_planned", |pair| async move {
        let (a, b) = (pair.client(&pair.options).await, pair.client(&pair.options).await);
        let held = a.mutex("stock").unwrap().lock().await.unwrap();
        let mutex = b.mutex("stock").unwrap();
        let waiting = tokio::spawn(async move { mutex.lock().await.unwrap() });
        until("it waits", async || a.inspect("stock").await.unwrap().waiters().count() == 1).await;
        pair.switch_over().await;
        assert!(timeout(TTL * 3 / 2, held.lost()).await.is_err(), "it was lost, and the new server has it");
        assert_eq!(held.state(), State::Held);
        let token = held.token();
        held.release().await.unwrap().confirmed().unwrap();
        let next = timeout(TTL, waiting).await.unwrap().unwrap();
        assert!(next.token() > token);
        next.release().await.unwrap().confirmed().unwrap();
        a.close().await.unwrap();
        b.close().await.unwrap();
    })
    .await;
}

/// As behind a proxy that chooses a server for each connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn servers_that_answer_by_turns_get_few_connections() {
    of_two_servers("tidelock_turns", |pair| async move {
        let locks = pair.client(&pair.options).await;
        // These two do not tell each other of renewals, as servers behind such a proxy do.
        run_at(&pair.old, "UPDATE tidelock_session SET ttl = 600000000, expires = expires + 600000000").await;
        replicate(&pair.old, &pair.new, &pair.options.label, &pair.options.namespace).await;
        let (turning, made) = (pair.clone(), pair.switch.made());
        let turns = tokio::spawn(async move {
            for turn in made.. {
                turning.switch.switch_over(place(if turn % 2 == 0 { &turning.new } else { &turning.old }));
                while turning.switch.made() <= turn {
                    tokio::time::sleep(Duration::from_micros(200)).await;
                }
            }
        });
        pair.kill_all_but_that_for_joins().await;
        let began = Instant::now();
        while began.elapsed() < TTL {
            let guard = locks.mutex("stock").unwrap().try_lock().await.unwrap();
            drop(guard);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let made = pair.switch.made() - made;
        turns.abort();
        assert!(made <= 4, "{made} connections in {:?}, for a client with four", began.elapsed());
        drop(locks);
    })
    .await;
}

/// A name leads to another server now, and the one of before is cut off from it, accepts writes, and is still reached by the
/// connection for joins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn when_another_server_renews_nothing_is_asked_of_the_one_of_before() {
    of_two_servers("tidelock_two", |pair| async move {
        let locks = pair.client(&pair.options).await;
        locks.mutex("stock").unwrap().lock().await.unwrap().release().await.unwrap();
        replicate(&pair.old, &pair.new, &pair.options.label, &pair.options.namespace).await;
        pair.switch.switch_over(place(&pair.new));
        pair.kill_all_but_that_for_joins().await;
        let held = "SELECT name FROM tidelock_line WHERE session <> 0";
        let given_there = until("the new server gives the locks", async || {
            let guard = locks.mutex("stock").unwrap().lock().await.unwrap();
            let is_there = !run_at(&pair.new, held).await.is_empty();
            let _ = guard.release().await; // the one of before has given it, and the new one knows nothing of that
            is_there
        });
        // A ttl after the switch the old one has not been asked to renew, and nobody believes it any more.
        timeout(TTL * 5 / 6, given_there).await.expect("with the first renewal there");
        locks.close().await.unwrap();
    })
    .await;
}

/// A replica knows no transaction that is open on its primary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_transaction_keeps_its_lock_although_a_connection_still_leads_to_the_server_of_before() {
    of_two_servers("tidelock_replica", |pair| async move {
        let calm = pair.options.clone().ttl(Duration::from_secs(120)); // its renewals notice nothing
        let locks = pair.client(&calm).await;
        let joins = pair.connections().await.swap_remove(0);
        pair.switch_over().await;
        run_at(&pair.old, &format!("KILL {joins}")).await;
        let pool = sqlx::mysql::MySqlPoolOptions::new().connect(&pair.new).await.unwrap();
        let mut transaction = pool.begin().await.unwrap();
        let token = lock_in(&*locks, &mut transaction, "stock").await.unwrap();
        let other = pair.client(&pair.options).await;
        let mutex = other.mutex("stock").unwrap();
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(1) {
            assert!(mutex.try_lock().await.unwrap().is_none(), "another one has it beside the transaction");
        }
        transaction.commit().await.unwrap();
        assert!(timeout(TTL, mutex.lock()).await.unwrap().unwrap().token() > token);
        locks.close().await.unwrap();
        other.close().await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_that_stays_read_only_gets_few_connections() {
    of_two_servers("tidelock_for_good", |pair| async move {
        let brisk = pair.options.clone().command_deadline(Duration::from_millis(300));
        let locks = pair.client(&brisk).await;
        let held = locks.mutex("stock").unwrap().lock().await.unwrap();
        run_at(&pair.old, "SET GLOBAL read_only = 1").await;
        let (before, began, long) = (pair.switch.made(), Instant::now(), Duration::from_secs(3));
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..8 {
            let mutex = locks.mutex(&format!("other {number}")).unwrap();
            tasks.spawn(async move {
                while began.elapsed() < long {
                    mutex.try_lock().await.unwrap_err();
                }
            });
        }
        tasks.join_all().await;
        // Two in a second for each of the client's four.
        let (made, most) = (pair.switch.made() - before, 4 * (2 * 3 + 1));
        assert!(made <= most, "{made} connections in {:?}", began.elapsed());
        run_at(&pair.old, "SET GLOBAL read_only = 0").await;
        until("it accepts writes again", async || locks.mutex("other").unwrap().try_lock().await.is_ok())
            .await;
        drop(held);
    })
    .await;
}
