//! TLS: a server and a client with certificates of one test authority, and the errors when a certificate is refused.

use std::time::Duration;

use tidelock_zookeeper::{ClientTlsConfig, Error, ErrorKind, Options, Store, TlsCertificates};

use crate::site;

/// Made for these tests, for 127.0.0.1. The authority's key was not kept.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../xtask/src/servers/certificates");

fn pem(file: &str) -> Vec<u8> {
    std::fs::read(format!("{FOLDER}/{file}")).unwrap()
}

fn authority(file: &str) -> TlsCertificates {
    TlsCertificates { root_cert: pem(file), client_tls: None }
}

fn known() -> TlsCertificates {
    let client = ClientTlsConfig { client_cert: pem("client.pem"), client_key: pem("client.key") };
    TlsCertificates { client_tls: Some(client), ..authority("ca.pem") }
}

fn url() -> String {
    std::env::var("TIDELOCK_ZOOKEEPER_TLS_URL").unwrap()
}

/// Takes a lock and gives it back, as a hand-off between two clients.
async fn pass_on(url: &str, certificates: &TlsCertificates) -> Result<(), Error> {
    let store = Store::open(url)?.certificates(certificates)?;
    let options = Options::new().ttl(Duration::from_secs(10)).namespace(&site::namespace("tls"));
    let a = store.connect(options.clone()).await?;
    let b = store.connect(options).await?;
    let first = a.mutex("m")?.lock().await?;
    let (wanted, mutex) = (first.token(), b.mutex("m")?);
    let (second, released) = tokio::try_join!(mutex.lock(), first.release())?;
    released.confirmed()?;
    assert!(second.token() > wanted);
    second.release().await?.confirmed()?;
    a.close().await?;
    b.close().await
}

async fn assert_refused(url: &str, certificates: TlsCertificates, kind: ErrorKind, what: &str) {
    let error = pass_on(url, &certificates).await.unwrap_err();
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(error.to_string().contains(what), "{error} (without {what:?})");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_and_a_client_know_each_other_by_ones_own_authority() {
    pass_on(&url(), &known()).await.unwrap();
    pass_on(&url().replace("127.0.0.1", "localhost"), &known()).await.unwrap();
    assert_refused(
        &url(),
        TlsCertificates { ..authority("stranger.pem") },
        ErrorKind::Denied,
        "UnknownIssuer",
    )
    .await;
    assert_refused(&url(), authority("ca.pem"), ErrorKind::Denied, "ertificate").await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_port_of_the_other_kind_is_said_so() {
    let plain = site::url().replace("zookeeper://", "zookeeper+tls://");
    assert_refused(&plain, known(), ErrorKind::Protocol, "does not speak TLS").await;
    let store = Store::open(&url().replace("+tls", "")).unwrap();
    // A part of it is for the question whether that port speaks TLS, and the server is busy with other tests.
    let error = store.connect(Options::new().connect_deadline(Duration::from_secs(20))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("zookeeper+tls://"), "{error:?}");
}

#[tokio::test]
async fn tls_needs_to_know_whom_to_trust() {
    let store = Store::open("zookeeper+tls://127.0.0.1:1").unwrap();
    for refused in [store.connect(Options::new()).await, store.attach(Options::new())] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{error:?}");
    }
}

#[test]
fn certificates_are_for_urls_with_tls_and_have_to_be_some() {
    let refused = |url: &str, certificates: &TlsCertificates| {
        let error = Store::open(url).unwrap().certificates(certificates).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOption, "{url}: {error:?}");
        assert!(!format!("{error:?} {certificates:?}").contains("secret"), "{error:?}");
    };
    refused("zookeeper://127.0.0.1", &known());
    refused("zookeeper+tls://a..b", &known());
    let tls = "zookeeper+tls://[::1]:2281,127.0.0.1,a.example";
    Store::open(tls).unwrap().certificates(&known()).unwrap();
    refused(tls, &TlsCertificates { root_cert: b"secret".to_vec(), client_tls: None });
    for (client_cert, client_key) in [
        (pem("client.pem"), b"secret".to_vec()),
        (b"secret".to_vec(), pem("client.key")),
        (pem("client.pem"), pem("server.key")),
    ] {
        let client_tls = Some(ClientTlsConfig { client_cert, client_key });
        refused(tls, &TlsCertificates { client_tls, ..authority("ca.pem") });
    }
}
