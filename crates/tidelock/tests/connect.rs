//! A URL is all that a program needs to choose its store.

#![cfg(feature = "memory")]

use std::time::Duration;

use tidelock::prelude::*;

#[tokio::test]
async fn one_url_is_one_store() -> tidelock::Result<()> {
    let (one, two) = (tidelock::connect("memory://shop").await?, tidelock::connect("memory://shop").await?);
    let held = one.mutex("stock:42")?.lock().await?;
    assert!(two.mutex("stock:42")?.try_lock().await?.is_none());
    let other = tidelock::connect("memory://another").await?;
    assert!(other.mutex("stock:42")?.try_lock().await?.is_some());
    held.release().await?;
    one.close().await?;
    two.close().await?;
    other.close().await
}

#[tokio::test]
async fn options_reach_the_store() -> tidelock::Result<()> {
    let options = Options::new().label("checkout").ttl(Duration::from_secs(30));
    let locks = tidelock::connect_with("memory://options", options).await?;
    let held = locks.mutex("stock:42")?.lock().await?;
    let line = locks.inspect("stock:42").await?;
    assert_eq!(line.claims[0].label, "checkout");
    assert!(held.remaining() > Duration::from_secs(20));
    held.release().await?;
    locks.close().await
}

#[tokio::test]
async fn a_wrong_url_is_one_sentence() {
    let error = tidelock::connect("http://me:secret@host").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOption);
    let text = error.to_string();
    assert!(text.starts_with("cannot connect: unknown store \"http\"") && !text.contains("secret"), "{text}");
}

#[cfg(not(feature = "redis"))]
#[tokio::test]
async fn a_store_that_was_left_out_is_told_with_the_line_to_add() {
    let error = tidelock::connect("redis://127.0.0.1").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains(r#"features = ["redis"]"#), "{error}");
}

#[tokio::test]
async fn what_is_wrong_with_any_url_begins_with_cannot_connect() {
    for url in ["", "http://host", "memory://a?ttl=3"] {
        for error in [
            tidelock::connect(url).await.unwrap_err(),
            tidelock::attach_with(url, Options::new()).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidOption, "{url}");
            assert!(error.to_string().starts_with("cannot connect: "), "{error}");
        }
    }
}

#[tokio::test]
async fn a_program_can_attach_to_a_store_and_use_it_later() -> tidelock::Result<()> {
    let locks = tidelock::attach_with("memory://attached", Options::new().label("checkout"))?;
    let held = locks.mutex("stock:42")?.lock().await?;
    assert_eq!(locks.inspect("stock:42").await?.claims[0].label, "checkout");
    held.release().await?;
    locks.close().await
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_program_can_attach_while_the_server_is_down() -> tidelock::Result<()> {
    let nowhere = "redis://127.0.0.1:1";
    assert_eq!(tidelock::connect(nowhere).await.unwrap_err().kind(), ErrorKind::Unavailable);
    let options = Options::new().command_deadline(Duration::from_millis(100));
    let locks = tidelock::attach_with(nowhere, options)?;
    let error = locks.mutex("stock:42")?.lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    locks.close().await
}
