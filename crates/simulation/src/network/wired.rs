//! The backend that a client sees: each call is a message.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{
    Backend, Claim, Clock, Leave, Left, Moment, Patience, Place, Renewal, Reply, Session, Shard, Sight,
    Signals,
};
use tidelock_core::{ClaimId, Error, ErrorKind, Line, Name, Options, Result, SessionId, Weight};

use super::answer::{Answer, at_once};
use super::message::About;
use super::pushes::Pushes;
use super::sessions::Sessions;
use super::{Network, REMEMBERED};
use crate::time::{ClientClock, lock};

impl Network {
    /// The backend of one client.
    pub(crate) fn backend(self: &Arc<Self>, client: usize) -> Arc<dyn Backend> {
        let name = format!("simulated {client}");
        Arc::new(Wired { network: self.clone(), client, clock: self.clocks[client].clone(), name })
    }
}

/// A client's backend: the network.
struct Wired {
    network: Arc<Network>,
    client: usize,
    clock: Arc<ClientClock>,
    name: String,
}

impl fmt::Debug for Wired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wired({})", self.client)
    }
}

#[async_trait]
impl Backend for Wired {
    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    fn store(&self) -> &str {
        &self.name
    }

    async fn open(
        &self,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        let (network, client) = (self.network.clone(), self.client);
        let in_shards = (0..network.stores.len()).map(|_| Mutex::default()).collect();
        let sessions = Arc::new(Sessions { id, options: options.clone(), signals, in_shards });
        lock(&network.links[client]).sessions.push(Arc::downgrade(&sessions));
        let about = About { client, name: None, shard: 0, may_repeat: false, keeps: network.ttl };
        let (wires, opened) = (network.clone(), sessions.clone());
        let answer = network.send(about, move || wires.open_in(client, &opened, 0).map(drop));
        answer.await?;
        Ok(Arc::new(WiredSession { network, client, clock: self.clock.clone(), sessions }))
    }
}

impl Network {
    /// The session in a shard, which is opened if need be.
    fn open_in(
        self: &Arc<Self>,
        client: usize,
        sessions: &Arc<Sessions>,
        shard: u32,
    ) -> Result<Arc<dyn Session>> {
        let pushes =
            Pushes { network: self.clone(), client, session: sessions.id, to: sessions.signals.clone() };
        let store = &self.stores[shard as usize];
        let session = at_once(store.open(sessions.id, &sessions.options, Arc::new(pushes)))?;
        lock(&sessions.in_shards[shard as usize]).session = Some(session.clone());
        Ok(session)
    }

    /// In a cluster a claim lives by itself, so its lifetime counts from its join. In a store of ours it counts from the
    /// last renewal of the session there.
    fn keep_anew(&self, session: &dyn Session) -> Result<()> {
        if self.is_sharded() { at_once(session.renew(Shard(0), &[])).map(drop) } else { Ok(()) }
    }

    /// Does something in a client's session of a shard. In a cluster there are no sessions, only claims: one that is over
    /// is opened again where something is to be created.
    fn in_session<T>(
        &self,
        sessions: &Sessions,
        shard: u32,
        work: impl Fn(&dyn Session) -> Result<T>,
    ) -> Option<Result<T>> {
        let session = sessions.in_shard(shard);
        let done = session.map(|session| work(&*session));
        match done {
            Some(Err(error)) if error.kind() == ErrorKind::Lost && self.is_sharded() => None,
            None if !self.is_sharded() => Some(Err(Error::new(ErrorKind::Lost, "there is no such session"))),
            done => done,
        }
    }
}

/// A client's session.
struct WiredSession {
    network: Arc<Network>,
    client: usize,
    clock: Arc<ClientClock>,
    sessions: Arc<Sessions>,
}

impl fmt::Debug for WiredSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WiredSession({}, {})", self.client, self.sessions.id)
    }
}

impl WiredSession {
    fn about(&self, name: Option<&Name>, may_repeat: bool) -> About {
        let shard = name.map_or(0, |name| self.network.shard(name));
        // A join that is under way for longer than that is not there any more: nobody remembers that it is void.
        let keeps = self.sessions.options.ttl.min(self.network.ttl) * 9 / 10;
        About { client: self.client, name: name.cloned(), shard, may_repeat, keeps }
    }

    /// Sends what is done in the session of a shard. `none` is the answer where there is no such session.
    fn ask<T: Send + 'static>(
        &self,
        about: About,
        work: impl Fn(&dyn Session) -> Result<T> + Send + Sync + 'static,
        none: impl Fn() -> Result<T> + Send + Sync + 'static,
    ) -> Answer<T> {
        let (network, sessions, shard) = (self.network.clone(), self.sessions.clone(), about.shard);
        self.network.send(about, move || network.in_session(&sessions, shard, &work).unwrap_or_else(&none))
    }
}

/// A moment of the store, on the clock of a client that asked at `sent`.
fn until(sent: Moment, now: Moment, until: Moment) -> Moment {
    sent + until.since(now)
}

#[async_trait]
impl Session for WiredSession {
    fn ttl(&self) -> Duration {
        self.sessions.options.ttl
    }

    fn shard(&self, name: &Name) -> Shard {
        Shard(self.network.shard(name))
    }

    async fn join(&self, claim: &Claim, patience: Patience) -> Result<Place> {
        self.network.record.joins(claim.id, claim.name.as_str());
        let (id, sent) = (claim.id, self.clock.now());
        let (network, sessions, client, claim) =
            (self.network.clone(), self.sessions.clone(), self.client, claim.clone());
        let about = self.about(Some(&claim.name), true);
        let shard = about.shard;
        let answer = self.network.send(about, move || {
            if lock(&sessions.in_shards[shard as usize]).void.contains(&claim.id) {
                return Ok(Place::Gone);
            }
            let join = |session: &dyn Session| {
                network.keep_anew(session)?;
                at_once(session.join(&claim, patience))
            };
            let place = match network.in_session(&sessions, shard, join) {
                Some(place) => place?,
                None => join(&*network.open_in(client, &sessions, shard)?)?,
            };
            {
                let joined = &mut lock(&network.links[client]).joined;
                joined.push((claim.clone(), Arc::downgrade(&sessions)));
                if joined.len() > REMEMBERED {
                    joined.remove(0);
                }
            }
            let has_left = lock(&sessions.in_shards[shard as usize]).left.contains(&claim.id);
            if has_left && matches!(place, Place::Held { .. } | Place::Waiting { .. }) {
                let sentence = format!(
                    "on {} claim {} has left, and a late join of it comes alive",
                    claim.name, claim.id
                );
                network.record.found("alive", sentence);
            }
            let now = network.time.now();
            Ok(match place {
                Place::Held { grant, until: end } => {
                    network.record.store_grants(claim.id, grant);
                    Place::Held { grant, until: until(sent, now, end) }
                }
                Place::Waiting { until: end, look_in } => {
                    network.record.stands(claim.id);
                    Place::Waiting { until: until(sent, now, end), look_in }
                }
                other => other,
            })
        });
        let place = answer.await?;
        self.network.record.hears(id, &place);
        Ok(place)
    }

    async fn look(&self, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        let (name, waiting, ttl) = (name.clone(), waiting.to_vec(), self.ttl());
        let all = waiting.clone();
        let about = self.about(Some(&name), true);
        let none = move || Ok(Sight { held: Vec::new(), gone: all.clone(), look_in: ttl });
        self.ask(about, move |session| at_once(session.look(&name, &waiting)), none).await
    }

    fn leave(&self, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let (name, network, sessions) = (name.clone(), self.network.clone(), self.sessions.clone());
        let about = self.about(Some(&name), true);
        let shard = about.shard;
        Box::pin(self.network.send(about, move || {
            if id.session == sessions.id {
                let mut in_shard = lock(&sessions.in_shards[shard as usize]);
                in_shard.left.insert(id);
                if how == Leave::Void {
                    in_shard.void.insert(id);
                }
            }
            let leave = |session: &dyn Session| at_once(session.leave(&name, id, how));
            let left = network.in_session(&sessions, shard, leave).unwrap_or(Ok(Left::Absent));
            let was_held = left.as_ref().is_ok_and(|left| *left == Left::Held);
            network.record.store_forgets(id, sessions.id, was_held);
            left
        }))
    }

    async fn lighten(&self, claim: &Claim, weight: Weight) -> Result<()> {
        let claim = claim.clone();
        let about = self.about(Some(&claim.name), true);
        let id = claim.id;
        let none = move || Err(Error::not_in_line(id));
        self.ask(about, move |session| at_once(session.lighten(&claim, weight)), none).await
    }

    async fn resize(&self, name: &Name, from: Weight, to: Weight) -> Result<()> {
        let name = name.clone();
        let about = self.about(Some(&name), false);
        let (network, sessions, client, shard) =
            (self.network.clone(), self.sessions.clone(), self.client, about.shard);
        let answer = self.network.send(about, move || {
            let resize = |session: &dyn Session| at_once(session.resize(&name, from, to));
            match network.in_session(&sessions, shard, resize) {
                Some(resized) => resized,
                None => resize(&*network.open_in(client, &sessions, shard)?),
            }
        });
        answer.await
    }

    async fn renew(&self, shard: Shard, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        let sent = self.clock.now();
        let standing = standing.to_vec();
        let all: Vec<ClaimId> = standing.iter().flat_map(|(_, ids)| ids.iter().copied()).collect();
        let about = About { shard: shard.0, ..self.about(None, true) };
        let network = self.network.clone();
        let renew = move |session: &dyn Session| {
            let mut renewal = at_once(session.renew(shard, &standing))?;
            renewal.until = until(sent, network.time.now(), renewal.until);
            if network.is_sharded() {
                renewal.strays.retain(|(name, _)| standing.iter().any(|(asked, _)| asked == name));
            }
            for (name, ids) in standing.iter().filter(|(name, _)| network.is_name_stalled(name)) {
                let is_of_name = |id: &ClaimId| ids.contains(id);
                renewal.gone.retain(|id| !is_of_name(id));
                renewal.waiting.retain(|id| !is_of_name(id));
                renewal.strays.retain(|(of, _)| of != name);
                renewal.unsure.extend(ids.iter().copied());
                renewal.missed.extend(ids.is_empty().then(|| name.clone()));
            }
            Ok(renewal)
        };
        let none = move || {
            let (unsure, missed, waiting, strays) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            Ok(Renewal { until: Moment::START, gone: all.clone(), unsure, missed, waiting, strays })
        };
        self.ask(about, renew, none).await
    }

    async fn line(&self, name: &Name) -> Result<Line> {
        let name = name.clone();
        let about = self.about(Some(&name), false);
        self.ask(about, move |session| at_once(session.line(&name)), || Ok(Line::default())).await
    }

    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        let (prefix, after) = (prefix.to_owned(), after.cloned());
        let about = self.about(None, false);
        let names = move |session: &dyn Session| at_once(session.names(&prefix, after.as_ref()));
        self.ask(about, names, || Ok(Vec::new())).await
    }

    async fn close(&self) -> Result<()> {
        let about = self.about(None, true);
        let (network, sessions) = (self.network.clone(), self.sessions.clone());
        let answer = self.network.send(about, move || {
            for shard in 0..network.stores.len() {
                let session = lock(&sessions.in_shards[shard]).session.clone();
                if let Some(session) = session {
                    at_once(session.close())?;
                }
            }
            network.record.store_ends(sessions.id);
            Ok(())
        });
        answer.await
    }
}
