//! Looking at a line, and watching the one thing that the first of our waiters there waits for.
//!
//! Whoever stands behind the first of ours cannot have its turn before it. So one watch serves all of them: on the node
//! of somebody else's claim, on the line where there is no such claim; and none for a claim of our own, whose leave
//! passes by here anyway. A watch may be set too late to hear of a change. So it is set by a read, and what that reads
//! is compared with what was seen before.

use std::collections::HashSet;
use std::sync::Arc;

use tidelock::{ClaimId, Grant, Kind, Name, Result, Sight, Weight};
use tidelock_model::{Place, ShownLine, Watch, places, touches};
use zookeeper_client::{Error as Said, Stat};

use crate::books::{Behind, Task, Turn, What};
use crate::connection::Watcher;
use crate::gathering::Listed;
use crate::link::Asked;
use crate::listing::{Listing, Standing};
use crate::order::Ahead;
use crate::resized::Resized;
use crate::session::Desk;

/// A line as it was seen.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) listing: Listing,
    pub(crate) resized: Option<Resized>,
    pub(crate) line: ShownLine,
}

impl Seen {
    /// That, as it is watched in the store. None: it is not in the line.
    pub(crate) fn what(&self, watch: Watch) -> Option<What> {
        match watch {
            Watch::Line => Some(What::Line),
            Watch::Claim(id) => {
                let node = self.listing.find(id)?.nodes().next_back()?;
                Some(What::Node(node.clone()))
            }
        }
    }
}

impl Desk {
    /// Asks for the children of a line.
    pub(crate) fn list(&self, name: &Name) -> Asked<Listed> {
        let stamp = self.books.stamp(name);
        stamped(self.link.list(&self.nodes.line(name)), stamp)
    }

    /// The same, when the server that we are connected to has caught up with the leader.
    pub(crate) fn list_latest(&self, name: &Name) -> Asked<Listed> {
        let stamp = self.books.stamp(name);
        stamped(self.link.list_latest(&self.nodes.line(name)), stamp)
    }

    /// The line as these children show it, with what its data say of the capacity.
    pub(crate) async fn see(&self, name: &Name, mut listing: Listing) -> Result<Seen, Said> {
        let mut resized = None;
        if listing.has_data() {
            match self.link.read(&self.nodes.line(name)).await {
                Ok((data, stat)) => {
                    resized = Resized::parse(&data);
                    listing.stat.version = stat.version;
                }
                Err(Said::NoNode) => listing.standing.clear(), // nobody stands there any more
                Err(error) => return Err(error),
            }
        }
        let token = |standing: &Standing| match standing.id.session == self.id {
            true => self.books.held(standing.id, &standing.node),
            false => None,
        };
        let line = listing.line(resized.as_ref(), token);
        Ok(Seen { listing, resized, line })
    }

    /// Looks for these claims of ours, and goes on watching for the first that waits.
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
                // It could have had its turn before a resize, and did not look: it cannot any more. Or the line is in use
                // in another size now, and it stands in line anew.
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

    /// Whether one of ours is shown where it does not stand any more.
    fn is_seen_elsewhere(&self, seen: &Seen, id: ClaimId) -> bool {
        seen.listing.find(id).is_some_and(|standing| self.books.stands_elsewhere(id, &standing.node))
    }

    /// What one of ours was granted, if it was told so.
    fn granted(&self, seen: &Seen, id: ClaimId) -> Option<(ClaimId, Grant)> {
        let capacity = seen.line.claim(id).map(|claim| seen.line.size(claim))?;
        let node = &seen.listing.find(id)?.node;
        self.books.held(id, node).map(|token| (id, Grant { token, capacity }))
    }

    /// Takes down that those of ours have their turn who were seen to have it. Says who has not been told: their joins may
    /// still be being answered, out of an older list.
    fn hold_all(&self, name: &Name, seen: &Seen) -> Vec<ClaimId> {
        let places = seen.line.each().zip(&seen.listing.standing);
        let held = places.filter(|((claim, is_held), _)| *is_held && claim.id.session == self.id);
        let is_news = |standing: &&Standing| self.books.hold(name, standing.id, &standing.node) == Some(true);
        held.map(|(_, standing)| standing).filter(is_news).map(|standing| standing.id).collect()
    }

    /// Tells those of ours of their turn.
    fn tell(&self, name: &Name, seen: &Seen, turns: Vec<ClaimId>) {
        for id in turns {
            if touches(&seen.line, id) {
                self.touch(name, &seen.listing, id);
            }
            if let Some((id, grant)) = self.granted(seen, id) {
                self.signals.held(id, grant);
            }
        }
    }

    /// Watches for the first of ours that waits in a line, as it was seen.
    pub(crate) fn arm(self: &Arc<Self>, name: &Name, seen: &Seen) {
        let turns = self.hold_all(name, seen);
        self.watch_and_tell(name, seen, turns);
    }

    /// Watches for the first of ours that waits, and tells these of their turn. Whoever is not the first any more is not
    /// watched for from then on, so it is told as well: also if it has heard only now that it stands.
    ///
    /// What was seen is taken down before anybody is told: who releases at once leaves whoever is next to that, and to no
    /// list of its own.
    fn watch_and_tell(self: &Arc<Self>, name: &Name, seen: &Seen, mut turns: Vec<ClaimId>) {
        self.watch_for_the_first(name, seen);
        turns.extend(self.hold_all(name, seen));
        self.tell(name, seen, turns);
    }

    fn watch_for_the_first(self: &Arc<Self>, name: &Name, seen: &Seen) {
        let ours = || {
            let places = places(&seen.line).zip(&seen.listing.standing);
            places.filter(|((claim, _), _)| claim.id.session == self.id)
        };
        let is_misplaced = |place: &Place| matches!(place, Place::Stranded | Place::AnotherSize(_));
        let misplaced = ours().filter(|((_, place), _)| is_misplaced(place));
        let misplaced = misplaced.map(|((claim, _), standing)| (claim.id.number, standing.node.as_str()));
        // They are on their way to another place, unless they waited here before that came to be another size's.
        let must_go = self.books.does_any_stand(name, misplaced);
        let behind = self.books.saw(name, seen, self.watching(name, seen.listing.stat.cversion));
        self.go_on(name, &behind);
        if must_go {
            self.signals.look(name);
        }
        if ours().any(|((claim, place), _)| place != Place::Held && claim.kind == Kind::Semaphore) {
            let version = seen.listing.stat.version;
            self.books
                .watch_capacity(name, || self.spawn(self.clone().watch_capacity(name.clone(), version)));
        }
    }

    /// Sets a watch, of the number and on the thing that it is told, for a line that was seen in this version.
    pub(crate) fn watching(
        self: &Arc<Self>,
        name: &Name,
        cversion: i32,
    ) -> impl Fn(u64, What) -> Task + use<> {
        let (desk, name) = (self.clone(), name.clone());
        move |serial, what| desk.spawn(desk.clone().watch(name.clone(), serial, what, cversion))
    }

    /// Where nothing is watched for the first of ours, all who are known to have stood ahead of it may have left. If not,
    /// somebody has to look.
    pub(crate) fn go_on(self: &Arc<Self>, name: &Name, behind: &Behind) {
        if *behind == Behind::Watched {
            return;
        }
        let (desk, name) = (self.clone(), name.clone());
        self.runtime.spawn(async move {
            if !desk.has_turn(&name).await {
                desk.signals.look(&name);
            }
        });
    }

    async fn watch(self: Arc<Self>, name: Name, serial: u64, what: What, cversion: i32) {
        let line = self.nodes.line(&name);
        let watching = match what {
            What::Own(_) => return,
            What::Node(node) => {
                let set = self.link.watch_node(&format!("{line}/{node}")).await;
                // It may have been touched since it was seen: no list would tell.
                if set.as_ref().is_ok_and(|(stat, _)| !self.books.is_set(&name, serial, stat.version)) {
                    return self.signals.look(&name);
                }
                match set {
                    // Servers tell nobody that a node has left which they may not read: it leaves this line.
                    Err(Said::NoAuth) => self.watch_line(&line, cversion).await,
                    set => set.map(|(_, watcher)| Some(watcher)),
                }
            }
            What::Line => self.watch_line(&line, cversion).await,
        };
        let has_changed = changes(watching).await;
        // This task ends with its watch, and whoever has its turn ends that: there is nothing to wait for behind it.
        if has_changed && self.has_turn(&name).await {
            return;
        }
        self.books.watched(&name, serial);
        if has_changed {
            self.signals.look(&name);
        }
    }

    /// None: its children have changed since they were seen.
    async fn watch_line(&self, line: &str, cversion: i32) -> Result<Option<Watcher>, Said> {
        let (stat, watcher) = self.link.watch_children(line).await?;
        Ok((stat.cversion == cversion).then_some(watcher))
    }

    /// Whether the first of ours has its turn now: with a mutex, when all who stood ahead of it have left. Only they are
    /// asked for, and itself, and not the whole line, which may be long. False: that has to be looked for there.
    async fn has_turn(self: &Arc<Self>, name: &Name) -> bool {
        let Some(Ahead { number, node, nodes }) = self.books.ahead(name) else { return false };
        let line = self.nodes.line(name);
        let paths = std::iter::once(&node).chain(&nodes).map(|node| format!("{line}/{node}")).collect();
        let Ok(there) = self.link.read_all(paths).await else { return false };
        let is_first = there
            .split_first()
            .is_some_and(|(own, ahead)| own.is_some() && ahead.iter().all(Option::is_none));
        let turn = if is_first { self.books.turn(name, number, &node, self.watching(name, 0)) } else { None };
        turn.map(|turn| self.takes_turn(name, number, &turn)).is_some()
    }

    /// Tells one of ours, in a mutex's line, that it has its turn.
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
        self.books.watched_capacity(&name);
        if has_changed {
            self.signals.look(&name);
        }
    }

    /// Tells whoever watches this claim of ours that it waits no more. Nobody does, if the next in line is ours too.
    pub(crate) fn touch(&self, name: &Name, listing: &Listing, id: ClaimId) {
        let behind = listing.standing.iter().skip_while(|standing| standing.id != id).nth(1);
        if behind.is_none_or(|standing| standing.id.session == self.id) {
            return;
        }
        if let Some(standing) = listing.find(id) {
            let path = format!("{}/{}", self.nodes.line(name), standing.node);
            drop(self.link.write(path, self.label.clone())); // a hint: it is sent, and nobody waits for it
        }
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> Task {
        Task(self.runtime.spawn(work).abort_handle())
    }
}

/// Waits until what is watched has changed; at once if it had, before it was watched. False: the connection is gone. When
/// there is one again, everything is looked at.
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
