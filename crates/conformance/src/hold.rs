//! What a trial's client holds: a guard whose beginning and end are written down.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidelock::{Guard, Moment, Result, State, Token, WriteGuard};

use crate::history::{Author, Recorder, What};

/// A guard, or a writer's.
#[derive(Debug)]
pub(crate) enum Kept {
    Plain(Guard),
    Write(WriteGuard),
}

impl Kept {
    pub(crate) fn guard(&self) -> &Guard {
        match self {
            Self::Plain(guard) => guard,
            Self::Write(guard) => guard,
        }
    }
}

/// A hold. Dropping it drops its guard.
pub struct Hold {
    /// `None` only while it is being taken apart.
    kept: Option<Arc<Kept>>,
    author: Author,
    recorder: Arc<Recorder>,
}

impl Hold {
    pub(crate) fn new(kept: Kept, author: Author, recorder: Arc<Recorder>) -> Self {
        let kept = Arc::new(kept);
        recorder.granted(&author, &kept);
        Self { kept: Some(kept), author, recorder }
    }

    /// The guard.
    pub fn guard(&self) -> &Guard {
        self.kept.as_ref().expect("only its end takes it").guard()
    }

    /// Its token.
    #[must_use]
    pub fn token(&self) -> Token {
        self.guard().token()
    }

    /// How far it can be trusted.
    #[must_use]
    pub fn state(&self) -> State {
        self.guard().state()
    }

    /// Gives it back, and waits for the store's word.
    ///
    /// # Errors
    /// As of [`Guard::release`].
    pub async fn release(mut self) -> Result<()> {
        match self.take() {
            Some(Kept::Plain(guard)) => guard.release().await,
            Some(Kept::Write(guard)) => guard.release().await,
            None => Ok(()),
        }
    }

    /// A writer becomes a reader. What is no writer stays what it is.
    ///
    /// # Errors
    /// As of [`WriteGuard::downgrade`].
    pub async fn downgrade(mut self) -> Result<Self> {
        let (author, recorder) = (self.author.clone(), self.recorder.clone());
        let since = recorder.now();
        let writer = match self.take_quietly() {
            Some(Kept::Write(writer)) => writer,
            Some(plain) => return Ok(Self::again(plain, author, recorder, since)),
            None => unreachable!("only its end takes it"),
        };
        recorder.note(&author, What::Lightened { weight: 1 });
        let notes = Some((author, recorder));
        let downgrading = Downgrading { notes, since, work: Box::pin(writer.downgrade()) };
        let (reader, (author, recorder)) = downgrading.await?;
        Ok(Self::again(Kept::Plain(reader), author, recorder, since))
    }

    /// The same claim under another guard.
    fn again(kept: Kept, author: Author, recorder: Arc<Recorder>, since: Moment) -> Self {
        let kept = Arc::new(kept);
        recorder.keep(&author, &kept, since);
        Self { kept: Some(kept), author, recorder }
    }

    pub(crate) fn author(&self) -> &Author {
        &self.author
    }

    fn take(&mut self) -> Option<Kept> {
        self.recorder.let_go(&self.author);
        self.take_quietly()
    }

    /// The recorder looks at a guard only while it writes, so nobody else has it here.
    fn take_quietly(&mut self) -> Option<Kept> {
        self.recorder.keep_no_more(&self.author);
        self.kept.take().and_then(Arc::into_inner)
    }
}

/// A downgrade under way. Given up, the end of the hold is written down before the guard is dropped with the call; when
/// it fails, as of its beginning: the guard has gone since, and nobody could look at it.
struct Downgrading<F> {
    notes: Option<(Author, Arc<Recorder>)>,
    since: Moment,
    work: Pin<Box<F>>,
}

impl<F: Future<Output = Result<Guard>>> Future for Downgrading<F> {
    type Output = Result<(Guard, (Author, Arc<Recorder>))>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let reader = std::task::ready!(self.work.as_mut().poll(cx))?;
        let notes = self.notes.take().expect("it is ready once");
        Poll::Ready(Ok((reader, notes)))
    }
}

impl<F> Drop for Downgrading<F> {
    fn drop(&mut self) {
        if let Some((author, recorder)) = &self.notes {
            recorder.note_since(author, What::LetGo, self.since);
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
