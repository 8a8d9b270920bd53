//! Time that passes step by step, on a clock that is turned by hand.

use std::time::Duration;

use tidelock_core::backend::keepers_caught_up;
use tidelock_memory::Clock;

/// Time passes, and all that wakes by then does what it can.
pub(super) async fn pass(clock: &Clock, time: Duration) {
    clock.advance(time);
    for _ in 0..3 {
        assert!(keepers_caught_up(Duration::from_secs(10)), "the keepers do nothing");
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
}
