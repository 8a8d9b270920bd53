//! The client behind every `Locks`: one session at a time over one backend, and the way to a grant.
//!
//! A session opens at first use, and anew when the store has ended the last one. To acquire is to enter a claim, to
//! join, and to wait for its turn; whatever is dropped on the way leaves by itself ([`Stake`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tracing::Instrument;

use crate::live::Live;
use crate::named_line::NamedLine;
use crate::stake::Stake;
use crate::standing::{Loss, Turn};
use crate::{
    Backend, Claim, ClaimId, Error, ErrorKind, Guard, Guards, Kind, Leave, Left, Line, Locks, Moment, Name,
    Options, Patience, Place, Result, RwLock, Semaphore, Signals, Weight,
};

/// How many sessions in a row may end under an acquire before it gives up.
const SESSIONS_TRIED: u32 = 3;

/// The locks of a backend, its session opened now: what a server is asked here shows whether it will serve.
///
/// # Errors
/// What [`Options::check`] refuses, and whatever keeps the session from being opened.
pub async fn connect(backend: Arc<dyn Backend>, options: Options) -> Result<Arc<dyn Locks>> {
    let client = Client::new(backend, options)?;
    client.live().await.map_err(|error| error.during("connect"))?;
    Ok(Arc::new(client))
}

/// The locks of a backend, its session opened at first use.
///
/// # Errors
/// What [`Options::check`] refuses.
pub fn attach(backend: Arc<dyn Backend>, options: Options) -> Result<Arc<dyn Locks>> {
    Ok(Arc::new(Client::new(backend, options)?))
}

/// A cheap handle to one client; the last one that goes ends its session.
#[derive(Clone, Debug)]
pub(crate) struct Client(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    backend: Arc<dyn Backend>,
    options: Arc<Options>,
    live: Mutex<Option<Arc<Live>>>,
    /// Held by whoever opens a session, so that nobody else does.
    opening: tokio::sync::Mutex<()>,
    closed: AtomicBool,
}

/// What is asked of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want<'a> {
    pub(crate) name: &'a Name,
    pub(crate) kind: Kind,
    pub(crate) weight: Weight,
    pub(crate) capacity: Weight,
}

impl Client {
    fn new(backend: Arc<dyn Backend>, options: Options) -> Result<Self> {
        options.check()?;
        Ok(Self(Arc::new(Shared {
            backend,
            options: Arc::new(options),
            live: Mutex::new(None),
            opening: tokio::sync::Mutex::new(()),
            closed: AtomicBool::new(false),
        })))
    }

    /// Which store, and which part of it, in the same words in every process.
    pub(crate) fn store(&self) -> (&str, &str) {
        (self.0.backend.store(), &self.0.options.namespace)
    }

    /// The moment `longest` from now.
    pub(crate) fn after(&self, longest: Duration) -> Moment {
        self.0.backend.clock().now() + longest
    }

    /// Waits for a grant: with patience until `by`, without for the store's one answer.
    pub(crate) async fn acquire(
        &self,
        want: Want<'_>,
        patience: Patience,
        by: Moment,
    ) -> Result<Option<Guard>> {
        let span = tracing::debug_span!("acquire", lock.name = %want.name, lock.kind = %want.kind);
        let acquired = match span.is_disabled() {
            true => self.stand_in_line(want, patience, by).await,
            // Boxed, because instrumenting moves the whole future, and nobody should pay for that who does not trace.
            false => Box::pin(self.stand_in_line(want, patience, by)).instrument(span).await,
        };
        acquired.map_err(|error| error.during(verb(want)).on(want.name))
    }

    async fn stand_in_line(&self, want: Want<'_>, patience: Patience, by: Moment) -> Result<Option<Guard>> {
        // A store that answers at once must not keep a loop from ever yielding.
        tokio::task::coop::consume_budget().await;
        let mut sessions = 0;
        loop {
            let live = self.live().await?;
            let claim = want.claim(live.registry.next_id());
            let stake = Stake::new(live, claim);
            let turn = match stake.join(patience, by).await {
                Ok(Place::Held { grant, .. }) => return Ok(Some(Guard::new(stake, grant))),
                Ok(Place::Refused) => return Ok(None),
                Ok(Place::Waiting { .. }) if patience == Patience::Now => return Ok(None), // and its stake leaves
                Ok(Place::Waiting { .. }) => stake.turn(by).await,
                Ok(Place::Gone) if sessions < SESSIONS_TRIED => Some(Turn::Gone(Loss::NotInLine)),
                Ok(Place::Gone) => {
                    return Err(Error::new(ErrorKind::Protocol, "the store forgets every claim at once"));
                }
                Err(error) if error.kind() == ErrorKind::Lost && sessions < SESSIONS_TRIED => {
                    stake.live.registry.over();
                    Some(Turn::Gone(Loss::SessionOver))
                }
                Err(error) => return Err(error),
            };
            match turn {
                Some(Turn::Held(grant)) => return Ok(Some(Guard::new(stake, grant))),
                Some(Turn::Gone(Loss::Closed)) => return Err(closed()),
                // Its session has ended, or its lifetime: it stands in line anew, at the tail.
                Some(Turn::Gone(_)) => sessions += 1,
                None => return Ok(None),
            }
        }
    }

    /// The session in use; opens one if there is none.
    pub(crate) async fn live(&self) -> Result<Arc<Live>> {
        match self.current()? {
            Some(live) => Ok(live),
            // Boxed, because it is rare, and every acquire's future would be as large.
            None => Box::pin(self.open()).await,
        }
    }

    async fn open(&self) -> Result<Arc<Live>> {
        let _alone = self.0.opening.lock().await;
        if let Some(live) = self.current()? {
            return Ok(live);
        }
        let live = Live::open(self.0.backend.clone(), self.0.options.clone()).await?;
        self.slot().replace(live.clone());
        // Closed while it opened: then whoever closed has not seen it, and dropping it is what closes it.
        self.current().inspect_err(|_| drop(self.slot().take()))?;
        Ok(live)
    }

    fn current(&self) -> Result<Option<Arc<Live>>> {
        if self.0.closed.load(Ordering::Acquire) {
            return Err(closed());
        }
        Ok(self.slot().clone().filter(|live| !live.registry.is_over()))
    }

    /// The line of a name as it is now.
    pub(crate) async fn line(&self, name: &Name) -> Result<Line> {
        let live = self.live().await?;
        live.ask(live.session.line(name)).await
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Arc<Live>>> {
        self.0.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn named(&self, name: &str, kind: Kind, capacity: Weight) -> Result<Arc<NamedLine>> {
        let name = Name::new(name).map_err(|error| error.during("open a lock"))?;
        Ok(Arc::new(NamedLine::new(self.clone(), name, kind, capacity)))
    }
}

impl Want<'_> {
    fn claim(&self, id: ClaimId) -> Claim {
        Claim::new(id, self.name.clone(), self.kind, self.weight, self.capacity)
    }
}

#[async_trait]
impl Locks for Client {
    fn mutex(&self, name: &str) -> Result<Arc<dyn crate::Mutex>> {
        Ok(self.named(name, Kind::Mutex, Weight::ONE)?)
    }

    fn rwlock(&self, name: &str) -> Result<Arc<dyn RwLock>> {
        Ok(self.named(name, Kind::RwLock, Weight::MAX)?)
    }

    fn semaphore(&self, name: &str, permits: u32) -> Result<Arc<dyn Semaphore>> {
        Ok(self.named(name, Kind::Semaphore, crate::semaphore::permits(permits)?)?)
    }

    async fn lock_all(&self, names: &[&str]) -> Result<Guards> {
        crate::lock_all(&self.mutexes(names)?).await
    }

    async fn lock_all_within(&self, names: &[&str], patience: Duration) -> Result<Option<Guards>> {
        crate::lock_all_within(&self.mutexes(names)?, patience).await
    }

    async fn inspect(&self, name: &str) -> Result<Line> {
        let name = Name::new(name).map_err(|error| error.during("inspect"))?;
        self.line(&name).await.map_err(|error| error.during("inspect").on(&name))
    }

    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        let listed = async {
            let live = self.live().await?;
            live.ask(live.session.names(prefix, after)).await
        };
        listed.await.map_err(|error| error.during("list names"))
    }

    async fn evict(&self, name: &str, claim: ClaimId) -> Result<bool> {
        let name = Name::new(name).map_err(|error| error.during("evict"))?;
        tracing::warn!(lock.name = %name, %claim, "a claim is evicted by hand");
        let evicted = async {
            let live = self.live().await?;
            live.tell(live.session.leave(&name, claim, Leave::Done)).await
        };
        Ok(evicted.await.map_err(|error| error.during("evict from").on(&name))? != Left::Absent)
    }

    fn with_ttl(&self, ttl: Duration) -> Result<Arc<dyn Locks>> {
        attach(self.0.backend.clone(), Options::clone(&self.0.options).ttl(ttl))
    }

    async fn ping(&self) -> Result<()> {
        // A read of a line is what every store can do, and needs the same permissions as a lock.
        let name = Name::new("tidelock ping")?;
        self.line(&name).await.map(drop).map_err(|error| error.during("ping"))
    }

    async fn close(&self) -> Result<()> {
        self.close_within(self.0.options.command_deadline).await
    }

    async fn close_within(&self, longest: Duration) -> Result<()> {
        self.0.closed.store(true, Ordering::Release);
        let live = self.slot().take();
        match live {
            Some(live) => live.close(longest).await.map_err(|error| error.during("close")),
            None => Ok(()),
        }
    }
}

impl Client {
    fn mutexes(&self, names: &[&str]) -> Result<Vec<Arc<dyn crate::Mutex>>> {
        names.iter().map(|name| self.mutex(name)).collect()
    }
}

fn verb(want: Want<'_>) -> &'static str {
    match want.kind {
        Kind::RwLock if want.weight == Weight::MAX => "write-lock",
        Kind::RwLock => "read-lock",
        Kind::Semaphore => "take permits of",
        _ => "lock",
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "its Locks was closed")
}
