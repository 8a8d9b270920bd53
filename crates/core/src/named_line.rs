//! The base of all kinds of lock: a name, a kind and a capacity.
//!
//! | request                    | weight | capacity |
//! |----------------------------|--------|----------|
//! | mutex                      | 1      | 1        |
//! | read                       | 1      | MAX      |
//! | write                      | MAX    | MAX      |
//! | n permits of a semaphore   | n      | N        |

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::acquire::Want;
use crate::backend::{Moment, Patience, unharmed};
use crate::client::Client;
use crate::declared_size::DeclaredSize;
use crate::{Error, ErrorKind, Guard, Kind, Name, Result, Weight};

#[derive(Debug)]
pub(crate) struct NamedLine {
    pub(crate) client: Client,
    pub(crate) name: Name,
    kind: Kind,
    pub(crate) declared: Arc<DeclaredSize>,
    told_of_other_size: AtomicBool,
}

impl NamedLine {
    pub(crate) fn new(client: Client, name: Name, kind: Kind, capacity: Weight) -> Self {
        let (declared, told_of_other_size) = (Arc::new(DeclaredSize::new(capacity)), AtomicBool::new(false));
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
