//! The minimal permissions of a user. With exactly these everything works; if any is missing, a client is told at once
//! which one.

use tidelock_redis::backend::{Claim, Leave, Left, Patience, Place, Shard};
use tidelock_redis::{Error, ErrorKind, Kind, Name, Options, Result, Store, Weight};

use crate::site;
use crate::site::alone::Alone;
use crate::site::cluster::{self, Cluster};
use crate::site::{Caller, name, url_of, weight};

/// The rule in the guide, for the namespace `tidelock`.
const RULE: &str = "resetkeys ~tidelock:* resetchannels &tidelock:* -@all \
    +eval +evalsha +subscribe +publish +time \
    +hset +hget +hmget +hgetall +hdel +zadd +zscore +zrange +zrem +zremrangebyscore +zpopmin +hrandfield +pexpire +del \
    +scan +info +ping";
/// Useful but not required: INFO shows which server it is, PING detects dead connections earlier.
const OPTIONAL: [&str; 2] = ["+info", "+ping"];

fn grant(alone: &mut Alone, rule: &str) {
    alone.ask("SCRIPT FLUSH");
    alone.ask(&format!("ACL SETUSER app reset on >secret {rule}"));
    alone.ask("ACL LOG RESET");
}

/// Runs every operation once, as a user with that rule.
async fn everything() -> Result<()> {
    let store = Store::open(&url_of("app", "secret"))?;
    let (one, other) = (open(&store, 1).await?, open(&store, 2).await?);
    hand_off(&one, &other, &name("mutex")).await?;
    share(&one, &other, &name("shared")).await?;
    resize(&one, &other, &name("seats")).await?;
    administrate(&one, &other, &name("seen")).await?;
    one.session.close().await?;
    other.session.close().await
}

async fn open(store: &Store, id: u64) -> Result<Caller> {
    Caller::try_open(store, id, &Options::new()).await
}

async fn hand_off(one: &Caller, other: &Caller, name: &Name) -> Result<()> {
    one.session.join(&one.mutex(name, 1), Patience::Wait).await?;
    other.session.join(&other.mutex(name, 1), Patience::Wait).await?;
    other.session.look(name, &[other.claim(1)]).await?;
    one.session.renew(Shard(0), &[(name.clone(), vec![one.claim(1)])]).await?;
    one.session.leave(name, one.claim(1), Leave::Done).await?;
    other.heard.grant(other.claim(1)).await;
    other.session.leave(name, other.claim(1), Leave::Void).await?;
    assert_eq!(other.session.join(&other.mutex(name, 1), Patience::Wait).await?, Place::Gone);
    other.session.look(name, &[other.claim(2)]).await.map(drop)
}

async fn share(one: &Caller, other: &Caller, name: &Name) -> Result<()> {
    let claim = |id, weight| Claim::new(id, name.clone(), Kind::RwLock, weight, Weight::MAX);
    let (write, read) = (claim(one.claim(11), Weight::MAX), claim(other.claim(11), Weight::ONE));
    one.session.join(&write, Patience::Wait).await?;
    other.session.join(&read, Patience::Wait).await?;
    one.session.lighten(&write, Weight::ONE).await?;
    other.heard.grant(read.id).await;
    one.session.leave(name, write.id, Leave::Done).await?;
    other.session.leave(name, read.id, Leave::Done).await.map(drop)
}

async fn resize(one: &Caller, other: &Caller, name: &Name) -> Result<()> {
    let claim = |id| Claim::new(id, name.clone(), Kind::Semaphore, weight(2), weight(3));
    let (first, second) = (claim(one.claim(21)), claim(other.claim(21)));
    one.session.join(&first, Patience::Wait).await?;
    other.session.join(&second, Patience::Wait).await?;
    other.session.renew(Shard(0), &[(name.clone(), vec![second.id])]).await?;
    one.session.resize(name, weight(3), weight(4)).await?;
    other.heard.grant(second.id).await;
    one.session.leave(name, first.id, Leave::Done).await?;
    other.session.leave(name, second.id, Leave::Done).await.map(drop)
}

async fn administrate(one: &Caller, other: &Caller, name: &Name) -> Result<()> {
    one.session.join(&one.mutex(name, 31), Patience::Wait).await?;
    assert_eq!(other.session.line(name).await?.claims.len(), 1);
    assert_eq!(other.session.names("", None).await?, std::slice::from_ref(name));
    let renewal = one.session.renew(Shard(0), &[(name.clone(), vec![])]).await?;
    assert_eq!(renewal.strays, [(name.clone(), one.claim(31))]);
    assert_eq!(other.session.leave(name, one.claim(31), Leave::Done).await?, Left::Held);
    let id = one.claim(31);
    one.heard.up_to(|told| *told == site::Told::Gone(id)).await;
    Ok(())
}

fn denied(outcome: Result<()>, without: &str) -> Error {
    let error = outcome.expect_err(without);
    assert_eq!(error.kind(), ErrorKind::Denied, "without {without}: {error:?}");
    assert!(!error.can_retry());
    error
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn the_rule_is_enough() {
    let mut alone = Alone::new().await;
    grant(&mut alone, RULE);
    everything().await.unwrap();
    assert_eq!(alone.ask("ACL LOG"), redis::Value::Array(vec![]), "a command was refused unnoticed");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn each_command_of_the_rule_is_needed_and_named_when_it_is_missing() {
    let mut alone = Alone::new().await;
    for missing in RULE.split(' ').filter(|word| word.starts_with('+') && !OPTIONAL.contains(word)) {
        let rule: Vec<_> = RULE.split(' ').filter(|word| *word != missing).collect();
        grant(&mut alone, &rule.join(" "));
        let error = denied(everything().await, missing).to_string();
        assert!(error.contains("ACL SETUSER") && error.contains(missing), "without {missing}: {error}");
        alone.ask("FLUSHDB");
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn keys_and_channels_of_the_namespace_are_needed_and_named_when_they_are_missing() {
    let mut alone = Alone::new().await;
    for missing in ["~tidelock:*", "&tidelock:*"] {
        grant(&mut alone, &RULE.replace(missing, &missing.replace("tidelock", "others")));
        let error = denied(everything().await, missing).to_string();
        let named = missing.replace("tidelock", "NAMESPACE");
        assert!(error.contains("ACL SETUSER") && error.contains(&named), "without {missing}: {error}");
    }
    assert_eq!(alone.contents(), []);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn the_rest_can_be_done_without() {
    let mut alone = Alone::new().await;
    for missing in OPTIONAL {
        grant(&mut alone, &RULE.replace(&format!(" {missing}"), ""));
        everything().await.unwrap();
        alone.ask("FLUSHDB");
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_client_that_waits_for_replicas_needs_one_more_permission() {
    let mut alone = Alone::new().await;
    let options = Options::new().replicas(1, std::time::Duration::from_millis(10));
    let open = async || {
        let store = Store::open(&url_of("app", "secret"))?;
        Caller::try_open(&store, 1, &options).await?.session.close().await
    };
    grant(&mut alone, RULE);
    let error = denied(open().await, "+wait").to_string();
    assert!(error.contains("ACL SETUSER") && error.contains("+wait"), "{error}");
    assert_eq!(alone.contents(), []);
    grant(&mut alone, &format!("{RULE} +wait"));
    open().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn nodes_of_a_cluster_need_two_more_and_can_do_without_info() {
    let _turn = Cluster::new().await;
    let url = cluster::url();
    let nodes = url.trim_start_matches("redis-cluster://");
    let locks = async || {
        let url = format!("redis-cluster://app:secret@{nodes}");
        let locks = Store::open(&url)?.connect(Options::new()).await?;
        for i in 0..32 {
            locks.mutex(&format!("name {i}"))?.lock().await?.release().await?.confirmed()?;
        }
        locks.close().await
    };
    let grant = |rule: &str| {
        for node in nodes.split(',') {
            let mut node = redis::Client::open(format!("redis://{node}")).unwrap().get_connection().unwrap();
            site::command(rule).query::<redis::Value>(&mut node).unwrap();
        }
    };
    let least = RULE.replace(" +info", "");
    grant(&format!("ACL SETUSER app reset on >secret {least} +cluster|slots +asking"));
    locks().await.unwrap();
    grant(&format!("ACL SETUSER app reset on >secret {least} +asking"));
    let error = denied(locks().await, "+cluster|slots").to_string();
    assert!(error.contains("ACL SETUSER") && error.contains("+cluster"), "{error}"); // 6.2 does not name the subcommand
    grant("ACL DELUSER app");
}
