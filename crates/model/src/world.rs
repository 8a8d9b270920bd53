//! The whole of it: sessions, lines and the time, moved on by one operation at a time.
//!
//! After each operation every line is settled: whoever fits is granted, from the front, and a line in which nobody
//! stands is forgotten. What is left of a name after that is nothing, but tokens go on growing, since all lines take
//! them from one counter. A session's end takes its claims along, and the memory of its void joins.

mod claims;
mod leases;

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use crate::{Claim, ClaimId, Event, Line, Op, Session, SessionId, Token};

/// Every line and every session, and what time it is. Names are whatever `N` is.
///
/// ```
/// use tidelock_model::{ClaimId, Event, Join, Kind, Leave, Op, Patience, SessionId, Weight, World};
///
/// let mut world = World::new();
/// let id = |session, number| ClaimId { session: SessionId::from_bits(session), number };
/// let join = |id| {
///     let (kind, patience) = (Kind::Mutex, Patience::Wait);
///     Op::Join(Join { name: "stock", id, kind, weight: Weight::ONE, capacity: Weight::ONE, patience })
/// };
/// for session in [1, 2] {
///     world.step(Op::Open { session: SessionId::from_bits(session), ttl: 15_000 });
/// }
/// let first = world.step(join(id(1, 1)));
/// let second = world.step(join(id(2, 1)));
/// assert!(matches!(first[0], Event::Held { .. }));
/// assert!(matches!(second[0], Event::Waiting { .. }));
///
/// // The first leaves: its leave is answered, and the second is granted, with a greater token.
/// let events = world.step(Op::Leave { name: "stock", id: id(1, 1), how: Leave::Done });
/// let (Event::Held { token: older, .. }, Event::Held { token: newer, .. }) = (&first[0], &events[1]) else {
///     unreachable!()
/// };
/// assert!(older < newer);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World<N> {
    now: u64,
    last_order: u64,
    last_token: u64,
    sessions: BTreeMap<SessionId, Session<N>>,
    lines: BTreeMap<N, Line>,
}

impl<N> Default for World<N> {
    fn default() -> Self {
        Self { now: 0, last_order: 0, last_token: 0, sessions: BTreeMap::new(), lines: BTreeMap::new() }
    }
}

impl<N: Ord + Clone> World<N> {
    /// A world in which nothing has happened yet; its time is zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Carries out one operation: the first event answers it, the others are what followed.
    ///
    /// Letting time pass has no answer, only what follows.
    ///
    /// # Panics
    ///
    /// When 2^48 grants were made: a token cannot carry more.
    pub fn step(&mut self, op: Op<N>) -> Vec<Event<N>> {
        match op {
            Op::Open { session, ttl } => self.open(session, ttl),
            Op::Renew(session) => self.renew(session),
            Op::Close(session) => self.close(session),
            Op::Pass(by) => self.pass(by),
            Op::Lapse { name, ids } => self.lapse(&name, &ids),
            Op::Join(join) => self.join(&join),
            Op::Look { name, id } => vec![self.stands(name, id)],
            Op::Leave { name, id, how } => self.leave(&name, id, how),
            Op::Lighten { name, id, weight } => self.lighten(name, id, weight),
            Op::Resize { name, from, to } => self.resize(name, from, to),
        }
    }

    /// What time it is.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// The line of a name; `None` while nobody stands in it.
    #[must_use]
    pub fn line(&self, name: &N) -> Option<&Line> {
        self.lines.get(name)
    }

    /// All lines, by name.
    pub fn lines(&self) -> impl Iterator<Item = (&N, &Line)> {
        self.lines.iter()
    }

    /// A session; `None` when it is not open.
    #[must_use]
    pub fn session(&self, id: SessionId) -> Option<&Session<N>> {
        self.sessions.get(&id)
    }

    /// All open sessions, by id.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &Session<N>)> {
        self.sessions.iter().map(|(id, session)| (*id, session))
    }

    /// The order of the newest token that was given.
    #[cfg(test)]
    pub(crate) fn last_token(&self) -> u64 {
        self.last_token
    }

    /// Grants whoever fits now; forgets the line when nobody stands in it.
    fn settle(&mut self, name: &N) -> Vec<Event<N>> {
        let Some(line) = self.lines.get_mut(name) else {
            return Vec::new();
        };
        if line.claims.is_empty() {
            self.lines.remove(name);
            if cfg!(tidelock_fault = "token_restarts_when_empty") {
                self.last_token = 0;
            }
            return Vec::new();
        }
        let granted = line.grant(|| {
            self.last_token += 1;
            Token::from_order(self.last_token).expect("2^48 grants are more than a token can carry")
        });
        granted.into_iter().map(|(id, token)| Event::Held { name: name.clone(), id, token }).collect()
    }

    fn stands(&self, name: N, id: ClaimId) -> Event<N> {
        match self.claim(&name, id).map(|claim| claim.token) {
            Some(Some(token)) => Event::Held { name, id, token },
            Some(None) => Event::Waiting { name, id },
            None => Event::Absent { name, id },
        }
    }

    fn claim(&self, name: &N, id: ClaimId) -> Option<&Claim> {
        self.line(name).and_then(|line| line.claim(id))
    }
}
