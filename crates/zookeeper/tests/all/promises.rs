//! Promises of ZooKeeper lines in particular, on a server: tokens grow when nodes are made anew, idle names vanish, and
//! a claim without a client leaves the line.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tidelock_zookeeper::backend::{Leave, Left, Patience, Shard};
use tidelock_zookeeper::{ErrorKind, Locks, Name, Options, State, Store};
use tokio::net::{TcpListener, TcpStream};
use zookeeper_client::CreateMode;

use crate::site;
use crate::site::way::Way;
use crate::site::{is_held, join, name, namespace, options, plain, store, turn, until, weight};
use tidelock_conformance::callers::Caller;

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn idle_names_vanish_and_their_tokens_go_on() {
    // The last of ten thousand claims waits for all the others.
    let options = options("idle").command_deadline(Duration::from_secs(60));
    let brief = options.clone().ttl(Duration::from_secs(6)); // the server is busy when it is opened
    let root = format!("/{}", options.namespace);
    let locks = store().connect(options).await.unwrap();
    let hold = locks.mutex("again").unwrap().lock().await.unwrap();
    let before = hold.token();
    hold.release().await.unwrap().confirmed().unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..9_500 {
        let mutex = locks.mutex(&format!("name {number}")).unwrap();
        tasks.spawn(async move {
            let hold = mutex.lock().await.unwrap();
            match number % 20 {
                0 => drop(tokio::time::timeout(Duration::from_millis(1), mutex.lock()).await),
                1 => drop(hold),
                _ => hold.release().await.unwrap().confirmed().unwrap(),
            }
        });
    }
    // The holder of these is as good as killed: its session is never renewed.
    let killed = Caller::open(&store(), 1, &brief).await;
    for number in 9_500..10_000 {
        assert!(is_held(join(&killed, &killed.mutex(&name(&format!("name {number}")), number)).await));
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let client = plain().await;
    until("idle names vanish", || async {
        client.list_children(&root).await.unwrap().is_empty().then_some(())
    })
    .await;
    let hold = locks.mutex("again").unwrap().lock().await.unwrap();
    assert!(hold.token() > before, "the node is new, and its sequence begins anew");
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_session_that_nobody_renews_ends() {
    let options = Options::new().ttl(Duration::from_secs(2)).namespace(&namespace("orphan"));
    let [orphan, next] = site::two(&options).await;
    let hold = name("m");
    assert!(is_held(join(&orphan, &orphan.mutex(&hold, 1)).await));
    assert!(!is_held(join(&next, &next.mutex(&hold, 1)).await));
    let renewing = async {
        loop {
            let standing = [(hold.clone(), vec![next.claim(1)])];
            let _ = next.session.renew(Shard(0), &standing).await; // a busy machine may be late
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    tokio::select! {
        () = renewing => {}
        () = turn(&next, &hold, next.claim(1)) => {}
    }
    let error = orphan.session.line(&hold).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    // The client knows what it has done itself, and not what the server did.
    let said =
        format!("this client's session at zookeeper {} is lost: it was not renewed in time", site::host());
    assert!(error.to_string().starts_with(&said), "{error}");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn another_sessions_claim_of_the_same_number_is_not_ones_own() {
    let options = options("numbers");
    let [a, b] = site::two(&options).await;
    let line = name("m");
    assert!(is_held(join(&a, &a.mutex(&line, 7)).await));
    assert!(!is_held(join(&b, &b.mutex(&line, 7)).await));
    assert_eq!(b.session.leave(&line, b.claim(7), Leave::Void).await.unwrap(), Left::Waiting);
    assert_eq!(a.session.leave(&line, a.claim(7), Leave::Done).await.unwrap(), Left::Held);
    assert!(is_held(join(&a, &a.mutex(&line, 9)).await));
    assert_eq!(b.session.leave(&line, b.claim(9), Leave::Void).await.unwrap(), Left::Absent);
    assert_eq!(a.session.leave(&line, a.claim(9), Leave::Done).await.unwrap(), Left::Held);
}

/// Polls once: its requests are then under way, or queued behind others.
fn begin(asking: &mut (impl Future + Unpin)) {
    assert!(Pin::new(asking).poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn what_queued_does_not_come_behind_its_leave() {
    let way = Way::open().await; // on this thread: nothing is answered before we wait
    let caller = Caller::open(&Store::open(&way.url()).unwrap(), 1, &options("queued")).await;
    let (busy, left) = (caller.mutex(&name("busy"), 1), caller.mutex(&name("left"), 2));
    let mut sent = caller.session.join(&busy, Patience::Wait);
    let mut queued = caller.session.join(&left, Patience::Wait);
    begin(&mut sent);
    begin(&mut queued);
    let leaving = caller.session.leave(&left.name, left.id, Leave::Void);
    assert_eq!(leaving.await.unwrap(), Left::Absent);
    assert!(is_held(sent.await.unwrap()));
    queued.await.unwrap_err();
    assert_eq!(caller.session.line(&left.name).await.unwrap().claims.len(), 0);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn what_queued_is_not_made_a_second_time() {
    let options = options("twice");
    let way = Way::open().await; // on this thread: nothing is answered before we wait
    let caller = Caller::open(&Store::open(&way.url()).unwrap(), 1, &options).await;
    let (busy, twice) = (caller.mutex(&name("busy"), 1), caller.mutex(&name("twice"), 2));
    let mut sent = caller.session.join(&busy, Patience::Wait);
    let mut queued = caller.session.join(&twice, Patience::Wait);
    let mut again = caller.session.join(&twice, Patience::Wait);
    begin(&mut sent);
    begin(&mut queued);
    begin(&mut again);
    let (again, sent, queued) = tokio::join!(again, sent, queued);
    assert!([again, sent, queued].into_iter().all(|place| is_held(place.unwrap())));
    let nodes = plain().await.list_children(&format!("/{}/twice", options.namespace)).await.unwrap();
    assert_eq!(nodes.len(), 1, "{nodes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn whose_node_may_not_be_read_stands_in_line_all_the_same() {
    let options = || Options::new().ttl(Duration::from_secs(10)).namespace("mixed users");
    let of_a_user = site::url().replacen("zookeeper://", "zookeeper://someone:secret@", 1);
    let (x, b) = (store().connect(options()).await.unwrap(), store().connect(options()).await.unwrap());
    let private = Store::open(&of_a_user).unwrap().only_for_the_user().unwrap();
    let a = private.connect(options()).await.unwrap();
    let line = namespace("stock");
    let wait = |locks: &Arc<dyn Locks>| {
        let lock = locks.mutex(&line).unwrap();
        tokio::spawn(async move { lock.lock().await })
    };
    x.mutex(&line).unwrap().lock().await.unwrap().release().await.unwrap().confirmed().unwrap(); // everyone may use the line
    let held = a.mutex(&line).unwrap().lock().await.unwrap();
    let children = async || plain().await.list_children(&format!("/mixed users/{line}")).await.unwrap().len();
    let next = wait(&x);
    until("one waits", || async { (children().await == 2).then_some(()) }).await;
    let last = wait(&b);
    until("two wait", || async { (children().await == 3).then_some(()) }).await;
    next.abort(); // gives up
    until("one has left", || async { (children().await == 2).then_some(()) }).await;
    let second = tokio::time::timeout(Duration::from_secs(3), last).await;
    let is_held = matches!(&second, Ok(Ok(Ok(second))) if second.state() == State::Held);
    assert!(!is_held || held.state() == State::Lost, "two hold: {held:?} and {second:?}");
    drop(held);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn whose_node_may_not_be_read_is_heard_of_when_it_leaves() {
    let options = || Options::new().ttl(Duration::from_secs(20)).namespace("mixed users");
    let of_a_user = site::url().replacen("zookeeper://", "zookeeper://someone:secret@", 1);
    let everyones = store().connect(options()).await.unwrap();
    let private = Store::open(&of_a_user).unwrap().only_for_the_user().unwrap();
    let private = private.connect(options()).await.unwrap();
    let line = namespace("heard");
    let mutex = everyones.mutex(&line).unwrap();
    mutex.lock().await.unwrap().release().await.unwrap().confirmed().unwrap(); // everyone may use the line
    let held = private.mutex(&line).unwrap().lock().await.unwrap();
    let waiting = tokio::spawn(async move { mutex.lock().await.unwrap() });
    let children = async || plain().await.list_children(&format!("/mixed users/{line}")).await.unwrap().len();
    until("it waits", async || (children().await == 2).then_some(())).await;
    tokio::time::sleep(Duration::from_millis(300)).await; // the watch is set by then
    held.release().await.unwrap().confirmed().unwrap();
    let next = tokio::time::timeout(Duration::from_secs(1), waiting).await;
    next.expect("it is told long before its next look")
        .unwrap()
        .release()
        .await
        .unwrap()
        .confirmed()
        .unwrap();
}

async fn capacity(caller: &Caller, line: &Name) -> u32 {
    caller.session.line(line).await.unwrap().capacity.unwrap().get()
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn of_two_who_resize_at_once_one_is_told_of_the_other() {
    let options = options("resized");
    let [a, b] = site::two(&options).await;
    let line = name("s");
    assert!(is_held(join(&a, &a.permits(&line, 1, 1, 3)).await));
    let mut from = 3;
    for _ in 0..40 {
        let to = |more| weight(from + more);
        let resized = tokio::join!(
            a.session.resize(&line, weight(from), to(1)),
            b.session.resize(&line, weight(from), to(2))
        );
        let (to, refused) = match resized {
            (Ok(()), Err(refused)) => (to(1), refused),
            (Err(refused), Ok(())) => (to(2), refused),
            both => panic!("{both:?}"),
        };
        assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
        from = to.get();
        assert_eq!(capacity(&b, &line).await, from);
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_that_declares_another_capacity_takes_no_resize_back() {
    let options = options("declared");
    let [a, b] = site::two(&options).await;
    for round in 0..40_u64 {
        let line = name(&format!("s{round}"));
        let number = |nth: u64| 3 * round + nth;
        assert!(is_held(join(&a, &a.permits(&line, number(0), 1, 3)).await));
        // So that the client knows the line, and joins as quickly as the resize.
        assert!(is_held(join(&b, &b.permits(&line, number(1), 1, 3)).await));
        b.session.leave(&line, b.claim(number(1)), Leave::Done).await.unwrap();
        let late = b.permits(&line, number(2), 1, 9);
        let (resized, place) = tokio::join!(
            a.session.resize(&line, weight(3), weight(5)),
            b.session.join(&late, Patience::Wait)
        );
        resized.unwrap();
        assert!(is_held(place.unwrap()));
        assert_eq!(capacity(&a, &line).await, 5);
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_mutex_of_the_same_name_takes_no_resize_back() {
    let options = options("mixed");
    let [a, b] = site::two(&options).await;
    let line = name("n");
    assert!(is_held(join(&a, &a.mutex(&line, 1)).await));
    a.session.leave(&line, a.claim(1), Leave::Done).await.unwrap(); // this client has used the name, and no other has
    assert!(is_held(join(&b, &b.permits(&line, 1, 1, 3)).await));
    b.session.resize(&line, weight(3), weight(5)).await.unwrap();
    let error = a.session.join(&a.mutex(&line, 2), Patience::Wait).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::KindMismatch);
    assert_eq!(capacity(&b, &line).await, 5);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_renewal_tells_what_stands_and_should_not_and_what_should_and_does_not() {
    let caller = Caller::open(&store(), 1, &options("strays")).await;
    let line = name("m");
    assert!(is_held(join(&caller, &caller.mutex(&line, 1)).await));
    let standing = [(line.clone(), vec![caller.claim(2)])];
    let renewal = caller.session.renew(Shard(0), &standing).await.unwrap();
    assert_eq!((renewal.strays, renewal.gone), (vec![(line, caller.claim(1))], vec![caller.claim(2)]));
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn an_evicted_claim_is_not_next() {
    let options = options("evicted");
    let [a, b] = site::two(&options).await;
    let line = name("m");
    assert!(is_held(join(&a, &a.mutex(&line, 1)).await));
    for number in [2, 3] {
        assert!(!is_held(join(&a, &a.mutex(&line, number)).await));
    }
    assert_eq!(b.session.leave(&line, a.claim(2), Leave::Done).await.unwrap(), Left::Waiting);
    assert_eq!(a.session.leave(&line, a.claim(1), Leave::Done).await.unwrap(), Left::Held);
    assert_eq!(a.heard.held(a.claim(2)), None, "its node is gone");
    let sight = a.session.look(&line, &[a.claim(2), a.claim(3)]).await.unwrap();
    assert_eq!(sight.gone, [a.claim(2)]);
    assert_eq!(sight.held.first().map(|(id, _)| *id), Some(a.claim(3)));
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn order_is_kept_while_a_line_is_made_anew() {
    let options = options("anew");
    let locks = Arc::new(store().connect(options).await.unwrap());
    let mut last = None;
    for _ in 0..4 {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let mutex = locks.mutex("reborn").unwrap();
            tasks.spawn(async move {
                let hold = mutex.lock().await.unwrap();
                let token = hold.token();
                hold.release().await.unwrap().confirmed().unwrap();
                token
            });
        }
        let mut tokens = Vec::new();
        while let Some(token) = tasks.join_next().await {
            tokens.push(token.unwrap());
        }
        tokens.sort_unstable();
        assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "no two grants have one token");
        assert!(last < tokens.first().copied(), "all earlier tokens are older");
        last = tokens.last().copied();
        tokio::time::sleep(Duration::from_millis(1_500)).await; // the server looks for empty lines every second
    }
    Arc::into_inner(locks).unwrap().close().await.unwrap();
}

/// With so long a ttl no client looks because of a timer: one lost message, and the line would stand still.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_name_that_two_clients_crowd_for_never_stands_still() {
    const HOLDS: usize = 6_000;
    let options = options("crowded");
    let clients = [store().connect(options.clone()).await.unwrap(), store().connect(options).await.unwrap()];
    let held = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..16 {
        let (mutex, held) = (clients[task % 2].mutex("hot").unwrap(), held.clone());
        tasks.spawn(async move {
            while held.fetch_add(1, Ordering::Relaxed) < HOLDS {
                let patient = mutex.lock_within(Duration::from_secs(30)).await;
                match patient {
                    Ok(Some(hold)) => drop(hold),
                    Ok(None) => panic!("its turn never came, after {} holds", held.load(Ordering::Relaxed)),
                    Err(error) => assert!(error.can_retry(), "{error}"), // a busy machine
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    for locks in clients {
        locks.close().await.unwrap();
    }
}

/// With more than that in one session, the ensemble stops when it ends: ZOOKEEPER-4306.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_client_has_no_more_claims_than_servers_can_let_go_of_at_once() {
    const READABLE: usize = 2_000_000;
    let options = options("full");
    let caller = Caller::open(&store(), 1, &options).await;
    let line = name(&"%".repeat(Name::MAX_BYTES));
    let path = format!("/{}/{}", options.namespace, "%25".repeat(Name::MAX_BYTES));
    let take = async |number| caller.session.join(&caller.mutex(&line, number), Patience::Wait).await;
    let most = READABLE / path.len();
    let mut number = 0;
    let error = loop {
        number += 1;
        match take(number).await {
            Ok(place) => assert_eq!(is_held(place), number == 1),
            Err(error) => break error,
        }
        assert!(
            (number as usize) < most,
            "{number} claims have paths of {} bytes",
            number as usize * path.len()
        );
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("jute.maxbuffer"), "{error}");
    assert!(number as usize > most * 4 / 5, "only {number}");
    caller.session.leave(&line, caller.claim(number), Leave::Void).await.unwrap();
    assert!(take(number + 1).await.is_err(), "as many stand as before");
    caller.session.leave(&line, caller.claim(1), Leave::Done).await.unwrap();
    assert!(!is_held(take(number + 2).await.unwrap()));
    let client = plain().await;
    let standing = client.list_children(&path).await.unwrap();
    assert_eq!(standing.len() as u64, number - 1);
    caller.session.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_line_too_long_to_list_takes_nobody_in_and_goes_on() {
    let options = options("long");
    let caller = Caller::open(&store(), 1, &options).await;
    let line = name("crowd");
    assert!(is_held(join(&caller, &caller.mutex(&line, 1)).await));
    let next = Caller::open(&store(), 3, &options).await;
    assert!(!is_held(join(&next, &next.mutex(&line, 1)).await));
    let path = format!("/{}/crowd", options.namespace);
    let client = plain().await;
    let mode = CreateMode::EphemeralSequential.with_acls(zookeeper_client::Acls::anyone_all());
    for part in 0..24 {
        let mut writer = client.new_multi_writer();
        for number in 0..1_000 {
            let node = format!("{path}/m-00000000000000aa-{}-1-1-", part * 1_000 + number);
            writer.add_create(&node, b"", &mode).unwrap();
        }
        writer.commit().await.unwrap();
    }
    let other = Caller::open(&store(), 2, &options).await;
    let error = other.session.join(&other.mutex(&line, 1), Patience::Wait).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("jute.maxbuffer"), "{error}");
    let (children, _) = client.get_children(&path).await.unwrap();
    assert_eq!(children.len(), 24_002, "the claim left no node behind");
    assert_eq!(caller.session.leave(&line, caller.claim(1), Leave::Done).await.unwrap(), Left::Held);
    turn(&next, &line, next.claim(1)).await;
    let sight = next.session.look(&line, &[next.claim(1)]).await.unwrap();
    assert_eq!(sight.held.len(), 1, "the line goes on");
}

/// A client that holds a lock, and whose only way to the server is cut after that.
async fn cut_off(way: &TcpListener, ttl: Duration, line: &Name) -> Caller {
    let store = Store::open(&format!("zookeeper://{}", way.local_addr().unwrap())).unwrap();
    let options = Options::new().ttl(ttl).namespace(&namespace("cut off"));
    let lead = async {
        let mut led = tokio::task::JoinSet::new(); // dropped with this future, it ends them
        loop {
            let (mut client, _) = way.accept().await.unwrap();
            led.spawn(async move {
                let mut server = TcpStream::connect(site::host()).await.unwrap();
                tokio::io::copy_bidirectional(&mut client, &mut server).await
            });
        }
    };
    let holding = async {
        let caller = Caller::open(&store, 1, &options).await;
        assert!(is_held(join(&caller, &caller.mutex(line, 1)).await));
        caller
    };
    tokio::select! {
        () = lead => unreachable!(),
        caller = holding => caller,
    }
}

/// With one server the library by itself would pause for 3 s, 6 s, 12 s: longer than a restart, and longer than a ttl.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_that_is_away_is_asked_for_again_before_long() {
    let way = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let caller = cut_off(&way, Duration::from_secs(40), &name("m")).await;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(9) {
        let asked = tokio::time::timeout(Duration::from_secs(4), way.accept()).await;
        drop(asked.unwrap_or_else(|_| panic!("no connect for 4 s, {:?} after the cut", start.elapsed())));
    }
    drop(caller);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_leave_that_nobody_answered_is_not_done() {
    let way = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let line = name("m");
    let caller = cut_off(&way, Duration::from_secs(6), &line).await;
    drop(way);
    let error = caller.session.leave(&line, caller.claim(1), Leave::Done).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Lost), "{error}");
}
