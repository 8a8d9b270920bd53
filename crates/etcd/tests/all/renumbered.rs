//! A gRPC proxy numbers watches itself, so a client behind it would take one line's events for another's.

use tidelock_etcd::{ErrorKind, Options, Store};

use crate::site::{self, Program};

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_client_does_not_connect_through_a_grpc_proxy() {
    let proxy = Program::grpc_proxy(&site::host()).await;
    let options = || Options::new().namespace(&site::namespace("renumbered"));
    let refused = Store::open(&format!("etcd://{}", proxy.address)).unwrap().connect(options()).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Protocol, "{refused}");
    assert!(refused.to_string().contains("connect to the members"), "{refused}");
    // A member beside it serves.
    let both = Store::open(&format!("etcd://{},{}", proxy.address, site::host())).unwrap();
    for _ in 0..4 {
        let locks = both.connect(options()).await.unwrap();
        locks.mutex("m").unwrap().lock().await.unwrap().release().await.unwrap();
        locks.close().await.unwrap();
    }
}
