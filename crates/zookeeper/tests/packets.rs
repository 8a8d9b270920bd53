//! The traffic of taking, giving back and handing on a lock: requests and events, counted by the server.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

mod site;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use site::{is_held, join, name, options, store, turn, until, weight};
use tidelock_conformance::callers::Caller;
use tidelock_zookeeper::backend::{Claim, Leave, Left};
use tidelock_zookeeper::{Kind, Name, Options, Weight};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;

/// Only one test at a time may send requests while counting.
static ALONE: Mutex<()> = Mutex::const_new(());

/// The server's reply to a four-letter command.
async fn ask(letters: &str) -> String {
    let mut server = tokio::net::TcpStream::connect(site::host()).await.unwrap();
    server.write_all(letters.as_bytes()).await.unwrap();
    let mut said = String::new();
    server.read_to_string(&mut said).await.unwrap();
    said
}

/// The packets that the server has received and sent.
async fn packets() -> (u64, u64) {
    let said = ask("mntr").await;
    let number = |key: &str| -> u64 {
        let line = said.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('\t'));
        line.unwrap().parse().unwrap()
    };
    (number("zk_packets_received"), number("zk_packets_sent"))
}

/// The requests and events that this takes. Asking the server takes a few packets too, which are subtracted.
async fn cost(doing: impl Future<Output = ()>) -> (u64, u64) {
    let (asking, before) = quiet().await;
    doing.await;
    let after = packets().await;
    let requests = after.0 - before.0 - asking.0;
    let sent = after.1 - before.1 - asking.1;
    (requests, sent.saturating_sub(requests))
}

/// The packets that one query takes while nothing else is sent, and the counters after it. A client that has just
/// connected may still send something, so this waits until the server is quiet.
async fn quiet() -> ((u64, u64), (u64, u64)) {
    let mut before = packets().await;
    let mut steps = Vec::new();
    until("the server is quiet", async || {
        let now = packets().await;
        steps.push((now.0 - before.0, now.1 - before.1));
        before = now;
        let last = steps.last_chunk::<4>()?;
        last.iter().all(|step| *step == last[0]).then_some((last[0], now))
    })
    .await
}

/// Exactly this many requests, and at most this many events: the server may count an event a little late.
async fn costs(requests: u64, events: u64, what: &str, doing: impl Future<Output = ()>) {
    let cost = cost(doing).await;
    assert!(cost.0 == requests && cost.1 <= events, "{what} took {cost:?} requests and events");
}

/// Waits until this many nodes are watched in a line.
async fn watched(options: &Options, line: &Name, many: usize) {
    let path = format!("/{}/{line}/", options.namespace);
    let watched = || async {
        (ask("wchp").await.lines().filter(|line| line.starts_with(&path)).count() == many).then_some(())
    };
    until("the watches are set", watched).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn packets_are_as_few_as_the_guide_says() {
    let _alone = ALONE.lock().await;
    let options = options("packets");
    let [a, b] = [Caller::open(&store(), 1, &options).await, Caller::open(&store(), 2, &options).await];
    let free = name("free");
    let take = async |number| assert!(is_held(join(&a, &a.mutex(&free, number)).await));
    let give = async |number| {
        assert_eq!(a.session.leave(&free, a.claim(number), Leave::Done).await.unwrap(), Left::Held);
    };
    costs(1, 0, "to take a name that is new", take(1)).await;
    costs(1, 0, "to give it back", give(1)).await;
    // Once a second the server deletes idle lines. Then it is one request more, but not every time.
    let mut again = Vec::new();
    for number in 10..14 {
        again.push(cost(take(number)).await.0);
        costs(1, 0, "to give it back", give(number)).await;
    }
    assert!(again.contains(&1) && again.iter().all(|requests| *requests <= 2), "{again:?} to take it again");
    let known_to_another = cost(async { assert!(is_held(join(&b, &b.mutex(&free, 1)).await)) }).await.0;
    let is_right = [1, 3].contains(&known_to_another); // 1: it was idle, and is new
    assert!(is_right, "{known_to_another} to take a name that only another client has used");
    let behind = async {
        assert!(!is_held(join(&a, &a.mutex(&free, 3)).await));
        watched(&options, &free, 1).await;
    };
    let (asked, _) = cost(behind).await;
    assert!(asked >= 3, "the node, the line, the watch, and the check that it is set: {asked}");
    let behind_own = async { assert!(!is_held(join(&a, &a.mutex(&free, 4)).await)) };
    costs(1, 0, "to stand behind a claim of one's own", behind_own).await;
    // A sync comes first, so that grants made through other servers are seen.
    costs(3, 0, "to inspect a line", async { drop(b.session.line(&free).await.unwrap()) }).await;
    let hand_off = async {
        b.session.leave(&free, b.claim(1), Leave::Done).await.unwrap();
        turn(&a, &free, a.claim(3)).await;
    };
    costs(2, 1, "to hand on, the leave and a read,", hand_off).await;
    let own = async {
        a.session.leave(&free, a.claim(3), Leave::Done).await.unwrap();
        turn(&a, &free, a.claim(4)).await;
    };
    costs(1, 0, "to hand on to a claim of one's own", own).await;
}

/// Hands a lock on ten times, with a crowd of so many clients behind it.
async fn hand_on(clients: u64, crowd: u64, kind: Kind, weight: Weight, capacity: Weight) -> (u64, u64) {
    let options = options(&format!("crowd {clients} {crowd}"));
    let mut callers = Vec::new();
    for id in 1..=clients {
        callers.push(Caller::open(&store(), id, &options).await);
    }
    let hot = name("hot");
    let mut line = Vec::new();
    for number in 0..10 + crowd {
        let caller = &callers[usize::try_from(number % clients).unwrap()];
        let claim = Claim::new(caller.claim(number), hot.clone(), kind, weight, capacity);
        assert_eq!(is_held(join(caller, &claim).await), number == 0);
        line.push((caller, claim.id));
    }
    let expected = if clients == 1 { 0 } else { usize::try_from(clients).unwrap() };
    watched(&options, &hot, expected).await;
    callers.iter().for_each(|caller| caller.heard.forget(&hot));
    cost(async {
        for pair in line[..11.min(line.len())].windows(2) {
            let [(leaver, leaving), (next, id)] = pair else { unreachable!() };
            leaver.session.leave(&hot, *leaving, Leave::Done).await.unwrap();
            turn(next, &hot, *id).await;
        }
    })
    .await
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn nobody_but_the_next_hears_of_a_hand_off() {
    let _alone = ALONE.lock().await;
    for (kind, weight, capacity) in [
        (Kind::Mutex, Weight::ONE, Weight::ONE),
        (Kind::RwLock, Weight::MAX, Weight::MAX),
        (Kind::Semaphore, weight(2), weight(3)),
    ] {
        for clients in [1, 8] {
            let few = hand_on(clients, 16, kind, weight, capacity).await;
            let many = hand_on(clients, 1_000, kind, weight, capacity).await;
            println!("{kind} from {clients} clients: {few:?} with a few behind, {many:?} with a thousand");
            // The leave, the read, and the watch of that client's next waiter; and an event for the next client. The
            // reply to a mutex's leave says at once that the next claim of its own client has its turn.
            let most = match (clients, kind) {
                (1, Kind::Mutex) => (10, 0),
                (1, _) => (20, 0),
                _ => (30, 10),
            };
            assert!(many.0 <= most.0 + 2 && many.1 <= most.1 + 1, "{kind}, {clients} clients: {many:?}");
            assert!(
                many.0 <= few.0 + 2 && many.1 <= few.1 + 1,
                "{kind}, {clients} clients: {few:?}, {many:?}"
            );
        }
    }
}

/// Each is given back as soon as it is held, while its earlier requests may still be under way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_long_line_of_one_client_is_handed_on_without_a_list_each_time() {
    const CROWD: usize = 4_000;
    const PART: usize = 500;
    let _alone = ALONE.lock().await;
    // On a slow machine four thousand joins that were asked for at once take a while.
    let options = options("long").command_deadline(Duration::from_secs(30));
    let line = format!("/{}/hot", options.namespace);
    let [crowd, other] =
        [store().connect(options.clone()).await.unwrap(), store().connect(options).await.unwrap()];
    let hot = other.mutex("hot").unwrap().lock().await.unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..CROWD {
        let (mutex, done) = (crowd.mutex("hot").unwrap(), done.clone());
        tokio::spawn(async move {
            mutex.lock().await.unwrap().release().await.unwrap().confirmed().unwrap();
            done.fetch_add(1, Ordering::Relaxed);
        });
    }
    let client = site::plain().await;
    until("all stand in line", async || {
        (client.check_stat(&line).await.unwrap()?.num_children > CROWD as i32).then_some(())
    })
    .await;
    let mut before = (quiet().await.1.0, 0);
    hot.release().await.unwrap().confirmed().unwrap();
    for part in 1..=CROWD / PART {
        let many = until("the line goes on", async || {
            let many = done.load(Ordering::Relaxed);
            (many >= part * PART).then_some(many)
        })
        .await;
        let asked = packets().await.0;
        let (requests, turns) = (asked - before.0, (many - before.1) as u64);
        println!("{requests} requests for {turns} turns");
        assert!(requests * 10 <= turns * 12, "{requests} requests for {turns} turns, behind {}", before.1);
        before = (asked, many);
    }
}
