//! The statements against the rule, on a real server, under a clock that the test turns.
//!
//! Random operations go to the store and to the model's `World`. The clock is one expression in the statements, and a
//! number is put in its place; the world's time passes by as much. Time also passes between two statements of one
//! operation, and is set back. Requests come alone or as a batch, and are repeated. After each of them the lines that
//! the server keeps must be the world's, claim by claim, and every new token greater than all before on that name.
//!
//! Each fault in `faults.rs` changes the statements, and must be found. Sequences that find it are known by their seeds, and
//! run first.
//!
//! A failure prints its sequence and its seed: `TIDELOCK_TURNED_SEED=SEED` runs that one alone. `TIDELOCK_DEEP=1` runs
//! ten times as many, and finds the faults without the known seeds.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

mod faults;
mod ordered;
mod sequence;
mod server;
mod slots;
mod stories;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use tidelock_core::backend::{Claim, Patience, Place};
use tidelock_core::{ClaimId, Kind, Name, SessionId};
use tidelock_model::{Dice, Leave, Wishes};

use self::faults::{FAULTS, Fault};
use self::sequence::Sequence;
pub(crate) use self::server::Turned;
use self::server::{SECOND, SLOTS, Server};
use crate::answers::Busy;
use crate::check;
use crate::open_session::OpenSession;
use crate::request::{Action, Outcome};
use crate::sql::{self, Namespace};

/// How many sequences run at the same time.
const SIDE_BY_SIDE: u64 = 12;

async fn run(seed: u64, server: &Server) -> Result<u64, String> {
    let dice = Dice::new(seed, "turned");
    let mut last_number = 0;
    let mut sequence = Sequence::begin(seed, server, &dice).await;
    let mut wishes = Wishes::new(seed, sequence.names(), &mut last_number);
    let steps = 10 + dice.below(40);
    for _ in 0..steps {
        if sequence.is_over() {
            break;
        }
        sequence.step(&mut wishes).await.map_err(|wrong| {
            format!("{wrong}\nsequence TIDELOCK_TURNED_SEED={seed}:\n    {}", sequence.log.join("\n    "))
        })?;
    }
    sequence.clean(seed).await.map_err(|said| format!("{said:?}"))?;
    Ok(sequence.log.len() as u64)
}

/// Runs the sequences of these seeds, side by side, or until one of them differs from the rule. Returns how many
/// operations that were, or what differs.
async fn run_all(
    seeds: impl Iterator<Item = u64> + Send + 'static,
    fault: Option<&'static Fault>,
) -> Result<u64, String> {
    let (seeds, is_over) = (Arc::new(Mutex::new(seeds)), Arc::new(AtomicBool::new(false)));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..SIDE_BY_SIDE {
        let (seeds, is_over) = (seeds.clone(), is_over.clone());
        workers.spawn(async move {
            let (server, mut operations) = (Server::at(&url(), fault), 0);
            loop {
                let seed = seeds.lock().unwrap().next();
                let Some(seed) = seed.filter(|_| !is_over.load(Ordering::Relaxed)) else {
                    return Ok(operations);
                };
                operations +=
                    run(seed, &server).await.inspect_err(|_| is_over.store(true, Ordering::Relaxed))?;
            }
        });
    }
    workers.join_all().await.into_iter().sum()
}

/// A database of its own: its clocks are ahead by years, and so are its tokens.
const DATABASE: &str = "tidelock_turned";

fn url() -> String {
    let url = std::env::var("TIDELOCK_MARIADB_URL").unwrap();
    let (place, _) = url.rsplit_once('/').unwrap();
    format!("{place}/{DATABASE}")
}

async fn make_database() {
    let server = Server::at(&std::env::var("TIDELOCK_MARIADB_URL").unwrap(), None);
    server.link.ask(&format!("CREATE DATABASE IF NOT EXISTS {DATABASE}")).await.unwrap();
}

/// A seed that no earlier run has used, and room for many more behind it.
fn fresh_seed() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    u64::try_from(since.as_micros()).unwrap() << 8 & (u64::MAX >> 5)
}

/// With the tables. The tests of this page run one at a time: each has its own time, and a sweep is for all.
async fn prepared() -> (Server, tokio::sync::MutexGuard<'static, ()>) {
    static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let alone = ALONE.lock().await;
    make_database().await;
    let server = Server::at(&url(), None);
    check::server(&server.link, true).await.unwrap();
    let more = format!(
        "INSERT IGNORE INTO tidelock_slot (slot, stamp, session, number) \
         SELECT a.slot + {} * (b.slot - 1), 0, 0, 0 FROM tidelock_slot a, tidelock_slot b WHERE b.slot BETWEEN 2 AND {}",
        sql::SLOTS,
        SLOTS / sql::SLOTS
    );
    if server.link.ask("SELECT COUNT(*) FROM tidelock_slot").await.unwrap().rows[0].number(0) < SLOTS.into() {
        server.link.ask(&more).await.unwrap();
    }
    (server, alone)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn the_statements_do_what_the_rule_does_whatever_time_it_is() {
    let (server, _alone) = prepared().await;
    if let Ok(seed) = std::env::var("TIDELOCK_TURNED_SEED") {
        run(seed.parse().unwrap(), &server).await.unwrap_or_else(|wrong| panic!("{wrong}"));
        return;
    }
    let count = std::env::var("TIDELOCK_TURNED_COUNT").ok().and_then(|count| count.parse().ok());
    let count = count.unwrap_or(if is_deep() { 4_000 } else { 400 });
    let began = std::time::Instant::now();
    let seeds = (fresh_seed()..).take(count);
    let operations =
        without_disk(&server, run_all(seeds, None)).await.unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{count} sequences, {operations} operations in {:?}", began.elapsed());
}

/// The proof that the comparison can fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn each_fault_in_the_statements_is_found() {
    let (server, _alone) = prepared().await;
    let all: String = sql::ALL.concat();
    let wanted = std::env::var("TIDELOCK_FAULT").ok();
    for fault in FAULTS.iter().filter(|fault| wanted.as_ref().is_none_or(|wanted| wanted == fault.name)) {
        for (right, _) in fault.changes {
            assert!(all.contains(right), "{}: no statement has {right:?}", fault.name);
        }
        let began = std::time::Instant::now();
        let others = FIRST_SEED..FIRST_SEED + MOST_FOR_A_FAULT;
        let finding = async {
            if !is_deep() {
                run_all(fault.seeds.iter().copied(), Some(fault)).await?;
            }
            run_all(others, Some(fault)).await
        };
        let found = without_disk(&server, finding).await;
        let found = found.expect_err(&format!("{} is not found", fault.name));
        let by = found.split("TIDELOCK_TURNED_SEED=").nth(1).and_then(|rest| rest.split(':').next());
        println!("{}: seed {} after {:?}", fault.name, by.unwrap_or("none"), began.elapsed());
    }
}

/// The seeds of the sequences that look for a fault begin here.
const FIRST_SEED: u64 = 1_000;
/// In how many sequences a fault must be found.
const MOST_FOR_A_FAULT: u64 = 3_000;

fn is_deep() -> bool {
    std::env::var_os("TIDELOCK_DEEP").is_some_and(|deep| deep == "1")
}

/// Nothing here is about what a crash leaves, so nothing waits for the disk.
async fn without_disk<T>(server: &Server, work: impl Future<Output = T>) -> T {
    server.link.ask("SET GLOBAL innodb_flush_log_at_trx_commit = 0").await.unwrap();
    let done = work.await;
    server.link.ask("SET GLOBAL innodb_flush_log_at_trx_commit = 1").await.unwrap();
    done
}

async fn taken(client: &Arc<OpenSession>, name: &Name, number: u64) -> u64 {
    let (id, one) = (ClaimId { session: client.id, number }, tidelock_core::Weight::ONE);
    let claim = Claim::new(id, name.clone(), Kind::Mutex, one, one);
    let join = Action::Join { claim, patience: Patience::Wait, in_rows: false };
    let Ok(Outcome::Joined(Place::Held { grant, .. })) = client.gather(name, join).await else {
        panic!("{name} is free");
    };
    client.gather(name, Action::Leave { id, how: Leave::Done }).await.unwrap();
    grant.token.get()
}

/// The row of an unused name is dropped, and with it its newest token. Then the clock is set back, further than the row
/// was kept.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn tokens_grow_although_their_name_was_forgotten_and_the_clock_set_back() {
    let (server, _alone) = prepared().await;
    const HOUR: u64 = 3_600 * SECOND;
    let seed = fresh_seed();
    let later = 1_900_000_000 * SECOND;
    let ids = [1, 2].map(|number| SessionId::from_bits(seed << 3 | number));
    let namespace = format!("forgotten {seed:x}");
    let names = ["taken at once", "taken by a section"].map(|name| Name::new(name).unwrap());
    server.clock.set(later);
    server.link.ask("UPDATE tidelock_floor SET token = 0").await.unwrap(); // of the other tests' clocks
    server.open(ids[0], HOUR).await;
    let before = server.client(ids[0], HOUR, &namespace);
    let mut tokens = Vec::new();
    for (name, number) in names.iter().zip(1..) {
        tokens.push(taken(&before, name, number).await);
    }
    server.clock.set(later + 2 * HOUR);
    server.open(ids[1], HOUR).await;
    let after = server.client(ids[1], HOUR, &namespace);
    let of_mine = format!(
        "SELECT name FROM tidelock_line WHERE name >= {} AND name < {}",
        Namespace::of(&namespace).after(""),
        Namespace::of(&namespace).behind("")
    );
    assert_eq!(server.link.ask(&of_mine).await.unwrap().rows.len(), 2);
    for _ in 0..100 {
        after.sweep().await.unwrap();
        if server.link.ask(&of_mine).await.unwrap().rows.is_empty() {
            break;
        }
    }
    assert!(server.link.ask(&of_mine).await.unwrap().rows.is_empty(), "the names are swept");
    server.clock.set(later - 3 * HOUR);
    after.own_claims.set_busy(&names[1], Some(Busy::InRows(Kind::RwLock))); // so it takes the long way
    for ((name, number), token) in names.iter().zip(1..).zip(tokens) {
        let now = taken(&after, name, number).await;
        assert!(now > token, "{name}: {now} after {token}");
    }
}

/// What a dead client of another namespace has left, in rows or not, is gone after somebody's renewals.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn whoever_comes_along_cleans_up_for_all_namespaces() {
    let (server, _alone) = prepared().await;
    let seed = fresh_seed();
    let now = 1_950_000_000 * SECOND;
    let ids = [1, 2, 3].map(|number| SessionId::from_bits(seed << 3 | number));
    let namespace = format!("left {seed:x}");
    server.clock.set(now);
    for id in &ids {
        server.open(*id, 10 * SECOND).await;
    }
    let clients = ids.map(|id| server.client(id, 10 * SECOND, &namespace));
    let one = tidelock_core::Weight::ONE;
    for (client, patience) in clients[..2].iter().zip([Patience::Now, Patience::Wait]) {
        for (name, number) in ["waited for", "held", "held too"].iter().zip(1..).take(3) {
            let name = Name::new(name).unwrap();
            if patience == Patience::Wait && number > 1 {
                break;
            }
            let id = ClaimId { session: client.id, number };
            let claim = Claim::new(id, name.clone(), Kind::Mutex, one, one);
            client.gather(&name, Action::Join { claim, patience, in_rows: false }).await.unwrap();
        }
    }
    // A claim that has left with its transaction, on a name that is free since then.
    let ended = Name::new("ended").unwrap();
    let id = ClaimId { session: ids[0], number: 8 };
    let claim = Claim::new(id, ended.clone(), Kind::Mutex, one, one);
    let join = Action::Join { claim, patience: Patience::Now, in_rows: true };
    clients[0].gather(&ended, join).await.unwrap();
    let commit = format!(
        "UPDATE tidelock_slot t JOIN tidelock_claim c ON c.slot = t.slot SET t.stamp = t.stamp + 1 \
         WHERE c.session = {} AND c.number = 8; \
         UPDATE tidelock_line SET spilled = 0 WHERE name = {}",
        ids[0].get(),
        Namespace::of(&namespace).key(&ended)
    );
    assert_eq!(server.link.ask(&commit).await.unwrap().affected, [1, 1]);
    // And a name in rows that nobody has a claim on.
    let void = Name::new("void").unwrap();
    let id = ClaimId { session: ids[2], number: 9 };
    clients[2].gather(&void, Action::Leave { id, how: Leave::Void }).await.unwrap();
    server.clock.set(now + 4_000 * SECOND);
    let stranger = SessionId::from_bits(seed << 3 | 4);
    server.open(stranger, 10_000 * SECOND).await;
    let stranger = server.client(stranger, 10_000 * SECOND, &format!("another {seed:x}"));
    let key = Namespace::of(&namespace);
    let left = format!(
        "SELECT name FROM tidelock_line WHERE name >= {from} AND name < {to} UNION ALL \
         SELECT name FROM tidelock_claim WHERE name >= {from} AND name < {to} UNION ALL \
         SELECT id FROM tidelock_session WHERE id IN ({ids}) UNION ALL \
         SELECT session FROM tidelock_bell WHERE session IN ({ids})",
        from = key.after(""),
        to = key.behind(""),
        ids = sql::list(ids.iter().map(|id| id.get()))
    );
    assert!(server.link.ask(&left).await.unwrap().rows.len() >= 9);
    let mut rows = Vec::new();
    for _ in 0..200 {
        stranger.sweep().await.unwrap();
        rows = server.link.ask(&left).await.unwrap().rows;
        if rows.is_empty() {
            return;
        }
        // A name is kept for an hour after its last use, which may be that of a grant to the dead.
        server.clock.pass(100 * SECOND);
    }
    panic!("left: {rows:?}");
}
