//! The faults that a test can cause, and the manual clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tidelock_memory::backend::{Backend, Leave, Patience, Place, Sleep};
use tidelock_memory::prelude::*;
use tidelock_memory::{Clock, ErrorKind, Options, Store};

use crate::client::{Client, Told, now};

#[test]
fn a_refused_request_does_nothing_and_then_the_store_serves_again() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    let claim = client.mutex(1, "stock");
    store.faults().refuse_next(2);
    assert_eq!(client.join(&claim).unwrap_err().kind(), ErrorKind::Unavailable);
    let leave = now(client.session.leave(&claim.name, claim.id, Leave::Void));
    assert_eq!(leave.unwrap_err().kind(), ErrorKind::Unavailable);
    client.hold(&claim);

    store.faults().refuse_all();
    let error = client.renew(&[]).unwrap_err();
    assert!(error.can_retry());
    assert!(error.to_string().contains("Faults::refuse_all"), "{error}");
    assert!(client.renew(&[]).is_err());
    store.faults().heal();
    client.renew(&[]).unwrap();
}

#[test]
fn a_lost_reply_hides_what_has_happened() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    let claim = client.mutex(1, "stock");
    store.faults().lose_replies(1);
    assert_eq!(client.join(&claim).unwrap_err().kind(), ErrorKind::Timeout);
    assert!(matches!(client.join(&claim).unwrap(), Place::Held { .. }));
}

#[test]
fn a_lost_session_is_told_and_only_the_client_that_was_meant_loses_it() {
    let store = Store::new();
    let [shop, depot] =
        [(1, "shop"), (2, "depot")].map(|(id, label)| Client::with(&store, id, &Options::new().label(label)));
    assert_eq!(store.faults().lose_sessions_of("shop"), 1);
    assert_eq!((shop.told(), depot.told()), (vec![Told::Over], vec![]));
    assert_eq!(store.faults().lose_sessions(), 1);
    assert_eq!(depot.told(), [Told::Over]);
}

#[test]
fn dropped_signals_are_found_by_looking() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    let (held, wanted) = (client.mutex(1, "stock"), client.mutex(2, "stock"));
    client.hold(&held);
    client.wait(&wanted);
    store.faults().drop_signals();
    client.leave(&held);
    assert_eq!(client.told(), []);
    assert_eq!(client.look(&wanted).unwrap().held.len(), 1);
}

#[tokio::test]
async fn a_delay_is_spent_there_and_back_and_deadlines_count_from_before() {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let client = Client::new(&store, 1);
    store.faults().delay(Duration::from_secs(2));
    let sent = clock.now();
    let session = client.session.clone();
    let renewing = tokio::spawn(async move { session.renew(tidelock_memory::backend::Shard(0), &[]).await });
    while store.clock().alarms().first().is_none() {
        tokio::task::yield_now().await;
    }
    clock.pass(Duration::from_secs(2)).await;
    let renewal = renewing.await.unwrap().unwrap();
    assert_eq!(clock.now(), sent + Duration::from_secs(2));
    assert_eq!(renewal.until, sent + client.session.ttl());
}

#[tokio::test]
async fn a_join_that_is_dropped_on_its_way_there_never_arrives() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    let claim = client.mutex(1, "stock");
    store.faults().delay(Duration::from_secs(2));
    let join = client.session.join(&claim, Patience::Wait);
    assert!(tokio::time::timeout(Duration::from_millis(1), join).await.is_err());
    store.faults().heal();
    assert_eq!(now(client.session.names("", None)).unwrap(), []);
}

#[tokio::test]
async fn time_that_passes_lets_each_alarm_be_dealt_with_before_it_goes_on() {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let rounds = Arc::new(AtomicU32::new(0));
    let ticking = tokio::spawn({
        let (clock, rounds) = (store.clock(), rounds.clone());
        async move {
            let mut last = Sleep::until(&clock, clock.now() + Duration::from_secs(1));
            loop {
                (&mut last).await;
                rounds.fetch_add(1, Ordering::SeqCst);
                let mut next = Sleep::until(&clock, clock.now() + Duration::from_secs(1));
                assert!(
                    std::future::poll_fn(|cx| std::task::Poll::Ready(
                        std::pin::Pin::new(&mut next).poll(cx).is_pending()
                    ))
                    .await
                );
                last = next; // only now the last alarm is dropped
            }
        }
    });
    while store.clock().alarms().first().is_none() {
        tokio::task::yield_now().await;
    }
    clock.pass(Duration::from_secs(100)).await;
    assert_eq!(rounds.load(Ordering::SeqCst), 100);
    ticking.abort();
}

#[tokio::test]
async fn a_client_that_is_awake_keeps_what_it_holds_while_time_passes() {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let locks = store.attach(Options::new()).unwrap();
    let held = locks.mutex("job").unwrap().lock().await.unwrap();
    clock.pass(Duration::from_secs(600)).await;
    assert_eq!(held.state(), State::Held);
    held.release().await.unwrap().confirmed().unwrap();
    locks.close().await.unwrap();
}

#[tokio::test]
async fn a_client_that_never_looks_costs_little_real_time() {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let locks = store.attach(Options::new()).unwrap();
    let held = locks.mutex("job").unwrap().lock().await.unwrap();
    let dead = Client::new(&store, 1); // never renewed
    let began = Instant::now();
    clock.pass(Duration::from_secs(3600)).await;
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!((held.state(), dead.told()), (State::Held, vec![Told::Over]));
    locks.close().await.unwrap();
}

#[tokio::test]
async fn a_client_that_slept_past_its_lease_has_lost_what_it_held() {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let locks = store.attach(Options::new()).unwrap();
    let held = locks.mutex("job").unwrap().lock().await.unwrap();
    clock.advance(Duration::from_secs(60));
    assert_eq!(held.state(), State::Lost);
}

#[tokio::test]
async fn two_clients_of_one_store_exclude_each_other() {
    let store = Store::new();
    let [one, other] = [(); 2].map(|()| store.attach(Options::new()).unwrap());
    let held = one.mutex("stock").unwrap().lock().await.unwrap();
    assert!(other.mutex("stock").unwrap().try_lock().await.unwrap().is_none());
    held.release().await.unwrap().confirmed().unwrap();
    assert!(other.mutex("stock").unwrap().try_lock().await.unwrap().is_some());
    one.close().await.unwrap();
    other.close().await.unwrap();
}
