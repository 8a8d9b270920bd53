//! What happens beside an open transaction of a user: nothing that others do waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidelock_conformance::callers::{Caller, is_held, join, name, namespace, turn};
use tidelock_mysql::backend::{Claim, Leave, Left, Patience, Place, Shard};
use tidelock_mysql::{ClaimId, ErrorKind, MIGRATION, Name, Options, Store, lock_in};
use tokio::time::Instant;

use crate::server::{client, pool, run, until, url};

/// For how long the transaction is open.
const OPEN: Duration = Duration::from_secs(10);
/// Everything here takes a few milliseconds. What waits for a row is stopped after a second, and tried again: it fails after
/// two seconds.
const QUICK: Duration = Duration::from_millis(1_900);
/// Before and behind `m`, next to it and far away.
const NAMES: [&str; 6] = ["a", "l~", "m!", "ma", "n", "z"];

async fn quick<T>(what: &str, doing: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let done = doing.await;
    assert!(began.elapsed() < QUICK, "{what} took {:?} beside an open transaction", began.elapsed());
    done
}

/// The sessions beside that of the transaction have the ids before and behind it, so their claims are its neighbours in
/// every index; and each of them stands before the other in some line.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn nobody_waits_for_an_open_transaction() {
    let namespace = namespace("beside");
    let (locks, pool, store) = (client(&namespace).await, pool().await, Store::open(&url()).unwrap());
    let held = locks.mutex("m").unwrap().lock().await.unwrap();
    let user = held.claim().session.get();
    held.release().await.unwrap();
    let options = Options::new().namespace(&namespace).ttl(Duration::from_secs(600));
    let callers =
        [Caller::open(&store, user - 1, &options).await, Caller::open(&store, user + 1, &options).await];
    // Claims from before it: one client holds, the other waits.
    for (at, early) in NAMES.map(|at| name(&format!("{at} early"))).iter().enumerate() {
        let [first, second] = [&callers[at % 2], &callers[1 - at % 2]];
        assert!(is_held(join(first, &first.mutex(early, 100 + at as u64)).await));
        assert!(!is_held(join(second, &second.mutex(early, 200 + at as u64)).await));
    }
    let mut transaction = pool.begin().await.unwrap();
    lock_in(&*locks, &mut transaction, "m").await.unwrap();
    let connection: u64 =
        sqlx::query_scalar("SELECT CONNECTION_ID()").fetch_one(&mut *transaction).await.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let watching = tokio::spawn(who_waits_for(connection, is_over.clone()));
    the_dead_are_swept(&namespace, user, &callers).await;
    let began = Instant::now();
    let mut number = 1_000;
    let mut early = (0_u64..).zip(NAMES);
    while began.elapsed() < OPEN {
        for at in NAMES.map(name) {
            for [first, second] in [[0, 1], [1, 0]].map(|pair| pair.map(|at| &callers[at])) {
                number += 10;
                pass_on(&at, first, second, number).await;
                of_permits(&name(&format!("{at} permits")), first, second, number).await;
            }
        }
        same_name(&callers, number, held_inside(&callers[0]).await).await;
        if let Some((at, early)) = early.next() {
            pass_on_from_before(&callers, at, early).await;
        }
        for caller in &callers {
            quick("a renewal", caller.session.renew(Shard(0), &[])).await.unwrap();
        }
    }
    for (at, early) in early {
        pass_on_from_before(&callers, at, early).await;
    }
    is_over.store(true, Ordering::Relaxed);
    let waited = watching.await.unwrap();
    assert!(waited.is_empty(), "these waited for the transaction: {waited:#?}");
    let m = name("m");
    assert!(!is_held(quick("a join", join(&callers[0], &callers[0].mutex(&m, 9))).await));
    transaction.commit().await.unwrap();
    turn(&callers[0], &m, callers[0].claim(9)).await;
    callers[0].session.leave(&m, callers[0].claim(9), Leave::Done).await.unwrap();
    until("nothing is left", async || locks.names("", None).await.unwrap().is_empty()).await;
    for caller in callers {
        caller.session.close().await.unwrap();
    }
    locks.close().await.unwrap();
}

/// Slots are taken in turn, and here every other one is inside another transaction.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_slot_that_another_transaction_has_is_passed_by() {
    let namespace = namespace("slots");
    let (locks, pool) = (client(&namespace).await, pool().await);
    let mut connection = pool.acquire().await.unwrap();
    // Otherwise it locks the slots, too, that it has only read.
    let reads = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
    sqlx::raw_sql(reads).execute(&mut *connection).await.unwrap();
    let mut others = sqlx::Connection::begin(&mut *connection).await.unwrap();
    let half = "SELECT slot FROM tidelock_slot WHERE slot % 2 = 0 FOR UPDATE";
    sqlx::raw_sql(half).fetch_all(&mut *others).await.unwrap();
    for number in 0..20 {
        let mut transaction = pool.begin().await.unwrap();
        let at = format!("name {number}");
        quick("a lock", lock_in(&*locks, &mut transaction, &at)).await.unwrap();
        assert!(locks.mutex(&at).unwrap().try_lock().await.unwrap().is_none());
        match number % 2 {
            0 => transaction.commit().await.unwrap(),
            _ => transaction.rollback().await.unwrap(),
        }
    }
    until("nothing is left", async || locks.names("", None).await.unwrap().is_empty()).await;
    others.rollback().await.unwrap();
    locks.close().await.unwrap();
}

/// A program that starts, and an operator who makes the tables once more.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn the_tables_are_looked_for_and_made_again_beside_an_open_transaction() {
    let namespace = namespace("tables");
    let (locks, pool) = (client(&namespace).await, pool().await);
    let mut transaction = pool.begin().await.unwrap();
    lock_in(&*locks, &mut transaction, "stock").await.unwrap();
    let starts = quick("a start", client(&namespace)).await;
    let soon = "SET SESSION innodb_lock_wait_timeout = 3, lock_wait_timeout = 3";
    quick("the migration", run(&format!("{soon}; {MIGRATION}"))).await;
    assert!(starts.mutex("stock").unwrap().try_lock().await.unwrap().is_none());
    transaction.commit().await.unwrap();
    starts.close().await.unwrap();
    locks.close().await.unwrap();
}

/// One holds, the other waits and is granted; the first one stands behind it with the same id again, and gives up.
async fn pass_on(at: &Name, first: &Caller, second: &Caller, number: u64) {
    let (mine, theirs) = (first.mutex(at, number), second.mutex(at, number + 1));
    assert!(is_held(quick("a join", join(first, &mine)).await), "{at}");
    assert!(!is_held(quick("a join behind", join(second, &theirs)).await));
    assert_eq!(leave(first, &mine, Leave::Done).await, Left::Held);
    quick("a hand-off", turn(second, at, theirs.id)).await;
    assert!(!is_held(quick("a join again", join(first, &mine)).await));
    assert_eq!(leave(first, &mine, Leave::Void).await, Left::Waiting);
    assert_eq!(leave(second, &theirs, Leave::Done).await, Left::Held);
}

/// The claims of before the transaction, with the numbers that they got there.
async fn pass_on_from_before(callers: &[Caller; 2], at: u64, name: &str) {
    let early = Name::new(&format!("{name} early")).unwrap();
    let [first, second] =
        if at.is_multiple_of(2) { [&callers[0], &callers[1]] } else { [&callers[1], &callers[0]] };
    quick("a leave", first.session.leave(&early, first.claim(100 + at), Leave::Done)).await.unwrap();
    quick("a hand-off", turn(second, &early, second.claim(200 + at))).await;
    quick("a leave", second.session.leave(&early, second.claim(200 + at), Leave::Done)).await.unwrap();
}

/// A line of the long statements: two hold, one waits for both.
async fn of_permits(at: &Name, first: &Caller, second: &Caller, number: u64) {
    let claims = [first.permits(at, number + 2, 1, 2), second.permits(at, number + 3, 1, 2)];
    let last = first.permits(at, number + 4, 2, 2);
    assert!(is_held(quick("a join", join(first, &claims[0])).await));
    assert!(is_held(quick("a join", join(second, &claims[1])).await));
    assert!(!is_held(quick("a join behind", join(first, &last)).await));
    leave(first, &claims[0], Leave::Done).await;
    leave(second, &claims[1], Leave::Done).await;
    quick("a hand-off", turn(first, at, last.id)).await;
    leave(first, &last, Leave::Done).await;
}

async fn leave(caller: &Caller, claim: &Claim, how: Leave) -> Left {
    quick("a leave", caller.session.leave(&claim.name, claim.id, how)).await.unwrap()
}

async fn held_inside(caller: &Caller) -> ClaimId {
    let line = quick("a view", caller.session.line(&name("m"))).await.unwrap();
    line.claims.iter().find(|claim| claim.is_held()).expect("the transaction holds it").id
}

/// The transaction's own name: others come and go, and nobody can take it away.
async fn same_name(callers: &[Caller], number: u64, inside: ClaimId) {
    let m = name("m");
    for caller in callers {
        let claim = caller.mutex(&m, number + 5);
        let refused = quick("a try", caller.session.join(&claim, Patience::Now)).await.unwrap();
        assert!(matches!(refused, Place::Refused), "{refused:?}");
        let claim = caller.mutex(&m, number + 6);
        assert!(!is_held(quick("a join behind", join(caller, &claim)).await));
        quick("a look", caller.session.look(&m, &[claim.id])).await.unwrap();
        assert_eq!(leave(caller, &claim, Leave::Done).await, Left::Waiting);
        let refused = quick("an eviction", caller.session.leave(&m, inside, Leave::Void)).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused:?}");
        assert!(refused.to_string().contains("transaction"), "{refused}");
    }
}

/// A client that died long ago has left a holder and a waiter on a name beside it, and one stands behind them.
async fn the_dead_are_swept(namespace: &str, user: u64, callers: &[Caller]) {
    let (dead, key) = (user + 2, format!("CONCAT('{namespace}', x'00', 'm dead')"));
    run(&format!(
        "INSERT INTO tidelock_session (id, ttl, expires, label) VALUES ({dead}, 1000000, 1, ''); \
         INSERT INTO tidelock_line (name, kind, capacity, token, place, spilled) VALUES ({key}, 1, 1, 5, 2, 1); \
         INSERT INTO tidelock_claim (name, state, place, session, number, weight, token, since) \
         VALUES ({key}, 0, 1, {dead}, 1, 1, 5, 1), ({key}, 1, 2, {dead}, 2, 1, 0, 1)"
    ))
    .await;
    let swept = async || {
        for caller in callers {
            let other = name("sweeps");
            let claim = caller.mutex(&other, 7);
            quick("a join", join(caller, &claim)).await;
            leave(caller, &claim, Leave::Done).await;
            quick("a renewal", caller.session.renew(Shard(0), &[])).await.unwrap();
        }
        run(&format!("SELECT number FROM tidelock_claim WHERE session = {dead}")).await.is_empty()
    };
    until("the dead are swept", swept).await;
}

/// The statements that the server saw waiting for this connection.
async fn who_waits_for(connection: u64, is_over: Arc<AtomicBool>) -> Vec<Vec<String>> {
    let waits = format!(
        "SELECT r.trx_query, l.lock_index, l.lock_mode FROM information_schema.innodb_lock_waits w \
         JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_trx_id \
         JOIN information_schema.innodb_trx r ON r.trx_id = w.requesting_trx_id \
         JOIN information_schema.innodb_locks l ON l.lock_id = w.requested_lock_id \
         WHERE b.trx_mysql_thread_id = {connection}"
    );
    let mut seen = Vec::new();
    while !is_over.load(Ordering::Relaxed) && seen.len() < 5 {
        seen.extend(run(&waits).await);
        tokio::time::sleep(Duration::from_millis(100)).await; // the server renews this table ten times a second
    }
    seen
}
