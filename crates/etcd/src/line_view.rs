//! A line as this client knows it at one revision: a list of its keys, and every event since.
//!
//! The store's revisions order all lists and events, so a view only ever goes forward: a list that is older than the view
//! says nothing new, and an event that the view already includes is passed over.

use std::collections::{BTreeMap, HashMap};

use etcd_client::{Event, EventType, KeyValue};
use tidelock_core::{ClaimId, Kind, SessionId, Token, Weight};
use tidelock_model::{ShownClaim, ShownLine};

use crate::keys::{ClaimKey, LineKey, Slot};
use crate::resized::Resized;

/// The claims in a line at one revision.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineView {
    pub(crate) revision: i64,
    /// By create revision, which is the order of the line.
    standing: BTreeMap<u64, Standing>,
    slots: HashMap<Slot, (ClaimId, u64)>,
    /// Resizes, one copy for each session that stood there: at which revision each was written.
    resized: BTreeMap<SessionId, (i64, Resized)>,
    /// A key that is not one of ours.
    pub(crate) strange: Option<String>,
}

/// One claim in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) id: ClaimId,
    pub(crate) kind: Kind,
    pub(crate) declared: Weight,
    pub(crate) weight: Weight,
}

impl LineView {
    /// The line with these keys at that revision. `skip` is the length of what they all begin with.
    pub(crate) fn of<'a>(keys: impl IntoIterator<Item = &'a KeyValue>, skip: usize, revision: i64) -> Self {
        let mut view = Self { revision, ..Self::default() };
        keys.into_iter().for_each(|key| view.put(key, skip));
        view
    }

    #[cfg(test)]
    pub(crate) fn with(revision: i64, claims: impl IntoIterator<Item = (ClaimId, ClaimKey, u64)>) -> Self {
        let mut view = Self { revision, ..Self::default() };
        claims.into_iter().for_each(|(id, claim, order)| view.put_claim(id, claim, order));
        view
    }

    /// Takes in an event, unless the view has it already. Returns the claim that this takes out of the line, and where
    /// it stood.
    pub(crate) fn happens(&mut self, event: &Event, skip: usize) -> Option<(ClaimId, u64)> {
        let key = event.kv()?;
        if key.mod_revision() <= self.revision {
            return None;
        }
        match event.event_type() {
            EventType::Put => {
                self.put(key, skip);
                None
            }
            EventType::Delete => self.delete(key, skip),
        }
    }

    fn put(&mut self, key: &KeyValue, skip: usize) {
        match line_key(key, skip) {
            Some(LineKey::Claim(claim)) => match claim.id(key.value()) {
                Some(id) => self.put_claim(id, claim, key.create_revision().unsigned_abs()),
                None => self.is_strange(key),
            },
            Some(LineKey::Resized(session)) => {
                if let Some(resized) = Resized::parse(key.value()) {
                    self.resized.insert(session, (key.mod_revision(), resized));
                }
            }
            None => self.is_strange(key),
        }
    }

    fn is_strange(&mut self, key: &KeyValue) {
        self.strange = Some(String::from_utf8_lossy(key.key()).into_owned());
    }

    fn put_claim(&mut self, id: ClaimId, claim: ClaimKey, order: u64) {
        let ClaimKey { slot, kind, declared, weight, .. } = claim;
        self.slots.insert(slot, (id, order));
        let new = |weight| Standing { id, kind, declared, weight };
        self.standing
            .entry(order)
            .and_modify(|standing| standing.weight = sum(standing.weight, weight))
            .or_insert_with(|| new(weight));
    }

    fn delete(&mut self, key: &KeyValue, skip: usize) -> Option<(ClaimId, u64)> {
        match line_key(key, skip)? {
            LineKey::Claim(claim) => {
                let (id, order) = *self.slots.get(&claim.slot)?;
                let standing = self.standing.get_mut(&order)?;
                if claim.is_rest {
                    standing.weight = Weight::ONE;
                    return None;
                }
                // It may have moved to another place under another key.
                if standing.declared != claim.declared {
                    return None;
                }
                self.remove(id)
            }
            LineKey::Resized(session) => {
                self.resized.remove(&session);
                None
            }
        }
    }

    /// The claim has left.
    pub(crate) fn remove(&mut self, id: ClaimId) -> Option<(ClaimId, u64)> {
        let order = self.place(id)?;
        self.slots.remove(&id.into());
        self.standing.remove(&order);
        Some((id, order))
    }

    /// The claim has become a reader. Returns whether that is news.
    pub(crate) fn lighten(&mut self, id: ClaimId) -> bool {
        let standing = self.place(id).and_then(|order| self.standing.get_mut(&order));
        standing.is_some_and(|standing| std::mem::replace(&mut standing.weight, Weight::ONE) > Weight::ONE)
    }

    pub(crate) fn place(&self, id: ClaimId) -> Option<u64> {
        self.slots.get(&id.into()).filter(|(other, _)| *other == id).map(|(_, order)| *order)
    }

    /// Another claim that stands in the slot of this one.
    pub(crate) fn in_the_slot_of(&self, id: ClaimId) -> Option<ClaimId> {
        self.slots.get(&id.into()).map(|(other, _)| *other).filter(|other| *other != id)
    }

    pub(crate) fn find(&self, id: ClaimId) -> Option<&Standing> {
        self.standing.get(&self.place(id)?)
    }

    pub(crate) fn first(&self) -> Option<&Standing> {
        self.standing.values().next()
    }

    pub(crate) fn len(&self) -> usize {
        self.standing.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.standing.is_empty()
    }

    /// All claims in order, each with its place.
    pub(crate) fn each(&self) -> impl Iterator<Item = (u64, &Standing)> {
        self.standing.iter().map(|(order, standing)| (*order, standing))
    }

    /// The sessions that have claims here.
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        let mut sessions: Vec<_> = self.standing.values().map(|standing| standing.id.session).collect();
        sessions.sort_unstable();
        sessions.dedup();
        sessions
    }

    /// What the last resize wrote.
    pub(crate) fn resized(&self) -> Option<Resized> {
        self.resized.values().max_by_key(|(written, _)| *written).map(|(_, resized)| *resized)
    }

    /// The whole line in the form that the rule needs. `token` tells which claims are known to be held.
    pub(crate) fn shown(&self, token: impl Fn(ClaimId, u64) -> Option<Token>) -> ShownLine {
        let claims = self.each().map(|(order, standing)| shown(order, standing, &token)).collect();
        ShownLine { claims, resized: self.resized().map(Resized::shown) }
    }

    /// The line up to this place, which is all that matters for the claim there.
    pub(crate) fn shown_up_to(&self, place: u64, token: impl Fn(ClaimId, u64) -> Option<Token>) -> ShownLine {
        let claims = self.standing.range(..=place).map(|(order, standing)| shown(*order, standing, &token));
        ShownLine { claims: claims.collect(), resized: self.resized().map(Resized::shown) }
    }

    /// The front of the line: all claims that can be held, and the first that cannot. What stands behind changes
    /// nothing about them.
    pub(crate) fn front(&self, token: impl Fn(ClaimId, u64) -> Option<Token>) -> ShownLine {
        let resized = self.resized().map(Resized::shown);
        let let_in = resized.map_or(0, |resized| resized.let_in);
        let mut line = ShownLine { claims: Vec::new(), resized };
        let (mut sum, mut largest) = (0_u64, 0);
        for (order, standing) in self.each() {
            if sum > largest && order >= let_in {
                break;
            }
            let claim = shown(order, standing, &token);
            sum += u64::from(standing.weight.get());
            largest = largest.max(u64::from(line.size(&claim).get()));
            line.claims.push(claim);
        }
        line
    }
}

fn shown(order: u64, standing: &Standing, token: impl Fn(ClaimId, u64) -> Option<Token>) -> ShownClaim {
    let Standing { id, kind, declared, weight } = *standing;
    ShownClaim { id, kind, weight, declared, order, token: token(id, order) }
}

fn sum(one: Weight, other: Weight) -> Weight {
    Weight::new(one.get().saturating_add(other.get())).unwrap_or(Weight::MAX)
}

fn line_key(key: &KeyValue, skip: usize) -> Option<LineKey> {
    LineKey::parse(std::str::from_utf8(key.key().get(skip..)?).ok()?)
}
