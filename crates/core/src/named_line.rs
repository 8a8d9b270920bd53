//! The base of all kinds of lock: a name, a kind and a capacity.
//!
//! | request                    | weight | capacity |
//! |----------------------------|--------|----------|
//! | mutex                      | 1      | 1        |
//! | read                       | 1      | MAX      |
//! | write                      | MAX    | MAX      |
//! | n permits of a semaphore   | n      | N        |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::acquire::Want;
use crate::backend::{Moment, Patience, unharmed};
use crate::client::Client;
use crate::{Error, ErrorKind, Guard, Kind, Name, Result, Weight};

#[derive(Debug)]
pub(crate) struct NamedLine {
    pub(crate) client: Client,
    pub(crate) name: Name,
    kind: Kind,
    pub(crate) declared: Arc<Declared>,
    told_of_other_size: AtomicBool,
}

/// What this handle takes for the capacity while nobody stands in line: the number that it was made with, or that of
/// its last resize. The last resize is the one that was sent last, in whatever order they are answered.
#[derive(Debug)]
pub(crate) struct Declared {
    sent: AtomicU64,
    /// The number of the last resize in the upper 32 bits, the capacity in the lower ones.
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

    /// The number of a resize that knows the size it changes and is about to be sent. The store accepts it only if
    /// the size has not changed since, so the numbers are in the order in which the resizes take effect.
    pub(crate) fn next_resize(&self) -> u64 {
        self.sent.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The resize with this number has succeeded.
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
            true => self.try_now(weight).await, // with no time to wait it still asks once
            false => self.acquire(weight, Patience::Wait, self.client.after(patience)).await,
        }
    }

    /// Takes the lock at once, or not at all.
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

    /// A line has one size, that of the first client in line. Another size is worth a warning, but must be no outage.
    fn compare(&self, capacity: Weight) {
        let own = self.declared.get();
        if capacity != own && !self.told_of_other_size.swap(true, Ordering::AcqRel) {
            let name = &self.name;
            unharmed(
                || tracing::warn!(lock.name = %name, %own, line = %capacity, "semaphore {name:?} already exists with {capacity} permits; this client asked for {own} and uses {capacity}"),
            );
        }
    }
}
