//! A client in a trial: one `Locks`. Every step of it is recorded.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tidelock_core::{ErrorKind, Line, Locks, Result};

use crate::Want;
use crate::any_guard::AnyGuard;
use crate::history::{Author, EventKind, Recorder};
use crate::hold::Hold;

/// A client, equivalent to a process of its own. Clones are the same client.
#[derive(Clone)]
pub struct Client {
    locks: Arc<dyn Locks>,
    label: Arc<str>,
    recorder: Arc<Recorder>,
}

impl Client {
    pub(crate) fn new(locks: Arc<dyn Locks>, label: &str, recorder: Arc<Recorder>) -> Self {
        Self { locks, label: label.into(), recorder }
    }

    /// Its locks, for steps that are not recorded.
    #[must_use]
    pub fn locks(&self) -> &Arc<dyn Locks> {
        &self.locks
    }

    /// Its label.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Waits its turn.
    ///
    /// # Errors
    /// As the lock's own call.
    pub async fn take(&self, name: &str, want: Want) -> Result<Hold> {
        self.take_as(self.author(name), want).await
    }

    pub(crate) async fn take_as(&self, author: Author, want: Want) -> Result<Hold> {
        let name = &*author.name.clone();
        let held = self.ask(author, want, async {
            let kept = match want {
                Want::Lock => self.locks.mutex(name)?.lock().await.map(AnyGuard::Plain),
                Want::Read => self.locks.rwlock(name)?.read().await.map(AnyGuard::Plain),
                Want::Write => self.locks.rwlock(name)?.write().await.map(AnyGuard::Write),
                Want::Permits(n, of) => self.locks.semaphore(name, of)?.acquire(n).await.map(AnyGuard::Plain),
            };
            kept.map(Some)
        });
        Ok(held.await?.expect("a wait without an end is not refused"))
    }

    /// Takes it at once, or not at all.
    ///
    /// # Errors
    /// As the lock's own call.
    pub async fn try_take(&self, name: &str, want: Want) -> Result<Option<Hold>> {
        let plain = |guard: Option<_>| guard.map(AnyGuard::Plain);
        self.ask(self.author(name), want, async {
            match want {
                Want::Lock => self.locks.mutex(name)?.try_lock().await.map(plain),
                Want::Read => self.locks.rwlock(name)?.try_read().await.map(plain),
                Want::Write => {
                    self.locks.rwlock(name)?.try_write().await.map(|guard| guard.map(AnyGuard::Write))
                }
                Want::Permits(n, of) => self.locks.semaphore(name, of)?.try_acquire(n).await.map(plain),
            }
        })
        .await
    }

    /// Waits its turn for this long.
    ///
    /// # Errors
    /// As the lock's own call.
    pub async fn take_within(&self, name: &str, want: Want, patience: Duration) -> Result<Option<Hold>> {
        let plain = |guard: Option<_>| guard.map(AnyGuard::Plain);
        let write = |guard: Option<_>| guard.map(AnyGuard::Write);
        self.ask(self.author(name), want, async {
            match want {
                Want::Lock => self.locks.mutex(name)?.lock_within(patience).await.map(plain),
                Want::Read => self.locks.rwlock(name)?.read_within(patience).await.map(plain),
                Want::Write => self.locks.rwlock(name)?.write_within(patience).await.map(write),
                Want::Permits(n, of) => {
                    self.locks.semaphore(name, of)?.acquire_within(n, patience).await.map(plain)
                }
            }
        })
        .await
    }

    /// Changes the size of the semaphore with that name.
    ///
    /// # Errors
    /// As [`tidelock_core::Semaphore::resize`].
    pub async fn resize(&self, name: &str, to: u32) -> Result<()> {
        let author = self.recorder.author(&self.label, name);
        self.recorder.note(&author, EventKind::Resizing { to });
        let resized = match self.locks.semaphore(name, to) {
            Ok(semaphore) => semaphore.resize(to).await,
            Err(error) => Err(error),
        };
        match &resized {
            Ok(()) => self.recorder.note(&author, EventKind::Resized { to }),
            Err(error) if is_refusal(error.kind()) => self.recorder.note(&author, EventKind::Refused),
            Err(_) => {} // it may still be made
        }
        resized
    }

    /// The line of a name.
    ///
    /// # Errors
    /// As [`Locks::inspect`].
    pub async fn line(&self, name: &str) -> Result<Line> {
        self.locks.inspect(name).await
    }

    /// How many claims wait in a line; 0 if the line cannot be read.
    pub async fn waiters(&self, name: &str) -> usize {
        self.line(name).await.map_or(0, |line| line.waiters().count())
    }

    /// Whether a line has no claims; `false` if it cannot be read.
    pub async fn is_empty(&self, name: &str) -> bool {
        self.line(name).await.is_ok_and(|line| line.claims.is_empty())
    }

    pub(crate) fn author(&self, name: &str) -> Author {
        self.recorder.author(&self.label, name)
    }

    async fn ask(
        &self,
        author: Author,
        want: Want,
        work: impl Future<Output = Result<Option<AnyGuard>>> + Send,
    ) -> Result<Option<Hold>> {
        let (kind, weight, capacity) = (want.kind(), want.weight(), want.capacity());
        self.recorder.note(&author, EventKind::Asked { kind, weight, capacity });
        let asking = Asking { recorder: self.recorder.clone(), author, is_settled: false };
        Asked { asking, work: Box::pin(work) }.await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.label)
    }
}

/// Whether an error of that kind says that nothing was done.
fn is_refusal(kind: ErrorKind) -> bool {
    use ErrorKind::{Conflict, InvalidName, InvalidPermits, KindMismatch};
    matches!(kind, Conflict | InvalidName | InvalidPermits | KindMismatch)
}

/// A claim that was asked for. If this is dropped before it is settled, the claim was cancelled.
struct Asking {
    recorder: Arc<Recorder>,
    author: Author,
    is_settled: bool,
}

/// A claim that was asked for, with the call that asks. The fields are dropped in this order: the cancellation must be
/// recorded before the call is dropped and the claim leaves, because from then on others may be granted.
struct Asked<F> {
    asking: Asking,
    work: Pin<Box<F>>,
}

impl<F: Future<Output = Result<Option<AnyGuard>>>> Future for Asked<F> {
    type Output = Result<Option<Hold>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = std::task::ready!(self.work.as_mut().poll(cx));
        Poll::Ready(self.asking.settle(outcome))
    }
}

impl Asking {
    fn settle(&mut self, outcome: Result<Option<AnyGuard>>) -> Result<Option<Hold>> {
        self.is_settled = true;
        match outcome {
            Ok(Some(kept)) => Ok(Some(Hold::new(kept, self.author.clone(), self.recorder.clone()))),
            Ok(None) => {
                self.recorder.note(&self.author, EventKind::Refused);
                Ok(None)
            }
            Err(error) => {
                self.recorder.note(&self.author, EventKind::Failed);
                Err(error)
            }
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if !self.is_settled {
            self.recorder.note(&self.author, EventKind::Cancelled);
        }
    }
}
