//! A client as its users see it: the factory of locks.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::client::Client;
use crate::named_line::NamedLine;
use crate::{
    Backend, ClaimId, Error, Guards, Kind, Leave, Left, Line, Locks, Moment, Name, Options, Result, RwLock,
    Semaphore, Signals, Weight, unharmed,
};

/// The locks of a backend, its session opened now: what a server is asked here shows whether it will serve.
///
/// # Errors
/// What [`Options::check`] refuses, and whatever keeps the session from being opened.
pub async fn connect(backend: Arc<dyn Backend>, options: Options) -> Result<Arc<dyn Locks>> {
    let client = Client::new(backend, options)?;
    client.live(Moment::NEVER).await.map_err(|error| error.during("connect"))?;
    Ok(Arc::new(Factory(client)))
}

/// The locks of a backend, its session opened at first use.
///
/// # Errors
/// What [`Options::check`] refuses.
pub fn attach(backend: Arc<dyn Backend>, options: Options) -> Result<Arc<dyn Locks>> {
    Ok(Arc::new(Factory(Client::new(backend, options)?)))
}

#[derive(Debug)]
struct Factory(Client);

#[async_trait]
impl Locks for Factory {
    fn mutex(&self, name: &str) -> Result<Arc<dyn crate::Mutex>> {
        Ok(self.line(name, Kind::Mutex, Weight::ONE)?)
    }

    fn rwlock(&self, name: &str) -> Result<Arc<dyn RwLock>> {
        Ok(self.line(name, Kind::RwLock, Weight::MAX)?)
    }

    fn semaphore(&self, name: &str, permits: u32) -> Result<Arc<dyn Semaphore>> {
        let permits = crate::semaphore::permits(permits).map_err(|error| error.during("open a lock"))?;
        Ok(self.line(name, Kind::Semaphore, permits)?)
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
            let live = self.0.live(Moment::NEVER).await?;
            live.ask(live.session.names(prefix, after)).await
        };
        listed.await.map_err(|error| error.during("list names"))
    }

    async fn evict(&self, name: &str, claim: ClaimId) -> Result<bool> {
        let name = Name::new(name).map_err(|error| error.during("evict"))?;
        let evicted = async {
            let live = self.0.live(Moment::NEVER).await?;
            let (session, of) = (live.session.clone(), name.clone());
            // Begun on the keeper's runtime: ours may be blocked before the answer comes, and the first one counts.
            let left = live.tell(async move {
                // A claim that stands nowhere is not made void: a wrong number may be one that its client has yet to use.
                // Of one that does, no join that is asked again, or comes late, may have it stand there anew. That goes
                // with its leave, for who has no answer to that may never ask again.
                let stands = session.line(&of).await?.claims.iter().any(|stander| stander.id == claim);
                let how = if stands { Leave::Void } else { Leave::Done };
                let left = session.leave(&of, claim, how).await?;
                if how == Leave::Done && left != Left::Absent {
                    session.leave(&of, claim, Leave::Void).await?; // it has come in between
                }
                Ok(left)
            });
            let left = left.await?;
            if left != Left::Absent {
                live.registry.gone(claim); // if it was one of this client's own, it hears at once
            }
            Ok(left)
        };
        let left = evicted.await.map_err(|error: Error| error.during("evict from").on(&name))?;
        unharmed(|| tracing::warn!(lock.name = %name, %claim, ?left, "a claim was evicted by hand"));
        Ok(left != Left::Absent)
    }

    fn with_ttl(&self, ttl: Duration) -> Result<Arc<dyn Locks>> {
        Ok(Arc::new(Self(self.0.sibling(ttl)?)))
    }

    async fn ping(&self) -> Result<()> {
        // A read of a line is what every store can do, and needs the same permissions as a lock.
        let name = Name::new("tidelock ping")?;
        self.0.line(&name).await.map(drop).map_err(|error| error.during("ping"))
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
        let name = Name::new(name).map_err(|error| error.during("open a lock"))?;
        Ok(Arc::new(NamedLine::new(self.0.clone(), name, kind, capacity)))
    }

    fn mutexes(&self, names: &[&str]) -> Result<Vec<Arc<dyn crate::Mutex>>> {
        let names: BTreeSet<&str> = names.iter().copied().collect(); // of one client: a name is a lock
        names.into_iter().map(|name| self.mutex(name)).collect()
    }
}
