//! Options that this store does not support: it refuses them.

use std::time::Duration;

use tidelock_memory::{ErrorKind, Options, Store};

#[tokio::test]
async fn a_client_that_wants_grants_to_wait_for_replicas_is_refused() {
    let locks = Store::new().attach(Options::new().replicas(1, Duration::from_millis(10))).unwrap();
    let error = locks.mutex("stock").unwrap().lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(!error.can_retry() && error.to_string().contains("`replicas`"), "{error}");
}
