//! What every kind of lock is underneath: a name, a kind and a capacity.
//!
//! | what people ask for        | weight | capacity |
//! |----------------------------|--------|----------|
//! | mutex                      | 1      | 1        |
//! | read                       | 1      | MAX      |
//! | write                      | MAX    | MAX      |
//! | n permits of a semaphore   | n      | N        |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::acquire::Want;
use crate::client::Client;
use crate::{Error, ErrorKind, Guard, Kind, Moment, Name, Patience, Result, Weight};

#[derive(Debug)]
pub(crate) struct NamedLine {
    pub(crate) client: Client,
    pub(crate) name: Name,
    kind: Kind,
    /// What this client takes the capacity to be while nobody stands in line.
    pub(crate) capacity: Arc<AtomicU32>,
    told_of_other_size: AtomicBool,
}

impl NamedLine {
    pub(crate) fn new(client: Client, name: Name, kind: Kind, capacity: Weight) -> Self {
        let (capacity, told_of_other_size) = (Arc::new(capacity.get().into()), AtomicBool::new(false));
        Self { client, name, kind, capacity, told_of_other_size }
    }

    pub(crate) fn capacity(&self) -> Weight {
        Weight::new(self.capacity.load(Ordering::Acquire)).unwrap_or(Weight::ONE)
    }

    /// Stands in line until its turn.
    pub(crate) async fn wait(&self, weight: Weight) -> Result<Guard> {
        let acquired = self.acquire(weight, Patience::Wait, Moment::NEVER).await?;
        acquired.ok_or_else(|| {
            Error::new(ErrorKind::Protocol, "the store refused a claim that was ready to wait")
        })
    }

    /// Stands in line for at most `patience`.
    pub(crate) async fn wait_within(&self, weight: Weight, patience: Duration) -> Result<Option<Guard>> {
        match patience.is_zero() {
            true => self.try_now(weight).await, // no time to wait is no reason not to ask
            false => self.acquire(weight, Patience::Wait, self.client.after(patience)).await,
        }
    }

    /// Held at once, or not at all.
    pub(crate) async fn try_now(&self, weight: Weight) -> Result<Option<Guard>> {
        self.acquire(weight, Patience::Now, Moment::NEVER).await
    }

    async fn acquire(&self, weight: Weight, patience: Patience, by: Moment) -> Result<Option<Guard>> {
        let want = Want { name: &self.name, kind: self.kind, weight, capacity: self.capacity() };
        let guard = self.client.acquire(want, patience, by).await?;
        if let Some(guard) = &guard {
            self.compare(guard.capacity());
        }
        Ok(guard)
    }

    /// A line has one size, the first comer's: another one is worth a word, but no outage.
    fn compare(&self, capacity: Weight) {
        let own = self.capacity();
        if capacity != own && !self.told_of_other_size.swap(true, Ordering::AcqRel) {
            let name = &self.name;
            tracing::warn!(lock.name = %name, %own, line = %capacity, "this semaphore has another size in use; served under that");
        }
    }
}
