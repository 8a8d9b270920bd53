//! Looking at a line, and watching what our first waiter there waits for.
//!
//! A claim behind our first waiter cannot get its turn before it. So one watch serves all our waiters. It is on the
//! node of another client's claim, or on the line if there is no such claim. A claim of our own needs no watch, because
//! its leave is made by this client. A watch may be set too late to report a change. So it is set by a read, and the
//! result is compared with what was seen before.

use std::collections::HashSet;
use std::sync::Arc;

use tidelock_core::backend::{Grant, Sight};
use tidelock_core::{ClaimId, Kind, Name, Result, Weight};
use tidelock_model::{Place, places, touches};
use zookeeper_client::{Error as Said, Stat};

use crate::connection::Watcher;
use crate::link::Asked;
use crate::listing::{LineView, Listed, Listing, Standing};
use crate::open_session::OpenSession;
use crate::order::Ahead;
use crate::own_claims::{Behind, Turn};
use crate::resized::Resized;
use crate::watch::{AbortOnDrop, Target};

impl OpenSession {
    /// Asks for the children of a line.
    pub(crate) fn list(&self, name: &Name) -> Asked<Listed> {
        let stamp = self.own_claims.stamp(name);
        stamped(self.link.list(&self.nodes.line(name)), stamp)
    }

    /// The same, after our server has caught up with the leader.
    pub(crate) fn list_latest(&self, name: &Name) -> Asked<Listed> {
        let stamp = self.own_claims.stamp(name);
        stamped(self.link.list_latest(&self.nodes.line(name)), stamp)
    }

    /// The line as these children show it, with the capacity from its data.
    pub(crate) async fn see(&self, name: &Name, mut listing: Listing) -> Result<LineView, Said> {
        let mut resized = None;
        if listing.has_data() {
            match self.link.read(&self.nodes.line(name)).await {
                Ok((data, stat)) => {
                    resized = Resized::parse(&data);
                    listing.stat.version = stat.version;
                }
                Err(Said::NoNode) => listing.standing.clear(), // the line is gone
                Err(error) => return Err(error),
            }
        }
        let token = |standing: &Standing| match standing.id.session == self.id {
            true => self.own_claims.held(standing.id, &standing.node),
            false => None,
        };
        let line = listing.line(resized.as_ref(), token);
        Ok(LineView { listing, resized, line })
    }

    /// Looks for these claims of ours, and keeps a watch for our first waiter.
    pub(crate) async fn look_for(self: &Arc<Self>, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        let mut sight = Sight { held: Vec::new(), gone: Vec::new(), look_in: self.lease.ttl };
        let listing = match self.list(name).await {
            Ok(listed) => Listing::of(listed),
            Err(Said::NoNode) => {
                waiting.iter().for_each(|id| self.has_left(name, *id));
                sight.gone = waiting.to_vec();
                return Ok(sight);
            }
            Err(error) => return Err(self.trouble(&error)),
        };
        let seen = self.see(name, listing).await.map_err(|error| self.trouble(&error))?;
        let turns = self.hold_all(name, &seen);
        let wanted: HashSet<ClaimId> = waiting.iter().copied().collect();
        let mut standing = HashSet::new();
        let mut misplaced = Vec::new();
        for (claim, place) in places(&seen.line).filter(|(claim, _)| wanted.contains(&claim.id)) {
            standing.insert(claim.id);
            match place {
                Place::Held => sight.held.extend(self.granted(&seen, claim.id)),
                // Before a resize it could have had its turn, but it did not look in time and now cannot. Or the line's
                // size in use has changed, and the claim must stand in line anew.
                Place::Stranded | Place::AnotherSize(_) if !self.is_seen_elsewhere(&seen, claim.id) => {
                    misplaced.push(claim.id);
                }
                _ => {}
            }
        }
        for id in &misplaced {
            self.clone().leave_in_the_background(name.clone(), *id);
        }
        sight.gone.extend(waiting.iter().filter(|id| !standing.contains(id)));
        sight.gone.iter().for_each(|id| self.has_left(name, *id));
        sight.gone.extend(misplaced);
        self.watch_and_tell(name, &seen, turns);
        Ok(sight)
    }

    /// Whether the list shows one of our claims at a node that it has left.
    fn is_seen_elsewhere(&self, seen: &LineView, id: ClaimId) -> bool {
        seen.listing.find(id).is_some_and(|standing| self.own_claims.stands_elsewhere(id, &standing.node))
    }

    /// The grant of one of our claims, if it is recorded as held at this node.
    fn granted(&self, seen: &LineView, id: ClaimId) -> Option<(ClaimId, Grant)> {
        let capacity = seen.line.claim(id).map(|claim| seen.line.size(claim))?;
        let node = &seen.listing.find(id)?.node;
        self.own_claims.held(id, node).map(|token| (id, Grant { token, capacity }))
    }

    /// Records which of our claims were seen to have their turn. Returns those that are news. Their joins may still be
    /// about to be answered from an older list.
    fn hold_all(&self, name: &Name, seen: &LineView) -> Vec<ClaimId> {
        let places = seen.line.each().zip(&seen.listing.standing);
        let held = places.filter(|((claim, is_held), _)| *is_held && claim.id.session == self.id);
        let is_news =
            |standing: &&Standing| self.own_claims.hold(name, standing.id, &standing.node) == Some(true);
        held.map(|(_, standing)| standing).filter(is_news).map(|standing| standing.id).collect()
    }

    /// Tells these claims of ours of their turn.
    fn tell(&self, name: &Name, seen: &LineView, turns: Vec<ClaimId>) {
        for id in turns {
            if touches(&seen.line, id) {
                self.touch(name, &seen.listing, id);
            }
            if let Some((id, grant)) = self.granted(seen, id) {
                self.signals.held(id, grant);
            }
        }
    }

    /// Watches for our first waiter in a line, as it was seen.
    pub(crate) fn arm(self: &Arc<Self>, name: &Name, seen: &LineView) {
        let turns = self.hold_all(name, seen);
        self.watch_and_tell(name, seen, turns);
    }

    /// Watches for our first waiter, and tells these claims of their turn. From then on nothing is watched for a claim
    /// that is no longer the first waiter. So such a claim is told too, even if the reply to its join has only just
    /// arrived.
    ///
    /// The view is recorded before any claim is told. A holder may release at once, and the next claim then relies on
    /// this record, not on a list of its own.
    fn watch_and_tell(self: &Arc<Self>, name: &Name, seen: &LineView, mut turns: Vec<ClaimId>) {
        self.watch_for_the_first(name, seen);
        turns.extend(self.hold_all(name, seen));
        self.tell(name, seen, turns);
    }

    fn watch_for_the_first(self: &Arc<Self>, name: &Name, seen: &LineView) {
        let ours = || {
            let places = places(&seen.line).zip(&seen.listing.standing);
            places.filter(|((claim, _), _)| claim.id.session == self.id)
        };
        let is_misplaced = |place: &Place| matches!(place, Place::Stranded | Place::AnotherSize(_));
        let misplaced = ours().filter(|((_, place), _)| is_misplaced(place));
        let misplaced = misplaced.map(|((claim, _), standing)| (claim.id.number, standing.node.as_str()));
        // They are already moving to another place, unless they waited here before the line changed to another size.
        let must_go = self.own_claims.does_any_stand(name, misplaced);
        let behind = self.own_claims.saw(name, seen, self.watching(name, seen.listing.stat.cversion));
        self.go_on(name, &behind);
        if must_go {
            self.signals.look(name);
        }
        if ours().any(|((claim, place), _)| place != Place::Held && claim.kind == Kind::Semaphore) {
            let version = seen.listing.stat.version;
            self.own_claims
                .watch_capacity(name, || self.spawn(self.clone().watch_capacity(name.clone(), version)));
        }
    }

    /// Returns a function that sets a watch with a given number on a given thing, for a line that was seen in this
    /// version.
    pub(crate) fn watching(
        self: &Arc<Self>,
        name: &Name,
        cversion: i32,
    ) -> impl Fn(u64, Target) -> AbortOnDrop + use<> {
        let (session, name) = (self.clone(), name.clone());
        move |serial, target| session.spawn(session.clone().watch(name.clone(), serial, target, cversion))
    }

    /// If nothing is watched for our first waiter, all claims known to have stood ahead of it may have left. If they
    /// have not, a look is needed.
    pub(crate) fn go_on(self: &Arc<Self>, name: &Name, behind: &Behind) {
        if *behind == Behind::Watched {
            return;
        }
        let (session, name) = (self.clone(), name.clone());
        self.runtime.spawn(async move {
            if !session.has_turn(&name).await {
                session.signals.look(&name);
            }
        });
    }

    async fn watch(self: Arc<Self>, name: Name, serial: u64, target: Target, cversion: i32) {
        let line = self.nodes.line(&name);
        let watching = match target {
            Target::Own(_) => return,
            Target::Node(node) => {
                let set = self.link.watch_node(&format!("{line}/{node}")).await;
                // The node may have been written to since it was seen. No list would show that.
                if set.as_ref().is_ok_and(|(stat, _)| !self.own_claims.is_set(&name, serial, stat.version)) {
                    return self.signals.look(&name);
                }
                match set {
                    // A server does not report the deletion of a node to a client without the permission to read it.
                    // But the line's children change.
                    Err(Said::NoAuth) => self.watch_line(&line, cversion).await,
                    set => set.map(|(_, watcher)| Some(watcher)),
                }
            }
            Target::Line => self.watch_line(&line, cversion).await,
        };
        let has_changed = changes(watching).await;
        // Taking the turn drops the watch and so ends this task: no code after it may be needed.
        if has_changed && self.has_turn(&name).await {
            return;
        }
        self.own_claims.watched(&name, serial);
        if has_changed {
            self.signals.look(&name);
        }
    }

    /// None: the children have changed since they were seen.
    async fn watch_line(&self, line: &str, cversion: i32) -> Result<Option<Watcher>, Said> {
        let (stat, watcher) = self.link.watch_children(line).await?;
        Ok((stat.cversion == cversion).then_some(watcher))
    }

    /// Whether our first waiter has its turn now: in a mutex's line, when all that stood ahead of it have left. Reads
    /// only their nodes and its own, not the whole line, which may be long. False: list the line to find out.
    async fn has_turn(self: &Arc<Self>, name: &Name) -> bool {
        let Some(Ahead { number, node, nodes }) = self.own_claims.ahead(name) else { return false };
        let line = self.nodes.line(name);
        let paths = std::iter::once(&node).chain(&nodes).map(|node| format!("{line}/{node}")).collect();
        let Ok(there) = self.link.read_all(paths).await else { return false };
        let is_first = there
            .split_first()
            .is_some_and(|(own, ahead)| own.is_some() && ahead.iter().all(Option::is_none));
        let turn =
            if is_first { self.own_claims.turn(name, number, &node, self.watching(name, 0)) } else { None };
        turn.map(|turn| self.takes_turn(name, number, &turn)).is_some()
    }

    /// Tells one of our claims, in a mutex's line, that it has its turn.
    pub(crate) fn takes_turn(&self, name: &Name, number: u64, turn: &Turn) {
        let grant = Grant { token: turn.token, capacity: Weight::ONE };
        self.signals.held(ClaimId { session: self.id, number }, grant);
        if turn.behind == Behind::Unknown {
            self.signals.look(name);
        }
    }

    async fn watch_capacity(self: Arc<Self>, name: Name, version: i32) {
        let watching = self.link.watch_node(&self.nodes.line(&name)).await;
        let watching = watching.map(|(stat, watcher)| (stat.version == version).then_some(watcher));
        let has_changed = changes(watching).await;
        self.own_claims.watched_capacity(&name);
        if has_changed {
            self.signals.look(&name);
        }
    }

    /// Tells the client that watches this claim of ours that it waits no more. No other client watches it if the next
    /// in line is ours too.
    pub(crate) fn touch(&self, name: &Name, listing: &Listing, id: ClaimId) {
        let behind = listing.standing.iter().skip_while(|standing| standing.id != id).nth(1);
        if behind.is_none_or(|standing| standing.id.session == self.id) {
            return;
        }
        if let Some(standing) = listing.find(id) {
            let path = format!("{}/{}", self.nodes.line(name), standing.node);
            drop(self.link.write(path, self.label.clone())); // a hint: sent without waiting for the reply
        }
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortOnDrop {
        AbortOnDrop(self.runtime.spawn(work).abort_handle())
    }
}

/// Waits until the watched node has changed. Returns at once if it had changed before the watch was set. False: the
/// connection is gone. After a reconnect everything is looked at.
async fn changes(watching: Result<Option<Watcher>, Said>) -> bool {
    match watching {
        Ok(Some(watcher)) => watcher.changed().await,
        Ok(None) | Err(Said::NoNode) => true,
        Err(_) => false,
    }
}

fn stamped(listing: Asked<(Vec<String>, Stat)>, stamp: u64) -> Asked<Listed> {
    Box::pin(async move { listing.await.map(|(children, stat)| (children, stat, stamp)) })
}
