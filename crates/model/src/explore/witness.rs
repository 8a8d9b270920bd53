//! What an outsider knows from the operations alone. The checks compare the world with it.

use crate::{ClaimId, Event, Leave, Op, SessionId};

/// How many sessions there may be: those with the ids 1 to this. Their claims are numbered below 64.
pub(crate) const SESSIONS: usize = 6;

/// An outsider's memory of sessions, void joins and tokens: small tables, because each step copies it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Witness {
    now: u64,
    /// For each session: until when it lives, and its ttl.
    lives: [Option<(u64, u64)>; SESSIONS],
    /// For each session: the numbers of its void claims, as bits.
    void: [u64; SESSIONS],
    greatest: u64,
}

impl Witness {
    /// Records an operation, and the tokens that it gave.
    pub(crate) fn note(&mut self, op: &Op<()>, events: &[Event<()>]) {
        match op {
            Op::Open { session, ttl } => self.lives[row(*session)] = Some((self.now + ttl, *ttl)),
            Op::Renew(session) => {
                let life = &mut self.lives[row(*session)];
                *life = life.map(|(_, ttl)| (self.now + ttl, ttl));
            }
            Op::Close(session) => self.lives[row(*session)] = None,
            Op::Pass(by) => self.now += by,
            Op::Leave { id, how: Leave::Void, .. } => self.void[row(id.session)] |= 1 << id.number,
            _ => {}
        }
        for (life, void) in self.lives.iter_mut().zip(&mut self.void) {
            *life = life.filter(|(until, _)| *until > self.now);
            *void = if life.is_some() { *void } else { 0 };
        }
        for event in events {
            if let Event::Held { token, .. } = event {
                self.greatest = self.greatest.max(token.store_order());
            }
        }
    }

    /// Until when the session lives; `None` when it is over.
    pub(crate) fn until(&self, session: SessionId) -> Option<u64> {
        self.lives[row(session)].map(|(until, _)| until)
    }

    pub(crate) fn is_void(&self, id: ClaimId) -> bool {
        self.void[row(id.session)] & 1 << id.number != 0
    }

    /// The greatest order of a token that was ever given.
    pub(crate) fn greatest(&self) -> u64 {
        self.greatest
    }
}

fn row(session: SessionId) -> usize {
    session.get() as usize - 1
}
