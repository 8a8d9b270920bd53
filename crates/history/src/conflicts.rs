//! Which claims conflict: each claim's kind and weight, and the largest capacity that its line may have had since it
//! was asked for.
//!
//! A line has the capacity that its first claim declared, or that a resize set. Which of them the store used at a
//! grant is known only if the grant told it. Otherwise only the largest possible capacity between the request and the
//! grant is known, and only claims that exceed it are a violation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidelock_model::Kind;

use crate::{Event, EventKind};

/// What is known of one claim.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) name: Arc<str>,
    pub(crate) who: Arc<str>,
    pub(crate) kind: Kind,
    pub(crate) weight: u64,
    /// The capacity that was told with its grant.
    pub(crate) told: Option<u64>,
    /// The position of its request.
    pub(crate) asked: usize,
    /// The largest capacity that the line may have had at the request.
    room: u64,
    /// Whether a resize may have been under way at the request.
    may_change: bool,
}

/// A client's own line for one kind of lock, where holds may be passed on.
pub(crate) type LocalLine = (Arc<str>, Kind);

impl Claim {
    /// A client that uses a name as two kinds has two lines there, and neither knows of the other.
    pub(crate) fn local_line(&self) -> LocalLine {
        (self.who.clone(), self.kind)
    }
}

/// Every claim so far, and every change of a capacity.
#[derive(Debug)]
pub(crate) struct Claims {
    /// Whether grants tell the capacity. Only then may clients declare different sizes.
    are_told: bool,
    claims: BTreeMap<u64, Claim>,
    sizes: BTreeMap<Arc<str>, Sizes>,
}

/// The sizes that one semaphore may have.
#[derive(Debug, Default)]
struct Sizes {
    /// Every size that a client has declared or set.
    said: BTreeSet<u64>,
    /// Resizes that may be in force, or may still be carried out.
    possible: BTreeMap<u64, Resize>,
    /// Positions and sizes of resizes that no later one exceeded. The first at or after a position is the largest
    /// since then.
    greatest: Vec<(usize, u64)>,
    latest: Option<usize>,
}

#[derive(Debug)]
struct Resize {
    to: u64,
    began: usize,
    done: Option<usize>,
}

impl Claims {
    /// No claims yet, for this history.
    pub(crate) fn of(events: &[Event]) -> Self {
        let are_told =
            events.iter().any(|event| matches!(event.what, EventKind::Granted { told: Some(_), .. }));
        Self { are_told, claims: BTreeMap::new(), sizes: BTreeMap::new() }
    }

    /// Adds an event. Must be called before the event is judged.
    pub(crate) fn see(&mut self, position: usize, event: &Event) {
        match event.what {
            EventKind::Asked { kind, weight, capacity } => self.ask(position, event, kind, weight, capacity),
            EventKind::Granted { told, .. } => {
                if let Some(claim) = self.claims.get_mut(&event.claim) {
                    claim.told = told.map(u64::from);
                }
            }
            EventKind::Resizing { to } => self.sizes(event).begin(event.claim, u64::from(to), position),
            EventKind::Resized { .. } => self.sizes(event).done(event.claim, position),
            EventKind::Refused => self.sizes(event).refused(event.claim),
            _ => {}
        }
    }

    fn ask(&mut self, position: usize, event: &Event, kind: Kind, weight: u32, capacity: u32) {
        let (mut room, mut may_change) = (u64::from(capacity), false);
        if kind == Kind::Semaphore {
            let sizes = self.sizes(event);
            sizes.said.insert(room);
            room = room.max(sizes.possible.values().map(|resize| resize.to).max().unwrap_or(0));
            may_change = !sizes.possible.is_empty();
        }
        let (name, who) = (event.name.clone(), event.who.clone());
        let weight = u64::from(weight);
        let claim = Claim { name, who, kind, weight, told: None, asked: position, room, may_change };
        self.claims.insert(event.claim, claim);
    }

    fn sizes(&mut self, event: &Event) -> &mut Sizes {
        self.sizes.entry(event.name.clone()).or_default()
    }

    pub(crate) fn get(&self, claim: u64) -> Option<&Claim> {
        self.claims.get(&claim)
    }

    /// The largest capacity that the line may have had since the claim was asked for.
    pub(crate) fn capacity(&self, claim: &Claim) -> u64 {
        claim.room.max(self.greatest_since(claim)).max(self.most_declared(claim))
    }

    /// If clients declare different sizes, the first claim in line sets the size, even long after others asked.
    fn most_declared(&self, claim: &Claim) -> u64 {
        let is_declared = self.are_told && claim.kind == Kind::Semaphore;
        let sizes = self.sizes.get(&claim.name).filter(|_| is_declared);
        sizes.and_then(|sizes| sizes.said.last().copied()).unwrap_or(0)
    }

    /// The same, if the grant told the capacity. If there was a resize since, the claim may have been granted under
    /// another size than the one it was told.
    pub(crate) fn told_room(&self, claim: &Claim) -> u64 {
        match claim.told {
            Some(told) if !self.may_have_changed(claim) => told,
            _ => self.capacity(claim),
        }
    }

    /// Whether the size of the line may have changed since the claim was asked for.
    pub(crate) fn may_have_changed(&self, claim: &Claim) -> bool {
        let latest = self.sizes.get(&claim.name).and_then(|sizes| sizes.latest);
        claim.may_change || latest.is_some_and(|latest| latest >= claim.asked)
    }

    /// Whether any client has declared or set that size.
    pub(crate) fn was_said(&self, claim: &Claim, size: u64) -> bool {
        claim.kind != Kind::Semaphore
            || self.sizes.get(&claim.name).is_some_and(|sizes| sizes.said.contains(&size))
    }

    fn greatest_since(&self, claim: &Claim) -> u64 {
        let greatest = self.sizes.get(&claim.name).and_then(|sizes| {
            let first = sizes.greatest.partition_point(|(position, _)| *position < claim.asked);
            sizes.greatest.get(first).map(|(_, size)| *size)
        });
        greatest.filter(|_| claim.kind == Kind::Semaphore).unwrap_or(0)
    }
}

impl Sizes {
    fn begin(&mut self, claim: u64, to: u64, position: usize) {
        self.said.insert(to);
        self.possible.insert(claim, Resize { to, began: position, done: None });
        while self.greatest.last().is_some_and(|(_, size)| *size <= to) {
            self.greatest.pop();
        }
        self.greatest.push((position, to));
        self.latest = Some(position);
    }

    /// A resize that ended before this one began is surely over.
    fn done(&mut self, claim: u64, position: usize) {
        self.latest = Some(position);
        let Some(resize) = self.possible.get_mut(&claim) else { return };
        resize.done = Some(position);
        let began = resize.began;
        self.possible.retain(|_, other| other.done.is_none_or(|done| done > began));
    }

    fn refused(&mut self, claim: u64) {
        self.possible.remove(&claim);
    }
}
