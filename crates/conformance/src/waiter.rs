//! A task of a client that waits its turn. Dropping it cancels the wait.

use tidelock_core::{Error, ErrorKind, Line, Result};
use tokio::task::JoinHandle;

use crate::Want;
use crate::client::Client;
use crate::history::{Author, Recorder};
use crate::hold::Hold;

/// A waiter in a task of its own.
#[derive(Debug)]
pub struct Waiter {
    author: Author,
    task: JoinHandle<Result<Hold>>,
}

impl Waiter {
    /// Starts to wait.
    pub(crate) fn spawn(client: &Client, name: &str, want: Want) -> Self {
        let (client, author) = (client.clone(), client.author(name));
        let task = tokio::spawn({
            let author = author.clone();
            async move { client.take_as(author, want).await }
        });
        Self { author, task }
    }

    /// Whether it has its turn, or an error.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.task.is_finished()
    }

    /// Its result.
    ///
    /// # Errors
    /// As the lock's own call.
    pub async fn hold(mut self) -> Result<Hold> {
        let panicked =
            |panic| Error::new(ErrorKind::Protocol, "the task of a waiter panicked").because(panic);
        (&mut self.task).await.map_err(panicked)?
    }

    /// Records that it waits: see [`Recorder::stands`].
    pub(crate) fn stands(&self, recorder: &Recorder, shown: Option<usize>) {
        recorder.stands(&self.author, shown);
    }

    /// Whether a line shows a claim of its client that waits for the same.
    pub(crate) fn is_shown(&self, line: &Line, want: Want) -> bool {
        line.waiters().any(|claim| *claim.label == *self.author.who && claim.weight.get() == want.weight())
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.task.abort();
    }
}
