//! The ways to make a sale: under a lock, with a look before it, by the store's own decrement, or without protection.

use crate::Result;
use crate::exclusion::Exclusion;
use crate::subject::Stock;

/// A place to buy. One buyer at a time uses it; many tills work in parallel.
pub(super) trait Till: Clone + Send + Sync + 'static {
    /// Whether there was one left for this buyer.
    fn sell(&self) -> impl Future<Output = Result<bool>> + Send;
}

/// Read, decrement, write under a lock.
#[derive(Clone)]
pub(super) struct Locked<E, T> {
    pub(super) lock: E,
    pub(super) stock: T,
}

/// The same, but a buyer who sees that it is sold out does not ask for the lock.
#[derive(Clone)]
pub(super) struct LooksFirst<E, T>(pub(super) Locked<E, T>);

/// The store's own atomic decrement.
#[derive(Clone)]
pub(super) struct Atomic<T>(pub(super) T);

/// Read, decrement, write, without any protection.
#[derive(Clone)]
pub(super) struct Careless<T>(pub(super) T);

impl<E: Exclusion, T: Stock> Till for Locked<E, T> {
    async fn sell(&self) -> Result<bool> {
        let held = self.lock.take().await?;
        let sold = read_and_write(&self.stock).await?;
        self.lock.give_back(held).await?;
        Ok(sold)
    }
}

impl<E: Exclusion, T: Stock> Till for LooksFirst<E, T> {
    async fn sell(&self) -> Result<bool> {
        Ok(self.0.stock.read().await? > 0 && self.0.sell().await?)
    }
}

impl<T: Stock> Till for Atomic<T> {
    async fn sell(&self) -> Result<bool> {
        self.0.take_one().await
    }
}

impl<T: Stock> Till for Careless<T> {
    async fn sell(&self) -> Result<bool> {
        read_and_write(&self.0).await
    }
}

async fn read_and_write<T: Stock>(stock: &T) -> Result<bool> {
    let left = stock.read().await?;
    if left > 0 {
        stock.write(left - 1).await?;
    }
    Ok(left > 0)
}
