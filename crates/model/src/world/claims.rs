//! Operations on claims: join, leave, lighten and resize.
//!
//! Each operation is checked first, then carried out; then the line is settled.

use alloc::vec;
use alloc::vec::Vec;

use super::World;
use crate::{Claim, ClaimId, Event, Join, Kind, Leave, Left, Line, Patience, Refusal, Weight, fault};

impl<N: Ord + Clone> World<N> {
    pub(super) fn join(&mut self, join: &Join<N>) -> Vec<Event<N>> {
        let (name, id) = (join.name.clone(), join.id);
        if self.claim(&name, id).is_some() {
            return vec![self.stands(name, id)];
        }
        if let Err(why) = self.admit(join) {
            if seeded!("refused_claim_stays") && why == Refusal::Busy {
                self.append(join);
            }
            return vec![Event::Refused { name, why }];
        }
        self.append(join);
        vec![self.stands(name, id)]
    }

    /// Whether this claim may join the line at all.
    fn admit(&self, join: &Join<N>) -> Result<(), Refusal> {
        let session = self.session(join.id.session).ok_or(Refusal::SessionOver)?;
        if session.is_void(join.name.clone(), join.id.number) {
            return Err(Refusal::Void);
        }
        let line = self.line(&join.name);
        if let Some(line) = line.filter(|line| line.kind != join.kind) {
            return Err(Refusal::Kind(line.kind));
        }
        let capacity = line.map_or(join.capacity, |line| line.capacity);
        if join.weight > capacity {
            return Err(Refusal::TooHeavy(capacity));
        }
        match line {
            Some(line) if join.patience == Patience::Now && !line.has_room(join.weight) => Err(Refusal::Busy),
            _ => Ok(()),
        }
    }

    /// Appends the claim to the line; the first claim creates the line.
    fn append(&mut self, join: &Join<N>) {
        let Join { name, id, kind, weight, capacity, .. } = join;
        self.last_order += 1;
        let claim = Claim { id: *id, weight: *weight, order: self.last_order, token: None };
        let line = self.lines.get_or_insert(name.clone(), Line::new(*kind, *capacity));
        line.claims.push(claim);
        self.settle(name); // grants this claim or none: the line was settled before it came
    }

    pub(super) fn leave(&mut self, name: &N, id: ClaimId, how: Leave) -> Vec<Event<N>> {
        if how == Leave::Void {
            // Nothing to remember for a session that is over: its joins are refused anyway.
            if let Some(session) = self.sessions.get_mut(&id.session) {
                session.make_void(name.clone(), id.number);
            }
        }
        let mut events = vec![self.take(name, id)];
        events.extend(self.settle(name));
        events
    }

    pub(super) fn lighten(&mut self, name: N, id: ClaimId, weight: Weight) -> Vec<Event<N>> {
        let line = self.lines.get_mut(&name);
        let Some(claim) = line.and_then(|line| line.claims.iter_mut().find(|claim| claim.id == id)) else {
            return vec![Event::Absent { name, id }];
        };
        if weight > claim.weight {
            return vec![Event::Refused { name, why: Refusal::Heavier(claim.weight) }];
        }
        claim.weight = weight;
        let mut events = vec![Event::Lightened { name: name.clone(), id, weight }];
        if !seeded!("lighten_wakes_nobody") {
            events.extend(self.settle(&name));
        }
        events
    }

    pub(super) fn resize(&mut self, name: N, from: Weight, to: Weight) -> Vec<Event<N>> {
        if let Err(why) = self.may_resize(&name, from, to) {
            return vec![Event::Refused { name, why }];
        }
        if let Some(line) = self.lines.get_mut(&name) {
            line.capacity = to;
            if to < from {
                self.last_order += 1;
                line.shrunk_at = Some(self.last_order);
                if seeded!("shrink_takes_hold_back") {
                    fault::take_back(&mut line.claims, line.capacity);
                }
            }
        }
        let mut events = vec![Event::Resized { name: name.clone(), capacity: to }];
        if !seeded!("grow_wakes_nobody") {
            events.extend(self.settle(&name));
        }
        events
    }

    fn may_resize(&self, name: &N, from: Weight, to: Weight) -> Result<(), Refusal> {
        let line = self.line(name).ok_or(Refusal::NoLine)?;
        if line.kind != Kind::Semaphore {
            return Err(Refusal::Kind(line.kind)); // a mutex with two holders is no mutex
        }
        if line.capacity != from {
            return Err(Refusal::Capacity(line.capacity));
        }
        match line.stranded_by(to) {
            Some(id) if !seeded!("resize_strands_heavier") => Err(Refusal::Strands(id)),
            _ => Ok(()),
        }
    }

    /// Takes a claim out of its line, wherever it stands there.
    fn take(&mut self, name: &N, id: ClaimId) -> Event<N> {
        let absent = Event::Left { name: name.clone(), id, left: Left::Absent };
        let Some(line) = self.lines.get_mut(name) else {
            return absent;
        };
        let Some(position) = line.position(id) else {
            return absent;
        };
        if seeded!("middle_leave_forgotten") && position > 0 && position + 1 < line.claims.len() {
            return left(name, &line.claims[position]);
        }
        left(name, &line.claims.remove(position))
    }
}

/// The event for a claim that is taken out.
pub(super) fn left<N: Clone>(name: &N, claim: &Claim) -> Event<N> {
    let left = if claim.token.is_some() { Left::Held } else { Left::Waiting };
    Event::Left { name: name.clone(), id: claim.id, left }
}
