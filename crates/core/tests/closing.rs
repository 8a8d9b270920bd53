//! The end of a client: `close` and `drain`.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidelock_core::prelude::*;
use tidelock_memory::{Clock, Store};

type Done = tidelock_core::Result<()>;

/// A client on a clock that stands still unless it is turned.
fn on_a_standing_clock() -> tidelock_core::Result<(Clock, Store, Arc<dyn Locks>)> {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let locks = store.attach(Options::new())?;
    Ok((clock, store, locks))
}

/// Its outcome, if it ends within this time, and a second for a busy machine.
async fn ends_within<T>(longest: Duration, work: impl Future<Output = T>) -> T {
    let limit = longest + Duration::from_secs(1);
    tokio::time::timeout(limit, work).await.expect("it ends although nobody turns the store's clock")
}

#[tokio::test]
async fn a_close_ends_though_nobody_turns_the_clock() -> Done {
    let (clock, store, locks) = on_a_standing_clock()?;
    let _held = locks.mutex("m")?.lock().await?;
    store.faults().refuse_all();
    clock.pass(Duration::from_secs(16)).await; // the lock is lost, and its leave is refused
    store.faults().heal();
    ends_within(Options::new().command_deadline, locks.close()).await?;
    assert!(store.attach(Options::new())?.inspect("m").await?.claims.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_close_keeps_its_deadline_though_nobody_turns_the_clock() -> Done {
    let (_, store, locks) = on_a_standing_clock()?;
    let held = locks.mutex("m")?.lock().await?;
    store.faults().delay(Duration::from_millis(1)); // by the store's clock, so no answer ever comes
    let (longest, began) = (Duration::from_millis(300), Instant::now());
    let error = ends_within(longest, locks.close_within(longest)).await.expect_err("nothing is confirmed");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(began.elapsed() >= longest / 2, "it waited for an answer");
    assert_eq!(held.state(), State::Lost);
    store.faults().heal();
    ends_within(longest, locks.close_within(longest)).await // the store is back
}

#[tokio::test]
async fn a_close_of_a_session_that_is_being_opened_keeps_its_deadline_too() -> Done {
    let (_, store, locks) = on_a_standing_clock()?;
    store.faults().delay(Duration::from_millis(1));
    let opening = tokio::spawn({
        let locks = locks.clone();
        async move { locks.ping().await }
    });
    tokio::task::yield_now().await; // it has begun
    let longest = Duration::from_millis(300);
    let _ = ends_within(longest, locks.close_within(longest)).await;
    let told = ends_within(longest, opening).await.expect("no panic").expect_err("its client is closed");
    assert_eq!(told.kind(), ErrorKind::Closed);
    Ok(())
}
