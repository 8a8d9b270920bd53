//! Attack: clients behind a proxy that cuts, give-ups, evictions, compactions.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidelock_etcd::{ClaimId, Guard, Options, State, Store, Token};
use tokio::net::{TcpListener, TcpStream};

use crate::site;

fn dice(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 20
}

async fn cutter(longest: u64) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut seed = 77;
        while let Ok((mut near, _)) = listener.accept().await {
            let shortest = std::env::var("CHAOS_SHORTEST").ok().and_then(|t| t.parse().ok()).unwrap_or(200);
            let life = Duration::from_millis(shortest + dice(&mut seed) % longest);
            let stalls = std::env::var_os("CHAOS_STALLS").is_some() && dice(&mut seed) % 3 == 0;
            tokio::spawn(async move {
                let mut far = TcpStream::connect(site::host()).await?;
                let passing = tokio::io::copy_bidirectional(&mut near, &mut far);
                let _ = tokio::time::timeout(life, passing).await;
                if stalls {
                    tokio::time::sleep(Duration::from_millis(1_500)).await;
                }
                Ok::<_, std::io::Error>(())
            });
        }
    });
    address
}

#[derive(Default)]
struct Seen {
    /// Held guards of a name: the claim, whether exclusive, evicted.
    held: HashMap<String, HashMap<ClaimId, u32>>,
    evicted: Vec<ClaimId>,
    token: HashMap<String, Token>,
    trouble: Vec<String>,
    slowest: Duration,
    sessions: HashMap<u64, u64>,
    doing: HashMap<(u64, u64), String>,
    holds: u64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "attack"]
async fn chaos() {
    let number = |key: &str, or: u64| std::env::var(key).ok().and_then(|text| text.parse().ok()).unwrap_or(or);
    let (seconds, clients, cuts, evicts, tasks) =
        (number("CHAOS_SECONDS", 20), number("CHAOS_CLIENTS", 20), number("CHAOS_CUTS", 0), number("CHAOS_EVICTS", 0), number("CHAOS_TASKS", 3));
    let names = number("CHAOS_NAMES", 3);
    let options = Options::new()
        .ttl(Duration::from_secs(60))
        .command_deadline(Duration::from_secs(2))
        .namespace(&site::namespace("chaos"));
    let seen = Arc::<Mutex<Seen>>::default();
    let until = Instant::now() + Duration::from_secs(seconds);
    let operator = site::store().connect(options.clone()).await.unwrap();
    let active = Arc::new(AtomicU64::new(clients));
    let mut running = Vec::new();
    let mut all = Vec::new();
    for client in 0..clients {
        let store = if cuts > 0 && client % 3 == 0 {
            Store::open(&format!("etcd://{}", cutter(cuts).await)).unwrap()
        } else {
            site::store()
        };
        let locks = store.connect(options.clone()).await.unwrap();
        all.push(locks.clone());
        for task in 0..tasks {
            let (locks, seen, operator, active) = (locks.clone(), seen.clone(), operator.clone(), active.clone());
            running.push(tokio::spawn(async move {
                let mut seed = (client * 64 + task + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                while Instant::now() < until {
                    // The crowd swells and shrinks over sixteen.
                    if client >= active.load(Ordering::Relaxed) {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        continue;
                    }
                    let name = format!("n{}", dice(&mut seed) % names);
                    let kind = name.as_bytes()[1] % 3;
                    let began = Instant::now();
                    let weight; // of 1000
                    let what = dice(&mut seed) % 8;
                    let asking: std::pin::Pin<Box<dyn Future<Output = tidelock_etcd::Result<Guard>> + Send>> = match kind {
                        0 => {
                            weight = 1000;
                            let mutex = locks.mutex(&name).unwrap();
                            Box::pin(async move { mutex.lock().await })
                        }
                        1 if what < 3 => {
                            weight = 1000;
                            let lock = locks.rwlock(&name).unwrap();
                            Box::pin(async move { lock.write().await.map(|g| g.into_guard()) })
                        }
                        1 => {
                            weight = 1;
                            let lock = locks.rwlock(&name).unwrap();
                            Box::pin(async move { lock.read().await })
                        }
                        _ => {
                            let permits = 1 + (what % 3) as u32;
                            weight = permits * 333;
                            let lock = locks.semaphore(&name, 3).unwrap();
                            Box::pin(async move { lock.acquire(permits).await })
                        }
                    };
                    let gives_up = dice(&mut seed) % 6 == 0;
                    let patience = if gives_up { Duration::from_millis(dice(&mut seed) % 12) } else { Duration::from_secs(9) };
                    seen.lock().unwrap().doing.insert((client, task), format!("asks for {name} gives up {gives_up} since {:?}", until - began));
                    let guard = match tokio::time::timeout(patience, asking).await {
                        Ok(Ok(guard)) => guard,
                        Ok(Err(error)) => {
                            if cuts == 0 && evicts == 0 {
                                seen.lock().unwrap().trouble.push(format!("{name}: {error}"));
                            }
                            continue;
                        }
                        Err(_) if gives_up => continue,
                        Err(_) => {
                            let line = operator.inspect(&name).await;
                            let mut seen = seen.lock().unwrap();
                            let head = line.as_ref().ok().and_then(|line| line.claims.first()).map(|first| first.id);
                            let whose = head.and_then(|id| seen.sessions.get(&id.session.get()).copied());
                            let doing: Vec<_> = seen.doing.iter().filter(|((c, _), _)| Some(*c) == whose).collect();
                            let held = format!("{:?}; head is of client {whose:?} (cut: {:?}), which does {doing:?}; now {:?}", seen.held.get(&name), whose.map(|c| cuts > 0 && c % 3 == 0), until.checked_duration_since(Instant::now()));
                            let line = line.map(|line| line.claims.iter().map(|c| (c.id, c.token)).collect::<Vec<_>>());
                            seen.trouble.push(format!("{name}: nobody told client {client} for 9 s; held here {held}; {line:?}"));
                            return;
                        }
                    };
                    {
                        let mut seen = seen.lock().unwrap();
                        seen.holds += 1;
                        seen.sessions.insert(guard.claim().session.get(), client);
                        seen.doing.insert((client, task), format!("holds {name}"));
                        seen.slowest = seen.slowest.max(began.elapsed());
                        let evicted = seen.evicted.clone();
                        let held = seen.held.entry(name.clone()).or_default();
                        held.insert(guard.claim(), weight);
                        let sum: u32 = held.iter().filter(|(id, _)| !evicted.contains(id)).map(|(_, weight)| weight).sum();
                        let text = format!("{held:?}");
                        if sum > 1000 {
                            seen.trouble.push(format!("{name}: exclusion: {text}"));
                        }
                        if weight == 1000 {
                            let last = seen.token.insert(name.clone(), guard.token());
                            if last.is_some_and(|last| last >= guard.token()) {
                                seen.trouble.push(format!("{name}: token {last:?} then {:?}", guard.token()));
                            }
                        }
                    }
                    let hold = dice(&mut seed) % 4;
                    tokio::time::sleep(Duration::from_millis(hold)).await;
                    let evicts_it = evicts > 0 && dice(&mut seed) % 50 == 0;
                    if evicts_it {
                        seen.lock().unwrap().evicted.push(guard.claim());
                        let _ = operator.evict(&name, guard.claim()).await;
                        if tokio::time::timeout(Duration::from_secs(5), guard.lost()).await.is_err() && cuts == 0 {
                            let text = format!("{name}: {} was evicted and not told: {:?}", guard.claim(), guard.state() == State::Held);
                            seen.lock().unwrap().trouble.push(text);
                        }
                    }
                    if let Some(held) = seen.lock().unwrap().held.get_mut(&name) {
                        held.remove(&guard.claim());
                    }
                    let out = Instant::now();
                    seen.lock().unwrap().doing.insert((client, task), format!("releases {name} {} since {:?}", guard.claim(), until.checked_duration_since(out)));
                    if dice(&mut seed) % 2 == 0 {
                        drop(guard);
                    } else {
                        let _ = guard.release().await;
                    }
                }
            }));
        }
    }
    let monitor = tokio::spawn({
        let (operator, seen) = (operator.clone(), seen.clone());
        async move {
            let mut heads = HashMap::<u64, (ClaimId, Instant)>::new();
            let mut worst = Duration::ZERO;
            loop {
                tokio::time::sleep(Duration::from_millis(30)).await;
                for name in 0..names {
                    let Ok(line) = operator.inspect(&format!("n{name}")).await else { continue };
                    let Some(head) = line.claims.first().map(|first| first.id) else {
                        heads.remove(&name);
                        continue;
                    };
                    let mut seen = seen.lock().unwrap();
                    let is_held = seen.held.get(&format!("n{name}")).is_some_and(|held| held.contains_key(&head));
                    let since = heads.entry(name).or_insert((head, Instant::now()));
                    if since.0 != head || is_held {
                        *since = (head, Instant::now());
                    }
                    let took = since.1.elapsed();
                    if took > worst && took > Duration::from_millis(700) {
                        worst = took + Duration::from_millis(300);
                        let client = seen.sessions.get(&head.session.get()).copied();
                        let doing: Vec<_> = seen.doing.iter().filter(|((c, _), _)| Some(*c) == client).collect();
                        println!("n{name}: {head} is the first since {took:?} and holds nowhere: client {client:?}, {doing:?}");
                    }
                    drop(seen);
                }
            }
        }
    });
    let mut plain = site::plain().await;
    let mut seed = 99;
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(150)).await;
        active.store(if dice(&mut seed) % 2 == 0 { clients } else { 2 + dice(&mut seed) % clients }, Ordering::Relaxed);
        let line = operator.inspect("n0").await;
        if number("CHAOS_COMPACT", 1) == 1 {
            let now = plain.get("x", None).await.unwrap().header().unwrap().revision();
            let _ = plain.compact(now, None).await;
        }
        // A waiter is evicted.
        if evicts > 0 && let Ok(line) = line && let Some(waiter) = line.waiters().nth(1) {
            seen.lock().unwrap().evicted.push(waiter.id);
            let _ = operator.evict("n0", waiter.id).await;
        }
    }
    for task in running {
        task.await.unwrap();
    }
    monitor.abort();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    for name in 0..names {
        let line = operator.inspect(&format!("n{name}")).await.unwrap();
        if !line.claims.is_empty() {
            seen.lock().unwrap().trouble.push(format!("left over: {line:?}"));
        }
    }
    for locks in all {
        let _ = locks.close().await;
    }
    operator.close().await.unwrap();
    let seen = seen.lock().unwrap();
    println!("{} holds, slowest {:?}, {} evicted", seen.holds, seen.slowest, seen.evicted.len());
    assert!(seen.trouble.is_empty(), "{:#?}", seen.trouble);
}
