//! The twin of a hand-off: only the store's cost of a signal.
//!
//! There are two sides, each with its own queue. A give-back on one side wakes, through the store, the first waiter on
//! the other side. The cost does not depend on the length of the line, and nothing is excluded.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::Result;
use crate::exclusion::Exclusion;

/// How one side reaches the other.
pub trait Signaller: Clone + fmt::Debug + Send + Sync + 'static {
    /// Signals the other side through the store.
    fn tell(&self) -> impl Future<Output = Result<()>> + Send;
}

/// One side of a hand-off.
#[derive(Clone, Debug)]
pub struct BareHandOff<T> {
    signaller: T,
    waiters: Waiters,
    /// Whether the first take has happened; it waits for nothing.
    begun: Arc<AtomicBool>,
}

/// The waiters on one side.
#[derive(Clone, Debug, Default)]
pub struct Waiters(Arc<Mutex<VecDeque<oneshot::Sender<()>>>>);

impl<T: Signaller> BareHandOff<T> {
    /// Two sides. `reach` is given the number of its side and that of the other. It must wake a waiter of its side for
    /// each signal that it receives.
    pub async fn sides(reach: impl AsyncFn(usize, usize, Waiters) -> Result<T>) -> Result<[Self; 2]> {
        let begun = Arc::<AtomicBool>::default();
        let side = async |own: usize, other: usize| -> Result<Self> {
            let waiters = Waiters::default();
            let signaller = reach(own, other, waiters.clone()).await?;
            Ok(Self { signaller, waiters, begun: begun.clone() })
        };
        Ok([side(0, 1).await?, side(1, 0).await?])
    }
}

impl Waiters {
    fn join(&self) -> oneshot::Receiver<()> {
        let (turn, my_turn) = oneshot::channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(turn);
        my_turn
    }

    /// Wakes the one who has waited longest.
    pub fn wake_first(&self) {
        let first = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let _ = first.map(|turn| turn.send(())); // `None` after the last give-back
    }
}

impl<T: Signaller> Exclusion for BareHandOff<T> {
    type Held = ();

    async fn take(&self) -> Result<()> {
        if self.begun.swap(true, Ordering::AcqRel) {
            self.waiters.join().await?;
        }
        Ok(())
    }

    async fn give_back(&self, (): ()) -> Result<()> {
        self.signaller.tell().await
    }

    async fn stand(&self, _: usize) -> Result<()> {
        Ok(()) // a task that was polled stands in line
    }
}
