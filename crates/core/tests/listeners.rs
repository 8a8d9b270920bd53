//! Tracing subscribers that panic, also on Tidelock's threads: such a panic ends nothing else.

use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use tidelock_core::Options;
use tidelock_core::prelude::*;
use tidelock_memory::{Clock, Store};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Panics at each warning on the keeper's thread.
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
async fn a_listener_that_panics_costs_no_lock() -> tidelock_core::Result<()> {
    tracing::subscriber::set_global_default(Full).expect("the only one");
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let locks = store.attach(Options::new())?;
    let held = locks.mutex("m")?.lock().await?;
    store.faults().refuse_next(1); // a renewal: its failure is logged as a warning
    clock.pass(Duration::from_secs(10)).await;
    assert!(PANICS.load(Ordering::SeqCst) > 0, "nothing was logged, so this test shows nothing");
    assert_ne!(held.state(), State::Lost);
    held.release().await?.confirmed()?;
    locks.close().await
}

/// The point in the life of a span where the subscriber panics, in a process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spoiled {
    New,
    Follows,
    Enter,
    Exit,
    Close,
    Clone,
}

impl Spoiled {
    const ALL: [Self; 6] = [Self::New, Self::Follows, Self::Enter, Self::Exit, Self::Close, Self::Clone];

    fn at(self, place: Self) {
        if self == place {
            panic!("on purpose: the collector is full");
        }
    }
}

impl Subscriber for Spoiled {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span()
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        self.at(Self::New);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {
        self.at(Self::Follows);
    }

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, _: &Id) {
        self.at(Self::Enter);
    }

    fn exit(&self, _: &Id) {
        self.at(Self::Exit);
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.at(Self::Clone);
        id.clone()
    }

    fn try_close(&self, _: Id) -> bool {
        self.at(Self::Close);
        true
    }
}

const CHILD: &str = "TIDELOCK_TEST_SPOILED_SPANS";

/// A span ends where its guard or its acquire is dropped. That may be while its user panics, and then a second panic
/// aborts the process.
#[test]
fn a_listener_that_panics_at_a_span_ends_neither_a_task_nor_the_process() {
    if let Ok(place) = std::env::var(CHILD) {
        return spoiled(place.parse().expect("a number"));
    }
    for (number, place) in Spoiled::ALL.into_iter().enumerate() {
        let child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "a_listener_that_panics_at_a_span_ends_neither_a_task_nor_the_process"])
            .arg("--nocapture")
            .env(CHILD, number.to_string())
            .output()
            .expect("it can be run again");
        let said = String::from_utf8_lossy(&child.stderr).into_owned();
        assert!(child.status.success(), "{place:?}: {:?}\n{said}", child.status);
    }
}

fn spoiled(place: usize) {
    tracing::subscriber::set_global_default(Spoiled::ALL[place]).expect("the only one");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let locks = tidelock_memory::connect();
        drop(locks.lock_all(&["a", "b"]).await.expect("they are free"));
        for waits_too in [false, true] {
            let theirs = locks.clone();
            let task = tokio::spawn(async move {
                let mutex = theirs.mutex("m").expect("a good name");
                let _held = mutex.lock().await.expect("it is free");
                let mut waits = mutex.lock();
                if waits_too {
                    assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
                }
                std::panic::panic_any("on purpose: the user's");
            });
            let died = task.await.expect_err("its user panicked").into_panic();
            assert_eq!(died.downcast_ref(), Some(&"on purpose: the user's"));
        }
        assert!(locks.mutex("m").expect("a good name").try_lock().await.expect("no error").is_some());
    });
}
