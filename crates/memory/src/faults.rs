//! Faults for tests: lost sessions, refused requests, lost replies, delays, lost signals.

use std::sync::Arc;
use std::time::Duration;

use tidelock_core::SessionId;

use crate::mishap::Plan;
use crate::state::StoreState;

/// Faults that a test can cause in a [`Store`](crate::Store). They act on every client of the store.
///
/// ```
/// use tidelock_memory::Store;
///
/// let store = Store::new();
/// store.faults().refuse_next(3); // three requests fail as Unavailable
/// store.faults().heal();
/// ```
#[derive(Clone, Debug)]
pub struct Faults(Arc<StoreState>);

impl Faults {
    pub(crate) fn new(store: Arc<StoreState>) -> Self {
        Self(store)
    }

    /// Ends every session now, as if none had been renewed in time: claims leave, and clients are told.
    /// Returns how many there were.
    pub fn lose_sessions(&self) -> usize {
        self.lose(|_| true)
    }

    /// Ends the sessions of the clients with this [`label`](tidelock_core::Options::label). Returns how many there were.
    pub fn lose_sessions_of(&self, label: &str) -> usize {
        self.lose(|of| of == label)
    }

    /// The next `count` requests are refused as [`Unavailable`](tidelock_core::ErrorKind::Unavailable), and do nothing.
    pub fn refuse_next(&self, count: usize) {
        self.0.mishaps.change(|plan| plan.refuse = count);
    }

    /// All requests are refused until [`Faults::heal`], renewals too.
    pub fn refuse_all(&self) {
        self.refuse_next(usize::MAX);
    }

    /// The next `count` requests are carried out, but their replies are lost: the caller gets a
    /// [`Timeout`](tidelock_core::ErrorKind::Timeout) and cannot know the outcome.
    pub fn lose_replies(&self, count: usize) {
        self.0.mishaps.change(|plan| plan.lose_replies = count);
    }

    /// Every request takes this long on the store's clock, half of it on the way there and half on the way back. (A
    /// leave arrives at once; its reply takes the whole delay.)
    pub fn delay(&self, delay: Duration) {
        self.0.mishaps.change(|plan| plan.delay = delay);
    }

    /// No signal from the store arrives until [`Faults::heal`].
    pub fn drop_signals(&self) {
        self.0.mishaps.change(|plan| plan.drop_signals = true);
    }

    /// Everything works again. What was lost stays lost.
    pub fn heal(&self) {
        self.0.mishaps.change(|plan| *plan = Plan::default());
    }

    fn lose(&self, is_meant: impl Fn(&str) -> bool) -> usize {
        self.0.act(|table| {
            let meant = table.sessions().filter(|(_, label)| is_meant(label));
            let sessions: Vec<SessionId> = meant.map(|(id, _)| id).collect();
            table.lose(&sessions);
            sessions.len()
        })
    }
}
