//! Attacks: each one shows a fault as long as it is there.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::Connection as _;
use tidelock_conformance::{Proxy, Way};
use tidelock_conformance::callers::namespace;

use tidelock_mysql::{Locks, Options, State, Store, lock_in};
use tokio::time::{Instant, sleep, timeout};

use crate::server::{client, client_with, pool, run, statements, url};

fn place() -> String {
    url().split('@').nth(1).unwrap().split('/').next().unwrap().to_owned()
}

async fn through(proxy: &Proxy, options: Options) -> Arc<dyn Locks> {
    let url = url().replace(&place(), &proxy.address().to_string());
    Store::open(&url).unwrap().connect(options).await.unwrap()
}

/// A dead client's permit behind 1 000 claims of a client that lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "attack"]
async fn attack_dead_behind_a_thousand() {
    let space = namespace("thousand");
    for alive in [900_u32, 1_000] {
        let proxy = Proxy::to(place().parse().unwrap()).await.unwrap();
        let name = format!("permits {alive}");
        let living = client(&space).await;
        let dying = through(&proxy, Options::new().namespace(&space).ttl(Duration::from_secs(3))).await;
        let waiter = client_with(Options::new().namespace(&space).ttl(Duration::from_secs(3))).await;
        let semaphore = living.semaphore(&name, alive + 1).unwrap();
        let mut guards = Vec::new();
        for _ in 0..alive {
            guards.push(semaphore.acquire(1).await.unwrap());
        }
        let last = dying.semaphore(&name, alive + 1).unwrap().acquire(1).await.unwrap();
        let waiting = waiter.semaphore(&name, alive + 1).unwrap();
        let waiting = tokio::spawn(async move { waiting.acquire(1).await });
        sleep(Duration::from_millis(300)).await;
        proxy.cut();
        let (began, asked) = (Instant::now(), statements().await);
        let got = timeout(Duration::from_secs(25), waiting).await;
        println!(
            "{alive} alive: waiter granted: {}, after {:?}, {} statements, dead guard {:?}",
            got.is_ok(), began.elapsed(), statements().await - asked, last.state()
        );
        drop((guards, last));
        let _ = timeout(Duration::from_secs(5), living.close()).await;
        let _ = timeout(Duration::from_secs(5), waiter.close()).await;
    }
}

/// More than 1 000 waiters that all fit at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "attack"]
async fn attack_many_readers_at_once() {
    for readers in [900_usize, 2_500] {
        let space = namespace("readers");
        let locks = client(&space).await;
        let other = client(&space).await;
        let write = other.rwlock("data").unwrap().write().await.unwrap();
        let held = Arc::new(AtomicU64::new(0));
        let mut tasks = Vec::new();
        for _ in 0..readers {
            let (lock, held) = (locks.rwlock("data").unwrap(), held.clone());
            tasks.push(tokio::spawn(async move {
                let guard = lock.read().await.unwrap();
                held.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_secs(40)).await; // a reader that reads for long
                drop(guard);
            }));
        }
        while locks.inspect("data").await.unwrap().waiters().count() < readers {
            sleep(Duration::from_millis(50)).await;
        }
        drop(write);
        let began = Instant::now();
        let mut before = 0;
        while began.elapsed() < Duration::from_secs(25) && before < readers as u64 {
            let now = held.load(Ordering::Relaxed);
            if now != before {
                println!("{readers} readers: {now} hold after {:?}", began.elapsed());
                before = now;
            }
            sleep(Duration::from_millis(100)).await;
        }
        tasks.iter().for_each(|task| task.abort());
        let _ = timeout(Duration::from_secs(20), locks.close()).await;
        let _ = timeout(Duration::from_secs(5), other.close()).await;
    }
}

/// The request that gives a claim a slot arrives a second time, late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "attack"]
async fn attack_a_late_slot() {
    let pool = pool().await;
    // Other people's open transactions have most slots.
    let mut busy = pool.begin().await.unwrap();
    sqlx::raw_sql("SELECT slot FROM tidelock_slot WHERE slot <= 3000 FOR UPDATE").execute(&mut *busy).await.unwrap();
    for round in 0..8 {
        let space = namespace("late slot");
        let proxy = Proxy::to(place().parse().unwrap()).await.unwrap();
        let far = through(&proxy, Options::new().namespace(&space)).await;
        let near = client(&space).await;
        let mut transaction = pool.begin().await.unwrap();
        sleep(Duration::from_millis(300)).await; // idle connections are asked first
        proxy.strand();
        let token = lock_in(&*far, &mut transaction, "stock").await;
        let before = run("SELECT HEX(session), number, slot, mark FROM tidelock_claim WHERE slot > 0").await;
        proxy.heal();
        sleep(Duration::from_millis(500)).await;
        let after = run("SELECT HEX(session), number, slot, mark FROM tidelock_claim WHERE slot > 0").await;
        let beside = near.mutex("stock").unwrap().try_lock().await.unwrap();
        println!("round {round}: {token:?}, claim {before:?} then {after:?}; beside it: {:?}", beside.as_ref().map(|guard| (guard.token(), guard.state())));
        let violated = token.is_ok() && beside.is_some();
        drop(beside);
        transaction.commit().await.unwrap();
        let _ = timeout(Duration::from_secs(3), far.close()).await;
        let _ = timeout(Duration::from_secs(3), near.close()).await;
        if violated {
            println!("EXCLUSION VIOLATED in round {round}");
            break;
        }
    }
    busy.rollback().await.unwrap();
}

/// A rollback to a savepoint before the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "attack"]
async fn attack_savepoint() {
    let space = namespace("savepoint");
    let (locks, other, pool) = (client(&space).await, client(&space).await, pool().await);
    let mut transaction = pool.begin().await.unwrap();
    sqlx::raw_sql("SAVEPOINT here").execute(&mut *transaction).await.unwrap();
    lock_in(&*locks, &mut transaction, "stock").await.unwrap();
    sqlx::raw_sql("ROLLBACK TO SAVEPOINT here").execute(&mut *transaction).await.unwrap();
    sleep(Duration::from_millis(300)).await;
    let beside = other.mutex("stock").unwrap().try_lock().await.unwrap();
    println!("after ROLLBACK TO SAVEPOINT, transaction open: another holds: {}", beside.is_some());
    drop(beside);
    // A nested transaction that is rolled back, after the lock of the outer one.
    transaction.rollback().await.unwrap();
    let mut transaction = pool.begin().await.unwrap();
    lock_in(&*locks, &mut transaction, "stock 2").await.unwrap();
    let nested = transaction.begin().await.unwrap();
    nested.rollback().await.unwrap();
    sleep(Duration::from_millis(300)).await;
    let beside = other.mutex("stock 2").unwrap().try_lock().await.unwrap();
    println!("lock in the outer one, nested rolled back: another holds: {}", beside.is_some());
    drop(beside);
    // A statement that commits implicitly.
    sqlx::raw_sql("CREATE TABLE IF NOT EXISTS attack_ddl (id INT)").execute(&mut *transaction).await.unwrap();
    sleep(Duration::from_millis(300)).await;
    let beside = other.mutex("stock 2").unwrap().try_lock().await.unwrap();
    println!("after a CREATE TABLE in the transaction: another holds: {}", beside.is_some());
    drop(beside);
    run("DROP TABLE attack_ddl").await;
    let _ = transaction.rollback().await;
    locks.close().await.unwrap();
    other.close().await.unwrap();
}

/// An operator evicts the claim of a `lock_in` before the transaction has stamped its slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "attack"]
async fn attack_evicted_before_the_stamp() {
    let space = namespace("evicted");
    let proxy = Proxy::to(place().parse().unwrap()).await.unwrap();
    let slow = url().replace(&place(), &proxy.address().to_string());
    let slow = sqlx::mysql::MySqlPoolOptions::new().max_connections(1).connect(&slow).await.unwrap();
    let (locks, other) = (client(&space).await, client(&space).await);
    let mut transaction = slow.begin().await.unwrap();
    sqlx::raw_sql("SELECT 1").execute(&mut *transaction).await.unwrap();
    proxy.delay(Way::There, Duration::from_millis(700));
    let evicting = async {
        loop {
            let line = other.inspect("stock").await.unwrap();
            if let Some(claim) = line.holders().next() {
                let evicted = other.evict("stock", claim.id).await;
                let next = other.mutex("stock").unwrap().lock().await.unwrap();
                return (evicted, next);
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    let (token, (evicted, next)) = tokio::join!(lock_in(&*locks, &mut transaction, "stock"), evicting);
    println!("evicted: {evicted:?}; lock_in: {token:?}; next: {:?} {:?}", next.token(), next.state());
    for at in 0..4 {
        sleep(Duration::from_secs(2)).await;
        let open = sqlx::query("SELECT 1").execute(&mut *transaction).await.is_ok();
        println!("{} s later: transaction works: {open}, the next one is {:?}", 2 * (at + 1), next.state());
    }
    drop(next);
    transaction.commit().await.unwrap();
    locks.close().await.unwrap();
    other.close().await.unwrap();
}

/// Does a convoy of transactions of one client start ever more watchers?
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "attack"]
async fn attack_watchers_of_transactions() {
    let space = namespace("watchers");
    let (locks, pool) = (client(&space).await, pool().await);
    let handle = tokio::runtime::Handle::current();
    let done = Arc::new(AtomicU64::new(0));
    let until = Instant::now() + Duration::from_secs(20);
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let (locks, pool, done) = (locks.clone(), pool.clone(), done.clone());
        tasks.push(tokio::spawn(async move {
            while Instant::now() < until {
                let mut transaction = pool.begin().await.unwrap();
                lock_in(&*locks, &mut transaction, "hot").await.unwrap();
                transaction.commit().await.unwrap();
                done.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    let mut last = (statements().await, 0);
    for _ in 0..5 {
        sleep(Duration::from_secs(4)).await;
        let now = (statements().await, done.load(Ordering::Relaxed));
        println!("{} locks, {} statements: {:.1} each; {} tasks here", now.1 - last.1, now.0 - last.0, (now.0 - last.0) as f64 / (now.1 - last.1).max(1) as f64, handle.metrics().num_alive_tasks());
        last = now;
    }
    for task in tasks {
        task.await.unwrap();
    }
    locks.close().await.unwrap();
}

/// Everything at once on one name, with connections that are killed: exclusion, tokens, and what is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "attack"]
async fn attack_everything() {
    let space = namespace("everything");
    let pool = sqlx::mysql::MySqlPoolOptions::new().max_connections(12).connect(&url()).await.unwrap();
    let held = Arc::new(std::sync::Mutex::new(Vec::<(u64, bool)>::new()));
    let (grants, errors, violations) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let newest = Arc::new(AtomicU64::new(0));
    let stop = Instant::now() + Duration::from_secs(60);
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(client_with(Options::new().namespace(&space).ttl(Duration::from_secs(6))).await);
    }
    let mut tasks = Vec::new();
    for number in 0..24_u64 {
        let (locks, pool) = (clients[number as usize % 4].clone(), pool.clone());
        let (held, grants, errors, violations, newest) = (held.clone(), grants.clone(), errors.clone(), violations.clone(), newest.clone());
        tasks.push(tokio::spawn(async move {
            let mut seed = number * 7_919 + 1;
            let mut random = move |most: u64| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 33) % most
            };
            let enter = |token: u64| {
                let mut held = held.lock().unwrap();
                if held.iter().any(|(_, sure)| *sure) {
                    violations.fetch_add(1, Ordering::Relaxed);
                    println!("VIOLATION: {token} beside {held:?}");
                }
                if newest.fetch_max(token, Ordering::Relaxed) >= token {
                    violations.fetch_add(1, Ordering::Relaxed);
                    println!("TOKEN {token} is not greater");
                }
                held.push((token, true));
                grants.fetch_add(1, Ordering::Relaxed);
            };
            let leave = |token: u64| held.lock().unwrap().retain(|(other, _)| *other != token);
            while Instant::now() < stop {
                let mutex = locks.mutex("hot").unwrap();
                match random(6) {
                    0 => {
                        // Dropped at a random moment.
                        let _ = timeout(Duration::from_micros(random(20_000)), mutex.lock()).await;
                    }
                    1 => {
                        if let Ok(Some(guard)) = mutex.lock_within(Duration::from_millis(random(300))).await {
                            let token = guard.token().get();
                            if guard.state() == State::Held { enter(token); }
                            sleep(Duration::from_millis(random(4))).await;
                            leave(token);
                            drop(guard);
                        }
                    }
                    2 | 3 => {
                        let Ok(mut transaction) = pool.begin().await else { continue };
                        let patience = Duration::from_millis(200 + random(800));
                        match tidelock_mysql::lock_in_within(&*locks, &mut transaction, "hot", patience).await {
                            Ok(Some(token)) => {
                                enter(token.get());
                                sleep(Duration::from_millis(random(4))).await;
                                // Who does not know of a commit must not count as inside during it.
                                leave(token.get());
                                if random(2) == 0 { let _ = transaction.commit().await; } else { let _ = transaction.rollback().await; }
                            }
                            Ok(None) => drop(transaction),
                            Err(_) => { errors.fetch_add(1, Ordering::Relaxed); }
                        }
                    }
                    4 => {
                        if let Ok(Some(guard)) = mutex.try_lock().await {
                            let token = guard.token().get();
                            if guard.state() == State::Held { enter(token); }
                            leave(token);
                            let _ = guard.release().await;
                        }
                    }
                    _ => match mutex.lock().await {
                        Ok(guard) => {
                            let token = guard.token().get();
                            if guard.state() == State::Held { enter(token); }
                            sleep(Duration::from_millis(random(3))).await;
                            leave(token);
                            let _ = guard.release().await;
                        }
                        Err(_) => { errors.fetch_add(1, Ordering::Relaxed); }
                    },
                }
            }
        }));
    }
    // Kills connections of clients, but not those of transactions that say that they hold: those with lock_wait 1.
    let mut killed = 0;
    while Instant::now() < stop {
        sleep(Duration::from_millis(400)).await;
        let found = run("SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND INFO LIKE '%tidelock_%' AND INFO NOT LIKE '%PROCESSLIST%' AND INFO NOT LIKE '%@tidelock_slot%' ORDER BY RAND() LIMIT 1").await;
        for row in found {
            killed += 1;
            let _ = sqlx::raw_sql(sqlx::AssertSqlSafe(format!("KILL {}", row[0]))).execute(&pool).await;
        }
    }
    for task in tasks {
        timeout(Duration::from_secs(30), task).await.expect("a task hangs").unwrap();
    }
    println!("{} grants, {} errors, {killed} killed, {} violations", grants.load(Ordering::Relaxed), errors.load(Ordering::Relaxed), violations.load(Ordering::Relaxed));
    for locks in &clients {
        println!("close: {:?}", timeout(Duration::from_secs(10), locks.close()).await);
    }
    println!("left: lines {:?}, claims {:?}, bells without a session {:?}, sessions {:?}",
        run(&format!("SELECT spilled, session FROM tidelock_line WHERE name LIKE '{space}%'")).await,
        run(&format!("SELECT state, HEX(session), slot FROM tidelock_claim WHERE name LIKE '{space}%'")).await,
        run("SELECT COUNT(*) FROM tidelock_bell WHERE session NOT IN (SELECT id FROM tidelock_session)").await,
        run("SELECT COUNT(*) FROM tidelock_session").await);
}
