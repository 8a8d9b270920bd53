//! The whole of it: sessions, lines and the time, moved on by one operation at a time.
//!
//! After each operation every line is settled: whoever fits is granted, from the front, and a line in which nobody
//! stands is forgotten. What is left of a name after that is nothing, but tokens go on growing, since all lines take
//! them from one counter. A session's end takes its claims along, and the memory of its void joins.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use crate::{Claim, ClaimId, Event, Join, Kind, Leave, Left, Line, Op, Patience, Refusal};
use crate::{Session, SessionId, Token, Weight, fault};

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
        Self {
            now: 0,
            last_order: 0,
            last_token: 0,
            sessions: BTreeMap::new(),
            lines: BTreeMap::new(),
        }
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

    fn open(&mut self, id: SessionId, ttl: u64) -> Vec<Event<N>> {
        self.sessions
            .entry(id)
            .or_insert_with(|| Session::new(ttl, self.now));
        self.renew(id)
    }

    fn renew(&mut self, id: SessionId) -> Vec<Event<N>> {
        let Some(session) = self.sessions.get_mut(&id) else {
            return vec![Event::Over { session: id }];
        };
        session.renew(self.now);
        vec![Event::Lives {
            session: id,
            until: session.until(),
        }]
    }

    fn close(&mut self, id: SessionId) -> Vec<Event<N>> {
        match self.sessions.remove(&id) {
            Some(_) => self.end(&[id]),
            None => vec![Event::Over { session: id }],
        }
    }

    fn pass(&mut self, by: u64) -> Vec<Event<N>> {
        self.now = self.now.saturating_add(by);
        let over = |session: &Session<N>| session.until() <= self.now;
        let ended: Vec<_> = self
            .sessions()
            .filter(|(_, session)| over(session))
            .map(|(id, _)| id)
            .collect();
        self.sessions.retain(|id, _| !ended.contains(id));
        self.end(&ended)
    }

    /// Takes the claims of ended sessions out of every line, and only then grants: nobody dead is granted.
    fn end(&mut self, ended: &[SessionId]) -> Vec<Event<N>> {
        let mut events: Vec<_> = ended
            .iter()
            .map(|session| Event::Over { session: *session })
            .collect();
        let theirs = |claim: &Claim| ended.contains(&claim.id.session);
        let touched = |(name, line): (&N, &Line)| line.claims.iter().any(theirs).then(|| name.clone());
        let names: Vec<N> = self.lines.iter().filter_map(touched).collect();
        for name in &names {
            let Some(line) = self.lines.get_mut(name) else {
                continue;
            };
            if cfg!(tidelock_fault = "expiry_removes_neighbour") {
                let neighbour = line.claims.iter().position(|claim| !theirs(claim));
                neighbour.map(|position| line.claims.remove(position));
            }
            let gone = line.claims.extract_if(.., |claim| theirs(claim));
            events.extend(gone.map(|claim| left(name, &claim)));
        }
        if cfg!(tidelock_fault = "token_stays_after_expiry") {
            self.last_token = self.last_token.saturating_sub(1);
        }
        for name in &names {
            events.extend(self.settle(name));
        }
        events
    }

    fn join(&mut self, join: &Join<N>) -> Vec<Event<N>> {
        let Join {
            name,
            id,
            weight,
            patience,
            ..
        } = join.clone();
        if self.claim(&name, id).is_some() {
            return vec![self.stands(name, id)];
        }
        if let Err(why) = self.admit(join) {
            return vec![Event::Refused { name, why }];
        }
        self.last_order += 1;
        let line = self
            .lines
            .entry(name.clone())
            .or_insert_with(|| Line::new(join.kind, join.capacity));
        line.claims.push(Claim {
            id,
            weight,
            order: self.last_order,
            token: None,
        });
        self.settle(&name); // grants the newcomer or nobody: the line was settled before it came
        if patience == Patience::Now && self.claim(&name, id).is_some_and(|claim| claim.token.is_none()) {
            if !cfg!(tidelock_fault = "refused_claim_stays") {
                self.take(&name, id);
            }
            return vec![Event::Refused {
                name,
                why: Refusal::Busy,
            }];
        }
        vec![self.stands(name, id)]
    }

    /// Whether this join may stand in line at all.
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
            Err(Refusal::TooHeavy(capacity))
        } else {
            Ok(())
        }
    }

    fn leave(&mut self, name: &N, id: ClaimId, how: Leave) -> Vec<Event<N>> {
        if how == Leave::Void {
            // A session that is over needs no memory of it: its joins are refused anyway.
            if let Some(session) = self.sessions.get_mut(&id.session) {
                session.make_void(name.clone(), id.number);
            }
        }
        let mut events = vec![self.take(name, id)];
        events.extend(self.settle(name));
        events
    }

    fn lighten(&mut self, name: N, id: ClaimId, weight: Weight) -> Vec<Event<N>> {
        let line = self.lines.get_mut(&name);
        let Some(claim) = line.and_then(|line| line.claims.iter_mut().find(|claim| claim.id == id)) else {
            return vec![Event::Absent { name, id }];
        };
        if weight > claim.weight {
            return vec![Event::Refused {
                name,
                why: Refusal::Heavier(claim.weight),
            }];
        }
        claim.weight = weight;
        let mut events = vec![Event::Lightened {
            name: name.clone(),
            id,
            weight,
        }];
        if !cfg!(tidelock_fault = "lighten_wakes_nobody") {
            events.extend(self.settle(&name));
        }
        events
    }

    fn resize(&mut self, name: N, from: Weight, to: Weight) -> Vec<Event<N>> {
        if let Err(why) = self.may_resize(&name, from, to) {
            return vec![Event::Refused { name, why }];
        }
        if let Some(line) = self.lines.get_mut(&name) {
            line.capacity = to;
            if to < from {
                self.last_order += 1;
                line.shrunk_at = Some(self.last_order);
                if cfg!(tidelock_fault = "shrink_takes_hold_back") {
                    fault::take_back(line);
                }
            }
        }
        let mut events = vec![Event::Resized {
            name: name.clone(),
            capacity: to,
        }];
        if !cfg!(tidelock_fault = "grow_wakes_nobody") {
            events.extend(self.settle(&name));
        }
        events
    }

    fn may_resize(&self, name: &N, from: Weight, to: Weight) -> Result<(), Refusal> {
        let line = self.line(name).ok_or(Refusal::NoLine)?;
        if line.kind != Kind::Semaphore {
            return Err(Refusal::Kind(line.kind)); // a mutex of two would be none
        }
        if line.capacity != from {
            return Err(Refusal::Capacity(line.capacity));
        }
        match line.stranded_by(to) {
            Some(id) if !cfg!(tidelock_fault = "resize_strands_heavier") => Err(Refusal::Strands(id)),
            _ => Ok(()),
        }
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
        granted
            .into_iter()
            .map(|(id, token)| Event::Held {
                name: name.clone(),
                id,
                token,
            })
            .collect()
    }

    /// Takes a claim out of its line, wherever it stands there.
    fn take(&mut self, name: &N, id: ClaimId) -> Event<N> {
        let absent = Event::Left {
            name: name.clone(),
            id,
            left: Left::Absent,
        };
        let Some(line) = self.lines.get_mut(name) else {
            return absent;
        };
        let Some(position) = line.position(id) else {
            return absent;
        };
        if cfg!(tidelock_fault = "middle_leave_forgotten") && position > 0 && position + 1 < line.claims.len()
        {
            return left(name, &line.claims[position]);
        }
        left(name, &line.claims.remove(position))
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

/// What to say of a claim that is being taken out.
fn left<N: Clone>(name: &N, claim: &Claim) -> Event<N> {
    let left = if claim.token.is_some() {
        Left::Held
    } else {
        Left::Waiting
    };
    Event::Left {
        name: name.clone(),
        id: claim.id,
        left,
    }
}
