//! Options that this store does not support: it refuses them.

use std::time::Duration;

use tidelock_memory::{ErrorKind, Options, Store};

#[tokio::test]
async fn a_client_that_wants_grants_to_wait_for_replicas_is_refused() {
    let options = || Options::new().replicas(1, Duration::from_millis(10));
    let (connected, attached) = (Store::new().connect(options()).await, Store::new().attach(options()));
    for error in [connected.unwrap_err(), attached.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(!error.can_retry() && error.to_string().contains("`replicas`"), "{error}");
    }
}
