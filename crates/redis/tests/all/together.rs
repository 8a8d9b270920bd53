//! What a crowd asks of many names goes as one script. Each name has its own outcome all the same.

use std::sync::Arc;

use tidelock_redis::{ErrorKind, Guard, Locks, Options, Result, Store};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::site::alone::Alone;
use crate::site::{self, hold, until};

const CROWD: usize = 64;

async fn client() -> Arc<dyn Locks> {
    Store::open(&site::url()).unwrap().connect(Options::new()).await.unwrap()
}

/// Asks for all of these names at once.
async fn all_at_once(locks: &Arc<dyn Locks>, names: &[String]) -> Vec<(String, Result<Guard>)> {
    let (mut crowd, start) = (JoinSet::new(), Arc::new(Barrier::new(names.len())));
    for name in names.iter().cloned() {
        let (locks, start) = (locks.clone(), start.clone());
        crowd.spawn(async move {
            start.wait().await;
            let taken = match name.split(' ').next() {
                Some("read") => locks.rwlock(&name).unwrap().read().await,
                Some("permit") => locks.semaphore(&name, 3).unwrap().acquire(1).await,
                _ => hold(&locks, &name).await,
            };
            (name, taken)
        });
    }
    crowd.join_all().await
}

async fn give_back(taken: impl IntoIterator<Item = Guard>) {
    let mut crowd = JoinSet::new();
    for guard in taken {
        crowd.spawn(async move { guard.release().await.unwrap().confirmed().unwrap() });
    }
    crowd.join_all().await;
}

/// How many scripts the server has run.
fn scripts(alone: &mut Alone) -> usize {
    let redis::Value::BulkString(said) = alone.ask("INFO commandstats") else { return 0 };
    let said = String::from_utf8(said).unwrap();
    let calls = said.split("cmdstat_evalsha:calls=").nth(1).unwrap_or("0");
    calls.split(',').next().unwrap().parse().unwrap()
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_crowd_with_many_names_needs_few_scripts() {
    let mut alone = Alone::new().await;
    let locks = client().await;
    let names: Vec<_> = (0..CROWD).map(|number| format!("together {number}")).collect();
    // The first of them go without a connection of this runtime.
    until("a crowd goes together", async || {
        let before = scripts(&mut alone);
        let taken = all_at_once(&locks, &names).await;
        give_back(taken.into_iter().map(|(_, taken)| taken.unwrap())).await;
        (scripts(&mut alone) - before <= CROWD / 2).then_some(()) // otherwise it is two for each
    })
    .await;
    locks.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn each_name_of_a_crowd_has_its_own_outcome() {
    let mut alone = Alone::new().await;
    let (locks, other) = (client().await, client().await);
    let name = |what: &str, number: usize| format!("{what} {number}");
    let names: Vec<_> = (0..CROWD)
        .map(|n| name(["mutex", "held", "read", "permit"][n % 4], n))
        .chain(["wrong".into()])
        .collect();
    for _ in 0..20 {
        alone.ask("SET tidelock:{wrong}:held text");
        let mut held = Vec::new();
        for name in names.iter().filter(|name| !name.starts_with("mutex") && *name != "wrong") {
            held.push(match name.split(' ').next() {
                Some("read") => other.rwlock(name).unwrap().read().await.unwrap(),
                Some("permit") => other.semaphore(name, 3).unwrap().acquire(2).await.unwrap(),
                _ => hold(&other, name).await.unwrap(),
            });
        }
        let (before, asked) =
            (held.iter().map(|guard| (guard.name().to_string(), guard.token())).collect::<Vec<_>>(), {
                let (locks, names) = (locks.clone(), names.clone());
                tokio::spawn(async move { all_at_once(&locks, &names).await })
            });
        until("they wait", async || {
            let line = other.inspect(&name("held", 1)).await.unwrap();
            (line.waiters().count() == 1).then_some(())
        })
        .await;
        give_back(held).await;
        let mut taken = Vec::new();
        for (name, outcome) in asked.await.unwrap() {
            match outcome {
                Ok(guard) => taken.push(guard),
                Err(error) => {
                    assert_eq!((name.as_str(), error.kind()), ("wrong", ErrorKind::Protocol), "{error}");
                }
            }
        }
        assert_eq!(taken.len(), CROWD);
        for (name, token) in before {
            let next = taken.iter().find(|guard| guard.name().to_string() == name).unwrap();
            assert!(next.token() > token, "{name}");
        }
        give_back(taken).await;
        alone.ask("DEL tidelock:{wrong}:held");
    }
    locks.close().await.unwrap();
    other.close().await.unwrap();
}
