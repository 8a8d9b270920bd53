//! Attacks.
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tidelock_conformance::callers::Caller;
use tidelock_etcd::backend::{Claim, Patience};
use tidelock_etcd::{ClaimId, Options, State};

use crate::site::{self, is_held, join, name, options, store, until};

#[tokio::test(flavor = "multi_thread")]
#[ignore]
async fn attack_evicted_waiter_holds_beside_the_next() {
    let o = Options::new().ttl(Duration::from_secs(30)).namespace(&site::namespace("evw"));
    let (a, b, c) = (store().connect(o.clone()).await.unwrap(), store().connect(o.clone()).await.unwrap(), store().connect(o.clone()).await.unwrap());
    let held = a.mutex("m").unwrap().lock().await.unwrap();
    let waits = async |n: usize| until("waits", async || (a.inspect("m").await.ok()?.waiters().count() == n).then_some(())).await;
    let wb = tokio::spawn({ let m = b.mutex("m").unwrap(); async move { m.lock().await } });
    waits(1).await;
    let wc = tokio::spawn({ let m = c.mutex("m").unwrap(); async move { m.lock().await } });
    waits(2).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let id = a.inspect("m").await.unwrap().waiters().next().unwrap().id;
    assert!(a.evict("m", id).await.unwrap());
    tokio::time::sleep(Duration::from_millis(500)).await; // plenty of time to hear of it
    held.release().await.unwrap();
    let gb = tokio::time::timeout(Duration::from_secs(3), wb).await;
    let gc = tokio::time::timeout(Duration::from_secs(3), wc).await;
    let (Ok(Ok(Ok(gb))), Ok(Ok(Ok(gc)))) = (gb, gc) else { println!("not both"); return };
    let began = Instant::now();
    let mut both = Duration::ZERO;
    while began.elapsed() < Duration::from_secs(20) && gb.state() == State::Held && gc.state() == State::Held {
        both = began.elapsed();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("evicted 500 ms before its grant: token {} and the next one's {}: both Held for {both:?}", gb.token(), gc.token());
    assert!(both < Duration::from_millis(500));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore]
async fn attack_try_lock_beside_a_foreign_key() {
    let ns = site::namespace("foreign");
    let o = Options::new().ttl(Duration::from_secs(30)).namespace(&ns);
    let a = store().connect(o).await.unwrap();
    let mut etcd = site::plain().await;
    etcd.put(format!("{ns}/n/app"), "", None).await.unwrap();
    let metrics = |text: String| text;
    let _ = metrics;
    let began = Instant::now();
    let got = a.mutex("n").unwrap().try_lock().await;
    println!("try_lock: {:?} after {:?}", got.err().map(|e| (e.kind(), e.to_string())), began.elapsed());
    let began = Instant::now();
    let got = a.mutex("n").unwrap().lock_within(Duration::from_secs(3)).await;
    println!("lock_within: {:?} after {:?}", got.err().map(|e| (e.kind(), e.to_string())), began.elapsed());
    etcd.delete(format!("{ns}/n/app"), None).await.unwrap();
}

/// 63 joins gather; then the lane stands, and one more comes.
#[tokio::test(flavor = "multi_thread")]
#[ignore]
async fn attack_lane_comes_to_stand() {
    for wait in [4, 8, 10, 12, 14, 16, 20] {
    let keeper = Box::leak(Box::new(tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()));
    let caller = keeper.spawn(async { Caller::open(&store(), 1, &options("lane stands")).await }).await.unwrap();
    let m = name("mutex");
    let claims: Vec<Claim> = (1..=63).map(|n| caller.mutex(&m, n)).collect();
    let mut joining: Vec<_> = claims.iter().map(|c| caller.session.join(c, Patience::Wait)).collect();
    poll_fn(|cx| Poll::Ready(joining.iter_mut().for_each(|j| drop(j.as_mut().poll(cx).is_pending())))).await;
    let began = Instant::now(); let rest = async { join_all(joining).await; began.elapsed() };
    let late = async {
        tokio::time::sleep(Duration::from_millis(wait)).await;
        let claim = caller.mutex(&m, 64);
        caller.session.join(&claim, Patience::Wait).await.unwrap()
    };
    let (took, place) = tokio::join!(rest, late);
    let shown = caller.session.line(&m).await.unwrap();
    let at = shown.claims.iter().position(|c| c.id == caller.claim(64)).unwrap();
    println!("asked as the 64th, {wait} ms after the others: stands as number {} ({}), the 63 took {:?}", at + 1, matches!(place, tidelock_etcd::backend::Place::Held{..}), took);
    caller.session.close().await.unwrap();
    }
}

/// Two runtimes of one client, each with a lane.
#[test]
#[ignore]
fn attack_two_lanes() {
    let build = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (one, two, keeper) = (build(), build(), build());
    let caller = Arc::new(keeper.block_on(Caller::open(&store(), 1, &options("two lanes"))));
    let warm = |base: u64| {
        let caller = caller.clone();
        async move {
            for n in 0..60 {
                let c = caller.mutex(&name("warm"), base + n);
                let _ = caller.session.join(&c, Patience::Wait).await.unwrap();
                caller.session.leave(&c.name, c.id, tidelock_etcd::backend::Leave::Done).await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    };
    one.block_on(warm(1000));
    two.block_on(warm(2000));
    let m = name("mutex");
    let held = caller.mutex(&m, 1);
    assert!(is_held(one.block_on(join(&caller, &held))));
    let (asked, is_asked) = std::sync::mpsc::channel();
    let crowd = one.spawn({
        let (caller, m) = (caller.clone(), m.clone());
        async move {
            let claims: Vec<Claim> = (2..=61).map(|n| caller.mutex(&m, n)).collect();
            let mut joining: Vec<_> = claims.iter().map(|c| caller.session.join(c, Patience::Wait)).collect();
            poll_fn(|cx| Poll::Ready(joining.iter_mut().for_each(|j| drop(j.as_mut().poll(cx).is_pending())))).await;
            asked.send(Instant::now()).unwrap();
            join_all(joining).await;
        }
    });
    let when = is_asked.recv().unwrap();
    std::thread::sleep(Duration::from_millis(1));
    two.block_on(async {
        let late = caller.mutex(&m, 62);
        println!("asked {:?} after the crowd had asked", when.elapsed());
        caller.session.join(&late, Patience::Wait).await.unwrap();
    });
    one.block_on(crowd).unwrap();
    let shown = one.block_on(caller.session.line(&m)).unwrap();
    let at = shown.claims.iter().position(|c| c.id == ClaimId { session: caller.id, number: 62 }).unwrap();
    println!("asked as the 62nd: stands as number {}", at + 1);
    one.block_on(caller.session.close()).unwrap();
}

/// An evicted waiter with many ahead, whose predecessor leaves: how many reads?
#[tokio::test(flavor = "multi_thread")]
#[ignore]
async fn attack_deep_evicted_waiter_reads() {
    let o = options("deep");
    let [a, b] = site::two(&o).await;
    let m = name("m");
    for n in 1..=25 { let c = a.mutex(&m, n); let _ = join(&a, &c).await; }
    let mine = b.mutex(&m, 1);
    let _ = join(&b, &mine).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    a.session.leave(&m, mine.id, tidelock_etcd::backend::Leave::Void).await.unwrap();
    a.session.leave(&m, a.claim(25), tidelock_etcd::backend::Leave::Done).await.unwrap();
    let ranges = async || {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut s = tokio::net::TcpStream::connect(site::host()).await.unwrap();
        s.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut t = String::new();
        s.read_to_string(&mut t).await.unwrap();
        t.lines().filter(|l| l.starts_with("grpc_server_started_total") && l.contains("\"Range\"")).filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
    };
    let before = ranges().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    println!("reads in three quiet seconds: {}", ranges().await - before);
    for c in [a, b] { c.session.close().await.unwrap(); }
}

/// The database is full, and two joins share a batch.
#[tokio::test(flavor = "multi_thread")]
#[ignore]
async fn attack_nospace_batch() {
    use tidelock_etcd::etcd_client::{AlarmAction, AlarmOptions, AlarmType};
    let a = store().connect(Options::new().ttl(Duration::from_secs(30)).command_deadline(Duration::from_secs(1)).namespace(&site::namespace("full"))).await.unwrap();
    let mut etcd = site::plain().await;
    let member = etcd.status().await.unwrap().header().unwrap().member_id();
    let mut alarm = AlarmOptions::new();
    alarm.with_member(member);
    etcd.alarm(AlarmAction::Activate, AlarmType::Nospace, Some(alarm.clone())).await.unwrap();
    let tasks = (0..30).map(|n| { let m = a.mutex(&format!("n{n}")).unwrap(); async move { m.lock_within(Duration::from_secs(1)).await } });
    let got = join_all(tasks).await;
    println!("database full: {} of 30 locks were granted", got.iter().filter(|g| matches!(g, Ok(Some(_)))).count());
    drop(got);
    etcd.alarm(AlarmAction::Deactivate, AlarmType::Nospace, Some(alarm)).await.unwrap();
    a.close().await.unwrap();
}

/// JWT: needs a server of its own (TIDELOCK_ETCD_URL) with --auth-token=jwt.
#[tokio::test(flavor = "multi_thread")]
#[ignore]
async fn attack_jwt() {
    use tidelock_etcd::etcd_client::{Client, ConnectOptions, Permission};
    let mut etcd = site::plain().await;
    for user in ["root", "locker"] {
        etcd.user_add(user, "pw", None).await.ok();
        etcd.role_add(user).await.ok();
        etcd.user_grant_role(user, user).await.ok();
    }
    let ns = site::namespace("jwt");
    etcd.role_grant_permission("locker", Permission::read_write(format!("{ns}/")).with_prefix()).await.unwrap();
    etcd.auth_enable().await.unwrap();
    let root = || async { Client::connect([site::host()], Some(ConnectOptions::new().with_user("root", "pw"))).await.unwrap() };
    let s = tidelock_etcd::Store::open(&format!("etcd://locker:pw@{}", site::host())).unwrap();
    let ttl = Duration::from_secs(6);
    let a = s.connect(Options::new().ttl(ttl).namespace(&ns)).await.unwrap();
    let held = a.mutex("held").unwrap().lock().await.unwrap();
    println!("held, {:?}", held.state());
    // Somebody adds a user: nothing to do with this one.
    root().await.user_add(&ns, "pw", None).await.unwrap();
    let began = Instant::now();
    let got = a.mutex("n").unwrap().lock_within(Duration::from_secs(5)).await;
    println!("after a change of users: {:?} in {:?}", got.as_ref().err().map(ToString::to_string), began.elapsed());
    while began.elapsed() < ttl * 2 && held.state() != State::Lost {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("the guard is {:?} after {:?}: {:?}", held.state(), began.elapsed(), held);
    drop(held);
    let fresh = s.connect(Options::new().ttl(ttl).namespace(&ns)).await.unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(16) {
        let own = a.mutex("n").unwrap().lock_within(Duration::from_secs(2)).await;
        println!("keys: {:?}", fresh.inspect("held").await.map(|l| l.claims.len())); let others = fresh.mutex("held").unwrap().try_lock().await;
        println!("{:>5.1?}: the client: {:?}; another takes what it held: {:?}", began.elapsed(), own.map(|g| g.is_some()).map_err(|e| e.to_string()), others.map(|g| g.is_some()).map_err(|e| e.kind()));
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    let mut r = root().await;
    r.auth_disable().await.unwrap();
}
