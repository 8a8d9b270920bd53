//! Attacks.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tidelock_conformance::callers::Caller;
use tidelock_etcd::backend::{Leave, Patience, Place};
use tidelock_etcd::{Options, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::late::HeldBack;
use crate::site::{self, is_held, join, name, until};

/// A `try_lock` whose first join got no answer (the connection stalls with it) is asked again, and refused, because
/// another client has the lock by then. It is given back as void. Then the stalled join arrives.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_refused_try_that_arrives_late_strands_nothing() {
    for is_asked_again in [false, true] {
        let options = site::options("late try").command_deadline(Duration::from_millis(800));
        let route = HeldBack::at(site::host(), b"-m").await;
        let a = Caller::open(&Store::open(&format!("etcd://{}", route.address)).unwrap(), 1, &options).await;
        let b = Caller::open(&site::store(), 2, &options).await;
        let line = name("line");
        let claim = a.mutex(&line, 1);
        let first = a.session.join(&claim, Patience::Now).await;
        assert!(first.is_err(), "{first:?}");
        assert!(is_held(join(&b, &b.mutex(&line, 1)).await));
        if is_asked_again {
            let again = until("it is answered", async || a.session.join(&claim, Patience::Now).await.ok()).await;
            assert_eq!(again, Place::Refused);
        }
        until("it is left", async || a.session.leave(&line, claim.id, Leave::Void).await.ok()).await;
        b.session.leave(&line, b.claim(1), Leave::Done).await.unwrap();
        route.release.notify_one();
        route.carried.notified().await;
        let left = b.session.line(&line).await.unwrap();
        assert!(left.claims.is_empty(), "asked again: {is_asked_again}; a claim of nobody holds: {left:?}");
        for caller in [a, b] {
            caller.session.close().await.unwrap();
        }
    }
}

/// A proxy that holds back what the server answers on all connections but the first few.
struct Answers {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// Connections with this number or a later one are held back while `is_held`.
    from: Arc<AtomicUsize>,
    is_held: Arc<AtomicBool>,
}

impl Answers {
    async fn at(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, from, is_held) =
            (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (count, since, held) = (connections.clone(), from.clone(), is_held.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let (since, held) = (since.clone(), held.clone());
                let server = TcpStream::connect(&server).await.unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let (mut near_in, mut near_out) = client.into_split();
                let (mut far_in, mut far_out) = server.into_split();
                tokio::spawn(async move { tokio::io::copy(&mut near_in, &mut far_out).await });
                tokio::spawn(async move {
                    let mut piece = vec![0; 65_536];
                    while let Ok(length @ 1..) = far_in.read(&mut piece).await {
                        while held.load(Ordering::SeqCst) && number >= since.load(Ordering::SeqCst) {
                            tokio::time::sleep(Duration::from_millis(2)).await;
                        }
                        if near_out.write_all(&piece[..length]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, connections, from, is_held }
    }
}

/// The lock is free. A join is carried out, its answer is under way on the runtime's own connection, and an operator
/// evicts the claim. The next renewal is ten seconds away.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_that_is_evicted_while_its_answer_is_under_way_does_not_hold() {
    let options = Options::new()
        .ttl(Duration::from_secs(30))
        .command_deadline(Duration::from_secs(4))
        .namespace(&site::namespace("evicted early"));
    let answers = Answers::at(site::host()).await;
    let store = Store::open(&format!("etcd://{}", answers.address)).unwrap();
    let a = store.connect(options.clone()).await.unwrap();
    let [operator, b] = [site::store().connect(options.clone()).await.unwrap(), site::store().connect(options).await.unwrap()];
    let before = answers.connections.load(Ordering::SeqCst);
    // Until this runtime has a connection of its own.
    until("it has a lane", async || {
        for _ in 0..20 {
            a.mutex("warm").unwrap().lock().await.unwrap().release().await.unwrap();
        }
        (answers.connections.load(Ordering::SeqCst) > before).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    for _ in 0..20 {
        a.mutex("warm").unwrap().lock().await.unwrap().release().await.unwrap();
    }
    answers.from.store(before, Ordering::SeqCst);
    answers.is_held.store(true, Ordering::SeqCst);
    let locking = tokio::spawn({
        let mutex = a.mutex("m").unwrap();
        async move { mutex.lock().await }
    });
    let doomed = until("its claim stands", async || {
        Some(operator.inspect("m").await.ok()?.claims.first()?.id)
    })
    .await;
    assert!(!locking.is_finished());
    assert!(operator.evict("m", doomed).await.unwrap());
    let other = b.mutex("m").unwrap().lock().await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    answers.is_held.store(false, Ordering::SeqCst);
    let guard = tokio::time::timeout(Duration::from_secs(2), locking).await;
    if let Ok(guard) = guard {
        let guard = guard.unwrap().unwrap();
        assert_eq!(guard.claim(), doomed);
        let told = tokio::time::timeout(Duration::from_secs(3), guard.lost()).await;
        assert!(told.is_ok(), "an evicted claim holds beside {:?}, {:?}", other.claim(), guard.state());
    }
    other.release().await.unwrap();
}

/// Waiters of client `c` stand behind others': X, c1, W, Y, c2, Z, c3. Z gives up while c2 waits behind Y. When c2 has its turn, its
/// client watches Z, which left long ago, and nothing is written meanwhile.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_waiter_behind_one_that_gave_up_unnoticed_is_told() {
    const SOON: Duration = Duration::from_secs(4);
    let options = Options::new().ttl(Duration::from_secs(60)).namespace(&site::namespace("gave up"));
    let connect = || async { site::store().connect(options.clone()).await.unwrap() };
    let (x, w, y, z, c) = (connect().await, connect().await, connect().await, connect().await, connect().await);
    let held = x.mutex("m").unwrap().lock().await.unwrap();
    let mut nth = 0;
    let mut waiting = Vec::new();
    for locks in [&c, &w, &y, &c, &z, &c] {
        let mutex = locks.mutex("m").unwrap();
        waiting.push(tokio::spawn(async move { mutex.lock().await }));
        nth += 1;
        until("it waits", async || (x.inspect("m").await.ok()?.waiters().count() == nth).then_some(())).await;
    }
    let [c1, w1, y1, c2, z1, c3]: [_; 6] = waiting.try_into().unwrap();
    let pause = || tokio::time::sleep(Duration::from_millis(300));
    pause().await;
    held.release().await.unwrap();
    let c1 = c1.await.unwrap().unwrap();
    pause().await;
    z1.abort();
    until("Z has left", async || (x.inspect("m").await.ok()?.waiters().count() == 4).then_some(())).await;
    pause().await;
    c1.release().await.unwrap();
    w1.await.unwrap().unwrap().release().await.unwrap();
    pause().await;
    let y1 = y1.await.unwrap().unwrap();
    pause().await;
    y1.release().await.unwrap();
    let c2 = tokio::time::timeout(SOON, c2).await.expect("c2 has its turn").unwrap().unwrap();
    pause().await;
    c2.release().await.unwrap();
    let line = x.inspect("m").await.unwrap();
    let c3 = tokio::time::timeout(SOON, c3).await;
    assert!(c3.is_ok(), "c3 has its turn, and nobody tells it: {line:?}");
}

/// A runtime's own connection falls silent with a crowd of one name queued behind it. The next join of that runtime goes out by the
/// keeper's, beside the queue.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_join_does_not_overtake_those_queued_on_a_connection_that_broke() {
    const CROWD: u64 = 60;
    let keeper = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let answers = Answers::at(site::host()).await;
    let store = Store::open(&format!("etcd://{}", answers.address)).unwrap();
    let options = site::options("broken lane").command_deadline(Duration::from_secs(4));
    let a = keeper.spawn(async move { Caller::open(&store, 1, &options).await }).await.unwrap();
    let before = answers.connections.load(Ordering::SeqCst);
    let (warm, mutex) = (name("warm"), name("mutex"));
    let mut number = 1_000;
    until("it has a lane", async || {
        for _ in 0..40 {
            number += 1;
            join(&a, &a.mutex(&warm, number)).await;
            a.session.leave(&warm, a.claim(number), Leave::Done).await.unwrap();
        }
        (answers.connections.load(Ordering::SeqCst) > before).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    answers.from.store(before, Ordering::SeqCst);
    answers.is_held.store(true, Ordering::SeqCst);
    let a = Arc::new(a);
    let mut crowd = Vec::new();
    for number in 1..=CROWD {
        let (a, claim) = (a.clone(), a.mutex(&mutex, number));
        crowd.push(tokio::spawn(async move { a.session.join(&claim, Patience::Wait).await }));
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    // The first was carried out, and its answer is held back until the connection is given up.
    let first = crowd.remove(0).await.unwrap();
    assert!(first.is_err(), "{first:?}");
    // Here core asks again for it, and whoever comes now asks, too.
    join(&a, &a.mutex(&mutex, CROWD + 1)).await;
    for joining in crowd {
        joining.await.unwrap().unwrap();
    }
    let line = a.session.line(&mutex).await.unwrap();
    let place = line.claims.iter().position(|claim| claim.id == a.claim(CROWD + 1)).unwrap();
    drop(answers);
    a.session.close().await.unwrap();
    keeper.shutdown_background();
    assert!(place as u64 >= CROWD - 1, "it asked as the last of {CROWD}, and stands behind {place}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn who_evicts_its_own_is_told() {
    let options = Options::new().ttl(Duration::from_secs(60)).namespace(&site::namespace("own evict"));
    let a = site::store().connect(options).await.unwrap();
    let guard = a.mutex("m").unwrap().lock().await.unwrap();
    let waiting = tokio::spawn({
        let mutex = a.mutex("m").unwrap();
        async move { mutex.lock().await }
    });
    let waiter = until("it waits", async || Some(a.inspect("m").await.ok()?.waiters().next()?.id)).await;
    assert!(a.evict("m", waiter).await.unwrap());
    until("it stands anew", async || {
        a.inspect("m").await.ok()?.waiters().next().filter(|one| one.id != waiter).map(drop)
    })
    .await;
    assert!(a.evict("m", guard.claim()).await.unwrap());
    tokio::time::timeout(Duration::from_secs(3), guard.lost()).await.expect("the holder is told");
    tokio::time::timeout(Duration::from_secs(3), waiting).await.expect("the next one is told").unwrap().unwrap();
}

fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Prints the memory after so many names, used or given up. The ttl is short, so renewals tidy up meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "attack"]
async fn memory_does_not_grow_with_names() {
    let options = Options::new().ttl(Duration::from_secs(3)).namespace(&site::namespace("names"));
    let a = site::store().connect(options.clone()).await.unwrap();
    let b = site::store().connect(options).await.unwrap();
    let _held = b.mutex("held").unwrap().lock().await.unwrap();
    let _waits = tokio::spawn({
        let mutex = a.mutex("held").unwrap();
        async move { mutex.lock().await.map(drop) }
    });
    let mut sizes = Vec::new();
    for round in 0..6 {
        let tasks = (0..100).map(|task| {
            let a = a.clone();
            tokio::spawn(async move {
                for k in 0..400 {
                    let name = format!("n{round}-{task}-{k}");
                    let gives_up = k % 3 == 0;
                    if gives_up {
                        let mutex = a.mutex(if k % 2 == 0 { "held" } else { &name }).unwrap();
                        let _ = tokio::time::timeout(Duration::from_micros(300 * (k % 9)), mutex.lock()).await;
                    } else if k % 3 == 1 {
                        a.mutex(&name).unwrap().lock().await.unwrap().release().await.unwrap();
                    } else {
                        let _ = a.mutex("held").unwrap().try_lock().await;
                    }
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        sizes.push(memory());
    }
    println!("KiB after each 40 000: {sizes:?}");
}

/// A runtime ends at any moment with a crowd of acquires under way on its own connection.
#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn a_runtime_that_ends_leaves_nothing() {
    let main = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let options = Options::new().ttl(Duration::from_secs(60)).namespace(&site::namespace("runtime ends"));
    let (a, operator) = main.block_on(async {
        let connect = || async { site::store().connect(options.clone()).await.unwrap() };
        (connect().await, connect().await)
    });
    let mut slowest = Duration::ZERO;
    for round in 0..24_u64 {
        let held = main.block_on(async { operator.mutex("m").unwrap().lock().await.unwrap() });
        let callers = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        callers.block_on(async {
            for _ in 0..60 {
                a.mutex("warm").unwrap().lock().await.unwrap().release().await.unwrap();
            }
        });
        for task in 0..150 {
            let a = a.clone();
            callers.spawn(async move {
                let name = if task % 3 == 0 { format!("other{task}") } else { "m".to_owned() };
                let mutex = a.mutex(&name).unwrap();
                loop {
                    let _guard = mutex.lock().await;
                    tokio::task::yield_now().await;
                }
            });
        }
        std::thread::sleep(Duration::from_micros(700 * round));
        callers.shutdown_background();
        let ended = std::time::Instant::now();
        main.block_on(async {
            loop {
                let names = operator.names("", None).await.unwrap();
                let line = operator.inspect("m").await.unwrap();
                if names.len() == 1 && line.claims.len() == 1 {
                    break;
                }
                assert!(ended.elapsed() < Duration::from_secs(5), "round {round}: {names:?} {:?}", line.claims.len());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            slowest = slowest.max(ended.elapsed());
            held.release().await.unwrap();
            let again = tokio::time::timeout(Duration::from_secs(3), a.mutex("m").unwrap().lock().await.unwrap().release()).await;
            again.expect("it can be locked").unwrap();
        });
    }
    println!("slowest {slowest:?}");
    main.block_on(async {
        a.close().await.unwrap();
        operator.close().await.unwrap();
    });
}

/// Clients that declare different sizes, resizes, give-ups: nobody waits for long, and guards that overlap fit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "attack"]
async fn sizes_mixed() {
    let options = Options::new().ttl(Duration::from_secs(60)).namespace(&site::namespace("sizes"));
    let until = std::time::Instant::now() + Duration::from_secs(15);
    let held = Arc::<std::sync::Mutex<std::collections::HashMap<tidelock_etcd::ClaimId, (u32, bool)>>>::default();
    let holds = Arc::<AtomicUsize>::default();
    let operator = site::store().connect(options.clone()).await.unwrap();
    let mut tasks = Vec::new();
    for client in 0..6_u64 {
        let locks = site::store().connect(options.clone()).await.unwrap();
        for task in 0..4_u64 {
            let (locks, held, holds, operator) = (locks.clone(), held.clone(), holds.clone(), operator.clone());
            tasks.push(tokio::spawn(async move {
                let mut seed = (client * 8 + task + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let mut dice = move |n: u64| {
                    seed ^= seed << 13;
                    seed ^= seed >> 7;
                    seed ^= seed << 17;
                    (seed >> 17) % n
                };
                while std::time::Instant::now() < until {
                    let declared = if std::env::var_os("SIZES_ONE").is_some() { 4 } else { 3 + dice(2) as u32 };
                    let permits = 1 + dice(3) as u32;
                    let semaphore = locks.semaphore("s", declared).unwrap();
                    if task == 0 && dice(6) == 0 {
                        let _ = semaphore.resize(3 + dice(3) as u32).await;
                        continue;
                    }
                    let gives_up = dice(5) == 0;
                    let patience = Duration::from_millis(if gives_up { dice(8) } else { 8_000 });
                    match tokio::time::timeout(patience, semaphore.acquire(permits)).await {
                        Ok(Ok(guard)) => {
                            holds.fetch_add(1, Ordering::Relaxed);
                            let sum: u32 = {
                                let mut held = held.lock().unwrap();
                                held.insert(guard.claim(), (permits, true));
                                held.values().map(|(permits, _)| permits).sum()
                            };
                            assert!(sum <= 5, "{sum} permits of at most five are held");
                            tokio::time::sleep(Duration::from_millis(dice(4))).await;
                            held.lock().unwrap().remove(&guard.claim());
                            let _ = guard.release().await;
                        }
                        Ok(Err(_)) => tokio::time::sleep(Duration::from_millis(1)).await,
                        Err(_) if gives_up => {}
                        Err(_) => panic!("nobody told it: {:?}", operator.inspect("s").await),
                    }
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let line = operator.inspect("s").await.unwrap();
    println!("{} holds; left: {line:?}", holds.load(Ordering::Relaxed));
    assert!(line.claims.is_empty());
}
