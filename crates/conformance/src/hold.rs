//! A lock held by a trial's client: a guard whose beginning and end are recorded.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidelock_core::backend::Moment;
use tidelock_core::{Guard, Result, State, Token};

use crate::any_guard::AnyGuard;
use crate::history::{Author, EventKind, Recorder};

/// A hold. Dropping it drops its guard.
pub struct Hold {
    /// `None` only while it is being taken apart.
    kept: Option<Arc<AnyGuard>>,
    author: Author,
    recorder: Arc<Recorder>,
}

impl Hold {
    pub(crate) fn new(kept: AnyGuard, author: Author, recorder: Arc<Recorder>) -> Self {
        let kept = Arc::new(kept);
        recorder.granted(&author, &kept);
        Self { kept: Some(kept), author, recorder }
    }

    /// The guard.
    pub fn guard(&self) -> &Guard {
        self.kept.as_ref().expect("only the end of the hold takes it").guard()
    }

    /// Its token.
    #[must_use]
    pub fn token(&self) -> Token {
        self.guard().token()
    }

    /// Whether it can still be trusted.
    #[must_use]
    pub fn state(&self) -> State {
        self.guard().state()
    }

    /// Gives it back, and waits for the store's answer. Unlike for a guard, a release that the store has not confirmed
    /// is an error: a trial that goes on as if the lock were free must know that it is.
    ///
    /// # Errors
    /// As [`Guard::release`] and [`Released::confirmed`](tidelock_core::Released::confirmed).
    pub async fn release(mut self) -> Result<()> {
        match self.take() {
            Some(AnyGuard::Plain(guard)) => guard.release().await?.confirmed(),
            Some(AnyGuard::Write(guard)) => guard.release().await?.confirmed(),
            None => Ok(()),
        }
    }

    /// Turns a writer into a reader. Any other hold stays as it is.
    ///
    /// # Errors
    /// As [`WriteGuard::downgrade`](tidelock_core::WriteGuard::downgrade).
    pub async fn downgrade(mut self) -> Result<Self> {
        let (author, recorder) = (self.author.clone(), self.recorder.clone());
        let since = recorder.now();
        let writer = match self.take_quietly() {
            Some(AnyGuard::Write(writer)) => writer,
            Some(plain) => return Ok(Self::again(plain, author, recorder, since)),
            None => unreachable!("only the end of the hold takes it"),
        };
        recorder.note(&author, EventKind::Lightened { weight: 1 });
        let notes = Some((author, recorder));
        let downgrading = Downgrading { notes, since, work: Box::pin(writer.downgrade()) };
        let (reader, (author, recorder)) = downgrading.await?;
        Ok(Self::again(AnyGuard::Plain(reader), author, recorder, since))
    }

    /// The same claim with another guard.
    fn again(kept: AnyGuard, author: Author, recorder: Arc<Recorder>, since: Moment) -> Self {
        let kept = Arc::new(kept);
        recorder.keep(&author, &kept, since);
        Self { kept: Some(kept), author, recorder }
    }

    pub(crate) fn author(&self) -> &Author {
        &self.author
    }

    fn take(&mut self) -> Option<AnyGuard> {
        self.recorder.let_go(&self.author);
        self.take_quietly()
    }

    /// The recorder looks at a guard only while it records, so this is the only reference here.
    fn take_quietly(&mut self) -> Option<AnyGuard> {
        self.recorder.keep_no_more(&self.author);
        self.kept.take().and_then(Arc::into_inner)
    }
}

/// A downgrade under way. If it is dropped, the end of the hold is recorded before the call drops the guard. If it
/// fails, the end is recorded as of the beginning of the call: the guard is gone since then, and the recorder could
/// not look at it.
struct Downgrading<F> {
    notes: Option<(Author, Arc<Recorder>)>,
    since: Moment,
    work: Pin<Box<F>>,
}

impl<F: Future<Output = Result<Guard>>> Future for Downgrading<F> {
    type Output = Result<(Guard, (Author, Arc<Recorder>))>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let reader = std::task::ready!(self.work.as_mut().poll(cx))?;
        let notes = self.notes.take().expect("it is polled to its end only once");
        Poll::Ready(Ok((reader, notes)))
    }
}

impl<F> Drop for Downgrading<F> {
    fn drop(&mut self) {
        if let Some((author, recorder)) = &self.notes {
            recorder.note_since(author, EventKind::LetGo, self.since);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.kept.is_some() {
            drop(self.take());
        }
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} holds: {:?}", self.author.who, self.kept)
    }
}
