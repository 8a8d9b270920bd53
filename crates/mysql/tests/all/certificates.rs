//! TLS: a server with a certificate of a test authority, and the errors when it is not believed.

use std::time::Duration;

use tidelock_mysql::{Error, ErrorKind, Options, Store, TlsCertificates};

use crate::server::{SECOND_SERVER, run_at};

/// Made for these tests, for 127.0.0.1 and localhost. The authority's key was not kept.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../xtask/src/servers/certificates");

fn url(mode: &str, authority: &str) -> String {
    let url = std::env::var("TIDELOCK_MARIADB_TLS_URL").unwrap();
    format!("{url}?ssl-mode={mode}&ssl-ca={FOLDER}/{authority}")
}

/// Takes a lock and gives it back.
async fn use_it(url: &str) -> Result<(), Error> {
    let options = Options::new().ttl(Duration::from_secs(10)).connect_deadline(Duration::from_secs(5));
    let locks = Store::open(url)?.connect(options).await?;
    locks.mutex("secured")?.lock().await?.release().await?;
    locks.close().await
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_is_known_by_its_authority_and_its_name() {
    let _alone = SECOND_SERVER.lock().await;
    for mode in ["VERIFY_CA", "VERIFY_IDENTITY"] {
        use_it(&url(mode, "ca.pem")).await.unwrap();
    }
    use_it(&url("VERIFY_IDENTITY", "ca.pem").replace("127.0.0.1", "localhost")).await.unwrap();
    // All that a session sends is encrypted: the server serves this user with TLS only.
    run_at(
        &url("VERIFY_CA", "ca.pem"),
        "CREATE OR REPLACE USER 'secured'@'%' REQUIRE SSL; GRANT ALL ON tidelock.* TO 'secured'@'%'",
    )
    .await;
    let secured = |mode| url(mode, "ca.pem").replace("root@", "secured@");
    use_it(&secured("VERIFY_CA")).await.unwrap();
    let refused = use_it(&secured("DISABLED")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused:?}");
    run_at(&url("VERIFY_CA", "ca.pem"), "DROP USER 'secured'@'%'").await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn certificates_may_come_from_memory() {
    let url = std::env::var("TIDELOCK_MARIADB_TLS_URL").unwrap();
    let with = async |authority: &str| {
        let root_cert = std::fs::read(format!("{FOLDER}/{authority}")).unwrap();
        let store = Store::open(&url)?.certificates(&TlsCertificates { root_cert, client_tls: None });
        let options = Options::new().ttl(Duration::from_secs(10)).connect_deadline(Duration::from_secs(5));
        store.connect(options).await?.close().await
    };
    with("ca.pem").await.unwrap();
    let refused = with("stranger.pem").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused:?}");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_of_a_strange_authority_is_refused() {
    let refused = use_it(&url("VERIFY_CA", "stranger.pem")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Denied, "{refused:?}");
    assert!(refused.to_string().contains("TLS"), "{refused}");
    let missing = use_it(&url("VERIFY_CA", "nobody.pem")).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::InvalidOption, "{missing:?}");
    assert!(missing.to_string().contains("ssl-ca"), "{missing}");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_without_tls_is_refused_when_tls_is_required() {
    let plain = std::env::var("TIDELOCK_MARIADB_URL").unwrap();
    let refused = use_it(&format!("{plain}?ssl-mode=REQUIRED")).await.unwrap_err();
    assert!(refused.to_string().contains("TLS"), "{refused}");
}
