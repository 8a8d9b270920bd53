//! The client behind every `Locks`: one session at a time over one backend, and the way to a grant.
//!
//! A session opens at first use, and anew when the store has ended the last one. To acquire is to enter a claim, to
//! join, and to wait for its turn; whatever is dropped on the way leaves by itself ([`Stake`]).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tracing::Instrument;

use crate::deadline;
use crate::live::Live;
use crate::named_line::NamedLine;
use crate::pledge::Pledge;
use crate::stake::{Joined, Stake};
use crate::standing::{Loss, Turn};
use crate::{
    Backend, Claim, ClaimId, Error, ErrorKind, Guard, Guards, Kind, Leave, Left, Line, Locks, Moment, Name,
    Options, Patience, Result, RwLock, Semaphore, Signals, Weight,
};

/// How often in a row a claim may be lost before it waits, until an acquire gives up.
const TRIES: u32 = 4;

/// The locks of a backend, its session opened now: what a server is asked here shows whether it will serve.
///
/// # Errors
/// What [`Options::check`] refuses, and whatever keeps the session from being opened.
pub async fn connect(backend: Arc<dyn Backend>, options: Options) -> Result<Arc<dyn Locks>> {
    let client = Client::new(backend, options)?;
    client.live(Moment::NEVER).await.map_err(|error| error.during("connect"))?;
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

/// What standing in line with one claim has come to.
enum Stood {
    Granted(Guard),
    /// It was not free, or its turn did not come in time.
    InVain,
    Gone {
        loss: Loss,
        had_waited: bool,
    },
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
        let mut lost_in_a_row = 0;
        while lost_in_a_row < TRIES {
            match self.stand_once(want, patience, by).await? {
                Stood::Granted(guard) => return Ok(Some(guard)),
                Stood::InVain => return Ok(None),
                Stood::Gone { loss: Loss::Closed, .. } => return Err(closed()),
                // Its session has ended, or its lifetime: it stands in line anew, at the tail.
                Stood::Gone { had_waited: true, .. } => lost_in_a_row = 0,
                Stood::Gone { had_waited: false, .. } => lost_in_a_row += 1,
            }
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            "the store ends every session, or forgets every claim, at once",
        ))
    }

    /// Stands in line with one claim, until it is over with it one way or another.
    async fn stand_once(&self, want: Want<'_>, patience: Patience, by: Moment) -> Result<Stood> {
        let live = self.live(by).await?;
        let claim = want.claim(live.registry.next_id());
        let stake = match Stake::new(live, claim) {
            Ok(stake) => stake,
            Err(loss) => return Ok(Stood::Gone { loss, had_waited: false }),
        };
        let (turn, had_waited) = match stake.join(patience, by).await {
            Ok(Joined::Held(grant)) => (Some(Turn::Held(grant)), false),
            Ok(Joined::Refused) => (None, false),
            Ok(Joined::Waiting) if patience == Patience::Now => (None, false), // and its stake leaves
            Ok(Joined::Waiting) => (stake.turn(by).await, true),
            Ok(Joined::Gone(loss)) => (Some(Turn::Gone(loss)), false),
            Err(error) if error.kind() == ErrorKind::Lost => {
                stake.live.registry.over();
                (Some(Turn::Gone(Loss::SessionOver)), false)
            }
            Err(error) => return Err(error),
        };
        Ok(match turn {
            Some(Turn::Held(grant)) => Stood::Granted(Guard::new(stake, grant)),
            Some(Turn::Gone(loss)) => Stood::Gone { loss, had_waited },
            None => Stood::InVain,
        })
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

    /// The line of a name as it is now.
    pub(crate) async fn line(&self, name: &Name) -> Result<Line> {
        let live = self.live(Moment::NEVER).await?;
        live.ask(live.session.line(name)).await
    }

    fn named(&self, name: &str, kind: Kind, capacity: Weight) -> Result<Arc<NamedLine>> {
        let name = Name::new(name).map_err(|error| error.during("open a lock"))?;
        Ok(Arc::new(NamedLine::new(self.clone(), name, kind, capacity)))
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
            let live = self.live(Moment::NEVER).await?;
            live.ask(live.session.names(prefix, after)).await
        };
        listed.await.map_err(|error| error.during("list names"))
    }

    async fn evict(&self, name: &str, claim: ClaimId) -> Result<bool> {
        let name = Name::new(name).map_err(|error| error.during("evict"))?;
        let evicted = async {
            let live = self.live(Moment::NEVER).await?;
            let left = live.tell(live.session.leave(&name, claim, Leave::Done)).await?;
            live.registry.gone(claim); // if it was one of this client's own, it hears at once
            Ok(left)
        };
        let left = evicted.await.map_err(|error: Error| error.during("evict from").on(&name))?;
        tracing::warn!(lock.name = %name, %claim, ?left, "a claim was evicted by hand");
        Ok(left != Left::Absent)
    }

    fn with_ttl(&self, ttl: Duration) -> Result<Arc<dyn Locks>> {
        match &*self.0.slot() {
            Slot::Closing(_) => Err(closed()),
            _ => attach(self.0.backend.clone(), Options::clone(&self.0.options).ttl(ttl)),
        }
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
        let closing = {
            let mut slot = self.0.slot();
            if let Slot::Closing(pledge) = &*slot {
                pledge.clone() // whoever closes it too waits for the same
            } else {
                let before = std::mem::take(&mut *slot);
                let pledge = Pledge::begin(before.close(longest))?;
                *slot = Slot::Closing(pledge.clone());
                pledge
            }
        };
        closing.result().await.map_err(|error| error.during("close"))
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
