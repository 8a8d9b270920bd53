//! Waiting for what is to come true, instead of for a time.

use std::time::Duration;

/// Waits until it holds, for at most ten seconds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..2_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("in ten seconds it did not come true that {what}");
}
