//! The traffic of taking, giving back and handing on a lock: requests, events and bytes, counted by the server.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

mod site;

use site::{is_held, join, name, options, turn, until, weight};
use tidelock_conformance::callers::Caller;
use tidelock_etcd::backend::{Claim, Leave, Patience, Place};
use tidelock_etcd::etcd_client::DeleteOptions;
use tidelock_etcd::{Kind, Weight};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;

/// Only one test at a time may send requests while counting.
static ALONE: Mutex<()> = Mutex::const_new(());

/// What the server has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    requests: i64,
    /// Watches that were started or stopped.
    watches: i64,
    events: i64,
    bytes: i64,
}

async fn counted() -> Counted {
    let mut server = tokio::net::TcpStream::connect(site::host()).await.unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    server.write_all(request.as_bytes()).await.unwrap();
    let mut said = String::new();
    server.read_to_string(&mut said).await.unwrap();
    let sum = |parts: &[&str]| -> i64 {
        let is_it = |line: &&str| !line.starts_with('#') && parts.iter().all(|part| line.contains(part));
        let value = |line: &str| line.rsplit_once(' ')?.1.parse::<f64>().ok().map(|value| value as i64);
        said.lines().filter(is_it).filter_map(value).sum()
    };
    let received = "grpc_server_msg_received_total{";
    Counted {
        requests: sum(&[received, "etcdserverpb.KV"]),
        watches: sum(&[received, "etcdserverpb.Watch"]),
        events: sum(&["etcd_debugging_mvcc_events_total"]),
        bytes: sum(&["etcd_network_client_grpc_sent_bytes_total"]),
    }
}

/// What this takes. A client that has just connected may still send something, so this waits until the server is quiet.
async fn cost(doing: impl Future<Output = ()>) -> Counted {
    let mut before = counted().await;
    let mut is_quiet = 0;
    until("the server is quiet", async || {
        let now = counted().await;
        is_quiet = if now == before { is_quiet + 1 } else { 0 };
        before = now;
        (is_quiet > 20).then_some(())
    })
    .await;
    doing.await;
    let after = counted().await;
    Counted {
        requests: after.requests - before.requests,
        watches: after.watches - before.watches,
        events: after.events - before.events,
        bytes: after.bytes - before.bytes,
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn taking_costs_one_request_and_giving_back_another() {
    let _alone = ALONE.lock().await;
    let caller = Caller::open(&site::store(), 1, &options("pairs")).await;
    let claims = |name: &str, number: u64| {
        let claim = |number, kind, weight, capacity| {
            Claim::new(caller.claim(number), site::name(name), kind, weight, capacity)
        };
        [
            claim(number, Kind::Mutex, Weight::ONE, Weight::ONE),
            claim(number + 1, Kind::RwLock, Weight::ONE, Weight::MAX),
            claim(number + 2, Kind::RwLock, Weight::MAX, Weight::MAX),
            claim(number + 3, Kind::Semaphore, weight(2), weight(3)),
        ]
    };
    for round in 0..2 {
        for patience in [Patience::Wait, Patience::Now] {
            for claim in claims("one", round * 8 + if patience == Patience::Now { 4 } else { 0 }) {
                let took = cost(async {
                    let place = caller.session.join(&claim, patience).await.unwrap();
                    assert!(is_held(place), "{place:?}");
                })
                .await;
                assert_eq!((took.requests, took.watches, took.events), (1, 0, 0), "to take {claim:?}");
                let left = cost(async {
                    caller.session.leave(&claim.name, claim.id, Leave::Done).await.unwrap();
                })
                .await;
                assert_eq!((left.requests, left.watches, left.events), (1, 0, 0), "to give back {claim:?}");
            }
        }
    }
    caller.session.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_refusal_costs_one_request() {
    let _alone = ALONE.lock().await;
    let [a, b] = site::two(&options("refused")).await;
    let line = name("line");
    assert!(is_held(join(&a, &a.mutex(&line, 1)).await));
    let took = cost(async {
        let place = b.session.join(&b.mutex(&line, 1), Patience::Now).await.unwrap();
        assert_eq!(place, Place::Refused);
    })
    .await;
    assert_eq!((took.requests, took.watches, took.events), (1, 0, 0));
    for caller in [a, b] {
        caller.session.close().await.unwrap();
    }
}

/// Ten hand-offs among this many clients, with this many more claims behind. So many of each client come `before` them:
/// when its first claim has had its turn, a client reads the line once, and then knows the claims ahead of all its others.
async fn hand_offs(
    what: &str,
    (clients, before): (u64, u64),
    parked: u64,
    claim: impl Fn(&Caller, u64) -> Claim,
) -> Counted {
    let options = options(what);
    let mut callers = Vec::new();
    for id in 1..=clients {
        callers.push(Caller::open(&site::store(), id, &options).await);
    }
    let whose = |number: u64| &callers[usize::try_from(number % clients).unwrap()];
    let line = claim(&callers[0], 0).name;
    let before = before * clients;
    for number in 0..=before + 10 + parked {
        let place = join(whose(number), &claim(whose(number), number)).await;
        assert_eq!(is_held(place), number == 0, "{number}: {place:?}");
    }
    let hand_over = async |number| {
        let left = claim(whose(number), number);
        whose(number).session.leave(&line, left.id, Leave::Done).await.unwrap();
        turn(whose(number + 1), &line, claim(whose(number + 1), number + 1).id).await;
    };
    for number in 0..before {
        hand_over(number).await;
    }
    let spent = cost(async {
        for number in before..before + 10 {
            hand_over(number).await;
        }
    })
    .await;
    for caller in callers {
        caller.session.close().await.unwrap();
    }
    println!("{what}, {clients} clients, {parked} parked: {spent:?} for ten hand-offs");
    spent
}

/// One client more than may watch a line as a whole, and two turns of each.
const MANY: (u64, u64) = (17, 2);

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_hand_off_costs_the_same_however_many_wait() {
    let _alone = ALONE.lock().await;
    let line = name("line");
    let mutex = |caller: &Caller, number| caller.mutex(&line, number);
    let writer = |caller: &Caller, number| {
        Claim::new(caller.claim(number), line.clone(), Kind::RwLock, Weight::MAX, Weight::MAX)
    };
    let permits = |caller: &Caller, number| caller.permits(&line, number, 2, 3);
    for parked in [0, 1_000] {
        for (what, spent) in [
            ("mutex", hand_offs("mutex", (1, 2), parked, mutex).await),
            ("writer", hand_offs("writer", (1, 2), parked, writer).await),
        ] {
            assert_eq!((spent.requests, spent.watches, spent.events), (10, 0, 0), "{what}");
        }
        let spent = hand_offs("permits", (1, 2), parked, permits).await;
        assert_eq!((spent.requests, spent.watches, spent.events), (10, 0, 10), "permits");
        for (what, spent) in [
            ("mutex", hand_offs("mutex", MANY, parked.max(100), mutex).await),
            ("writer", hand_offs("writer", MANY, parked.max(100), writer).await),
        ] {
            // The leave, a look at the claim that is next, and one at what is ahead of the same client's next claim. A
            // writer is two keys, which leave in one message.
            let events = if what == "mutex" { 10 } else { 20 };
            assert!(spent.requests <= 32 && spent.events <= events, "{what}: {spent:?}");
            assert!(spent.bytes < 40_000, "{what}: {spent:?}");
        }
        for (what, spent) in [
            ("mutex", hand_offs("busy mutex", (8, 9), parked, mutex).await),
            ("writer", hand_offs("busy writer", (8, 9), parked, writer).await),
        ] {
            // Only the leave. Each of the clients hears of it.
            let events = if what == "mutex" { 80 } else { 160 };
            assert!(spent.requests <= 10 && spent.watches == 0, "{what}: {spent:?}");
            assert!(spent.events <= events && spent.bytes < 40_000, "{what}: {spent:?}");
        }
        let spent = hand_offs("permits", (8, 2), parked, permits).await;
        assert!(spent.requests <= 10 && spent.events <= 80 && spent.bytes < 40_000, "permits: {spent:?}");
    }
}

/// With a thousand in line, a claim that joins does not read the line again.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_join_behind_a_thousand_reads_no_line_again() {
    let _alone = ALONE.lock().await;
    let [a, b] = site::two(&options("long")).await;
    let line = name("line");
    for number in 0..1_000 {
        join(&a, &a.mutex(&line, number)).await;
    }
    join(&b, &b.mutex(&line, 0)).await;
    let spent = cost(async {
        for number in 1..=100 {
            join(&b, &b.mutex(&line, number)).await;
        }
    })
    .await;
    println!("a hundred joins behind a thousand: {spent:?}");
    assert!(spent.requests == 100 && spent.bytes < 100 * 400, "{spent:?}");
    for caller in [a, b] {
        caller.session.close().await.unwrap();
    }
}

/// Each client that waits looks a few times in each ttl, in case nothing has told it of its turn.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_look_where_nothing_has_changed_does_not_read_the_line() {
    let _alone = ALONE.lock().await;
    let [a, b] = site::two(&options("looks")).await;
    let lines = [(name("one"), 1_000), (name("other"), 2_000)];
    let mine = |first: u64| (first..first + 3).map(|number| b.claim(number)).collect::<Vec<_>>();
    for (line, first) in &lines {
        for number in 0..500 {
            join(&a, &a.mutex(line, first + number)).await;
        }
        for id in mine(*first) {
            join(&b, &b.mutex(line, id.number)).await;
        }
    }
    let looks = async {
        for (line, first) in &lines {
            let sight = b.session.look(line, &mine(*first)).await.unwrap();
            assert!(sight.held.is_empty() && sight.gone.is_empty());
        }
    };
    let spent = cost(looks).await;
    println!("two looks behind five hundred: {spent:?}");
    assert!(spent.requests == 2 && spent.bytes < 3_000, "{spent:?}");
    // One that is gone is noticed.
    let (line, first) = &lines[0];
    let gone = mine(*first)[1];
    b.session.leave(line, gone, Leave::Done).await.unwrap();
    let sight = b.session.look(line, &mine(*first)).await.unwrap();
    assert_eq!((sight.held.len(), sight.gone), (0, vec![gone]));
    for caller in [a, b] {
        caller.session.close().await.unwrap();
    }
}

/// With more ahead than are looked at one by one.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_waiter_whose_key_was_deleted_asks_for_nothing() {
    let _alone = ALONE.lock().await;
    let options = options("deleted");
    let [a, b] = site::two(&options).await;
    let line = name("m");
    for number in 1..=25 {
        join(&a, &a.mutex(&line, number)).await;
    }
    join(&b, &b.mutex(&line, 1)).await;
    let key = format!("{}/m/{}-1-", options.namespace, b.id);
    site::plain().await.delete(key, Some(DeleteOptions::new().with_prefix())).await.unwrap();
    a.session.leave(&line, a.claim(25), Leave::Done).await.unwrap();
    cost(std::future::ready(())).await; // the server gets quiet
    for caller in [a, b] {
        caller.session.close().await.unwrap();
    }
}
