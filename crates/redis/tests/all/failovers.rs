//! A hanging master costs clients only the time until it is replaced, whatever they requested meanwhile. Nodes of a
//! cluster are found at the addresses that they report.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use redis::{Connection, FromRedisValue};
use tidelock_redis::{Error, Locks, Options, State, Store};

use crate::site;
use crate::site::alone::Alone;
use crate::site::cluster::{self, Cluster, ask, connect, try_connect};
use crate::site::replicated::{Frozen, Replicated};
use crate::site::wires::{Fault, Wires};
use crate::site::{command, fake, hold, replicated};

/// The first and the last slot, and the master that has them.
type Range = (u16, u16, (String, u16));

impl Cluster {
    /// The master that has a name, and the name's slot.
    fn home(&self, name: &str) -> (String, u16) {
        let mut node = connect(&self.nodes[0]);
        let ranges = Self::ranges(&mut node);
        Self::home_among(&ranges, &mut node, name)
    }

    fn home_among(ranges: &[Range], node: &mut Connection, name: &str) -> (String, u16) {
        let slot: u16 = ask(node, &format!("CLUSTER KEYSLOT tidelock:{{{name}}}:held"));
        let (_, _, (host, port)) =
            ranges.iter().find(|(first, last, _)| (*first..=*last).contains(&slot)).unwrap();
        (format!("{host}:{port}"), slot)
    }

    fn ranges(node: &mut Connection) -> Vec<Range> {
        let said: Vec<redis::Value> = ask(node, "CLUSTER SLOTS");
        let range = |range: redis::Value| {
            let redis::Value::Array(parts) = range else { panic!("{range:?}") };
            let redis::Value::Array(master) = &parts[2] else { panic!("{parts:?}") };
            let number = |value: &redis::Value| u16::from_redis_value(value.clone()).unwrap();
            let host = Option::<String>::from_redis_value(master[0].clone()).unwrap();
            let host = host.filter(|host| !host.is_empty()).unwrap_or("127.0.0.1".to_owned());
            (number(&parts[0]), number(&parts[1]), (host, number(&master[1])))
        };
        said.into_iter().map(range).collect()
    }

    /// So many names on one master.
    fn names_on(&self, home: &str, count: usize) -> Vec<String> {
        let mut node = connect(&self.nodes[0]);
        let ranges = Self::ranges(&mut node);
        let lies_there = |name: &String| Self::home_among(&ranges, &mut node, name).0 == home;
        (0..).map(|number| format!("name-{number}")).filter(lies_there).take(count).collect()
    }

    fn replica_of(&self, master: &str) -> &str {
        let port = format!("master_port:{}\r", master.rsplit_once(':').unwrap().1);
        let is_its_replica = |node: &&String| {
            let role = replication(node);
            role.contains("role:slave") && role.contains(&port)
        };
        self.nodes.iter().find(is_its_replica).unwrap()
    }
}

fn replication(node: &str) -> String {
    ask(&mut connect(node), "INFO replication")
}

async fn take(locks: &Arc<dyn Locks>, name: &str) -> Result<(), Error> {
    hold(locks, name).await?.release().await?.confirmed()
}

/// Stops one server until another is master. Returns how much later a name of that server can be locked. Locks that
/// were held there stay held.
async fn costs(store: Store, names: &[String], master: &str, others: &[String]) -> Duration {
    let options = || Options::new().ttl(Duration::from_secs(9));
    let (locks, idle) = (store.connect(options()).await.unwrap(), store.connect(options()).await.unwrap());
    let guard = hold(&locks, &names[0]).await.unwrap();
    let own = hold(&idle, &names[1]).await.unwrap();
    // Sentinels close the connections of the server that they make master, new ones among them.
    let role = |other: &String| command("INFO replication").query::<String>(&mut try_connect(other)?);
    let is_replica = |other: &&String| role(other).is_ok_and(|role| role.contains("role:slave"));
    let replicas = || others.iter().filter(is_replica).count();
    let before = replicas();
    let frozen = Frozen::of(&mut connect(master));
    let began = Instant::now();
    let name = names[2].clone();
    let locking = tokio::spawn({
        let locks = locks.clone();
        async move {
            while hold(&locks, &name).await.is_err() {}
            Instant::now()
        }
    });
    site::until("another is master", async || (replicas() < before).then_some(())).await;
    let replaced = Instant::now();
    let locked = tokio::time::timeout(Duration::from_secs(15), locking).await.unwrap().unwrap();
    let cost = locked.saturating_duration_since(replaced);
    println!("replaced after {:?}, locked {cost:?} later", replaced - began);
    for guard in [guard, own] {
        site::until("it is held as before", async || {
            assert!(guard.state() != State::Lost, "{guard:?}");
            (guard.state() == State::Held).then_some(())
        })
        .await;
    }
    drop(frozen);
    cost
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_master_of_a_cluster_that_hangs_costs_its_failover_and_no_more() {
    let cluster = Cluster::new().await;
    let (home, _) = cluster.home("stock");
    let names = cluster.names_on(&home, 3);
    let others: Vec<_> = cluster.nodes.iter().filter(|node| **node != home).cloned().collect();
    let cost = costs(Store::open(&cluster::url()).unwrap(), &names, &home, &others).await;
    cluster.is_whole().await;
    assert!(cost < Duration::from_millis(2_500), "{cost:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_master_under_sentinels_that_hangs_costs_its_failover_and_no_more() {
    let mut site = Replicated::new().await;
    let addresses = site.addresses();
    let names = ["one", "two", "three"].map(str::to_owned);
    let store = Store::open(&replicated::url()).unwrap();
    let cost = costs(store, &names, &addresses[0], &addresses[1..]).await;
    drop(site);
    let _site = Replicated::new().await; // waits until the old master follows the new one
    assert!(cost < Duration::from_millis(2_500), "{cost:?}");
}

/// A server and a replicated one, which a test calls the old and the new master.
struct Masters {
    old: String,
    new: String,
    replicated: Replicated,
    _alone: Alone,
}

impl Masters {
    async fn new() -> Self {
        let (alone, mut replicated) = (Alone::new().await, Replicated::new().await);
        let url = site::url();
        let old = url.trim_start_matches("redis://").trim_end_matches('/').replace("localhost", "127.0.0.1");
        Self { old, new: replicated.addresses().remove(0), replicated, _alone: alone }
    }
}

/// A fake sentinel that names the master a test sets.
#[derive(Clone, Default)]
struct Sentinel {
    url: String,
    master: Arc<std::sync::Mutex<(String, u64)>>,
    asked: Arc<AtomicU32>,
}

impl Sentinel {
    /// A new one that names this master, with that election number.
    fn naming(address: &str, election: u64) -> Self {
        let mut sentinel = Self::default();
        sentinel.names(address, election);
        let answering = sentinel.clone();
        let url = fake::redis(move |words| match words[0].as_str() {
            "SENTINEL" => Some(answering.answer()),
            _ => fake::usual(words, ""),
        });
        sentinel.url = format!("redis-sentinel://{}#tidelock", url.rsplit_once('@').unwrap().1);
        sentinel
    }

    async fn connect(&self, options: Options) -> Arc<dyn Locks> {
        Store::open(&self.url).unwrap().connect(options).await.unwrap()
    }

    /// Names this master from now on, with that election number.
    fn names(&self, address: &str, election: u64) {
        *self.master.lock().unwrap_or_else(PoisonError::into_inner) = (address.to_owned(), election);
    }

    fn answer(&self) -> String {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let (address, election) = self.master.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (host, port) = address.split_once(':').unwrap();
        let said = ["ip", host, "port", port, "config-epoch", &election.to_string()];
        let said: String = said.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        format!("%3\r\n{said}")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_master_that_was_replaced_and_lives_on_is_left() {
    let masters = Masters::new().await;
    let (sentinel, ttl) = (Sentinel::naming(&masters.old, 7), Duration::from_secs(3));
    let connect = async || sentinel.connect(Options::new().ttl(ttl)).await;
    let (locks, waits) = (connect().await, connect().await);
    for _ in 0..40 {
        take(&locks, "other").await.unwrap(); // often: then this runtime has a connection too
    }
    let first = hold(&locks, "stock").await.unwrap();
    let waiting = tokio::spawn({
        let waits = waits.clone();
        async move { hold(&waits, "stock").await }
    });
    site::until("it waits", async || (locks.inspect("stock").await.unwrap().claims.len() == 2).then_some(()))
        .await;

    sentinel.names(&masters.new, 8);
    let began = Instant::now();
    // The new master has received nothing from the old one.
    let elsewhere = connect().await;
    let second = hold(&elsewhere, "stock").await.unwrap();
    site::until("the first is lost", async || (first.state() == State::Lost).then_some(())).await;
    let both = began.elapsed();
    println!("both held for {both:?}");
    assert!(both < ttl, "two held for {both:?}");
    assert!(locks.mutex("stock").unwrap().try_lock().await.unwrap().is_none(), "it uses the new master");

    // A sentinel that is behind leads nobody back, and no client asks more than once in a third of the ttl.
    sentinel.names(&masters.old, 7);
    let (asked, since) = (sentinel.asked.load(Ordering::Relaxed), Instant::now());
    tokio::time::sleep(ttl).await;
    assert_eq!(second.state(), State::Held);
    let asked = sentinel.asked.load(Ordering::Relaxed) - asked;
    let rounds = since.elapsed().as_millis() / (ttl / 3).as_millis() + 1;
    assert!(u128::from(asked) <= 3 * rounds, "asked {asked} times by three in {rounds} rounds");
    second.release().await.unwrap().confirmed().unwrap();
    drop(waiting.await.unwrap().unwrap());
}

/// Sentinels that were set up anew count elections from 0: with the same master, which they replace later, or with
/// another master at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn sentinels_that_count_elections_anew_are_believed() {
    let masters = Masters::new().await;
    let ttl = Duration::from_secs(3);
    for (name, is_seen_before, within) in [("seen", true, ttl), ("unseen", false, ttl * 2 + ttl / 2)] {
        let sentinel = Sentinel::naming(&masters.old, 7);
        let connect = async || sentinel.connect(Options::new().ttl(ttl)).await;
        let locks = connect().await;
        let first = hold(&locks, name).await.unwrap();
        if is_seen_before {
            sentinel.names(&masters.old, 0);
            let asked = sentinel.asked.load(Ordering::Relaxed);
            site::until("they are asked", async || {
                (sentinel.asked.load(Ordering::Relaxed) > asked + 1).then_some(())
            })
            .await;
        }
        sentinel.names(&masters.new, 1);
        let began = Instant::now();
        let second = hold(&connect().await, name).await.unwrap();
        while first.state() != State::Lost {
            assert!(began.elapsed() < within, "{name}: two hold for {:?}", began.elapsed());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        second.release().await.unwrap().confirmed().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn sentinels_that_are_behind_lead_nobody_back_after_a_count_anew_either() {
    let masters = Masters::new().await;
    let (sentinel, ttl) = (Sentinel::naming(&masters.old, 7), Duration::from_secs(3));
    let locks = sentinel.connect(Options::new().ttl(ttl)).await;
    let kept = hold(&locks, "kept").await.unwrap();
    for (address, lasts) in [(&masters.old, ttl), (&masters.new, Duration::from_secs(2)), (&masters.old, ttl)]
    {
        sentinel.names(address, 0);
        let began = Instant::now();
        while began.elapsed() < lasts {
            assert_ne!(kept.state(), State::Lost, "{address} was named for {:?}", began.elapsed());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    kept.release().await.unwrap().confirmed().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn sentinels_that_are_behind_lead_nobody_back_who_connects_anew_either() {
    let mut masters = Masters::new().await;
    let sentinel = Sentinel::naming(&masters.new, 8);
    let locks = sentinel.connect(Options::new()).await;
    let other = tidelock_redis::connect(&format!("redis://{}", masters.new)).await.unwrap();
    let kept = hold(&locks, "kept").await.unwrap();
    let stock = hold(&other, "stock").await.unwrap();

    sentinel.names(&masters.old, 7);
    let _: redis::Value = command("CLIENT PAUSE 1500 WRITE").query(&mut masters.replicated.master).unwrap();
    let refused = locks.mutex("stock").unwrap().try_lock().await; // its connection looks silent meanwhile
    assert!(matches!(refused, Ok(None)), "{refused:?}, and {stock:?}");

    for kind in ["NORMAL", "PUBSUB"] {
        let _: redis::Value =
            command(&format!("CLIENT KILL TYPE {kind}")).query(&mut masters.replicated.master).unwrap();
    }
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        let again = locks.mutex("stock").unwrap().try_lock().await;
        assert!(!matches!(again, Ok(Some(_))), "{again:?}, and {stock:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_ne!(kept.state(), State::Lost);
    kept.release().await.unwrap().confirmed().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn short_holds_on_a_master_that_was_replaced_end_within_a_ttl_too() {
    let masters = Masters::new().await;
    let (sentinel, ttl) = (Sentinel::naming(&masters.old, 7), Duration::from_secs(3));
    let connect = async || sentinel.connect(Options::new().ttl(ttl)).await;
    let locks = connect().await;
    for _ in 0..40 {
        take(&locks, "stock").await.unwrap(); // this runtime has its own connection
    }
    sentinel.names(&masters.new, 8);
    let (began, mut latest) = (Instant::now(), Duration::ZERO);
    let second = hold(&connect().await, "stock").await.unwrap();
    while began.elapsed() < 2 * ttl {
        // It usually holds nothing when a renewal is due.
        if let Ok(Some(first)) = locks.mutex("stock").unwrap().try_lock().await {
            if first.state() == State::Held && second.state() == State::Held {
                latest = began.elapsed();
            }
            drop(first);
        }
        tokio::time::sleep(Duration::from_millis(233)).await;
    }
    assert!(latest < ttl, "two held it {latest:?} after the sentinels had named another master");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn leaves_to_a_master_that_is_dead_make_no_storm_of_connections() {
    let cluster = Cluster::new().await;
    let (home, _) = cluster.home("stock");
    let wires = Wires::default();
    let locks = wires.store(&cluster::url()).connect(Options::new()).await.unwrap();
    let mut guards = Vec::new();
    for name in cluster.names_on(&home, 300) {
        guards.push(hold(&locks, &name).await.unwrap());
    }
    wires.kill(&home);
    let before = wires.tries();
    drop(guards);
    let (began, mut most) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(3) {
        most = most.max(wires.stand());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let tries = wires.tries() - before;
    println!("{tries} connections in {:?}, {most} at once", began.elapsed());
    wires.revive(&home);
    locks.close_within(Duration::from_secs(10)).await.unwrap();
    assert!(tries <= 250 && most <= 40, "{tries} connections, {most} at once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_leave_that_a_failover_swallowed_does_not_look_like_a_loss() {
    let cluster = Cluster::new().await;
    let (home, _) = cluster.home("stock");
    let wires = Wires::default();
    let patient = Options::new().command_deadline(Duration::from_secs(25)).ttl(Duration::from_secs(60));
    let locks = wires.store(&cluster::url()).connect(patient).await.unwrap();
    let guard = hold(&locks, "stock").await.unwrap();
    wires.befall(Fault::Mute);
    let leaving = tokio::spawn(guard.release());
    let onlooker = Store::open(&cluster::url()).unwrap().connect(Options::new()).await.unwrap();
    site::until("it is given back", async || {
        onlooker.inspect("stock").await.unwrap().claims.is_empty().then_some(())
    })
    .await;
    // Its replica has received the leave, and takes over before the reply comes.
    take_over(cluster.replica_of(&home)).await;
    cluster.is_whole().await; // so every node reports its role
    wires.befall(Fault::Cut);
    leaving.await.unwrap().expect("the only error of a release is the loss of its lock");
    locks.close().await.unwrap();
    cluster.is_whole().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn who_only_lists_names_hears_of_a_failover_too() {
    let cluster = Cluster::new().await;
    let connect_to = async || Store::open(&cluster::url()).unwrap().connect(Options::new()).await.unwrap();
    let (lists, holds) = (connect_to().await, connect_to().await);
    let mut guards = Vec::new();
    for number in 0..12 {
        guards.push(hold(&holds, &format!("listed-{number}")).await.unwrap());
    }
    assert_eq!(lists.names("listed-", None).await.unwrap().len(), 12);
    let (home, _) = cluster.home("stock");
    take_over(cluster.replica_of(&home)).await;
    cluster.is_whole().await;
    assert_eq!(lists.names("listed-", None).await.unwrap().len(), 12);
    for guard in guards {
        guard.release().await.unwrap().confirmed().unwrap();
    }
}

/// Makes a replica the master. The other masters refuse to replace a master that they elected a moment ago, and a
/// replica stops trying after five seconds, so it gets the command again. One that calls itself master while the old one
/// does not follow it may have counted the votes of an election before; the old one then serves nothing for five seconds.
async fn take_over(replica: &str) {
    const TRIES_FOR: Duration = Duration::from_secs(5);
    let mut told: Option<Instant> = None;
    site::until("it is master", async || {
        let mut node = connect(replica);
        let role: String = ask(&mut node, "INFO replication");
        if role.contains("role:master") && !role.contains("connected_slaves:0") {
            return Some(());
        }
        if role.contains("role:slave") && told.is_none_or(|told| told.elapsed() > TRIES_FOR) {
            let _: String = ask(&mut node, "CLUSTER FAILOVER");
            told = Some(Instant::now());
        }
        None
    })
    .await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn nodes_that_name_no_host_are_found_at_their_own() {
    let cluster = Cluster::new().await;
    let all = |words: &str| {
        for node in &cluster.nodes {
            let _: redis::Value = ask(&mut connect(node), words);
        }
    };
    all("CONFIG SET cluster-preferred-endpoint-type unknown-endpoint");
    let wires = Wires::default();
    let locks = wires.store(&cluster::url()).connect(Options::new()).await.unwrap();
    let name = format!("moving-{}", std::process::id()); // a master that still has keys of a slot does not give it away
    let (from, slot) = cluster.home(&name);
    let is_another_master = |node: &&String| **node != from && replication(node).contains("role:master");
    let to = cluster.nodes.iter().find(is_another_master).unwrap().clone();
    let id = |node: &str| -> String { ask(&mut connect(node), "CLUSTER MYID") };
    let set = |node: &str, what: &str, of: &str| {
        let _: String = ask(&mut connect(node), &format!("CLUSTER SETSLOT {slot} {what} {of}"));
    };
    // By the book, and one move after the other: or nodes go on to disagree about who has the slot.
    let begin_move = |from: &str, to: &str| {
        set(to, "IMPORTING", &id(from));
        set(from, "MIGRATING", &id(to));
    };
    let end_move = |from: &str, to: &str| {
        for node in [to, from] {
            set(node, "NODE", &id(to));
        }
    };
    let mut outcomes = Vec::new();
    begin_move(&from, &to);
    // The new node gets a script with all keys of the name, so it refuses it for now (TRYAGAIN).
    let asked = take(&locks, &name).await; // ASK
    end_move(&from, &to);
    outcomes.push(take(&locks, &name).await); // MOVED
    cluster.is_whole().await;
    begin_move(&to, &from);
    let _: redis::Value = ask(&mut connect(&to), "FLUSHDB");
    end_move(&to, &from);
    outcomes.push(take(&locks, &name).await); // MOVED
    all("CONFIG SET cluster-preferred-endpoint-type ip");
    assert!(
        asked.is_ok() || asked.as_ref().is_err_and(|error| error.to_string().contains("TRYAGAIN")),
        "{asked:?}"
    );
    for outcome in outcomes {
        outcome.unwrap();
    }
    let unknown: Vec<_> =
        wires.addresses().into_iter().filter(|address| !cluster.nodes.contains(address)).collect();
    assert!(unknown.is_empty(), "there are no nodes at {unknown:?}");
    locks.close().await.unwrap();
    cluster.is_whole().await;
}

/// decisions/0043 says that two who hold after a failover do so until the next renewal. A
/// renewal compares the count of the claims that hold, and the sum of their numbers. Here the new master has claims 1
/// and 4 of a client, which have left, and not 2 and 3, which hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_hold_that_a_failover_lost_ends_with_the_next_renewal_whatever_the_numbers() {
    let masters = Masters::new().await;
    let (sentinel, ttl) = (Sentinel::naming(&masters.old, 7), Duration::from_secs(3));
    let options = Options::new().ttl(ttl);
    let locks = sentinel.connect(options.clone()).await;
    let permits = locks.semaphore("permits", 10).unwrap();
    let one = permits.acquire(1).await.unwrap();
    let (two, three) = (permits.acquire(4).await.unwrap(), permits.acquire(4).await.unwrap());
    let four = permits.acquire(1).await.unwrap();
    let numbers = [&one, &two, &three, &four].map(|guard| guard.claim().number);
    assert_eq!(numbers[0] + numbers[3], numbers[1] + numbers[2]);
    let session = one.claim().session;
    one.release().await.unwrap().confirmed().unwrap();
    four.release().await.unwrap().confirmed().unwrap();

    // The new master's state: the joins of 2 and 3 came after those of 1 and 4 (a second try, say), and are lost.
    let new = Store::open(&format!("redis://{}", masters.new)).unwrap();
    let twin = site::Caller::open(&new, session.get(), &options).await;
    for number in [numbers[0], numbers[3]] {
        let (id, name) = (twin.claim(number), site::name("permits"));
        let claim = tidelock_redis::backend::Claim::new(
            id,
            name,
            tidelock_redis::Kind::Semaphore,
            site::weight(1),
            site::weight(10),
        );
        twin.session.join(&claim, tidelock_redis::backend::Patience::Wait).await.unwrap();
    }
    sentinel.names(&masters.new, 8);
    let others = new.connect(options).await.unwrap();
    let theirs = others.semaphore("permits", 10).unwrap().acquire(8).await.unwrap();
    let began = Instant::now();
    while began.elapsed() < ttl * 4 {
        if two.state() == State::Lost && three.state() == State::Lost {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let states = (two.state(), three.state(), theirs.state());
    println!("after {:?}: {states:?}, {:?}", began.elapsed(), others.inspect("permits").await.unwrap());
    assert_eq!((two.state(), three.state()), (State::Lost, State::Lost), "16 permits of 10 are held");
}

/// A failover loses a downgrade that the old master had confirmed. No renewal tells, so it is asked for again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_downgrade_that_a_failover_lost_keeps_readers_out_for_a_ttl_at_most() {
    let masters = Masters::new().await;
    let (sentinel, ttl) = (Sentinel::naming(&masters.old, 7), Duration::from_secs(3));
    let options = Options::new().ttl(ttl);
    let locks = sentinel.connect(options.clone()).await;
    let writer = locks.rwlock("page").unwrap().write().await.unwrap();
    let id = writer.claim();
    let reader = writer.downgrade().await.unwrap();

    // The new master has the grant, and not the downgrade.
    let new = Store::open(&format!("redis://{}", masters.new)).unwrap();
    let twin = site::Caller::open(&new, id.session.get(), &options).await;
    let claim = tidelock_redis::backend::Claim::new(
        id,
        site::name("page"),
        tidelock_redis::Kind::RwLock,
        tidelock_redis::Weight::MAX,
        tidelock_redis::Weight::MAX,
    );
    twin.session.join(&claim, tidelock_redis::backend::Patience::Wait).await.unwrap();
    sentinel.names(&masters.new, 8);
    let others = new.connect(options).await.unwrap();
    let began = Instant::now();
    let read = others.rwlock("page").unwrap().read_within(ttl * 5).await.unwrap();
    println!(
        "after {:?}: ours {:?}, theirs {read:?}, {:?}",
        began.elapsed(),
        reader.state(),
        others.inspect("page").await
    );
    assert!(read.is_some(), "a reader keeps a reader out");
}

/// As in an ordinary failover, clients find the new master one after the other. There the
/// claim of a caller that had given up stands again. It is granted before its client has come: nobody hears the message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_that_has_left_and_is_granted_before_its_client_comes_is_given_back_when_it_comes() {
    let masters = Masters::new().await;
    let (sentinel, ttl) = (Sentinel::naming(&masters.old, 7), Duration::from_secs(9));
    let options = Options::new().ttl(ttl);
    let locks = sentinel.connect(options.clone()).await;
    let kept = hold(&locks, "kept").await.unwrap();
    let busy = hold(&sentinel.connect(options.clone()).await, "stock").await.unwrap();
    assert!(locks.mutex("stock").unwrap().lock_within(Duration::from_millis(50)).await.unwrap().is_none());
    let session = kept.claim().session;

    let new = Store::open(&format!("redis://{}", masters.new)).unwrap();
    let (quick, next) =
        (new.connect(options.clone()).await.unwrap(), new.connect(options.clone()).await.unwrap());
    let first = hold(&quick, "stock").await.unwrap();
    {
        let twin = site::Caller::open(&new, session.get(), &options).await;
        for (name, number) in [("kept", kept.claim().number), ("stock", kept.claim().number + 1)] {
            let claim = twin.mutex(&site::name(name), number);
            twin.session.join(&claim, tidelock_redis::backend::Patience::Wait).await.unwrap();
        }
    }
    let waiting = tokio::spawn(async move { hold(&next, "stock").await });
    site::until("it waits", async || (quick.inspect("stock").await.unwrap().claims.len() == 3).then_some(()))
        .await;
    first.release().await.unwrap().confirmed().unwrap();
    sentinel.names(&masters.new, 8);
    let began = Instant::now();
    drop(waiting.await.unwrap().unwrap());
    let stood_still = began.elapsed();
    println!("the line stood still for {stood_still:?} of a ttl of {ttl:?}; {:?}", kept.state());
    drop(busy);
    assert_eq!(kept.state(), State::Held);
    // It asks its sentinels every third of the ttl, and then has a third to find its stray.
    assert!(stood_still < ttl * 2 / 3 + Duration::from_secs(1), "{stood_still:?}");
}

/// A claim that never waited left on a master that is no more, and the new one has not heard of it. Its client lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_that_never_waited_and_has_left_is_given_back_when_its_client_comes_to_a_new_master() {
    let masters = Masters::new().await;
    let (sentinel, ttl) = (Sentinel::naming(&masters.old, 7), Duration::from_secs(9));
    let options = Options::new().ttl(ttl);
    let locks = sentinel.connect(options.clone()).await;
    let guard = hold(&locks, "stock").await.unwrap();
    let id = guard.claim();
    guard.release().await.unwrap().confirmed().unwrap();

    let new = Store::open(&format!("redis://{}", masters.new)).unwrap();
    let other = new.connect(options.clone()).await.unwrap();
    {
        let twin = site::Caller::open(&new, id.session.get(), &options).await;
        let claim = twin.mutex(&site::name("stock"), id.number);
        twin.session.join(&claim, tidelock_redis::backend::Patience::Wait).await.unwrap();
    }
    let began = Instant::now();
    sentinel.names(&masters.new, 8);
    drop(hold(&other, "stock").await.unwrap());
    let stood_still = began.elapsed();
    println!("the line stood still for {stood_still:?} of a ttl of {ttl:?}");
    // It asks its sentinels every third of the ttl, and then has a third to find its stray.
    assert!(stood_still < ttl * 2 / 3 + Duration::from_secs(1), "{stood_still:?}");
}
