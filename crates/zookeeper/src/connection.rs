//! One connection to a server, which the library serves until it is lost.
//!
//! The library would reconnect by itself, but it must not, for three reasons. It does not report the timeout that the
//! server then gives the session. It sets all watches again, in requests whose replies it mixes up beyond 128 KiB of
//! paths, and it never recovers. And it pauses for seconds between its tries. So its task is no longer polled once the
//! connection is lost, and the next connection is made here.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use tidelock_core::backend::Moment;
use tokio::sync::{Notify, watch};
use zookeeper_client::{Client, Error as Said, EventType, OneshotWatcher, SessionState, StateWatcher};

use crate::missing::MissingReplies;

/// The library's task for one connection.
type Library = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection in use. Dropping its last client ends the session.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: Arc<Client>,
    pub(crate) wire: Arc<Wire>,
    /// A moment before the server was asked for it.
    pub(crate) asked: Moment,
}

impl Connection {
    /// Connects with the library, and serves the connection.
    pub(crate) async fn make<F>(asked: Moment, connecting: F) -> Result<Self, Said>
    where
        F: Future<Output = Result<Client, Said>>,
    {
        let spawned = Spawned::default();
        let mut connecting = pin!(connecting);
        let client = poll_fn(|cx| {
            let _scope = spawns_core::enter(&spawned);
            connecting.as_mut().poll(cx)
        })
        .await?;
        let library = spawned.take().ok_or(Said::ClientClosed)?;
        let wire = Arc::new(Wire::default());
        tokio::spawn(serve(library, client.state_watcher(), wire.clone()));
        Ok(Self { client: Arc::new(client), wire, asked })
    }
}

/// Polls the library until the connection is lost or the session is over.
async fn serve(mut library: Library, states: StateWatcher, wire: Arc<Wire>) {
    let serving = poll_fn(|cx| match library.as_mut().poll(cx) {
        Poll::Pending if states.peek_state() != SessionState::Disconnected => Poll::Pending,
        _ => Poll::Ready(states.peek_state()),
    });
    let ending = Ending(wire);
    let end = tokio::select! {
        state = serving => End::from(state),
        () = ending.0.cut.notified() => End::Stopped,
    };
    *ending.0.library.lock().unwrap_or_else(PoisonError::into_inner) = Some(library);
    ending.0.end(end);
}

/// If the library panics, the connection is lost like any other.
struct Ending(Arc<Wire>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end(End::Lost);
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The session may be resumed on another one.
    Lost,
    /// The server has confirmed the close of the session.
    Closed,
    /// It is not used any more. The server may still have the session.
    Stopped,
}

impl From<SessionState> for End {
    fn from(state: SessionState) -> Self {
        match state {
            SessionState::Disconnected => Self::Lost,
            SessionState::Closed => Self::Closed,
            _ => Self::Stopped, // the library says "expired" by its own clock too
        }
    }
}

/// Whether a connection has ended, and how.
#[derive(Default)]
pub(crate) struct Wire {
    end: watch::Sender<Option<End>>,
    cut: Notify,
    pub(crate) missing: Arc<MissingReplies>,
    /// The library's task, after the connection has ended. A watcher of the library panics when this task is dropped,
    /// so it is kept until no watcher waits for an event.
    library: Mutex<Option<Library>>,
}

impl Wire {
    /// Waits until the connection has ended.
    pub(crate) async fn ended(&self) -> End {
        let mut end = self.end.subscribe();
        end.wait_for(Option::is_some).await.ok().and_then(|end| *end).unwrap_or(End::Stopped)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.borrow().is_some()
    }

    /// Stops sending: any request would keep the session alive.
    pub(crate) fn cut(&self) {
        self.cut.notify_one();
    }

    /// Treats the connection as lost: requests do not wait for replies any more.
    pub(crate) fn give_up(&self) {
        self.end(End::Lost);
        self.cut();
    }

    /// Only the first call counts.
    fn end(&self, how: End) {
        self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            end.get_or_insert(how);
            is_first
        });
    }

    /// The reply, or an error once none can come. The future does not keep the wire alive.
    pub(crate) fn hear<T, E: From<Said>, F>(
        &self,
        asking: F,
    ) -> impl Future<Output = Result<T, E>> + use<T, E, F>
    where
        F: Future<Output = Result<T, E>>,
    {
        let (mut end, missing) = (self.end.subscribe(), self.missing.ask());
        async move {
            tokio::select! {
                biased;
                answer = asking => {
                    missing.heard();
                    answer
                }
                _ = end.wait_for(Option::is_some) => Err(Said::ConnectionLoss.into()),
            }
        }
    }
}

/// A watch that is set.
pub(crate) struct Watcher {
    library: OneshotWatcher, // dropped before the wire
    wire: Arc<Wire>,
}

impl Watcher {
    pub(crate) fn new(library: OneshotWatcher, wire: Arc<Wire>) -> Self {
        Self { library, wire }
    }

    /// Waits until the watched node has changed. False: the connection is gone, and the watch with it. After a
    /// reconnect everything is looked at.
    pub(crate) async fn changed(self) -> bool {
        let Self { library, wire } = self;
        tokio::select! {
            biased;
            _ = wire.ended() => false,
            event = library.changed() => event.event_type != EventType::Session,
        }
    }
}

/// Catches the task that the library spawns: one for each connection.
#[derive(Default)]
struct Spawned(Mutex<Option<Library>>);

impl Spawned {
    fn take(&self) -> Option<Library> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl spawns_core::Spawn for Spawned {
    fn spawn(&self, task: spawns_core::Task) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::into_pin(task.future));
    }
}
