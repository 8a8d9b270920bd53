//! What listens to tracing panics, on threads of ours too: it ends nothing but itself.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidelock::Options;
use tidelock::prelude::*;
use tidelock_memory::{Clock, Store};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// It panics on the keeper's thread, at each warning.
struct Full;

impl Subscriber for Full {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        if std::thread::current().name() == Some("tidelock-keeper") {
            PANICS.fetch_add(1, Ordering::SeqCst);
            panic!("on purpose: the collector is full");
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[tokio::test]
async fn a_listener_that_panics_costs_no_lock() -> tidelock::Result<()> {
    tracing::subscriber::set_global_default(Full).expect("the only one");
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let locks = store.connect(Options::new())?;
    let held = locks.mutex("m")?.lock().await?;
    store.faults().refuse_next(1); // a renewal: that is worth a warning
    clock.pass(Duration::from_secs(10)).await;
    assert!(PANICS.load(Ordering::SeqCst) > 0, "nothing was told, so nothing is shown");
    assert_ne!(held.state(), State::Lost);
    held.release().await?;
    locks.close().await
}
