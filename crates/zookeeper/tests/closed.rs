//! A closed client logs no warning and stays disconnected, however long its guards and mutexes live.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

mod site;

use std::sync::Mutex;
use std::time::Duration;

use tidelock_zookeeper::{Options, State};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Collects every warning of this program.
struct Warnings;

static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0 += &format!("{field}={value:?} ");
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN && metadata.target().starts_with("tidelock")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        WARNINGS.lock().unwrap().push(text.0);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn nobody_warns_of_a_client_that_was_closed() {
    tracing::subscriber::set_global_default(Warnings).unwrap();
    let ttl = Duration::from_secs(2);
    let options = Options::new().ttl(ttl).namespace(&site::namespace("closed"));
    let locks = site::store().connect(options).await.unwrap();
    let guard = locks.mutex("m").unwrap().lock().await.unwrap();
    locks.close().await.unwrap();
    assert_eq!(guard.state(), State::Lost);
    tokio::time::sleep(ttl * 3 / 2).await; // it would have to be renewed by then
    let warnings = WARNINGS.lock().unwrap().clone();
    assert!(warnings.is_empty(), "the client was closed properly: {warnings:?}");
    drop(guard);
}
