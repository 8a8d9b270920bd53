//! Keys of something else under a lock's prefix.

use std::time::Duration;

use tidelock_etcd::{ErrorKind, Options};

use crate::site;

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_foreign_key_in_a_line_is_an_error_at_once() {
    let namespace = site::namespace("foreign");
    let options = Options::new().command_deadline(Duration::from_secs(30)).namespace(&namespace);
    let locks = site::store().connect(options).await.unwrap();
    let key = format!("{namespace}/n/app");
    site::plain().await.put(key.as_str(), "", None).await.unwrap();
    let mutex = locks.mutex("n").unwrap();
    let tried = tokio::time::timeout(Duration::from_secs(5), mutex.try_lock());
    let error = tried.await.expect("it is found out at once").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
    let error = mutex.lock().await.unwrap_err();
    assert!(error.to_string().contains(&key), "{error}");
    site::plain().await.delete(key, None).await.unwrap();
    mutex.try_lock().await.unwrap().unwrap().release().await.unwrap();
    locks.close().await.unwrap();
}
