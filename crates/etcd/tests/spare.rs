//! On a server of their own: tests that change it for everyone, one after the other.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use tidelock_conformance::{Proxy, Way};
use tidelock_etcd::etcd_client::{
    AlarmAction, AlarmOptions, AlarmType, Client, ConnectOptions, Permission, RoleRevokePermissionOptions,
};
use tidelock_etcd::{ErrorKind, Locks, Login, Options, State, Store};

fn url() -> String {
    std::env::var("TIDELOCK_ETCD_SPARE_URL")
        .expect("TIDELOCK_ETCD_SPARE_URL is the server; cargo xtask test sets it")
}

fn host() -> String {
    url().trim_start_matches("etcd://").to_owned()
}

fn options() -> Options {
    Options::new().ttl(Duration::from_secs(30)).command_deadline(Duration::from_secs(1))
}

async fn connect(user: &str) -> tidelock_etcd::Result<Arc<dyn Locks>> {
    Store::open(&format!("etcd://{user}{}", host()))?.connect(options()).await
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn what_is_changed_for_everyone_is_told() {
    a_full_database_takes_no_lock_and_keeps_what_is_held().await;
    a_full_database_gives_back_what_got_no_answer().await;
    a_full_database_takes_no_crowd().await;
    users_are_told_what_they_lack().await;
}

async fn a_full_database_takes_no_lock_and_keeps_what_is_held() {
    let locks = connect("").await.unwrap();
    let held = locks.mutex("held").unwrap().lock().await.unwrap();
    let mut etcd = Client::connect([host()], None).await.unwrap();
    let member = etcd.status().await.unwrap().header().unwrap().member_id();
    let alarm = async |etcd: &mut Client, action| {
        let mut options = AlarmOptions::new();
        options.with_member(member);
        etcd.alarm(action, AlarmType::Nospace, Some(options)).await.unwrap();
    };
    alarm(&mut etcd, AlarmAction::Activate).await;
    let error = locks.mutex("another").unwrap().lock_within(Duration::from_secs(2)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("NOSPACE"), "{error}");
    assert_eq!(connect("").await.unwrap_err().kind(), ErrorKind::Unavailable);
    // What is held is renewed, and given back.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(held.state(), State::Held);
    held.release().await.unwrap();
    alarm(&mut etcd, AlarmAction::Deactivate).await;
    let again = locks.mutex("another").unwrap().lock_within(Duration::from_secs(5)).await.unwrap().unwrap();
    again.release().await.unwrap();
    locks.close().await.unwrap();
}

/// A join that may still arrive leaves a key behind, and that must find room.
async fn a_full_database_gives_back_what_got_no_answer() {
    let proxy = Proxy::to(host().parse().unwrap()).await.unwrap();
    let store = Store::open(&format!("etcd://{}", proxy.address())).unwrap();
    let (locks, other) = (store.connect(options()).await.unwrap(), connect("").await.unwrap());
    let mut etcd = Client::connect([host()], None).await.unwrap();
    let member = etcd.status().await.unwrap().header().unwrap().member_id();
    let mut alarm = AlarmOptions::new();
    alarm.with_member(member);
    let count = async || other.inspect("unanswered").await.unwrap().claims.len();
    let sees = async |wanted: usize| {
        for _ in 0..1_000 {
            if count().await == wanted {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        false
    };

    proxy.hold(Way::Back);
    let mutex = locks.mutex("unanswered").unwrap();
    let joining = tokio::spawn(async move { mutex.lock().await.map(drop) });
    assert!(sees(1).await);
    etcd.alarm(AlarmAction::Activate, AlarmType::Nospace, Some(alarm.clone())).await.unwrap();
    joining.await.unwrap().unwrap_err();
    proxy.heal();
    let is_back = sees(0).await;
    etcd.alarm(AlarmAction::Deactivate, AlarmType::Nospace, Some(alarm)).await.unwrap();
    assert!(is_back, "the claim stands in the line as long as the database is full");
    locks.close().await.unwrap();
    other.close().await.unwrap();
}

/// Their joins share transactions, and the server looks only at the outer one.
async fn a_full_database_takes_no_crowd() {
    let locks = connect("").await.unwrap();
    let mut etcd = Client::connect([host()], None).await.unwrap();
    let member = etcd.status().await.unwrap().header().unwrap().member_id();
    let mut alarm = AlarmOptions::new();
    alarm.with_member(member);
    etcd.alarm(AlarmAction::Activate, AlarmType::Nospace, Some(alarm.clone())).await.unwrap();
    let tries = (0..30).map(|n| {
        let mutex = locks.mutex(&format!("crowd {n}")).unwrap();
        async move { mutex.lock_within(Duration::from_secs(1)).await }
    });
    let tried = join_all(tries).await;
    etcd.alarm(AlarmAction::Deactivate, AlarmType::Nospace, Some(alarm)).await.unwrap();
    let granted = tried.iter().filter(|tried| matches!(tried, Ok(Some(_)))).count();
    assert_eq!(granted, 0, "locks were granted although the database was full");
    drop(tried);
    locks.close().await.unwrap();
}

async fn users_are_told_what_they_lack() {
    let mut etcd = Client::connect([host()], None).await.unwrap();
    etcd.role_add("root").await.ok();
    for user in ["root", "locker", "nobody"] {
        etcd.user_add(user, "secret-1", None).await.unwrap();
    }
    etcd.user_grant_role("root", "root").await.unwrap();
    etcd.role_add("locker").await.unwrap();
    etcd.role_grant_permission("locker", Permission::read_write("tidelock/").with_prefix()).await.unwrap();
    etcd.user_grant_role("locker", "locker").await.unwrap();
    etcd.auth_enable().await.unwrap();
    let mut root =
        Client::connect([host()], Some(ConnectOptions::new().with_user("root", "secret-1"))).await.unwrap();

    let tried = tokio::spawn(async move {
        with_users(&mut root).await;
        root
    });
    let mut root = match tried.await {
        Ok(root) => root,
        Err(failed) => std::panic::resume_unwind(failed.into_panic()),
    };
    root.auth_disable().await.unwrap();
}

/// All that a client asks is refused at once then, and the server takes long over each login.
async fn one_change_costs_a_client_few_logins(root: &mut Client) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let login = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok(Login::user("locker", "secret-1")) }
    };
    let store = Store::open(&format!("etcd://{}", host())).unwrap().credentials(login);
    let locks = store.connect(options()).await.unwrap();
    let before = asked.load(Ordering::Relaxed);
    root.user_add("one-more", "secret-1", None).await.unwrap();
    join_all((0..50).map(|_| locks.inspect("many"))).await.into_iter().for_each(|line| drop(line.unwrap()));
    let logins = asked.load(Ordering::Relaxed) - before;
    assert!((1..=4).contains(&logins), "{logins} logins");
    locks.close().await.unwrap();
    root.user_delete("one-more").await.unwrap();
}

/// It stands in a semaphore's line with another size than the one in use. Before it has found that out, its permission is
/// taken away.
async fn a_claim_that_is_refused_half_way_is_given_back(root: &mut Client) {
    let proxy = Proxy::to(host().parse().unwrap()).await.unwrap();
    let store = Store::open(&format!("etcd://locker:secret-1@{}", proxy.address())).unwrap();
    let locks = store.connect(options().command_deadline(Duration::from_secs(10))).await.unwrap();
    let other = connect("locker:secret-1@").await.unwrap();
    let held = other.semaphore("half-way", 2).unwrap().acquire(1).await.unwrap();
    let sees = async |wanted: usize| {
        while other.inspect("half-way").await.unwrap().claims.len() != wanted {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };

    proxy.hold(Way::Back);
    let semaphore = locks.semaphore("half-way", 3).unwrap();
    let joining = tokio::spawn(async move { semaphore.acquire(1).await.map(drop) });
    sees(2).await;
    let prefix = RoleRevokePermissionOptions::new().with_prefix();
    root.role_revoke_permission("locker", "tidelock/", Some(prefix)).await.unwrap();
    proxy.heal();
    let error = joining.await.unwrap().unwrap_err();
    root.role_grant_permission("locker", Permission::read_write("tidelock/").with_prefix()).await.unwrap();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    // The next renewal is ten seconds away.
    let is_back = tokio::time::timeout(Duration::from_secs(4), sees(1)).await;
    assert!(is_back.is_ok(), "the claim stands in the line until a renewal finds it");
    held.release().await.unwrap();
    locks.close().await.unwrap();
    other.close().await.unwrap();
}

async fn with_users(root: &mut Client) {
    let refused = async |user: &str, told: &str| {
        let error = connect(user).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        let text = format!("{error} {error:?}");
        assert!(text.contains(told) && !text.contains("secret"), "{text}");
    };
    refused("", "wants a user").await;
    refused("locker:secret-2@", "user name or the password").await;
    refused("stranger:secret-1@", "user name or the password").await;
    refused("nobody:secret-1@", "--prefix=true readwrite \"tidelock/\"").await;

    let locks = connect("locker:secret-1@").await.unwrap();
    let held = locks.mutex("stock:42").unwrap().lock().await.unwrap();
    let waiting = tokio::spawn({
        let other = connect("locker:secret-1@").await.unwrap();
        async move {
            other.mutex("stock:42").unwrap().lock().await.unwrap().release().await.unwrap();
            other.close().await.unwrap();
        }
    });
    while locks.inspect("stock:42").await.unwrap().waiters().count() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    held.release().await.unwrap();
    waiting.await.unwrap();

    // A token that is signed says how often users had been changed.
    let brief = options().ttl(Duration::from_secs(3));
    let changing =
        Store::open(&format!("etcd://locker:secret-1@{}", host())).unwrap().connect(brief).await.unwrap();
    let held = changing.mutex("changing").unwrap().lock().await.unwrap();
    root.user_add("another", "secret-1", None).await.unwrap();
    changing.mutex("another").unwrap().lock().await.unwrap().release().await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await; // longer than the lease lives without a renewal
    assert_eq!(held.state(), State::Held);
    held.release().await.unwrap();
    changing.close().await.unwrap();

    one_change_costs_a_client_few_logins(root).await;
    a_claim_that_is_refused_half_way_is_given_back(root).await;

    // The permission is taken away, and granted again: a leave is repeated until then.
    let held = locks.mutex("stock:42").unwrap().lock().await.unwrap();
    let prefix = RoleRevokePermissionOptions::new().with_prefix();
    root.role_revoke_permission("locker", "tidelock/", Some(prefix)).await.unwrap();
    let error = locks.mutex("another").unwrap().lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    drop(held);
    tokio::time::sleep(Duration::from_millis(50)).await;
    root.role_grant_permission("locker", Permission::read_write("tidelock/").with_prefix()).await.unwrap();
    let again = locks.mutex("stock:42").unwrap().lock_within(Duration::from_secs(20)).await.unwrap();
    again.expect("the leave was repeated").release().await.unwrap();

    // The password changes while a client runs, and the program knows the new one.
    let password = Arc::new(Mutex::new("secret-1"));
    let now = password.clone();
    let ask = move || {
        let login = Login::user("locker", *now.lock().unwrap());
        async move { Ok(login) }
    };
    let store = Store::open(&format!("etcd://{}", host())).unwrap().credentials(ask);
    let changing = store.connect(options().ttl(Duration::from_secs(3))).await.unwrap();
    let held = changing.mutex("changing").unwrap().lock().await.unwrap();
    *password.lock().unwrap() = "secret-3";
    root.user_change_password("locker", "secret-3").await.unwrap();
    changing.mutex("another").unwrap().lock().await.unwrap().release().await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await; // longer than the lease lives without a renewal
    assert_eq!(held.state(), State::Held);
    held.release().await.unwrap();
    changing.close().await.unwrap();
    root.user_change_password("locker", "secret-1").await.unwrap();

    // The login of a client that lasts longer than its token.
    root.user_change_password("locker", "secret-1").await.unwrap(); // every token of that user ends
    locks.mutex("stock:42").unwrap().lock().await.unwrap().release().await.unwrap();
    locks.close().await.unwrap();
}
