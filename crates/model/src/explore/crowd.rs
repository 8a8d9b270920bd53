//! Clients of a store that shows its line and keeps no mark of granted claims.
//!
//! Each client remembers which of its claims it was told to hold, and what it watches for the others. A watch fires
//! once. A client whose watch fired (it is *stirred*) looks some time later, once for all of its claims, and sets its
//! watches again. No client asks the world whether a claim is held: the world only keeps the line.

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use crate::{
    ClaimId, Event, Leave, Left, Line, Op, Place, Resized, SessionId, ShownClaim, ShownLine, Watch, World,
    place, touches, watch,
};

/// What a client knows of a claim of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Knowledge {
    /// Its client must look.
    Stale,
    /// Its client was told that it is held.
    Held,
    /// It waits, and watches this.
    Waits(Watch),
}

/// A line, and clients that see only what the store shows of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Crowd {
    pub(crate) world: World<()>,
    pub(crate) known: BTreeMap<ClaimId, Knowledge>,
    /// The stirred clients: they will look.
    pub(crate) stirred: BTreeSet<SessionId>,
}

impl Crowd {
    /// Carries out an operation, and returns for each departure how many watches fired.
    pub(crate) fn act(&mut self, op: Op<()>) -> Vec<usize> {
        let joins = if let Op::Join(join) = &op { Some(join.id) } else { None };
        let mut fired = Vec::new();
        for event in self.world.step(op) {
            match event {
                Event::Held { id, .. } | Event::Waiting { id, .. } if Some(id) == joins => self.came(id),
                Event::Left { id, left: Left::Held | Left::Waiting, .. } => {
                    self.known.remove(&id);
                    fired.push(self.departed(id));
                }
                Event::Lightened { id, .. } => {
                    self.wonder(id);
                    fired.push(self.departed(id));
                }
                Event::Resized { .. } => _ = self.stir(|_| true),
                _ => {}
            }
        }
        fired
    }

    /// One client looks at the line, once for all of its claims.
    pub(crate) fn look(&mut self, session: SessionId) {
        if !self.stirred.remove(&session) {
            return;
        }
        let Some(line) = self.seen_by(session) else { return };
        let mut stranded = None;
        for id in line.claims.iter().map(|claim| claim.id).filter(|id| id.session == session) {
            if self.known.get(&id) == Some(&Knowledge::Held) {
                continue;
            }
            match (place(&line, id), watch(&line, id)) {
                (Place::Held, _) => self.told(&line, id),
                (_, Some(watch)) => _ = self.known.insert(id, Knowledge::Waits(watch)),
                _ => stranded = stranded.or(Some(id)),
            }
        }
        if let Some(id) = stranded {
            self.act(Op::Leave { name: (), id, how: Leave::Done });
            self.stirred.insert(session); // there may be more of them
        }
    }

    /// The line as the store shows it to a client, marked with what the client remembers of its own claims.
    fn seen_by(&self, session: SessionId) -> Option<ShownLine> {
        let mut line = shown(self.world.line(&())?);
        for claim in &mut line.claims {
            let told = claim.id.session == session && self.known.get(&claim.id) == Some(&Knowledge::Held);
            claim.token = claim.token.filter(|_| told);
        }
        Some(line)
    }

    fn came(&mut self, id: ClaimId) {
        self.known.entry(id).or_insert(Knowledge::Stale);
        self.stirred.insert(id.session);
    }

    /// A client that lightens a waiting claim of its own must look: no watch will tell it.
    fn wonder(&mut self, id: ClaimId) {
        if self.known.get(&id) != Some(&Knowledge::Held) {
            self.known.insert(id, Knowledge::Stale);
            self.stirred.insert(id.session);
        }
    }

    fn told(&mut self, line: &ShownLine, id: ClaimId) {
        self.known.insert(id, Knowledge::Held);
        if touches(line, id) {
            self.stir(|watch| watch == Watch::Claim(id));
        }
    }

    fn departed(&mut self, id: ClaimId) -> usize {
        self.stir(|watch| watch == Watch::Claim(id) || watch == Watch::Line)
    }

    /// Fires the watches that this concerns, and returns how many they were.
    fn stir(&mut self, concerns: impl Fn(Watch) -> bool) -> usize {
        let mut fired = 0;
        for (id, known) in &mut self.known {
            if let Knowledge::Waits(watch) = *known
                && concerns(watch)
            {
                *known = Knowledge::Stale;
                self.stirred.insert(id.session);
                fired += 1;
            }
        }
        fired
    }
}

/// A line of one type: every client declared the current capacity, or joined again with it.
pub(crate) fn shown(line: &Line) -> ShownLine {
    let (kind, declared) = (line.kind, line.capacity);
    let claim = |claim: &crate::Claim| {
        let crate::Claim { id, weight, order, token } = *claim;
        ShownClaim { id, kind, weight, declared, order, token }
    };
    let resized = |before| Resized { capacity: line.capacity, before, let_in: 0 };
    ShownLine { claims: line.claims.iter().map(claim).collect(), resized: line.shrunk_at.map(resized) }
}
