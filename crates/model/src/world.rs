//! The whole model: sessions, lines and time, changed by one operation at a time.
//!
//! After each operation every line is settled: the claims that fit now are granted, from the front, and an empty line
//! is forgotten. Nothing of its name is kept, but tokens go on growing, because all lines take them from one counter.
//! When a session ends, its claims leave, and its void joins are forgotten.

mod claims;
mod leases;

use alloc::vec;
use alloc::vec::Vec;

use crate::table::Table;
use crate::{Claim, ClaimId, Event, Line, Op, Session, SessionId, Token};

/// Every line, every session and the current time. `N` is the type of a name.
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
    sessions: Table<SessionId, Session<N>>,
    lines: Table<N, Line>,
}

impl<N> Default for World<N> {
    fn default() -> Self {
        Self { now: 0, last_order: 0, last_token: 0, sessions: Table::new(), lines: Table::new() }
    }
}

impl<N: Ord + Clone> World<N> {
    /// An empty world at time zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Carries out one operation. The first event answers it; the others are its consequences.
    ///
    /// [`Op::Pass`] and [`Op::Lapse`] have no answer, only consequences.
    ///
    /// # Panics
    ///
    /// After 2^48 grants: a token cannot hold a greater number.
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

    /// The current time.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// The line of a name; `None` while it is empty.
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

    /// The order of the newest token.
    #[cfg(test)]
    pub(crate) fn last_token(&self) -> u64 {
        self.last_token
    }

    /// Grants the claims that fit now; forgets the line if it is empty.
    fn settle(&mut self, name: &N) -> Vec<Event<N>> {
        let Some(line) = self.lines.get_mut(name) else {
            return Vec::new();
        };
        if line.claims.is_empty() {
            self.lines.remove(name);
            if seeded!("token_restarts_when_empty") {
                self.last_token = 0;
            }
            return Vec::new();
        }
        let granted = line.grant(|| {
            self.last_token += 1;
            Token::from_order(self.last_token).expect("a token cannot count more than 2^48 grants")
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
