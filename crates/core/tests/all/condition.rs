//! Waiting for a condition instead of for a fixed time.

use std::time::Duration;

/// Waits until `holds` returns true, for ten seconds at most.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..2_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not true after ten seconds: {what}");
}
