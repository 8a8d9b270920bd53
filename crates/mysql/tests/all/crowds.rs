//! Lines of more claims than one statement reads or grants.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use tidelock_conformance::callers::namespace;
use tidelock_conformance::{Proxy, Way};
use tidelock_mysql::{Options, Store};
use tokio::time::timeout;

use crate::server::{client, client_with, pool, until, url};

const TTL: Duration = Duration::from_secs(3);
/// More than one statement reads or grants.
const LIVING: u32 = 1_100;
const READERS: usize = 2_200;
/// As many as can join within one time limit on a slow machine.
const WAVE: u32 = 100;

fn place() -> String {
    url().split('@').nth(1).unwrap().split('/').next().unwrap().to_owned()
}

/// It is found behind all those that live.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_dead_holder_behind_a_thousand_others_is_taken_out() {
    let space = namespace("thousand");
    let proxy = Proxy::to(place().parse().unwrap()).await.unwrap();
    let options = Options::new().namespace(&space).ttl(TTL);
    let (living, waiter) = (client(&space).await, client_with(options.clone()).await);
    let far = Store::open(&url().replace(&place(), &proxy.address().to_string())).unwrap();
    let dying = far.connect(options).await.unwrap();
    let permits = |of: &Arc<dyn tidelock_mysql::Locks>| of.semaphore("permits", LIVING + 1).unwrap();
    let (semaphore, mut held) = (permits(&living), Vec::new());
    for _ in 0..LIVING / WAVE {
        held.extend(try_join_all((0..WAVE).map(|_| semaphore.acquire(1))).await.unwrap());
    }
    let last = permits(&dying).acquire(1).await.unwrap();
    let waiting = tokio::spawn({
        let permits = permits(&waiter);
        async move { permits.acquire(1).await.unwrap() }
    });
    until("somebody waits", async || living.inspect("permits").await.unwrap().waiters().count() == 1).await;
    proxy.cut();
    let got = timeout(TTL * 4, waiting).await.expect("the dead holder stays").unwrap();
    drop((held, last, got));
    living.close().await.unwrap();
    waiter.close().await.unwrap();
}

/// Somebody has locked the row of one of them, and each request takes its time. They are asked for again together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn hundreds_that_have_not_left_when_a_close_is_half_over_leave_in_time() {
    const LIMIT: Duration = Duration::from_secs(6);
    let space = namespace("closing");
    let proxy = Proxy::to(place().parse().unwrap()).await.unwrap();
    let far = Store::open(&url().replace(&place(), &proxy.address().to_string())).unwrap();
    let locks = far.connect(Options::new().namespace(&space).command_deadline(LIMIT)).await.unwrap();
    let mut held = Vec::new();
    for number in 0..300 {
        held.push(locks.mutex(&format!("name {number}")).unwrap().lock().await.unwrap());
    }
    let pool = pool().await;
    let mut transaction = pool.begin().await.unwrap();
    let row =
        format!("SELECT name FROM tidelock_line WHERE name = CONCAT('{space}', x'00', 'name 0') FOR UPDATE");
    sqlx::raw_sql(sqlx::AssertSqlSafe(row)).fetch_one(&mut *transaction).await.unwrap();
    proxy.delay(Way::There, Duration::from_millis(15));
    drop(held);
    let closing = tokio::spawn(async move { locks.close().await });
    tokio::time::sleep(LIMIT / 2).await; // the other half is for the end of the session
    transaction.rollback().await.unwrap();
    closing.await.unwrap().unwrap();
}

/// One section grants a thousand claims at most. The rest come at once, and not with the next look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn thousands_of_readers_are_let_in_together() {
    let space = namespace("readers");
    let options = Options::new().namespace(&space).ttl(Duration::from_secs(60));
    let (readers, writer) = (client_with(options.clone()).await, client_with(options).await);
    let write = writer.rwlock("data").unwrap().write().await.unwrap();
    let held = Arc::new(AtomicUsize::new(0));
    let reading = |_| {
        let (data, held) = (readers.rwlock("data").unwrap(), held.clone());
        tokio::spawn(async move {
            let guard = data.read().await.unwrap();
            held.fetch_add(1, Ordering::Relaxed);
            guard
        })
    };
    let mut tasks = Vec::new();
    while tasks.len() < READERS {
        tasks.extend((0..WAVE).map(reading));
        let all = tasks.len();
        until("all wait", async || readers.inspect("data").await.unwrap().waiters().count() == all).await;
    }
    write.release().await.unwrap();
    let all = timeout(Duration::from_secs(10), join_all(tasks)).await;
    assert_eq!(held.load(Ordering::Relaxed), READERS, "readers that were let in within 10 s");
    drop(all);
    readers.close().await.unwrap();
    writer.close().await.unwrap();
}
