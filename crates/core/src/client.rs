//! The client behind every `Locks`: one session at a time over one backend.
//!
//! A session opens at first use, and anew when the store has ended the last one: once for everyone who asks for it
//! meanwhile. When the client is closed no other opens.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::deadline;
use crate::live::Live;
use crate::pledge::Pledge;
use crate::{Backend, Error, ErrorKind, Line, Moment, Name, Options, Result};

/// A cheap handle to one client; the last one that goes ends its session.
#[derive(Clone, Debug)]
pub(crate) struct Client(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    backend: Arc<dyn Backend>,
    options: Arc<Options>,
    slot: Mutex<Slot>,
}

/// The session of a client.
#[derive(Debug, Default)]
enum Slot {
    #[default]
    Empty,
    Opening(Pledge<Arc<Live>>),
    Open(Arc<Live>),
    Closing(Pledge<()>),
}

/// The session that an acquire finds.
enum Current {
    Open(Arc<Live>),
    Opening(Pledge<Arc<Live>>),
}

impl Client {
    pub(crate) fn new(backend: Arc<dyn Backend>, options: Options) -> Result<Self> {
        options.check()?;
        Ok(Self(Arc::new(Shared { backend, options: Arc::new(options), slot: Mutex::default() })))
    }

    /// Which store, and which part of it, in the same words in every process.
    pub(crate) fn store(&self) -> (&str, &str) {
        (self.0.backend.store(), &self.0.options.namespace)
    }

    /// The moment `longest` from now.
    pub(crate) fn after(&self, longest: Duration) -> Moment {
        self.0.backend.clock().now() + longest
    }

    /// The session in use; opens one if there is none, and waits for that until `by`.
    pub(crate) async fn live(&self, by: Moment) -> Result<Arc<Live>> {
        match self.current()? {
            Current::Open(live) => Ok(live),
            // Boxed, because it is rare, and every acquire's future would be as large.
            Current::Opening(pledge) => Box::pin(self.opened(pledge, by)).await,
        }
    }

    async fn opened(&self, pledge: Pledge<Arc<Live>>, by: Moment) -> Result<Arc<Live>> {
        let clock = self.0.backend.clock();
        let late = || Err(Error::new(ErrorKind::Timeout, "the store did not open a session in time"));
        deadline::by(&clock, |_| by, pledge.result()).await.unwrap_or_else(late)
    }

    fn current(&self) -> Result<Current> {
        let mut slot = self.0.slot();
        match &*slot {
            Slot::Closing(_) => return Err(closed()),
            Slot::Open(live) if !live.registry.is_over() => return Ok(Current::Open(live.clone())),
            Slot::Opening(pledge) if pledge.is_under_way() => return Ok(Current::Opening(pledge.clone())),
            Slot::Empty | Slot::Open(_) | Slot::Opening(_) => {}
        }
        let pledge = Pledge::begin(Shared::open(self.0.clone()))?;
        *slot = Slot::Opening(pledge.clone());
        Ok(Current::Opening(pledge))
    }

    /// Ends its session, and every other that could be opened. Whoever closes it too waits for the same end.
    pub(crate) async fn close(&self, longest: Duration) -> Result<()> {
        let closing = {
            let mut slot = self.0.slot();
            if let Slot::Closing(pledge) = &*slot {
                pledge.clone()
            } else {
                let before = std::mem::take(&mut *slot);
                let pledge = Pledge::begin(before.close(longest))?;
                *slot = Slot::Closing(pledge.clone());
                pledge
            }
        };
        closing.result().await
    }

    /// Another client of the same store, with a session of its own.
    pub(crate) fn sibling(&self, ttl: Duration) -> Result<Self> {
        match &*self.0.slot() {
            Slot::Closing(_) => Err(closed()),
            _ => Self::new(self.0.backend.clone(), self.options().clone().ttl(ttl)),
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    /// The line of a name as it is now.
    pub(crate) async fn line(&self, name: &Name) -> Result<Line> {
        let live = self.live(Moment::NEVER).await?;
        live.ask(live.session.line(name)).await
    }
}

impl Shared {
    /// Opens a session and puts it where everyone finds it.
    async fn open(shared: Arc<Self>) -> Result<Arc<Live>> {
        let live = Live::open(shared.backend.clone(), shared.options.clone()).await?;
        match &mut *shared.slot() {
            Slot::Closing(_) => return Err(closed()), // dropping the session closes it
            slot => *slot = Slot::Open(live.clone()),
        }
        Ok(live)
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Gives back whatever the session has.
    async fn close(self, within: Duration) -> Result<()> {
        match self {
            Self::Open(live) => live.close(within).await,
            // It finds that it is being closed, and nobody has had it.
            Self::Opening(pledge) => pledge.result().await.map(drop).or(Ok(())),
            Self::Empty => Ok(()),
            Self::Closing(pledge) => pledge.result().await,
        }
    }
}

/// Nothing can be asked of this client any more.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "its Locks was closed")
}
