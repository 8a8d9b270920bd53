//! The factory of locks: a client as its users see it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::backend::{Backend, Leave, Left, Moment, Signals, unharmed};
use crate::client::Client;
use crate::named_line::NamedLine;
use crate::{ClaimId, Error, Guards, Kind, Line, Locks, Name, Options, Result, RwLock, Semaphore, Weight};

/// The locks of a backend. The session is opened now, so the requests to the server show whether it will serve.
///
/// # Errors
/// The errors of [`Options::check`], and every reason why the session cannot be opened.
pub async fn connect(backend: Arc<dyn Backend>, options: Options) -> Result<Arc<dyn Locks>> {
    let client = Client::new(backend, options)?;
    client.live_session(Moment::NEVER).await.map_err(|error| error.during("connect"))?;
    Ok(Arc::new(Factory(client)))
}

/// The locks of a backend. The session is opened at first use.
///
/// # Errors
/// The errors of [`Options::check`], and what the store can never keep.
pub fn attach(backend: Arc<dyn Backend>, options: Options) -> Result<Arc<dyn Locks>> {
    Ok(Arc::new(Factory(Client::new(backend, options)?)))
}

struct Factory(Client);

/// The operation that fails for a name that no lock can have.
const OPEN: &str = "open a lock";

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Locks");
        self.0.describe(&mut shown);
        shown.finish()
    }
}

#[async_trait]
impl Locks for Factory {
    fn mutex(&self, name: &str) -> Result<Arc<dyn crate::Mutex>> {
        Ok(self.line(name, Kind::Mutex, Weight::ONE)?)
    }

    fn rwlock(&self, name: &str) -> Result<Arc<dyn RwLock>> {
        Ok(self.line(name, Kind::RwLock, Weight::MAX)?)
    }

    fn semaphore(&self, name: &str, permits: u32) -> Result<Arc<dyn Semaphore>> {
        let name = Name::new(name).map_err(|error| error.during(OPEN))?;
        let permits = crate::semaphore::permits(permits);
        let permits = permits.map_err(|error| error.during("open the semaphore").on(&name))?;
        Ok(Arc::new(NamedLine::new(self.0.clone(), name, Kind::Semaphore, permits)))
    }

    async fn lock_all(&self, names: &[&str]) -> Result<Guards> {
        crate::lock_all(&self.mutexes(names)?).await
    }

    async fn lock_all_within(&self, names: &[&str], patience: Duration) -> Result<Option<Guards>> {
        crate::lock_all_within(&self.mutexes(names)?, patience).await
    }

    async fn inspect(&self, name: &str) -> Result<Line> {
        let name = Name::new(name).map_err(|error| error.during("inspect"))?;
        self.0.line(&name).await.map_err(|error| error.during("inspect").on(&name))
    }

    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        let listed = async {
            let live = self.0.live_session(Moment::NEVER).await?;
            live.ask(live.session.names(prefix, after)).await
        };
        listed.await.map_err(|error| error.during("list names"))
    }

    async fn evict(&self, name: &str, claim: ClaimId) -> Result<bool> {
        let name = Name::new(name).map_err(|error| error.during("evict"))?;
        let evicted = async {
            let live = self.0.live_session(Moment::NEVER).await?;
            let own = Some(claim).filter(|claim| live.registry.knows(*claim));
            if live.registry.find(own.iter()).iter().any(|entry| entry.claim.name != name) {
                return Ok((Left::Absent, None)); // a backend would forget what it knows of it
            }
            let (session, of) = (live.session.clone(), name.clone());
            // Runs on the keeper's runtime: the caller's may block before the answer comes, and only the first answer
            // counts.
            let left = live.carry_out(async move {
                // A claim that is not in line is not made void: a mistyped number may be one that its client has yet
                // to use. A claim that is in line is made void in the same request as its leave, so that no repeated
                // or late join makes it stand there anew. A later request could be too late: without an answer to the
                // leave the caller may never call again.
                let found = session.line(&of).await?.claims.into_iter().find(|info| info.id == claim);
                let how = if found.is_some() { Leave::Void } else { Leave::Done };
                let left = session.leave(&of, claim, how).await?;
                if how == Leave::Done && left != Left::Absent {
                    session.leave(&of, claim, Leave::Void).await?; // it joined in between
                }
                Ok((left, found.map(|info| info.label)))
            });
            let (left, label) = left.await?;
            if left != Left::Absent {
                live.registry.gone(claim); // if it was one of this client's own, its user learns at once
            }
            Ok((left, label))
        };
        let (left, label) = evicted.await.map_err(|error: Error| error.during("evict from").on(&name))?;
        let what = match left {
            Left::Absent => return Ok(false),
            Left::Held => "holder",
            Left::Waiting => "waiter",
        };
        let label = label.unwrap_or_default();
        unharmed(|| tracing::warn!(lock.name = %name, %claim, label, "an operator evicted a {what}"));
        Ok(true)
    }

    fn with_ttl(&self, ttl: Duration) -> Result<Arc<dyn Locks>> {
        let sibling = self.0.sibling(ttl).map_err(|error| error.during("make a client with another ttl"))?;
        Ok(Arc::new(Self(sibling)))
    }

    async fn ping(&self) -> Result<()> {
        // Every store can read a line, and it needs the same permissions as a lock.
        let name = Name::new("tidelock ping")?;
        self.0.line(&name).await.map(drop).map_err(|error| error.during("ping"))
    }

    async fn drain(&self) -> Result<()> {
        self.0.drain(None).await.map(drop).map_err(|error| error.during("drain"))
    }

    async fn drain_within(&self, longest: Duration) -> Result<bool> {
        self.0.drain(Some(longest)).await.map_err(|error| error.during("drain"))
    }

    async fn close(&self) -> Result<()> {
        self.close_within(self.0.options().command_deadline).await
    }

    async fn close_within(&self, longest: Duration) -> Result<()> {
        self.0.close(longest).await.map_err(|error| error.during("close"))
    }
}

impl Factory {
    fn line(&self, name: &str, kind: Kind, capacity: Weight) -> Result<Arc<NamedLine>> {
        let name = Name::new(name).map_err(|error| error.during(OPEN))?;
        Ok(Arc::new(NamedLine::new(self.0.clone(), name, kind, capacity)))
    }

    fn mutexes(&self, names: &[&str]) -> Result<Vec<Arc<dyn crate::Mutex>>> {
        let names: BTreeSet<&str> = names.iter().copied().collect(); // one client: same name, same lock
        names.into_iter().map(|name| self.mutex(name)).collect()
    }
}
