//! The tracing spans of an acquire and of the hold that follows it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Counts open spans like every collector does: a span is closed when its handles and all of its children are gone.
#[derive(Clone, Default)]
struct Open(Arc<(Mutex<Spans>, AtomicU64)>);

#[derive(Default)]
struct Spans {
    of: HashMap<u64, Span>,
    entered: Vec<u64>,
}

struct Span {
    name: &'static str,
    parent: Option<u64>,
    handles: usize,
    follows: Vec<&'static str>,
}

impl Open {
    fn spans(&self) -> std::sync::MutexGuard<'_, Spans> {
        self.0.0.lock().expect("no panic")
    }

    fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.spans().of.values().map(|span| span.name).collect();
        names.sort_unstable();
        names
    }
}

impl Spans {
    fn close(&mut self, id: u64) -> bool {
        let Some(span) = self.of.get_mut(&id) else { return false };
        span.handles -= 1;
        if span.handles > 0 {
            return false;
        }
        if let Some(parent) = self.of.remove(&id).and_then(|span| span.parent) {
            self.close(parent);
        }
        true
    }
}

impl Subscriber for Open {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span()
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.0.1.fetch_add(1, Ordering::Relaxed) + 1;
        let mut spans = self.spans();
        let current = spans.entered.last().copied().filter(|_| span.is_contextual());
        let parent = span.parent().map(Id::into_u64).or(current);
        if let Some(parent) = parent.and_then(|parent| spans.of.get_mut(&parent)) {
            parent.handles += 1;
        }
        let made = Span { name: span.metadata().name(), parent, handles: 1, follows: Vec::new() };
        spans.of.insert(id, made);
        Id::from_u64(id)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, id: &Id, follows: &Id) {
        let mut spans = self.spans();
        let name = spans.of.get(&follows.into_u64()).map(|span| span.name);
        if let Some(span) = spans.of.get_mut(&id.into_u64()) {
            span.follows.extend(name);
        }
    }

    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, id: &Id) {
        self.spans().entered.push(id.into_u64());
    }

    fn exit(&self, id: &Id) {
        self.spans().entered.retain(|entered| *entered != id.into_u64());
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(span) = self.spans().of.get_mut(&id.into_u64()) {
            span.handles += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        self.spans().close(id.into_u64())
    }
}

#[tokio::test]
async fn the_span_of_an_acquire_ends_with_the_acquire_and_not_with_the_hold() -> tidelock_core::Result<()> {
    let open = Open::default();
    let _default = tracing::subscriber::set_default(open.clone());
    let locks = tidelock_memory::connect();
    let request = tracing::info_span!("request");
    let entered = request.enter();
    let held = locks.mutex("m")?.lock().await?;
    drop(entered);
    drop(request);
    assert_eq!(open.names(), ["hold"], "the spans of the acquire and of the user's request are closed");
    assert_eq!(open.spans().of.values().next().map(|hold| hold.follows.clone()), Some(vec!["acquire"]));
    held.release().await?.confirmed()?;
    assert!(open.names().is_empty(), "{:?}", open.names());
    locks.close().await
}
