//! The cost of operations, counted at the server, and what tokens survive.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidelock_redis::backend::{Claim, Leave, Left, Patience, Place, Renewal, Shard};
use tidelock_redis::{Kind, Locks, Name, Options, Store, Token, Weight};
use tokio::task::JoinSet;

use crate::site;
use crate::site::alone::Alone;
use crate::site::{Caller, name, url, weight};

fn options() -> Options {
    Options::new().ttl(Duration::from_secs(600)) // no renewal happens while commands are counted
}

async fn locks() -> Arc<dyn Locks> {
    Store::open(&url()).unwrap().connect(options()).await.unwrap()
}

async fn callers() -> [Caller; 2] {
    let store = Store::open(&url()).unwrap();
    [Caller::open(&store, 1, &options()).await, Caller::open(&store, 2, &options()).await]
}

/// What the server did since the last call: how often it ran each command, and for how many µs scripts ran.
fn counted(alone: &mut Alone) -> (BTreeMap<String, u64>, f64) {
    let redis::Value::BulkString(stats) = alone.ask("INFO commandstats") else { panic!() };
    alone.ask("CONFIG RESETSTAT");
    let stats = String::from_utf8(stats).unwrap();
    let (mut calls, mut scripts) = (BTreeMap::new(), 0.0);
    for line in stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")) {
        let (command, figures) = line.split_once(":calls=").unwrap();
        let mut figures = figures.split([',', '=']);
        let count = figures.next().unwrap().parse().unwrap();
        let micros: f64 = figures.nth(1).unwrap().parse().unwrap();
        if command.starts_with("evalsha") {
            scripts += micros;
        }
        if !["info", "config|resetstat"].contains(&command) {
            calls.insert(command.to_owned(), count);
        }
    }
    (calls, scripts)
}

/// The counted commands that clients have sent, and the pushes to them.
fn sent(alone: &mut Alone) -> Vec<(String, u64)> {
    let calls = counted(alone).0;
    calls.into_iter().filter(|(command, _)| !INSIDE.contains(&command.as_str())).collect()
}

/// Commands that only scripts run; and CONFIG, which resets the counts and which Redis 6.2 counts itself.
const INSIDE: [&str; 14] = [
    "time", "hget", "hset", "hmget", "hdel", "hgetall", "zadd", "zrange", "zrem", "zpopmin", "zscore",
    "pexpire", "del", "config",
];

fn only(these: &[(&str, u64)]) -> Vec<(String, u64)> {
    these.iter().map(|(command, count)| ((*command).to_owned(), *count)).collect()
}

/// A guard's leave goes out before the next request of its task, however many other requests there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn what_is_dropped_is_free_at_once_in_a_crowd_too() {
    let mut alone = Alone::new().await;
    let locks = locks().await;
    let connections = async || {
        locks.mutex("first").unwrap().lock().await.unwrap().release().await.unwrap().confirmed().unwrap();
        let redis::Value::BulkString(clients) = alone.ask("CLIENT LIST") else { panic!() };
        (String::from_utf8(clients).unwrap().matches("resp=3").count() == 3).then_some(())
    };
    site::until("this runtime has a connection of its own, beside the keeper's two", connections).await;
    let mut crowd = JoinSet::new();
    for task in 0..12 {
        let mutex = locks.mutex(&format!("in a crowd {task}")).unwrap();
        crowd.spawn(async move {
            for round in 0..500 {
                drop(mutex.lock().await.unwrap());
                let again = mutex.try_lock().await.unwrap();
                again
                    .unwrap_or_else(|| panic!("not free in round {round}"))
                    .release()
                    .await
                    .unwrap()
                    .confirmed()
                    .unwrap();
            }
        });
    }
    crowd.join_all().await;
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn to_take_and_to_give_back_is_one_command_each() {
    let mut alone = Alone::new().await;
    let locks = locks().await;
    let (mutex, rwlock) = (locks.mutex("m").unwrap(), locks.rwlock("rw").unwrap());
    let semaphore = locks.semaphore("s", 3).unwrap();
    mutex.lock().await.unwrap().release().await.unwrap().confirmed().unwrap(); // from here on the server knows the scripts
    sent(&mut alone);

    let guard = mutex.lock().await.unwrap();
    assert_eq!(sent(&mut alone), only(&[("evalsha", 1)]));
    guard.release().await.unwrap().confirmed().unwrap();
    assert_eq!(sent(&mut alone), only(&[("evalsha", 1)]));
    let guards =
        [rwlock.read().await.unwrap(), rwlock.read().await.unwrap(), semaphore.acquire(2).await.unwrap()];
    assert_eq!(sent(&mut alone), only(&[("evalsha", 3)]));
    for guard in guards {
        guard.release().await.unwrap().confirmed().unwrap();
    }
    assert_eq!(sent(&mut alone), only(&[("evalsha", 3)]));
    let held = mutex.lock().await.unwrap();
    assert!(mutex.try_lock().await.unwrap().is_none());
    assert_eq!(sent(&mut alone), only(&[("evalsha", 2)]));
    held.release().await.unwrap().confirmed().unwrap();
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn to_pass_on_is_one_command_and_one_push_or_none_within_a_client() {
    let mut alone = Alone::new().await;
    let (here, there) = (locks().await, locks().await);
    here.mutex("other").unwrap().lock().await.unwrap().release().await.unwrap().confirmed().unwrap(); // now the server knows the scripts
    for (next, told) in [(&there, true), (&here, false), (&there, true)] {
        let holds = here.mutex("stock").unwrap().lock().await.unwrap();
        let mutex = next.mutex("stock").unwrap();
        let waits = tokio::spawn(async move { mutex.lock().await.unwrap() });
        let stands = async || (here.inspect("stock").await.unwrap().claims.len() == 2).then_some(());
        site::until("the second waits", stands).await;
        sent(&mut alone);
        holds.release().await.unwrap().confirmed().unwrap();
        let granted = waits.await.unwrap();
        let expected: &[_] = if told { &[("evalsha", 1), ("publish", 1)] } else { &[("evalsha", 1)] };
        assert_eq!(sent(&mut alone), only(expected));
        granted.release().await.unwrap().confirmed().unwrap();
    }
    here.close().await.unwrap();
    there.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_renewal_that_finds_everything_is_one_command_for_each_name() {
    let mut alone = Alone::new().await;
    let [one, _] = callers().await;
    let (stock, seats) = (name("stock"), name("seats"));
    one.session.join(&one.mutex(&stock, 1), Patience::Wait).await.unwrap();
    for number in 2..=3 {
        let seat = Claim::new(one.claim(number), seats.clone(), Kind::Semaphore, weight(1), weight(2));
        one.session.join(&seat, Patience::Wait).await.unwrap();
    }
    let standing = [(stock, vec![one.claim(1)]), (seats, (2..=3).map(|number| one.claim(number)).collect())];
    one.session.renew(Shard(0), &standing).await.unwrap(); // the connection is made now
    sent(&mut alone);
    let Renewal { gone, strays, .. } = one.session.renew(Shard(0), &standing).await.unwrap();
    assert_eq!((gone, strays), (vec![], vec![]));
    let sent = sent(&mut alone);
    assert_eq!(
        sent.into_iter().filter(|(command, _)| command != "ping").collect::<Vec<_>>(),
        only(&[("evalsha", 2)])
    );
}

/// Core may know them to hold, by a grant of a master that is no more.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_renewal_says_which_claims_wait() {
    let _alone = Alone::new().await;
    let [one, _] = callers().await;
    for (text, last) in [("few", 5), ("a crowd", 2_500)] {
        let name = name(text);
        for number in 1..=last {
            let seat = Claim::new(one.claim(number), name.clone(), Kind::Semaphore, weight(1), weight(2));
            one.session.join(&seat, Patience::Wait).await.unwrap();
        }
        let standing = [(name.clone(), (1..=last).map(|number| one.claim(number)).collect())];
        let mut renewal = one.session.renew(Shard(0), &standing).await.unwrap();
        while !renewal.unsure.is_empty() {
            renewal = one.session.renew(Shard(0), &standing).await.unwrap(); // it had no time for all of them
        }
        renewal.waiting.sort_unstable();
        assert_eq!(renewal.waiting, (3..=last).map(|number| one.claim(number)).collect::<Vec<_>>());
        assert_eq!((renewal.gone, renewal.strays), (vec![], vec![]));
        for number in 1..=last {
            one.session.leave(&name, one.claim(number), Leave::Done).await.unwrap();
        }
    }
}

/// A line of a mutex with claims of two clients in turn.
struct Long<'a> {
    callers: &'a [Caller; 2],
    name: Name,
    /// The number of the holder, and that of the last claim.
    first: u64,
    last: u64,
}

impl<'a> Long<'a> {
    async fn new(callers: &'a [Caller; 2], text: &str, waiters: u64) -> Self {
        let mut line = Self { callers, name: name(text), first: 1, last: 0 };
        for _ in 0..=waiters {
            line.come().await; // one after the other, so they stand in this order
        }
        line
    }

    fn of(&self, number: u64) -> &'a Caller {
        &self.callers[usize::try_from(number % 2).unwrap()]
    }

    /// The holder leaves, and one more claim joins.
    async fn move_on(&mut self) {
        let (leaver, number) = (self.of(self.first), self.first);
        let left = leaver.session.leave(&self.name, leaver.claim(number), Leave::Done).await.unwrap();
        assert_eq!(left, Left::Held);
        self.first += 1;
        self.come().await;
    }

    async fn come(&mut self) {
        self.last += 1;
        let comer = self.of(self.last);
        comer.session.join(&comer.mutex(&self.name, self.last), Patience::Wait).await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_long_line_costs_no_more_than_a_short_one() {
    let mut alone = Alone::new().await;
    let callers = callers().await;
    let mut short = Long::new(&callers, "short", 10).await;
    let mut middle = Long::new(&callers, "middle", 100).await;
    let mut long = Long::new(&callers, "long", 10_000).await;
    let (mut least_short, mut least_middle, mut least_long) = (f64::MAX, f64::MAX, f64::MAX);
    // On a busy machine it takes more of them until each line had an undisturbed one.
    for round in 1..=45 {
        let mut calls = Vec::new();
        let lines =
            [(&mut short, &mut least_short), (&mut middle, &mut least_middle), (&mut long, &mut least_long)];
        for (line, least) in lines {
            line.move_on().await;
            counted(&mut alone);
            for _ in 0..60 {
                line.move_on().await;
            }
            let (done, micros) = counted(&mut alone);
            *least = micros.min(*least); // slower runs were disturbed
            calls.push(done);
        }
        for calls in &calls {
            assert_eq!((calls["evalsha"], calls["publish"]), (120, 60));
        }
        // A short line takes the fast path.
        assert_eq!(calls[1], calls[2], "the same number of each command, whatever the length of the line");
        if round % 15 == 0 && least_long <= least_short * 1.5 {
            break;
        }
    }
    println!("60 hand-offs and joins: {least_short} µs with 10 waiters, {least_long} µs with 10 000");
    assert!(least_long <= least_short * 1.5, "{least_long} µs against {least_short} µs");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_that_forgets_its_scripts_all_the_time_disturbs_nobody() {
    let mut alone = Alone::new().await;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut work = JoinSet::new();
    for client in [locks().await, locks().await] {
        for name in ["one", "one", "two", "three"] {
            let mutex = client.mutex(name).unwrap();
            let is_over = is_over.clone();
            work.spawn(async move {
                let mut newest = None;
                while !is_over.load(Ordering::Relaxed) {
                    let guard = mutex.lock().await.unwrap();
                    assert!(newest < Some(guard.token()));
                    newest = Some(guard.token());
                    guard.release().await.unwrap().confirmed().unwrap();
                }
            });
        }
    }
    let mut server = site::plain().await;
    for _ in 0..400 {
        let () = site::ask(&mut server, "SCRIPT FLUSH").await;
    }
    is_over.store(true, Ordering::Relaxed);
    work.join_all().await;
    let (calls, _) = counted(&mut alone);
    assert!(calls["eval"] > 50, "scripts were forgotten in between: {calls:?}");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn tokens_grow_whatever_is_forgotten() {
    let mut alone = Alone::new().await;
    let [caller, _] = callers().await;
    let stock = name("stock");
    let mut newest = Token::from_u64(0).unwrap();
    for (i, forget) in
        ["FLUSHALL", "DEL tidelock:{stock}:held", "PEXPIRE tidelock:{stock}:held 1"].iter().enumerate()
    {
        for (number, leaves) in [(2 * i as u64 + 1, true), (2 * i as u64 + 2, false)] {
            let place = caller.session.join(&caller.mutex(&stock, number), Patience::Now).await.unwrap();
            let Place::Held { grant, .. } = place else { panic!("{place:?}") };
            assert!(newest < grant.token, "after {forget}");
            newest = grant.token;
            if leaves {
                caller.session.leave(&stock, caller.claim(number), Leave::Done).await.unwrap();
            }
        }
        alone.ask(forget);
        let server = site::plain().await;
        site::until("the key is gone", async || {
            let there: u32 = site::ask(&mut server.clone(), "EXISTS tidelock:{stock}:held").await;
            (there == 0).then_some(())
        })
        .await;
    }
    let place = caller.session.join(&caller.mutex(&stock, 99), Patience::Now).await.unwrap();
    assert!(matches!(place, Place::Held { grant, .. } if newest < grant.token), "{place:?}");
}

/// How many connections the server has accepted so far.
fn connections(alone: &mut Alone) -> u64 {
    let redis::Value::BulkString(stats) = alone.ask("INFO stats") else { panic!("INFO answers with a text") };
    let stats = String::from_utf8(stats).unwrap();
    let taken = stats.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    taken.unwrap().trim().parse().unwrap()
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn ended_runtimes_keep_no_other_from_a_connection_of_its_own() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let (mut alone, locks) = first.block_on(async { (Alone::new().await, locks().await) });
    for i in 0..10 {
        let ends = runtime();
        ends.block_on(async {
            let mutex = locks.mutex(&format!("of runtime {i}")).unwrap();
            let before = connections(&mut alone);
            let is_there = || {
                let (mutex, is_there) = (mutex.clone(), connections(&mut alone) > before);
                async move {
                    mutex.lock().await.unwrap().release().await.unwrap().confirmed().unwrap();
                    is_there.then_some(())
                }
            };
            site::until("it has a connection", is_there).await;
        });
    }
    first.block_on(locks.close()).unwrap();
}

/// Lets readers of one client hold.
async fn hold_many(reader: &Caller, page: &Name, numbers: std::ops::Range<u64>) {
    let read =
        |number| Claim::new(reader.claim(number), page.clone(), Kind::RwLock, Weight::ONE, Weight::MAX);
    let joins: Vec<_> = numbers
        .map(|number| {
            let claim = read(number);
            async move { reader.session.join(&claim, Patience::Wait).await.unwrap() }
        })
        .collect();
    for join in joins {
        assert!(matches!(join.await, Place::Held { .. }));
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_waiter_renews_at_the_same_cost_however_many_hold() {
    let mut alone = Alone::new().await;
    let [reader, writer] = callers().await;
    let mut costs = Vec::new();
    for (text, readers) in [("few", 3), ("many", 5_000)] {
        let page = name(text);
        hold_many(&reader, &page, 0..readers).await;
        let claim = Claim::new(writer.claim(1), page.clone(), Kind::RwLock, Weight::MAX, Weight::MAX);
        let place = writer.session.join(&claim, Patience::Wait).await.unwrap();
        assert!(matches!(place, Place::Waiting { .. }), "{place:?}");
        let standing = [(page.clone(), vec![claim.id])];
        writer.session.renew(Shard(0), &standing).await.unwrap(); // from here on the server knows the scripts
        let (mut least, mut calls) = (f64::MAX, BTreeMap::new());
        for _ in 0..10 {
            counted(&mut alone);
            let renewal = writer.session.renew(Shard(0), &standing).await.unwrap();
            assert_eq!((renewal.gone, renewal.unsure, renewal.strays), (vec![], vec![], vec![]));
            let micros;
            (calls, micros) = counted(&mut alone);
            least = least.min(micros);
        }
        costs.push((calls, least));
    }
    let [(few_calls, few), (many_calls, many)] = &costs[..] else { unreachable!() };
    assert_eq!(few_calls, many_calls, "the same commands");
    assert!(*many < few * 3.0, "a renewal takes {few} µs behind 3 holders, and {many} µs behind 5 000");
}
