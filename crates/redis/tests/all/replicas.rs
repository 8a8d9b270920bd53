//! Grants that wait for replicas. A grant counts when enough replicas have it, whichever way it comes. While a needed
//! replica is stopped, it does not count.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidelock_redis::backend::{Leave, Left, Patience, Place};
use tidelock_redis::{ErrorKind, Locks, Mutex, Options, Result, State, Store};
use tokio::task::JoinHandle;

use crate::site;
use crate::site::cluster::{self, Cluster};
use crate::site::replicated::{self, Replicated};
use crate::site::{Caller, name};

const WITHIN: Duration = Duration::from_millis(200);

fn options(replicas: u32) -> Options {
    Options::new().replicas(replicas, WITHIN)
}

fn store() -> Store {
    Store::open(&replicated::url()).unwrap()
}

async fn locks(options: Options) -> Arc<dyn Locks> {
    store().connect(options).await.unwrap()
}

/// Takes the lock and gives it back, in the background.
fn pass(mutex: &Arc<dyn Mutex>) -> JoinHandle<Result<()>> {
    let mutex = mutex.clone();
    tokio::spawn(async move { mutex.lock().await?.release().await?.confirmed() })
}

/// How many claims stand in the line.
async fn standing(locks: &Arc<dyn Locks>, name: &str) -> usize {
    locks.inspect(name).await.unwrap().claims.len()
}

/// Waits until a second claim stands in line.
async fn until_two_stand(locks: &Arc<dyn Locks>, name: &str) {
    site::until("two stand in line", async || (standing(locks, name).await == 2).then_some(())).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_grant_costs_one_write_and_one_wait_more_and_only_where_it_was_asked_for() {
    let mut site = Replicated::new().await;
    let (with, without) = (locks(options(2)).await, locks(Options::new()).await);
    for locks in [&with, &without] {
        locks.mutex("warm").unwrap().lock().await.unwrap().release().await.unwrap().confirmed().unwrap();
    }
    let before = (site.calls("eval"), site.calls("wait"));
    without.mutex("stock").unwrap().lock().await.unwrap().release().await.unwrap().confirmed().unwrap();
    assert_eq!((site.calls("eval"), site.calls("wait")), before);
    let guard = with.mutex("stock").unwrap().lock().await.unwrap();
    assert_eq!((site.calls("eval"), site.calls("wait")), (before.0 + 1, before.1 + 1));
    guard.release().await.unwrap().confirmed().unwrap();
    assert!(with.mutex("stock").unwrap().try_lock().await.unwrap().is_some());
    assert_eq!((site.calls("eval"), site.calls("wait")), (before.0 + 2, before.1 + 2));
    with.close().await.unwrap();
    without.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn many_grants_share_a_wait() {
    let mut site = Replicated::new().await;
    let locks = locks(options(1)).await;
    let tasks: Vec<_> = (0..200).map(|i| pass(&locks.mutex(&format!("name {i}")).unwrap())).collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let waits = site.calls("wait");
    assert!(waits < 60, "{waits} for 200 grants that came together");
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_grant_does_not_count_while_a_replica_that_it_needs_stands_still() {
    let mut site = Replicated::new().await;
    let locks = locks(options(2)).await;
    let mutex = locks.mutex("stock").unwrap();
    let frozen = site.freeze(1);

    let waits = pass(&mutex);
    let start = Instant::now();
    let error = mutex.try_lock().await.map(drop);
    // If the waiting claim is in line at that moment, this is contention and not an error.
    if let Err(error) = error {
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(error.to_string().contains("1 of the 2 required replicas"), "{error}");
    }
    assert!(mutex.lock_within(WITHIN * 4).await.unwrap().is_none());
    assert!(!waits.is_finished(), "{:?} after {:?}", waits.await, start.elapsed());
    drop(frozen);
    waits.await.unwrap().unwrap();
    assert_eq!(standing(&locks, "stock").await, 0);
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn without_patience_too_few_replicas_are_an_error_that_says_how_many() {
    let mut site = Replicated::new().await;
    let locks = locks(options(2)).await;
    let mutex = locks.mutex("stock").unwrap();
    let frozen = site.freeze(2);
    let error = mutex.try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.can_retry());
    assert_eq!(
        error.to_string(),
        "cannot lock \"stock\": 0 of the 2 required replicas had the grant within 200ms"
    );
    let gone = async || (standing(&locks, "stock").await == 0).then_some(());
    site::until("nobody stands in line", gone).await;
    drop(frozen);
    let _again = site::until("it can be had", async || mutex.try_lock().await.ok().flatten()).await;
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn one_of_two_that_stands_still_keeps_nobody_who_needs_one() {
    let mut site = Replicated::new().await;
    let (here, there) = (locks(options(1)).await, locks(options(1)).await);
    let _frozen = site.freeze(1);
    for _ in 0..20 {
        let held = here.mutex("stock").unwrap().try_lock().await.unwrap().unwrap();
        let next = pass(&there.mutex("stock").unwrap());
        until_two_stand(&here, "stock").await;
        held.release().await.unwrap().confirmed().unwrap();
        next.await.unwrap().unwrap();
    }
    here.close().await.unwrap();
    there.close().await.unwrap();
}

/// The holder does not need the replica. Its leave grants a claim that does: by a push, or by the reply if both are of
/// one client.
async fn a_handed_on_grant(site: &mut Replicated, holder: &Arc<dyn Locks>, next: &Arc<dyn Locks>) {
    let held = holder.mutex("stock").unwrap().lock().await.unwrap();
    let mutex = next.mutex("stock").unwrap();
    let waits = tokio::spawn(async move { mutex.lock().await });
    until_two_stand(next, "stock").await;
    let (waited, frozen) = (site.calls("wait"), site.freeze(1));
    held.release().await.unwrap().confirmed().unwrap();
    // Replicas are asked about the grant again and again, and the waiter is not told that it holds.
    site::until("it is asked about twice", async || (site.calls("wait") >= waited + 2).then_some(())).await;
    assert!(!waits.is_finished());
    drop(frozen);
    let guard = waits.await.unwrap().unwrap();
    assert_eq!(guard.state(), State::Held);
    guard.release().await.unwrap().confirmed().unwrap();
    assert_eq!(standing(next, "stock").await, 0);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_pushed_grant_does_not_count_either() {
    let mut site = Replicated::new().await;
    let (holder, next) = (locks(Options::new()).await, locks(options(2)).await);
    a_handed_on_grant(&mut site, &holder, &next).await;
    holder.close().await.unwrap();
    next.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn nor_does_one_at_the_end_of_a_neighbours_reply() {
    let mut site = Replicated::new().await;
    let locks = locks(options(2)).await;
    a_handed_on_grant(&mut site, &locks, &locks).await;
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn nor_does_one_that_a_look_sees() {
    let mut site = Replicated::new().await;
    let name = name("stock");
    let holder = Caller::open(&store(), 1, &Options::new()).await;
    let next = Caller::open(&store(), 2, &options(2)).await;
    holder.session.join(&holder.mutex(&name, 1), Patience::Wait).await.unwrap();
    let place = next.session.join(&next.mutex(&name, 1), Patience::Wait).await.unwrap();
    assert!(matches!(place, Place::Waiting { .. }), "{place:?}");
    let frozen = site.freeze(2);
    holder.session.leave(&name, holder.claim(1), Leave::Done).await.unwrap();
    let sight = next.session.look(&name, &[next.claim(1)]).await.unwrap();
    assert_eq!((sight.held, sight.gone), (vec![], vec![]), "core must see it as waiting");
    let id = next.claim(1);
    let told = next.heard.up_to(|told| *told == site::Told::Gone(id)).await;
    assert_eq!(told, [], "it was given back, and core was never told that it holds");
    assert_eq!(holder.session.line(&name).await.unwrap().claims, []);
    drop(frozen);
    holder.session.close().await.unwrap();
    next.session.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_whose_grant_does_not_count_makes_room_for_others() {
    let mut site = Replicated::new().await;
    let (careful, others) = (locks(options(2)).await, locks(Options::new()).await);
    let frozen = site.freeze(1);
    let waits = pass(&careful.mutex("stock").unwrap());
    for _ in 0..3 {
        let guard = others.mutex("stock").unwrap().lock().await.unwrap();
        assert_eq!(guard.state(), State::Held);
        guard.release().await.unwrap().confirmed().unwrap();
    }
    assert!(!waits.is_finished());
    drop(frozen);
    waits.await.unwrap().unwrap();
    careful.close().await.unwrap();
    others.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_caller_that_gives_up_meanwhile_leaves_nothing() {
    let mut site = Replicated::new().await;
    let locks = locks(options(2)).await;
    let _frozen = site.freeze(1);
    let gone = async || (standing(&locks, "stock").await == 0).then_some(());
    for patient in [true, false] {
        let mutex = locks.mutex("stock").unwrap();
        let waits = tokio::spawn(async move {
            match patient {
                true => mutex.lock().await.map(drop),
                false => mutex.try_lock().await.map(drop),
            }
        });
        let granted = async || (standing(&locks, "stock").await == 1).then_some(());
        site::until("it is granted", granted).await;
        waits.abort();
        site::until("nobody stands in line", gone).await;
    }
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn closing_ends_it() {
    let mut site = Replicated::new().await;
    let (locks, others) = (locks(options(2)).await, locks(Options::new()).await);
    let _frozen = site.freeze(1);
    let waits = pass(&locks.mutex("stock").unwrap());
    site::until("it is asked about", async || (site.calls("wait") > 1).then_some(())).await;
    locks.close().await.unwrap();
    assert_eq!(waits.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(standing(&others, "stock").await, 0);
    let asked = site.calls("wait");
    others.mutex("stock").unwrap().lock().await.unwrap().release().await.unwrap().confirmed().unwrap();
    assert_eq!(site.calls("wait"), asked);
    others.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_waiter_that_is_evicted_while_replicas_are_asked_is_told_once() {
    let mut site = Replicated::new().await;
    let name = name("stock");
    let (operator, next) =
        (Caller::open(&store(), 1, &Options::new()).await, Caller::open(&store(), 2, &options(2)).await);
    let frozen = site.freeze(1);
    let place = next.session.join(&next.mutex(&name, 1), Patience::Wait).await.unwrap();
    assert!(matches!(place, Place::Waiting { .. }), "granted, but that does not count yet: {place:?}");
    assert_eq!(operator.session.leave(&name, next.claim(1), Leave::Done).await.unwrap(), Left::Held);
    let id = next.claim(1);
    assert_eq!(next.heard.up_to(|told| *told == site::Told::Gone(id)).await, []);
    drop(frozen);
    let place = next.session.join(&next.mutex(&name, 2), Patience::Now).await.unwrap();
    assert!(matches!(place, Place::Held { .. }), "{place:?}");
    assert_eq!(next.heard.take(), []);
    operator.session.close().await.unwrap();
    next.session.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_connection_that_breaks_while_it_waits_costs_nothing_but_time() {
    let mut site = Replicated::new().await;
    let locks = locks(Options::new().replicas(2, Duration::from_millis(900))).await;
    let frozen = site.freeze(1);
    let waits = pass(&locks.mutex("stock").unwrap());
    let blocked = async || {
        let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut site.master).unwrap();
        let blocked = clients.lines().find(|client| client.contains("cmd=wait"))?;
        Some(blocked.strip_prefix("id=")?.split(' ').next()?.to_owned())
    };
    let blocked = site::until("it waits", blocked).await;
    let _: u32 = redis::cmd("CLIENT").arg("KILL").arg("ID").arg(blocked).query(&mut site.master).unwrap();
    drop(frozen);
    waits.await.unwrap().unwrap();
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn each_name_of_a_cluster_waits_for_its_masters_replica() {
    let _turn = Cluster::new().await;
    let url = cluster::url();
    let locks = Store::open(&url).unwrap().connect(options(1)).await.unwrap();
    let names: Vec<_> = (0..32).map(|i| format!("name {i}")).collect();
    let tasks: Vec<_> = names.iter().map(|name| pass(&locks.mutex(name).unwrap())).collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    locks.close().await.unwrap();
    let locks = Store::open(&url).unwrap().connect(options(2)).await.unwrap();
    let error = locks.mutex("name 1").unwrap().try_lock().await.unwrap_err();
    assert!(error.to_string().contains("1 of the 2 required replicas"), "{error}");
    locks.close().await.unwrap();
}
