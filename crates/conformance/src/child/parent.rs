//! The child as a trial sees it: orders and answers are recorded like the steps of any other client.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::order::{Order, Word};
use super::running::Running;
use crate::Want;
use crate::failure::{Failure, Outcome};
use crate::history::{Author, EventKind, Recorder};
use tidelock_core::Token;
use tidelock_core::backend::Moment;

/// How long a child may take for an order that needs no waiting.
const SOON: Duration = Duration::from_secs(10);
/// How long it may take for a long order.
const LONG: Duration = Duration::from_secs(300);

/// A client in a process of its own. Dropping it kills the process.
#[derive(Debug)]
pub struct Child {
    running: Running,
    orders: ChildStdin,
    words: UnboundedReceiver<String>,
    recorder: Arc<Recorder>,
    clock: Moment,
    /// Its latest claim.
    author: Option<Author>,
}

impl Child {
    /// Starts it, and waits until it is connected.
    pub(crate) async fn start(mut command: Command, label: &str, recorder: Arc<Recorder>) -> Outcome<Self> {
        let failed = |why: &str| Failure::new(format!("{label} did not start: {why}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|error| failed(&error.to_string()))?;
        let (Some(orders), Some(said)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(failed("its standard input or output is missing"));
        };
        let (sender, words) = unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(said).lines().map_while(Result::ok) {
                let _ = sender.send(line); // the receiver may be gone
            }
        });
        let mut child = Self {
            running: Running::new(process, label),
            orders,
            words,
            recorder,
            clock: Moment::NEVER,
            author: None,
        };
        match child.hear(SOON).await? {
            Word::Ready(now) => {
                child.clock = Moment::from_nanos(now);
                Ok(child)
            }
            other => Err(failed(&other.to_string())),
        }
    }

    /// Its label.
    #[must_use]
    pub fn label(&self) -> &str {
        self.running.label()
    }

    /// Its own boot clock when it was connected.
    #[must_use]
    pub fn clock(&self) -> Moment {
        self.clock
    }

    /// Locks that name, which must be free.
    pub async fn lock(&mut self, name: &str) -> Outcome<Token> {
        self.ask(name)?;
        self.granted(SOON).await
    }

    /// Stands in the line of that name.
    pub fn ask(&mut self, name: &str) -> Outcome {
        let author = self.recorder.author(self.running.label(), name);
        let (kind, weight, capacity) = (Want::Lock.kind(), Want::Lock.weight(), Want::Lock.capacity());
        self.recorder.note(&author, EventKind::Asked { kind, weight, capacity });
        self.author = Some(author);
        self.tell(&Order::Lock(name.to_owned()))
    }

    /// Records that the store's line shows it.
    pub(crate) fn stands(&self) {
        self.note(EventKind::Stands);
    }

    /// Waits until its claim is granted.
    pub async fn granted(&mut self, within: Duration) -> Outcome<Token> {
        match self.hear(within).await? {
            Word::Held(token) => {
                self.note(EventKind::Granted { token, told: None, id: "".into() });
                Token::from_u64(token).ok_or_else(|| self.unexpected(&Word::Held(token)))
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// Checks its guard, and writes if it can be trusted. Returns the token, or `None` if the guard is lost.
    pub async fn write(&mut self) -> Outcome<Option<Token>> {
        self.begin_to_write()?;
        self.written().await
    }

    /// Orders it to check its guard and to write, even if the process is stopped at the moment.
    pub fn begin_to_write(&mut self) -> Outcome {
        self.tell(&Order::Write)
    }

    /// The outcome of a write.
    pub async fn written(&mut self) -> Outcome<Option<Token>> {
        match self.hear(SOON).await? {
            Word::Wrote(token) => Ok(Token::from_u64(token)),
            Word::Lost => {
                self.note(EventKind::Lost);
                Ok(None)
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// Writes without checking its guard again, and returns the token.
    pub async fn write_on(&mut self) -> Outcome<Option<Token>> {
        self.tell(&Order::WriteOn)?;
        self.written().await
    }

    /// Gives back what it holds.
    pub async fn release(&mut self) -> Outcome {
        self.note(EventKind::LetGo);
        self.tell(&Order::Release)?;
        self.done(SOON).await
    }

    /// Orders it to count under the lock of that name, in that file.
    pub fn count(&mut self, times: u64, name: &str, file: &str) -> Outcome {
        self.tell(&Order::Count { times, name: name.to_owned(), file: file.to_owned() })
    }

    /// Tries this many times to lock that name, which another client holds, and must be refused each time.
    pub async fn be_refused(&mut self, times: u64, name: &str) -> Outcome {
        self.tell(&Order::Try { times, name: name.to_owned() })?;
        self.done(LONG).await
    }

    /// The memory of the process, in bytes, as the system counts it.
    pub fn resident(&self) -> Outcome<u64> {
        self.running.resident()
    }

    /// Waits until it has carried out its order.
    pub async fn done(&mut self, within: Duration) -> Outcome {
        match self.hear(within).await? {
            Word::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Kills it: it relies on nothing any more, and gives nothing back.
    pub fn kill(&mut self) -> Outcome {
        self.note(EventKind::LetGo);
        self.note_fault("is killed");
        self.running.kill()
    }

    /// Pauses its process.
    pub fn stop(&self) -> Outcome {
        self.note_fault("is paused");
        self.running.stop()
    }

    /// Resumes it, as if nothing had happened.
    pub fn go_on(&self) -> Outcome {
        self.note_fault("continues");
        self.running.go_on()
    }

    fn tell(&mut self, order: &Order) -> Outcome {
        let told = writeln!(self.orders, "{order}").and_then(|()| self.orders.flush());
        told.map_err(|error| Failure::new(format!("cannot send an order to {}: {error}", self.label())))
    }

    async fn hear(&mut self, within: Duration) -> Outcome<Word> {
        match tokio::time::timeout(within, self.words.recv()).await {
            Ok(Some(line)) => Word::read(&line).ok_or_else(|| {
                Failure::new(format!("cannot read this answer of {}: {line:?}", self.label()))
            }),
            Ok(None) => Err(Failure::new(format!("{} ended without an answer", self.label()))),
            Err(_) => Err(Failure::new(format!("{} did not answer within {within:?}", self.label()))),
        }
    }

    fn note(&self, what: EventKind) {
        if let Some(author) = &self.author {
            self.recorder.note(author, what);
        }
    }

    fn unexpected(&self, word: &Word) -> Failure {
        Failure::new(format!("{} said: {word}", self.label()))
    }

    fn note_fault(&self, what: &str) {
        let act = format!("the process of {} {what}", self.label());
        self.recorder.note_for_all(EventKind::Fault { act });
    }
}
