//! Reconnecting: with many waiters, whatever timeout the server then gives, and while one of the servers hangs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidelock_zookeeper::{Guard, Locks, Options, State, Store};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::site;
use crate::site::way::Way;
use crate::site::{host, namespace, until};

async fn connect(url: &str, options: &Options) -> Arc<dyn Locks> {
    Store::open(url).unwrap().connect(options.clone()).await.unwrap()
}

/// Names of two hundred bytes each.
fn long_names(many: usize) -> Vec<String> {
    (0..many).map(|number| format!("{number:0200}")).collect()
}

/// Takes all of these locks, or stands in line for them.
fn lock_all(locks: &Arc<dyn Locks>, names: &[String], taking: &mut JoinSet<Guard>) {
    for name in names {
        let mutex = locks.mutex(name).unwrap();
        taking.spawn(async move { mutex.lock().await.unwrap() });
    }
}

/// The library would set all watches again in several requests with the same number, and break at the second reply.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn five_thousand_waited_names_survive_a_lost_connection() {
    let options = Options::new()
        .ttl(Duration::from_secs(12))
        .command_deadline(Duration::from_secs(60))
        .namespace(&namespace("waited"));
    let way = Way::open().await;
    let (owner, waiter) = (connect(&site::url(), &options).await, connect(&way.url(), &options).await);
    let names = long_names(5_000);
    let kept = waiter.mutex("kept").unwrap().lock().await.unwrap();
    let (mut guards, mut waiting) = (Vec::new(), JoinSet::new());
    let watcher = site::plain().await;
    for names in names.chunks(250) {
        let mut taking = JoinSet::new();
        lock_all(&owner, names, &mut taking);
        guards.extend(taking.join_all().await);
        lock_all(&waiter, names, &mut waiting);
        until("everyone waits", async || {
            let lines = names.iter().map(|name| format!("/{}/{name}", options.namespace));
            let all: Vec<_> = lines.map(|line| watcher.get_children(&line)).collect(); // sent together
            for line in all {
                if line.await.unwrap().0.len() < 2 {
                    return None;
                }
            }
            Some(())
        })
        .await;
    }
    let before = way.returns();
    for cut in 1..=2 {
        way.cut();
        until("it is connected again", async || (way.answered() == before + cut).then_some(())).await;
        let again = Instant::now();
        // The second cut lasts longer than the ttl: claims that were not renewed are lost by then.
        while again.elapsed() < Duration::from_secs(if cut == 1 { 1 } else { 13 }) {
            assert_ne!(kept.state(), State::Lost, "after cut {cut}");
            assert_eq!(way.returns(), before + cut, "after cut {cut}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    let handing_on = Instant::now();
    drop(guards);
    let had = waiting.join_all().await;
    assert_eq!(had.len(), names.len());
    println!("5 000 hand-offs after two cuts took {:?}", handing_on.elapsed());
    assert!(handing_on.elapsed() < Duration::from_secs(30), "{:?}", handing_on.elapsed());
    kept.release().await.unwrap().confirmed().unwrap();
}

/// As with a server that restarts with a smaller `maxSessionTimeout`.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_shorter_session_that_a_reconnect_brings_is_believed_at_once() {
    let options = Options::new().ttl(Duration::from_secs(12)).namespace(&namespace("shorter"));
    let way = Way::open().await;
    let (a, b) = (connect(&way.url(), &options).await, connect(&site::url(), &options).await);
    let first = a.mutex("m").unwrap().lock().await.unwrap();
    let mutex = b.mutex("m").unwrap();
    let next = tokio::spawn(async move { mutex.lock().await.unwrap() });
    way.shorten_and_hush(Duration::from_millis(1_500));
    way.cut();
    let second = next.await.unwrap();
    assert_eq!(
        first.state(),
        State::Lost,
        "two clients hold, and the first still for {:?}",
        first.remaining()
    );
    assert!(second.token() > first.token());
    second.release().await.unwrap().confirmed().unwrap();
}

/// One of three servers accepts connections, and never replies.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_that_hangs_is_not_waited_for_while_others_serve() {
    let hung = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hung = hung.local_addr().unwrap();
    let url = format!("zookeeper://{hung},{},{}", host(), host());
    let options = Options::new()
        .ttl(Duration::from_secs(30))
        .connect_deadline(Duration::from_secs(8))
        .namespace(&namespace("hung"));
    for _ in 0..12 {
        let start = Instant::now();
        let locks = connect(&url, &options).await;
        assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
        locks.close().await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_session_does_not_wait_for_a_server_that_hangs_either() {
    let hung = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ways = [Way::open().await, Way::open().await];
    let hosts = ways.each_ref().map(|way| way.url().replace("zookeeper://", "")).join(",");
    let url = format!("zookeeper://{hosts},{}", hung.local_addr().unwrap());
    let options = Options::new().ttl(Duration::from_secs(15)).namespace(&namespace("hung again"));
    let locks = connect(&url, &options).await;
    let guard = locks.mutex("m").unwrap().lock().await.unwrap();
    let answered = || ways.iter().map(Way::answered).sum::<usize>();
    for cut in 1..=12 {
        let start = Instant::now();
        ways.iter().for_each(Way::cut);
        until("it is connected again", async || (answered() == cut).then_some(())).await;
        assert!(start.elapsed() < Duration::from_secs(4), "cut {cut}: {:?}", start.elapsed());
        assert_ne!(guard.state(), State::Lost, "cut {cut}");
    }
    guard.release().await.unwrap().confirmed().unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_session_does_not_wait_for_servers_that_only_say_how_they_are() {
    let ways = [Way::open().await, Way::open().await, Way::open().await];
    let hosts = ways.each_ref().map(|way| way.url().replace("zookeeper://", "")).join(",");
    let options = Options::new().ttl(Duration::from_secs(15)).namespace(&namespace("deaf"));
    let locks = connect(&format!("zookeeper://{hosts}"), &options).await;
    let guard = locks.mutex("m").unwrap().lock().await.unwrap();
    ways[..2].iter().for_each(Way::deafen);
    for cut in 1..=8 {
        let before = ways[2].answered();
        let start = Instant::now();
        // The only server that replies may be cut off at any moment, also during a request.
        if cut % 2 == 0 {
            ways[2].cut_with_the_next_offer();
        } else {
            ways[2].cut();
        }
        until("it is connected again", async || (ways[2].answered() > before).then_some(())).await;
        assert!(start.elapsed() < Duration::from_secs(3), "cut {cut}: {:?}", start.elapsed());
        assert_ne!(guard.state(), State::Lost, "cut {cut}");
    }
    guard.release().await.unwrap().confirmed().unwrap();
}

/// A lock that is released while there is no connection is given back once there is one again.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn what_is_asked_without_a_connection_is_sent_on_the_next() {
    let options = Options::new().ttl(Duration::from_secs(8)).namespace(&namespace("queued"));
    let way = Way::open().await;
    let (a, b) = (connect(&way.url(), &options).await, connect(&site::url(), &options).await);
    let held = a.mutex("held").unwrap().lock().await.unwrap();
    let (wanted, next) = (a.mutex("wanted").unwrap(), b.mutex("held").unwrap());
    let next = tokio::spawn(async move { next.lock().await.unwrap() });
    way.close();
    drop(held);
    let joining = tokio::spawn(async move { wanted.lock().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(500)).await; // without a connection
    assert!(!next.is_finished() && !joining.is_finished());
    let start = Instant::now();
    way.reopen();
    let (next, wanted) = tokio::try_join!(next, joining).unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!([next.state(), wanted.state()], [State::Held, State::Held]);
}

/// What a client gave up by its own clock may live on at the server: the claims are in its own way then, and in that of
/// others.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_session_that_was_given_up_is_in_nobodys_way_once_the_server_answers() {
    let options = Options::new()
        .ttl(Duration::from_secs(8))
        .command_deadline(Duration::from_secs(2))
        .namespace(&namespace("given up"));
    let way = Way::open().await;
    let (a, b) = (connect(&way.url(), &options).await, connect(&site::url(), &options).await);
    let [own, wanted, tried] = ["own", "wanted", "tried"].map(|name| a.mutex(name).unwrap());
    let held = [own.lock().await.unwrap(), wanted.lock().await.unwrap(), tried.lock().await.unwrap()];
    let next = b.mutex("wanted").unwrap();
    let next = tokio::spawn(async move { next.lock().await.unwrap() });
    way.mute(true);
    until("its session is given up", async || {
        held.iter().all(|held| held.state() == State::Lost).then_some(())
    })
    .await;
    assert!(!next.is_finished(), "the server keeps its session");
    assert!(a.mutex("other").unwrap().try_lock().await.is_err(), "the server does not answer");
    assert_eq!(way.returns(), 0, "the session was shown to the server, which gives it its whole time again");
    let again = Instant::now();
    way.mute(false);
    assert!(tried.try_lock().await.unwrap().is_some(), "its own dead claim was in the way");
    let own = own.lock().await.unwrap();
    let next = next.await.unwrap();
    assert!(again.elapsed() < Duration::from_secs(3), "{:?}", again.elapsed());
    assert!(own.token() > held[0].token() && next.token() > held[1].token());
}

/// As above: its session ends when a server can be reached, not when its ttl is over.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_client_that_could_not_close_is_in_nobodys_way_once_the_server_answers() {
    let options = Options::new().ttl(Duration::from_secs(60)).namespace(&namespace("unclosed"));
    let way = Way::open().await;
    let (a, b) = (connect(&way.url(), &options).await, connect(&site::url(), &options).await);
    let held = a.mutex("m").unwrap().lock().await.unwrap();
    let next = b.mutex("m").unwrap();
    let next = tokio::spawn(async move { next.lock().await.unwrap() });
    way.close();
    assert!(a.close_within(Duration::from_millis(300)).await.is_err(), "the server is away");
    assert_eq!(held.state(), State::Lost);
    drop((held, a));
    let again = Instant::now();
    way.reopen();
    let next = next.await.unwrap();
    assert!(again.elapsed() < Duration::from_secs(5), "{:?}", again.elapsed());
    next.release().await.unwrap().confirmed().unwrap();
}
