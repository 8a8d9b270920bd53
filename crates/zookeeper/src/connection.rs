//! One connection to a server: the library serves it until it is lost.
//!
//! The library would make the next connection by itself. It is not let: it does not say what timeout the server gives
//! the session then; it sets all watches again in requests whose answers it mixes up beyond 128 KiB of paths, and never
//! gets well; and it pauses for seconds between its tries. So its task is not polled any more once the connection is
//! lost, and the next one is ours to make.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use tidelock::Moment;
use tokio::sync::{Notify, watch};
use zookeeper_client::{Client, Error as Said, EventType, OneshotWatcher, SessionState, StateWatcher};

use crate::silence::Wanting;

/// The library's task for one connection.
type Library = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection in use. When the last client of it is dropped, the session ends.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: Arc<Client>,
    pub(crate) wire: Arc<Wire>,
    /// Before the server was asked for it.
    pub(crate) asked: Moment,
}

impl Connection {
    /// Has the library connect, and serves what comes of it.
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

/// Polls the library until the connection is lost, or the session over.
async fn serve(mut library: Library, states: StateWatcher, wire: Arc<Wire>) {
    let serving = poll_fn(|cx| match library.as_mut().poll(cx) {
        Poll::Pending if states.peek_state() != SessionState::Disconnected => Poll::Pending,
        _ => Poll::Ready(states.peek_state()),
    });
    let ending = Ending(wire);
    let state = tokio::select! {
        state = serving => state,
        () = ending.0.cut.notified() => SessionState::Closed,
    };
    *ending.0.library.lock().unwrap_or_else(PoisonError::into_inner) = Some(library);
    ending.0.end(state);
}

/// A connection whose library has failed inside is lost like any other.
struct Ending(Arc<Wire>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end(SessionState::Disconnected);
    }
}

/// Whether a connection has ended, and how.
#[derive(Default)]
pub(crate) struct Wire {
    end: watch::Sender<Option<SessionState>>,
    cut: Notify,
    pub(crate) wanting: Arc<Wanting>,
    /// When it has ended. The library panics where it could say that there will be no event: so it is kept until nobody
    /// waits for one.
    library: Mutex<Option<Library>>,
}

impl Wire {
    /// Waits until it has ended: lost, or the session is over.
    pub(crate) async fn ended(&self) -> SessionState {
        let mut end = self.end.subscribe();
        end.wait_for(Option::is_some).await.ok().and_then(|end| *end).unwrap_or(SessionState::Closed)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.borrow().is_some()
    }

    /// Nothing is sent any more: that would keep the session alive.
    pub(crate) fn cut(&self) {
        self.cut.notify_one();
    }

    /// It is as good as lost: nobody waits for an answer any more.
    pub(crate) fn give_up(&self) {
        self.end(SessionState::Disconnected);
        self.cut();
    }

    /// The first word counts.
    fn end(&self, state: SessionState) {
        self.end.send_if_modified(|end| {
            let is_first = end.is_none();
            end.get_or_insert(state);
            is_first
        });
    }

    /// The answer; or that none can come any more. Whoever waits for it does not keep the wire.
    pub(crate) fn hear<T, E: From<Said>, F>(
        &self,
        asking: F,
    ) -> impl Future<Output = Result<T, E>> + use<T, E, F>
    where
        F: Future<Output = Result<T, E>>,
    {
        let (mut end, missing) = (self.end.subscribe(), self.wanting.ask());
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

    /// Waits until what is watched has changed. False: the connection is gone, and the watch with it. When there is one
    /// again, everything is looked at.
    pub(crate) async fn changed(self) -> bool {
        let Self { library, wire } = self;
        tokio::select! {
            biased;
            _ = wire.ended() => false,
            event = library.changed() => event.event_type != EventType::Session,
        }
    }
}

/// What the library spawns: one task for each connection.
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
