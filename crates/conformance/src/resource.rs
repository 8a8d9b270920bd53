//! The resource that a lock protects: it remembers the newest token it has seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tidelock_core::{Fence, Token};

use crate::history::{Author, EventKind, Recorder};
use crate::hold::Hold;

/// A fenced resource, with a counter that is read and written without any other protection.
#[derive(Debug)]
pub struct Resource {
    recorder: Arc<Recorder>,
    name: String,
    fence: Fence,
    counter: AtomicU64,
}

impl Resource {
    /// The resource with that name.
    #[must_use]
    pub fn new(recorder: &Arc<Recorder>, name: &str) -> Self {
        let name = format!("resource {name}");
        Self { recorder: recorder.clone(), name, fence: Fence::new(), counter: AtomicU64::new(0) }
    }

    /// Writes under a hold. Returns whether the fence accepted it.
    pub fn write(&self, hold: &Hold) -> bool {
        self.write_under(&hold.author().who, hold.token())
    }

    /// Writes under a token from an earlier hold.
    pub fn write_under(&self, who: &Arc<str>, token: Token) -> bool {
        let author = Author { who: who.clone(), name: self.name.as_str().into(), claim: 0 };
        self.recorder.alone(&author, || {
            let accepted = self.fence.accept(token).is_ok();
            (EventKind::Wrote { token: token.get(), accepted }, accepted)
        })
    }

    /// Reads the counter, lets others run, and writes it back plus one: only a lock makes this safe.
    pub async fn count(&self, yields: u64) {
        let read = self.counter.load(Ordering::SeqCst);
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        self.counter.store(read + 1, Ordering::SeqCst);
    }

    /// The value of the counter.
    #[must_use]
    pub fn counted(&self) -> u64 {
        self.counter.load(Ordering::SeqCst)
    }
}
