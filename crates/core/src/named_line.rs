//! What every kind of lock is underneath: a name, a kind and a capacity.
//!
//! | what people ask for        | weight | capacity |
//! |----------------------------|--------|----------|
//! | mutex                      | 1      | 1        |
//! | read                       | 1      | MAX      |
//! | write                      | MAX    | MAX      |
//! | n permits of a semaphore   | n      | N        |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::acquire::Want;
use crate::client::Client;
use crate::{Error, ErrorKind, Guard, Kind, Moment, Name, Patience, Result, Weight, unharmed};

#[derive(Debug)]
pub(crate) struct NamedLine {
    pub(crate) client: Client,
    pub(crate) name: Name,
    kind: Kind,
    pub(crate) declared: Arc<Declared>,
    told_of_other_size: AtomicBool,
}

/// What this handle takes the capacity to be while nobody stands in line: what it was made with, or what the last resize
/// has made it. The last one is the one that was sent last, whenever it is answered.
#[derive(Debug)]
pub(crate) struct Declared {
    sent: AtomicU64,
    /// The number of that resize, and behind it, in 32 bits, the capacity.
    last: AtomicU64,
}

impl Declared {
    fn new(capacity: Weight) -> Self {
        Self { sent: AtomicU64::new(0), last: AtomicU64::new(capacity.get().into()) }
    }

    pub(crate) fn get(&self) -> Weight {
        let capacity = self.last.load(Ordering::Acquire) & u64::from(u32::MAX);
        u32::try_from(capacity).ok().and_then(Weight::new).unwrap_or(Weight::ONE)
    }

    /// The number of a resize that knows what it changes, and is about to be sent. The store takes it only if nothing has
    /// changed since it was known, so their numbers are in the order in which they take effect.
    pub(crate) fn next_resize(&self) -> u64 {
        self.sent.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// That resize has succeeded.
    pub(crate) fn resized(&self, number: u64, to: Weight) {
        self.last.fetch_max(number << 32 | u64::from(to.get()), Ordering::AcqRel);
    }
}

impl NamedLine {
    pub(crate) fn new(client: Client, name: Name, kind: Kind, capacity: Weight) -> Self {
        let (declared, told_of_other_size) = (Arc::new(Declared::new(capacity)), AtomicBool::new(false));
        Self { client, name, kind, declared, told_of_other_size }
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
        let want = Want { name: &self.name, kind: self.kind, weight, capacity: &self.declared };
        let guard = self.client.acquire(want, patience, by).await?;
        if let Some(guard) = &guard {
            self.compare(guard.capacity());
        }
        Ok(guard)
    }

    /// A line has one size, the first comer's: another one is worth a word, but no outage.
    fn compare(&self, capacity: Weight) {
        let own = self.declared.get();
        if capacity != own && !self.told_of_other_size.swap(true, Ordering::AcqRel) {
            let name = &self.name;
            unharmed(
                || tracing::warn!(lock.name = %name, %own, line = %capacity, "this semaphore has another size in use; served under that"),
            );
        }
    }
}
