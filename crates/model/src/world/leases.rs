//! Operations on sessions: open, renew, close, and expiry.
//!
//! However a session ends, its claims leave every line. If several sessions end at the same moment, all their claims
//! leave before any claim is granted, so no dead claim is granted.

use alloc::vec;
use alloc::vec::Vec;

use super::World;
use super::claims::left;
use crate::{Claim, ClaimId, Event, Line, Session, SessionId};

impl<N: Ord + Clone> World<N> {
    pub(super) fn open(&mut self, id: SessionId, ttl: u64) -> Vec<Event<N>> {
        self.sessions.get_or_insert(id, Session::new(ttl, self.now));
        self.renew(id)
    }

    pub(super) fn renew(&mut self, id: SessionId) -> Vec<Event<N>> {
        let Some(session) = self.sessions.get_mut(&id) else {
            return vec![Event::Over { session: id }];
        };
        session.renew(self.now);
        vec![Event::Lives { session: id, until: session.until() }]
    }

    pub(super) fn close(&mut self, id: SessionId) -> Vec<Event<N>> {
        match self.sessions.remove(&id) {
            Some(_) => self.end(&[id]),
            None => vec![Event::Over { session: id }],
        }
    }

    pub(super) fn pass(&mut self, by: u64) -> Vec<Event<N>> {
        self.now = self.now.saturating_add(by);
        let over = |session: &Session<N>| session.until() <= self.now;
        let ended: Vec<_> = self.sessions().filter(|(_, session)| over(session)).map(|(id, _)| id).collect();
        if ended.is_empty() {
            return Vec::new(); // almost always, and then nothing else depends on how many claims stand here
        }
        self.sessions.retain(|id| !ended.contains(id));
        self.end(&ended)
    }

    pub(super) fn lapse(&mut self, name: &N, ids: &[ClaimId]) -> Vec<Event<N>> {
        for id in ids {
            if let Some(session) = self.sessions.get_mut(&id.session) {
                session.forget_void(name.clone(), id.number);
            }
        }
        let Some(line) = self.lines.get_mut(name) else {
            return Vec::new();
        };
        let over = line.claims.extract_if(.., |claim| ids.contains(&claim.id));
        let mut events: Vec<_> = over.map(|claim| left(name, &claim)).collect();
        events.extend(self.settle(name));
        events
    }

    /// Takes the claims of ended sessions out of every line, and only then grants.
    fn end(&mut self, ended: &[SessionId]) -> Vec<Event<N>> {
        let mut events: Vec<_> = ended.iter().map(|session| Event::Over { session: *session }).collect();
        let theirs = |claim: &Claim| ended.contains(&claim.id.session);
        let touched = |(name, line): (&N, &Line)| line.claims.iter().any(theirs).then(|| name.clone());
        let names: Vec<N> = self.lines.iter().filter_map(touched).collect();
        for name in &names {
            let Some(line) = self.lines.get_mut(name) else {
                continue;
            };
            if seeded!("expiry_removes_neighbour") {
                let neighbour = line.claims.iter().position(|claim| !theirs(claim));
                neighbour.map(|position| line.claims.remove(position));
            }
            let gone = line.claims.extract_if(.., |claim| theirs(claim));
            events.extend(gone.map(|claim| left(name, &claim)));
        }
        if seeded!("token_stays_after_expiry") {
            self.last_token = self.last_token.saturating_sub(1);
        }
        for name in &names {
            events.extend(self.settle(name));
        }
        events
    }
}
