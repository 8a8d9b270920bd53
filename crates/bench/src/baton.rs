//! The twin of a hand-off: what a store takes to tell somebody, and nothing else.
//!
//! Two sides, each with a queue of its own. What one gives back goes, by way of the store, to the first who waits on the
//! other: the line knows no length, and excludes nobody.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::Result;
use crate::exclusion::Exclusion;

/// How one side reaches the other.
pub trait Teller: Clone + fmt::Debug + Send + Sync + 'static {
    /// Tells the other side, by way of the store.
    fn tell(&self) -> impl Future<Output = Result<()>> + Send;
}

/// One side of a hand-off.
#[derive(Clone, Debug)]
pub struct Baton<T> {
    teller: T,
    waiters: Waiters,
    /// The very first has nobody to wait for.
    begun: Arc<AtomicBool>,
}

/// Who waits on one side.
#[derive(Clone, Debug, Default)]
pub struct Waiters(Arc<Mutex<VecDeque<oneshot::Sender<()>>>>);

impl<T: Teller> Baton<T> {
    /// Two sides. `reach` is told which side it is for and which is the other, and wakes whoever waits when it hears
    /// of it.
    pub async fn sides(reach: impl AsyncFn(usize, usize, Waiters) -> Result<T>) -> Result<[Self; 2]> {
        let begun = Arc::<AtomicBool>::default();
        let side = async |own: usize, other: usize| -> Result<Self> {
            let waiters = Waiters::default();
            let teller = reach(own, other, waiters.clone()).await?;
            Ok(Self { teller, waiters, begun: begun.clone() })
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
        let _ = first.map(|turn| turn.send(())); // none: the last of all has given back
    }
}

impl<T: Teller> Exclusion for Baton<T> {
    type Held = ();

    async fn take(&self) -> Result<()> {
        if self.begun.swap(true, Ordering::AcqRel) {
            self.waiters.join().await?;
        }
        Ok(())
    }

    async fn give_back(&self, (): ()) -> Result<()> {
        self.teller.tell().await
    }

    async fn stand(&self, _: usize) -> Result<()> {
        Ok(()) // whoever was polled stands
    }
}
