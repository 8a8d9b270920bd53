//! A server that allows few operations in one transaction.

use tidelock_etcd::{ErrorKind, Options, Store};

use crate::site::{self, Program};

/// A session sends its largest transactions only when it holds many locks. It is refused before that.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_that_allows_too_few_operations_is_found_out_by_connecting() {
    let few = Program::etcd("operations", &["--max-txn-ops", "100"]).await;
    let store = Store::open(&format!("etcd://{}", few.address)).unwrap();
    let refused = store.connect(Options::new()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
    assert!(refused.to_string().contains("--max-txn-ops 128"), "{refused}");
    site::store().connect(Options::new()).await.unwrap().close().await.unwrap();
}
