//! A lock that one task at a time can have: Tidelock's mutex, or a store's bare commands.

use crate::Result;

/// One name, as one client reaches it.
pub trait Exclusion: Clone + Send + Sync + 'static {
    /// What a holder has in hand.
    type Held: Send + 'static;

    /// Waits its turn.
    fn take(&self) -> impl Future<Output = Result<Self::Held>> + Send;

    /// Gives back, and waits until that is confirmed.
    fn give_back(&self, held: Self::Held) -> impl Future<Output = Result<()>> + Send;

    /// Ready when this many stand in line, the holder included. A task that was polled once must stand by then.
    fn stand(&self, count: usize) -> impl Future<Output = Result<()>> + Send;
}
