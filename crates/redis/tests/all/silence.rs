//! Connections that fall silent, leaves that nobody waits for, and servers that refuse for a moment: none of these
//! costs a hold, an error or a place in line while the server serves.

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tidelock_redis::backend::{Leave, Left, Patience, Place};
use tidelock_redis::{ErrorKind, Locks, Name, Options, Released, State, Store};

use crate::site;
use crate::site::alone::Alone;
use crate::site::wires::{Fault, Wires};
use crate::site::{Caller, hold, name, url, url_of};

/// Longer than any of these operations may take, and shorter than a lifetime.
const SOON: Duration = Duration::from_millis(1_500);

/// A client whose connections are on a separate runtime, like the keeper's.
async fn kept_elsewhere(wires: &Wires) -> Caller {
    let store = wires.store(&url());
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let _ = tell.send(Caller::open(&store, 1, &Options::new()).await);
            std::future::pending::<()>().await;
        });
    });
    told.await.unwrap()
}

/// Sends requests until this runtime has its own connection, which is the last one made.
async fn local_way(caller: &Caller, wires: &Wires) {
    let (name, before, mut number) = (name("often"), wires.made(), 1_000_000);
    site::until("this runtime has a connection of its own", async || {
        number += 1;
        caller.session.join(&caller.mutex(&name, number), Patience::Now).await.unwrap();
        caller.session.leave(&name, caller.claim(number), Leave::Done).await.unwrap();
        (wires.made() > before).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_millis(100)).await; // until it is connected, and used
}

/// Waits until an onlooker, over another connection, finds nobody in line.
async fn until_free(onlooker: &Caller, name: &Name, within: Duration) {
    let began = Instant::now();
    while !onlooker.session.line(name).await.unwrap().claims.is_empty() {
        assert!(began.elapsed() < within, "{name:?} was not given back");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn connections_that_fell_silent_cost_no_hold_whatever_its_ttl() {
    let _alone = Alone::new().await;
    let mut holds = Vec::new();
    for seconds in [1, 2, 3, 5] {
        let (wires, ttl) = (Wires::default(), Duration::from_secs(seconds));
        let locks = wires.store(&url()).connect(Options::new().ttl(ttl)).await.unwrap();
        let guard = hold(&locks, &format!("stock {seconds}")).await.unwrap();
        wires.befall(Fault::Silent);
        holds.push((locks, guard));
    }
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(8) {
        for (_, guard) in &holds {
            assert!(guard.state() != State::Lost, "{guard:?} after {:?}", began.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for (locks, guard) in holds {
        assert_eq!(guard.state(), State::Held);
        guard.release().await.unwrap().confirmed().unwrap();
        locks.close().await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_crowd_that_comes_by_a_narrow_way_costs_no_connection() {
    let _alone = Alone::new().await;
    let wires = Wires::default();
    let caller = Arc::new(kept_elsewhere(&wires).await);
    let first = caller.mutex(&name("first"), 1_000);
    caller.session.join(&first, Patience::Now).await.unwrap(); // and the server knows the script
    wires.narrow(90_000);
    let mut joining = tokio::task::JoinSet::new();
    for number in 1..=300 {
        let (caller, name) = (caller.clone(), name(&format!("a name as long as many are {number}")));
        joining.spawn(async move { caller.session.join(&caller.mutex(&name, number), Patience::Now).await });
    }
    for joined in joining.join_all().await {
        assert!(matches!(joined, Ok(Place::Held { .. })), "{joined:?}");
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn long_pauses_between_tries_cost_no_hold() {
    let _alone = Alone::new().await;
    let (wires, ttl) = (Wires::default(), Duration::from_secs(3));
    let options = Options::new().ttl(ttl).back_off(ttl * 2, ttl * 20);
    let locks = wires.store(&url()).connect(options).await.unwrap();
    let guard = hold(&locks, "stock").await.unwrap();
    let server = wires.addresses().pop_first().unwrap();
    wires.kill(&server);
    let before = wires.tries();
    site::until("it was tried again", async || (wires.tries() > before).then_some(())).await;
    wires.revive(&server);
    let began = Instant::now();
    while began.elapsed() < ttl * 2 {
        assert_ne!(guard.state(), State::Lost, "after {:?}", began.elapsed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    guard.release().await.unwrap().confirmed().unwrap();
}

/// Cuts the network until both of a client's connections have been tried again.
async fn blinks(wires: &Wires) {
    let server = wires.addresses().pop_first().unwrap();
    let before = wires.tries();
    wires.kill(&server);
    site::until("both were tried again", async || (wires.tries() >= before + 2).then_some(())).await;
    wires.revive(&server);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn long_pauses_between_tries_hold_up_no_turn_and_no_leave() {
    let _alone = Alone::new().await;
    let (wires, ttl) = (Wires::default(), Duration::from_secs(6));
    let pauses = Options::new().ttl(ttl).back_off(ttl * 4, ttl * 20);
    let ours = wires.store(&url()).connect(pauses).await.unwrap();
    let others = Store::open(&url()).unwrap().connect(Options::new().ttl(ttl)).await.unwrap();
    let (first, gives) = (hold(&others, "turn").await.unwrap(), hold(&ours, "leave").await.unwrap());
    let _kept = hold(&ours, "kept").await.unwrap(); // so there is something to renew
    let (turn, leave) = (ours.mutex("turn").unwrap(), others.mutex("leave").unwrap());
    let turn = tokio::spawn(async move { turn.lock().await.unwrap() });
    let leave = tokio::spawn(async move { leave.lock().await.unwrap() });
    site::until("both wait", async || {
        let waits = async |name| others.inspect(name).await.unwrap().claims.len() == 2;
        (waits("turn").await && waits("leave").await).then_some(())
    })
    .await;
    blinks(&wires).await;
    let began = Instant::now();
    drop(gives);
    first.release().await.unwrap().confirmed().unwrap();
    let both = async { (turn.await.unwrap(), leave.await.unwrap()) };
    let both = tokio::time::timeout(ttl / 4, both).await;
    assert!(both.is_ok(), "after {:?}", began.elapsed());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_dead_server_is_not_tried_at_once_again_and_again() {
    let _alone = Alone::new().await;
    let (wires, short) = (Wires::default(), Duration::from_millis(3));
    let options =
        Options::new().command_deadline(short).back_off(Duration::from_secs(1), Duration::from_secs(1));
    let store = wires.store(&url());
    let locks = site::until("it is connected", async || store.connect(options.clone()).await.ok()).await;
    let server = wires.addresses().pop_first().unwrap();
    wires.kill(&server);
    let before = wires.tries();
    tokio::time::sleep(SOON / 3).await;
    let tries = wires.tries() - before;
    assert!(tries <= 60, "it was tried {tries} times in {:?}", SOON / 3);
    drop(locks);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn an_idle_connection_that_fell_silent_costs_the_next_lock_no_error() {
    let _alone = Alone::new().await;
    for is_own in [false, true] {
        let wires = Wires::default();
        let locks = wires.store(&url()).connect(Options::new()).await.unwrap();
        let ways = if is_own { 3 } else { 2 };
        site::until("its connections stand", async || {
            if is_own {
                hold(&locks, "often").await.unwrap().release().await.unwrap().confirmed().unwrap();
            }
            (wires.made() == ways).then_some(())
        })
        .await;
        wires.befall(Fault::Silent);
        let began = Instant::now();
        let guard = locks.mutex("stock").unwrap().lock().await;
        println!("the next lock took {:?} (own: {is_own})", began.elapsed());
        assert!(began.elapsed() < Duration::from_secs(2), "it took {:?}: {guard:?}", began.elapsed());
        guard.unwrap().release().await.unwrap().confirmed().unwrap();
        locks.close().await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn what_is_under_way_on_a_connection_that_is_given_up_is_told_so() {
    let _alone = Alone::new().await;
    let wires = Wires::default();
    let patient = Options::new().command_deadline(Duration::from_secs(60));
    let caller = Caller::open(&wires.store(&url()), 1, &patient).await;
    let name = name("stock");
    wires.befall(Fault::Mute);
    let joining = tokio::spawn({
        let (session, claim) = (caller.session.clone(), caller.mutex(&name, 1));
        async move { session.join(&claim, Patience::Now).await }
    });
    let error = tokio::time::timeout(SOON, joining).await.expect("in time").unwrap().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout), "{error:?}");
    let again = caller.session.join(&caller.mutex(&name, 1), Patience::Now).await.unwrap();
    assert!(matches!(again, Place::Held { .. }), "{again:?}");
    assert_eq!(caller.session.leave(&name, caller.claim(1), Leave::Done).await.unwrap(), Left::Held);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_slow_server_loses_no_connection() {
    let mut alone = Alone::new().await;
    let wires = Wires::default();
    let locks = wires.store(&url()).connect(Options::new()).await.unwrap();
    let guard = hold(&locks, "stock").await.unwrap();
    let before = wires.made();
    alone.ask("CLIENT PAUSE 1200 ALL");
    guard.release().await.unwrap().confirmed().unwrap(); // takes more than a second, but the outcome is known
    site::until("nothing but what was there before stands", async || (wires.stand() == before).then_some(()))
        .await;
    hold(&locks, "stock").await.unwrap().release().await.unwrap().confirmed().unwrap();
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_that_holds_writes_up_loses_no_connection() {
    let mut alone = Alone::new().await;
    let wires = Wires::default();
    let locks = wires.store(&url()).connect(Options::new()).await.unwrap();
    let guard = hold(&locks, "stock").await.unwrap();
    let writing = locks.rwlock("shelf").unwrap().write().await.unwrap();
    let seats = locks.semaphore("seats", 3).unwrap();
    let (seat, other) = (seats.acquire(1).await.unwrap(), locks.mutex("other").unwrap());
    let before = wires.made();
    alone.ask("CLIENT PAUSE 1000 WRITE"); // a failover begins like this
    let (released, lighter, resized, had) =
        tokio::join!(guard.release(), writing.downgrade(), seats.resize(5), other.try_lock());
    released.unwrap().confirmed().unwrap();
    let _reading = lighter.unwrap();
    resized.unwrap();
    assert!(had.unwrap().is_some());
    site::until("nothing but what was there before stands", async || (wires.stand() == before).then_some(()))
        .await;
    drop(seat);
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_slow_server_that_takes_no_more_clients_loses_none() {
    let mut alone = Alone::new().await;
    let wires = Wires::default();
    let locks = wires.store(&url()).connect(Options::new()).await.unwrap();
    let guard = hold(&locks, "stock").await.unwrap();
    let before = wires.tries();
    alone.ask("CONFIG SET maxclients 1");
    alone.ask("CLIENT PAUSE 1000 WRITE");
    guard.release().await.unwrap().confirmed().unwrap();
    assert!(wires.tries() > before, "a second connection was tried and refused");
    alone.ask("CONFIG SET maxclients 10000");
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_future_that_nobody_polls_costs_no_connection() {
    let _alone = Alone::new().await;
    let wires = Wires::default();
    let locks = wires.store(&url()).connect(Options::new()).await.unwrap();
    site::until("this runtime has a connection of its own", async || {
        hold(&locks, "often").await.unwrap().release().await.unwrap().confirmed().unwrap();
        (wires.made() == 3).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_millis(100)).await; // until it is connected
    let guard = hold(&locks, "stock").await.unwrap();
    wires.lag(Duration::from_millis(150));
    let (tries, other) = (wires.tries(), locks.mutex("left lying").unwrap());
    let mut lying = other.lock();
    assert!(lying.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let began = Instant::now();
    while wires.tries() == tries && began.elapsed() < SOON {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    tokio::time::sleep(Duration::from_millis(125)).await; // a new connection takes two round trips
    guard.release().await.unwrap().confirmed().unwrap();
    assert_eq!(wires.tries(), tries, "nothing is silent here");
    drop(lying);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_slow_network_only_slows() {
    let _alone = Alone::new().await;
    let wires = Wires::default();
    wires.lag(Duration::from_millis(150));
    let ttl = Duration::from_secs(3); // everything is renewed every second
    let locks = wires.store(&url()).connect(Options::new().ttl(ttl)).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..6 {
        let mutex = locks.mutex(&format!("stock {task}")).unwrap();
        tasks.spawn(async move {
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(5) {
                let guard = mutex.lock().await.unwrap_or_else(|error| panic!("{task}: {error}"));
                match task {
                    0 => drop(guard),
                    _ => {
                        let released = guard.release().await.and_then(Released::confirmed);
                        released.unwrap_or_else(|error| panic!("{task}: {error}"));
                    }
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(wires.made(), 3, "two for the keeper and one for this runtime, none of which was given up");
    locks.close().await.unwrap();
}

// Leaves.

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_leave_whose_reply_is_dropped_at_once_is_sent() {
    let _alone = Alone::new().await;
    let wires = Wires::default();
    let caller = kept_elsewhere(&wires).await;
    let onlooker = Caller::open(&Store::open(&url()).unwrap(), 2, &Options::new()).await;
    local_way(&caller, &wires).await;
    for number in 1..=50 {
        let name = name(&format!("stock {number}"));
        let place = caller.session.join(&caller.mutex(&name, number), Patience::Now).await.unwrap();
        assert!(matches!(place, Place::Held { .. }), "{place:?}");
        drop(caller.session.leave(&name, caller.claim(number), Leave::Done));
        until_free(&onlooker, &name, Duration::from_secs(1)).await;
    }
}

/// How many scripts the server has run by their hashes.
fn scripts(alone: &mut Alone) -> usize {
    let redis::Value::BulkString(info) = alone.ask("INFO commandstats") else { panic!() };
    let info = String::from_utf8(info).unwrap();
    let counted = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    counted.map_or(0, |counted| counted.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_guard_that_is_dropped_far_from_the_server_costs_one_script() {
    const DROPPED: usize = 5;
    let mut alone = Alone::new().await;
    let wires = Wires::default();
    let options = Options::new().ttl(Duration::from_secs(60));
    let others = Store::open(&url()).unwrap().connect(options.clone()).await.unwrap();
    let locks = wires.store(&url()).connect(options).await.unwrap();
    let busy: Vec<_> = (0..50).map(|number| format!("busy {number}")).collect();
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for name in &busy {
        held.push(hold(&others, name).await.unwrap());
        let mutex = locks.mutex(name).unwrap();
        waiting.push(tokio::spawn(async move { mutex.lock().await }));
    }
    for name in &busy {
        let stand = async || others.inspect(name).await.unwrap().claims.len();
        site::until("it is waited for", async || (stand().await == 2).then_some(())).await;
    }
    let mut own = Vec::new();
    for number in 0..DROPPED {
        own.push((format!("own {number}"), hold(&locks, &format!("own {number}")).await.unwrap()));
    }
    assert_eq!(wires.made(), 3, "this runtime has a connection of its own");
    wires.lag(Duration::from_millis(150));
    let mut dropped = Vec::new();
    let before = scripts(&mut alone);
    for (name, guard) in own {
        drop(guard);
        dropped.push(name);
        let ran = before + dropped.len();
        site::until("it is given back", async || (scripts(&mut alone) >= ran).then_some(())).await;
        tokio::time::sleep(Duration::from_millis(300)).await; // longer than its reply takes
    }
    // One script for each guard, and one more where a slow reply makes the link check its connection.
    let ran = scripts(&mut alone) - before;
    assert!(
        ran <= 2 * DROPPED,
        "{ran} scripts for {DROPPED} guards, while {} names are waited in",
        busy.len()
    );
    for name in dropped {
        assert!(others.inspect(&name).await.unwrap().claims.is_empty(), "{name} was given back");
    }
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn a_leave_whose_reply_is_late_does_not_look_like_a_loss() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (own, other) = (runtime(), runtime());
    let wires = Wires::default();
    let name = name("stock");
    let (_alone, caller, onlooker, reply) = own.block_on(async {
        let alone = Alone::new().await;
        let caller = kept_elsewhere(&wires).await;
        let onlooker = Caller::open(&Store::open(&url()).unwrap(), 2, &Options::new()).await;
        local_way(&caller, &wires).await;
        let place = caller.session.join(&caller.mutex(&name, 1), Patience::Now).await.unwrap();
        assert!(matches!(place, Place::Held { .. }), "{place:?}");
        wires.befall_from(wires.made() - 1, Fault::Mute);
        let reply = caller.session.leave(&name, caller.claim(1), Leave::Done);
        (alone, caller, onlooker, reply)
    });
    own.block_on(until_free(&onlooker, &name, SOON)); // the leave has arrived
    // Another runtime waits for its reply, while the runtime with the connection does nothing.
    let answer = other.block_on(async { tokio::time::timeout(Duration::from_secs(3), reply).await });
    match answer {
        Ok(Ok(left)) => assert_eq!(left, Left::Held, "its own repetition found nothing"),
        Ok(Err(error)) => assert!(error.can_retry(), "{error:?}"),
        Err(_) => {}
    }
    drop(caller);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn who_gave_up_while_the_server_was_away_does_not_stand_in_line_for_long() {
    let _alone = Alone::new().await;
    let (wires, ttl) = (Wires::default(), Duration::from_secs(1));
    let there = Store::open(&url()).unwrap().connect(Options::new()).await.unwrap();
    let locks = wires.store(&url()).connect(Options::new().ttl(ttl).command_deadline(ttl)).await.unwrap();
    let held = hold(&there, "stock").await.unwrap();
    let wait = || {
        let locks = locks.clone();
        tokio::spawn(async move { locks.mutex("stock").unwrap().lock().await })
    };
    let stand = async || there.inspect("stock").await.unwrap().claims.len();
    let early = [wait(), wait(), wait()];
    site::until("all wait", async || (stand().await == 4).then_some(())).await;
    let server = wires.addresses().pop_first().unwrap();
    wires.kill(&server);
    for early in early {
        assert_eq!(early.await.unwrap().unwrap_err().kind(), ErrorKind::Unavailable);
    }
    tokio::time::sleep(3 * ttl).await; // longer than their leaves are repeated for
    wires.revive(&server);
    let late = wait();
    site::until("it waits", async || (stand().await > 1).then_some(())).await;
    let began = Instant::now();
    while stand().await > 2 {
        assert!(began.elapsed() < ttl, "a claim that was given up stands in line");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    held.release().await.unwrap().confirmed().unwrap();
    late.await.unwrap().unwrap().release().await.unwrap().confirmed().unwrap();
}

/// Checks that the next client gets the lock long before the lifetime of a hold ends.
async fn is_had_soon(name: &str) {
    let next = Store::open(&url()).unwrap().connect(Options::new()).await.unwrap();
    let began = Instant::now();
    let guard = next.mutex(name).unwrap().lock_within(Duration::from_secs(5)).await.unwrap();
    guard.expect("what was given back is free").release().await.unwrap().confirmed().unwrap();
    assert!(began.elapsed() < Duration::from_secs(3), "it took {:?}", began.elapsed());
    next.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_leave_that_is_denied_for_a_moment_is_repeated() {
    let mut alone = Alone::new().await;
    alone.ask("ACL SETUSER app on >sesame ~* &* +@all");
    let store = Store::open(&url_of("app", "sesame")).unwrap();
    let locks = store.connect(Options::new()).await.unwrap();
    let guard = hold(&locks, "stock").await.unwrap();
    alone.ask("ACL SETUSER app -evalsha -eval");
    drop(guard);
    tokio::time::sleep(Duration::from_millis(500)).await;
    alone.ask("ACL SETUSER app +evalsha +eval");
    is_had_soon("stock").await;
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_join_that_is_denied_half_way_is_taken_back() {
    let mut alone = Alone::new().await;
    alone.ask("ACL SETUSER app on >sesame ~* &* +@all");
    let locks = Store::open(&url_of("app", "sesame")).unwrap().connect(Options::new()).await.unwrap();
    alone.ask("ACL SETUSER app -pexpire");
    let error = locks.mutex("stock").unwrap().lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    alone.ask("ACL SETUSER app +pexpire");
    is_had_soon("stock").await;
    let redis::Value::Int(life) = alone.ask("PTTL tidelock:{stock}:held") else { panic!() };
    assert!(life > 0, "the key lives for {life} ms, which is for ever");
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_permit_given_back_half_way_comes_back_within_a_ttl() {
    let mut alone = Alone::new().await;
    alone.ask("ACL SETUSER app on >sesame ~* &* +@all");
    let options = || Options::new().ttl(Duration::from_secs(1));
    let locks = async || {
        let store = Store::open(&url_of("app", "sesame")).unwrap();
        store.connect(options()).await.unwrap()
    };
    let (keeps, leaves) = (locks().await, locks().await);
    let seats =
        async |locks: &Arc<dyn Locks>| locks.semaphore("seats", 2).unwrap().try_acquire(1).await.unwrap();
    let (kept, passing) = (seats(&keeps).await.unwrap(), seats(&leaves).await.unwrap());
    alone.ask("ACL SETUSER app -hset");
    let error = passing.release().await.unwrap().confirmed().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    alone.ask("ACL SETUSER app +hset");
    let onlooker = Store::open(&url()).unwrap().connect(options()).await.unwrap();
    let began = Instant::now();
    let again = site::until("the permit is free", async || seats(&onlooker).await).await;
    let took = began.elapsed();
    assert!(took < Duration::from_millis(1_500), "{took:?}");
    assert_eq!(kept.state(), State::Held);
    for guard in [kept, again] {
        guard.release().await.unwrap().confirmed().unwrap();
    }
    let all = onlooker.semaphore("seats", 2).unwrap().try_acquire(2).await.unwrap();
    assert!(all.is_some(), "both are free");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_with_too_many_clients_is_tried_again() {
    let mut alone = Alone::new().await;
    let locks = Store::open(&url()).unwrap().connect(Options::new()).await.unwrap();
    let guard = hold(&locks, "stock").await.unwrap();
    alone.ask("CONFIG SET maxclients 1");
    for words in ["CLIENT KILL TYPE normal", "CLIENT KILL TYPE pubsub"] {
        alone.ask(words);
    }
    drop(guard);
    let error = Store::open(&url()).unwrap().connect(Options::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("maxclients"), "{error}");
    tokio::time::sleep(Duration::from_millis(500)).await;
    alone.ask("CONFIG SET maxclients 10000");
    is_had_soon("stock").await;
    locks.close().await.unwrap();
}
