//! A database without room. It may refuse a transaction that it has carried out.

use std::task::Poll;
use std::time::Duration;

use tidelock_conformance::callers::Caller;
use tidelock_etcd::backend::{Leave, Left, Patience};
use tidelock_etcd::etcd_client::Client;
use tidelock_etcd::{Error, ErrorKind, Guard, Options, State, Store};
use tokio::task::JoinSet;

use crate::site::{self, FULL, Middleman, Program, join, name, until};

/// The first release is on its way, so what comes meanwhile goes as one transaction.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_release_that_was_carried_out_and_refused_is_no_loss() {
    let mut middleman = Middleman::before(site::host()).await;
    let options = Options::new()
        .ttl(Duration::from_secs(30))
        .command_deadline(Duration::from_secs(5))
        .namespace(&site::namespace("refused"));
    let locks = Store::open(&middleman.url()).unwrap().connect(options).await.unwrap();
    let guard = async |name: &str| locks.mutex(name).unwrap().lock().await.unwrap();
    let [first, a, b] = [guard("first").await, guard("a").await, guard("b").await];
    middleman.stops("/Txn", b"/");
    let first = tokio::spawn(first.release());
    let alone = middleman.stopped().await;
    let carries = async {
        alone.pass().await;
        let batch = middleman.stopped().await;
        middleman.heals();
        batch.pass_but_say(FULL).await;
    };
    let free = locks.mutex("c").unwrap();
    let joins = free.lock_within(Duration::from_secs(4));
    let (a, b, joined, ()) = tokio::join!(a.release(), b.release(), joins, carries);
    assert!(first.await.unwrap().unwrap().is_confirmed());
    for released in [a, b] {
        released.unwrap_or_else(|error| panic!("a good release is told as lost: {error}"));
    }
    joined.unwrap().expect("nobody else wants it").release().await.unwrap();
    for name in ["a", "b", "c"] {
        let none = async || locks.inspect(name).await.unwrap().claims.is_empty().then_some(());
        until("it is given back", none).await;
    }
    locks.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn an_eviction_that_was_carried_out_and_refused_does_not_say_that_nobody_was_there() {
    let mut middleman = Middleman::before(site::host()).await;
    let options = site::options("evicted").command_deadline(Duration::from_secs(5));
    let operator = Caller::open(&Store::open(&middleman.url()).unwrap(), 1, &options).await;
    let other = Caller::open(&site::store(), 2, &options).await;
    let [line, first, more] = ["line", "first", "more"].map(name);
    join(&other, &other.mutex(&line, 1)).await;
    join(&operator, &operator.mutex(&first, 1)).await;
    middleman.stops("/Txn", b"/");
    let leaving = operator.session.leave(&first, operator.claim(1), Leave::Done);
    let alone = middleman.stopped().await;
    let evicting = operator.session.leave(&line, other.claim(1), Leave::Void);
    let claim = operator.mutex(&more, 2);
    let mut joining = operator.session.join(&claim, Patience::Wait);
    let is_under_way = std::future::poll_fn(|cx| Poll::Ready(joining.as_mut().poll(cx).is_pending())).await;
    assert!(is_under_way);
    alone.pass().await;
    let batch = middleman.stopped().await;
    middleman.heals();
    batch.pass_but_say(FULL).await;
    leaving.await.unwrap();
    assert_eq!(joining.await.unwrap_err().kind(), ErrorKind::Unavailable);
    let evicted = evicting.await;
    assert_eq!(evicted.as_ref().err().map(Error::kind), Some(ErrorKind::Unavailable), "{evicted:?}");
    // The join was carried out, too, and another attempt finds that.
    assert!(site::is_held(join(&operator, &claim).await));
    for caller in [operator, other] {
        caller.session.close().await.unwrap();
    }
}

/// The join of a claim is refused, and so is its leave. The other claim stood, so its leave may have been carried out.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_leave_of_a_claim_that_never_stood_is_not_in_doubt() {
    let mut middleman = Middleman::before(site::host()).await;
    let options = site::options("never stood").command_deadline(Duration::from_secs(5));
    let caller = Caller::open(&Store::open(&middleman.url()).unwrap(), 1, &options).await;
    let [first, stood, never] = ["first", "stood", "never"].map(name);
    join(&caller, &caller.mutex(&first, 1)).await;
    join(&caller, &caller.mutex(&stood, 2)).await;
    middleman.refuses(&["/Txn"], FULL);
    let refused = caller.session.join(&caller.mutex(&never, 3), Patience::Wait).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unavailable);
    middleman.heals();
    middleman.stops("/Txn", b"/");
    let leave = |name, number, how| caller.session.leave(name, caller.claim(number), how);
    let leaving = leave(&first, 1, Leave::Done);
    let alone = middleman.stopped().await;
    let [in_vain, in_doubt] = [leave(&never, 3, Leave::Void), leave(&stood, 2, Leave::Done)];
    alone.pass().await;
    let batch = middleman.stopped().await;
    middleman.heals();
    batch.pass_but_say(FULL).await;
    leaving.await.unwrap();
    assert_eq!(in_vain.await.unwrap(), Left::Absent);
    assert_eq!(in_doubt.await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(leave(&stood, 2, Leave::Done).await.unwrap(), Left::Absent, "it was told");
    caller.session.close().await.unwrap();
}

/// Versions before 3.4.20 and 3.5.7 refuse every transaction then, also one that only reads. A read by itself they answer.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_that_refuses_every_transaction_costs_no_lock() {
    let middleman = Middleman::before(site::host()).await;
    let ttl = Duration::from_secs(3);
    let options = Options::new().ttl(ttl).namespace(&site::namespace("refuses all"));
    let locks = Store::open(&middleman.url()).unwrap().connect(options).await.unwrap();
    let guard = locks.mutex("m").unwrap().lock().await.unwrap();
    middleman.refuses(&["/Txn"], FULL);
    tokio::time::sleep(ttl * 2).await;
    assert_eq!(guard.state(), State::Held);
    middleman.heals();
    assert!(guard.release().await.unwrap().is_confirmed());
    locks.close().await.unwrap();
}

/// A holder dies while such a server is full, and its lease ends.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_that_refuses_every_transaction_withholds_no_turn() {
    let middleman = Middleman::before(site::host()).await;
    let options = site::options("a turn");
    let holder = Caller::open(&site::store(), 1, &options).await;
    let waiter = Caller::open(&Store::open(&middleman.url()).unwrap(), 2, &options).await;
    let line = name("m");
    assert!(site::is_held(join(&holder, &holder.mutex(&line, 1)).await));
    let waiting = waiter.mutex(&line, 1);
    assert!(!site::is_held(join(&waiter, &waiting).await));
    middleman.refuses(&["/Txn"], FULL);
    let sight = waiter.session.look(&line, &[waiting.id]).await.unwrap();
    assert!(sight.held.is_empty() && sight.gone.is_empty(), "{sight:?}");
    site::plain().await.lease_revoke(holder.id.get().cast_signed()).await.unwrap();
    assert!(waiter.heard.turn(&line, waiting.id).await.is_some(), "its watch does not tell");
    middleman.heals();
    waiter.session.close().await.unwrap();
}

/// Writers fill it, and go on trying, while locks are held and given back together.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_database_that_is_really_full_keeps_what_is_held_and_takes_it_back() {
    let server = Program::etcd("full", &["--quota-backend-bytes", "4000000"]).await;
    let ttl = Duration::from_secs(3);
    let options = Options::new().ttl(ttl).command_deadline(Duration::from_secs(1));
    let store = Store::open(&format!("etcd://{}", server.address)).unwrap();
    let locks =
        until("it serves", async || store.connect(options.clone().namespace("full")).await.ok()).await;
    let held = futures_util::future::join_all((0..20).map(|number| {
        let mutex = locks.mutex(&format!("{number}")).unwrap();
        async move { mutex.lock().await.unwrap() }
    }))
    .await;
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let mut etcd = Client::connect([&server.address], None).await.unwrap();
        writers.spawn(async move {
            loop {
                // An error: it is full.
                if etcd.put(format!("data/{writer}"), vec![0; 100_000], None).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            }
        });
    }
    until("it is full", async || {
        let tried = locks.mutex("more").unwrap().lock_within(Duration::from_millis(300)).await;
        tried.is_err_and(|error| error.to_string().contains("NOSPACE")).then_some(())
    })
    .await;
    tokio::time::sleep(ttl * 2).await;
    assert!(held.iter().all(|guard| guard.state() == State::Held), "{:?}", held[0].state());
    let released = futures_util::future::join_all(held.into_iter().map(Guard::release)).await;
    for released in released {
        assert!(released.unwrap().is_confirmed());
    }
    writers.shutdown().await;
}
