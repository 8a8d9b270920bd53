//! The base of all kinds of lock: a name, a kind and a capacity.
//!
//! | request                    | weight | capacity |
//! |----------------------------|--------|----------|
//! | mutex                      | 1      | 1        |
//! | read                       | 1      | MAX      |
//! | write                      | MAX    | MAX      |
//! | n permits of a semaphore   | n      | N        |

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::Want;
use crate::backend::{Moment, Patience};
use crate::client::Client;
use crate::declared_size::DeclaredSize;
use crate::{Error, ErrorKind, Guard, Kind, Line, Name, Result, Weight};

/// An acquire under way. That of a task that may wait in a local line has no room for anything else: there can be very
/// many of them.
pub(crate) type Acquiring<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

pub(crate) struct NamedLine {
    pub(crate) client: Client,
    pub(crate) name: Name,
    kind: Kind,
    pub(crate) declared: Arc<DeclaredSize>,
}

impl NamedLine {
    pub(crate) fn new(client: Client, name: Name, kind: Kind, capacity: Weight) -> Self {
        Self { client, name, kind, declared: Arc::new(DeclaredSize::new(capacity)) }
    }

    /// Waits its turn, for a guard that `of` makes what its user gets.
    pub(crate) fn wait<T: Send + 'static>(&self, weight: Weight, of: fn(Guard) -> T) -> Acquiring<'_, T> {
        match self.client.cohorts().is_on() {
            true => Box::pin(async move {
                let want = self.want(weight);
                let acquired = self.client.acquire_in_cohort(&want, Moment::NEVER).await;
                self.compared(acquired)?.map(of).ok_or_else(is_not_patient)
            }),
            false => Box::pin(async move { self.wait_in_store(weight).await.map(of) }),
        }
    }

    /// The same, for at most `patience`.
    pub(crate) fn wait_within<T: Send + 'static>(
        &self,
        weight: Weight,
        patience: Duration,
        of: fn(Guard) -> T,
    ) -> Acquiring<'_, Option<T>> {
        match self.client.cohorts().is_on() && !patience.is_zero() {
            true => Box::pin(async move {
                let want = self.want(weight);
                let acquired = self.client.acquire_in_cohort(&want, self.client.after(patience)).await;
                Ok(self.compared(acquired)?.map(of))
            }),
            false => Box::pin(async move { Ok(self.wait_in_store_within(weight, patience).await?.map(of)) }),
        }
    }

    /// Stands in the store's line until its turn.
    pub(crate) async fn wait_in_store(&self, weight: Weight) -> Result<Guard> {
        let acquired = self.acquire(weight, Patience::Wait, Moment::NEVER).await?;
        acquired.ok_or_else(is_not_patient)
    }

    /// The same, for at most `patience`.
    pub(crate) async fn wait_in_store_within(
        &self,
        weight: Weight,
        patience: Duration,
    ) -> Result<Option<Guard>> {
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
        self.compared(self.client.acquire(self.want(weight), patience, by).await)
    }

    fn want(&self, weight: Weight) -> Want<'_> {
        Want { name: &self.name, kind: self.kind, weight, capacity: &self.declared }
    }

    fn compared(&self, acquired: Result<Option<Guard>>) -> Result<Option<Guard>> {
        match &acquired {
            Ok(Some(guard)) => self.compare(guard.capacity()),
            Ok(None) => {} // the store does not say the size
            Err(error) => error.size().into_iter().for_each(|size| self.compare(size)),
        }
        acquired
    }

    /// The line has this size: that of the first client in line.
    pub(crate) fn compare(&self, size: Weight) {
        self.client.size_warnings().compare(&self.name, self.declared.get(), size);
    }

    /// Its line at the moment.
    pub(crate) async fn inspect(&self) -> Result<Line> {
        self.client.line(&self.name).await.map_err(|error| error.during("inspect").on(&self.name))
    }
}

fn is_not_patient() -> Error {
    Error::new(ErrorKind::Protocol, "the store refused a claim that was ready to wait")
}

impl fmt::Debug for NamedLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct(match self.kind {
            Kind::RwLock => "RwLock",
            Kind::Semaphore => "Semaphore",
            _ => "Mutex",
        });
        shown.field("name", &self.name);
        if self.kind == Kind::Semaphore {
            shown.field("permits", &self.declared.get().get());
        }
        self.client.describe(&mut shown);
        shown.finish()
    }
}
