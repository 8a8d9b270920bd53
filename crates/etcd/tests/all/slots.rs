//! Claims that come after one another share a key: the members keep each key that ever was until they are compacted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tidelock_conformance::callers::Caller;
use tidelock_etcd::backend::{Leave, Left, Patience};
use tidelock_etcd::etcd_client::{GetOptions, PutOptions, WatchOptions};
use tidelock_etcd::{ErrorKind, Locks};
use tokio::task::JoinSet;

use crate::site::{self, is_held, join, name};

/// Claims of one session whose numbers are this far apart have one slot.
const APART: u64 = 1 << 20;
/// How many tasks take a name again and again, and how often each.
const TASKS: usize = 8;
const HOLDS: usize = 25;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_name_that_is_taken_often_has_few_keys() {
    let options = site::options("slots");
    let locks = site::store().connect(options.clone()).await.unwrap();
    let mut keys = None;
    for name in ["often", "more often", "most often"] {
        keys = keys_of_holds(&locks, &options.namespace, name).await;
        if keys.is_some() {
            break;
        } // otherwise another test has compacted the server's history meanwhile
    }
    let keys = keys.expect("each hold makes a key and deletes it");
    assert!(keys <= 2 * TASKS, "{keys} keys for {} holds", TASKS * HOLDS);
    locks.close().await.unwrap();
}

/// How many keys a name had while it was taken again and again; `None` if the server does not tell.
async fn keys_of_holds(locks: &Arc<dyn Locks>, namespace: &str, name: &str) -> Option<usize> {
    let line = format!("{namespace}/{name}/");
    let mut etcd = site::plain().await;
    let now = etcd.get(&*line, Some(GetOptions::new().with_count_only())).await.unwrap();
    let from = now.header().unwrap().revision() + 1;
    let all = WatchOptions::new().with_prefix().with_start_revision(from);
    let mut history = etcd.watch(&*line, Some(all)).await.unwrap();
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let mutex = locks.mutex(name).unwrap();
        tasks.spawn(async move {
            for _ in 0..HOLDS {
                mutex.lock().await.unwrap().release().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    let (mut keys, mut events) = (BTreeSet::new(), 0);
    while events < 2 * TASKS * HOLDS {
        let answer = tokio::time::timeout(Duration::from_secs(10), history.message()).await.ok()?;
        let answer = answer.unwrap().filter(|answer| !answer.canceled())?;
        events += answer.events().len();
        keys.extend(answer.events().iter().map(|event| event.kv().unwrap().key().to_vec()));
    }
    Some(keys.len())
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_late_leave_spares_the_claim_that_has_its_slot_now() {
    let [caller, operator] = site::two(&site::options("late-leave")).await;
    let (line, older, newer) = (name("n"), caller.claim(7), caller.claim(7 + APART));
    assert!(is_held(join(&caller, &caller.mutex(&line, older.number)).await));
    let leave = async |id, how| caller.session.leave(&line, id, how).await.unwrap();
    assert_eq!(leave(older, Leave::Done).await, Left::Held);
    assert!(is_held(join(&caller, &caller.mutex(&line, newer.number)).await));
    for how in [Leave::Done, Leave::Void] {
        assert_eq!(leave(older, how).await, Left::Absent);
    }
    assert_eq!(operator.session.leave(&line, older, Leave::Void).await.unwrap(), Left::Absent);
    assert_eq!(leave(newer, Leave::Done).await, Left::Held);
    caller.session.close().await.unwrap();
    operator.session.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_takes_its_slot_from_one_that_core_has_forgotten() {
    let caller = Caller::open(&site::store(), 1, &site::options("forgotten")).await;
    let line = name("n");
    assert!(is_held(join(&caller, &caller.mutex(&line, 7)).await));
    assert!(is_held(join(&caller, &caller.mutex(&line, 7 + APART)).await));
    let shown = caller.session.line(&line).await.unwrap();
    assert_eq!(shown.holders().map(|holder| holder.id).collect::<Vec<_>>(), [caller.claim(7 + APART)]);
    caller.session.close().await.unwrap();
}

/// As after a restore from a snapshot that is older than the claim.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_in_whose_slot_an_older_one_stands_is_gone() {
    let options = site::options("restored");
    let caller = Caller::open(&site::store(), 1, &options).await;
    let (line, claim) = (name("n"), caller.claim(7 + APART));
    assert!(is_held(join(&caller, &caller.mutex(&line, claim.number)).await));
    let key = format!("{}/n/{}-7-m", options.namespace, claim.session);
    let on_lease = PutOptions::new().with_lease(claim.session.get().cast_signed());
    site::plain().await.put(key, "7", Some(on_lease)).await.unwrap();
    let renewal = caller.session.renew(caller.session.shard(&line), &[(line.clone(), vec![claim])]).await;
    let renewal = renewal.unwrap();
    assert_eq!((renewal.gone, renewal.strays), (vec![claim], vec![(line, caller.claim(7))]));
    caller.session.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_slot_that_something_else_uses_is_an_error_at_once() {
    let options = site::options("foreign-slot");
    let caller = Caller::open(&site::store(), 1, &options).await;
    let key = format!("{}/n/{}-7-m", options.namespace, caller.id);
    site::plain().await.put(key, "what?", None).await.unwrap();
    let joined = caller.session.join(&caller.mutex(&name("n"), 7), Patience::Wait).await;
    assert_eq!(joined.unwrap_err().kind(), ErrorKind::Protocol);
    caller.session.close().await.unwrap();
}
