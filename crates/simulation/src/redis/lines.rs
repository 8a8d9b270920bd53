//! The lines of a master: the model, and how long each claim lives.
//!
//! A lifetime begins with the join and with each renewal, and nothing else makes it longer: that is all a client may count
//! on. A dead claim stands in line until a script meets it, as in Redis. Tokens are the server's time, or one more than the
//! last one.

use std::collections::BTreeMap;

use tidelock_core::backend::Left;
use tidelock_core::{ClaimId, SessionId};
use tidelock_model::{Event, Line, Op, World};

/// Ticks of 10 µs, in which a server counts, in a millisecond.
pub(super) const TICKS: u64 = 100;

/// A session never ends in the model: each claim lives by itself.
const FOR_EVER: u64 = u64::MAX / 2;

/// The lines of a master.
#[derive(Clone, Default)]
pub(super) struct Lines {
    world: World<String>,
    names: BTreeMap<String, Known>,
    /// What was granted, and who died, since that was last asked.
    granted: Vec<Granted>,
    buried: Vec<ClaimId>,
}

/// What is known about the claims on one name.
#[derive(Clone, Default)]
struct Known {
    lives: BTreeMap<ClaimId, Life>,
    tokens: BTreeMap<ClaimId, u64>,
    /// Claims that must not join any more, and until when that is remembered.
    void: BTreeMap<ClaimId, u64>,
    newest: u64,
}

/// How long a claim lives.
#[derive(Clone)]
pub(super) struct Life {
    pub(super) came: u64,
    pub(super) ends: u64,
    pub(super) label: String,
}

/// A claim that holds now.
#[derive(Clone, Copy)]
pub(super) struct Granted {
    pub(super) id: ClaimId,
    pub(super) token: u64,
    pub(super) capacity: u32,
}

impl Lines {
    /// Carries out one operation, with all that follows from it.
    pub(super) fn step(&mut self, now: u64, op: Op<String>) -> Vec<Event<String>> {
        let events = self.world.step(op);
        for event in &events {
            match event {
                Event::Held { name, id, .. } => self.grant(now, name, *id),
                Event::Left { name, id, .. } => {
                    let known = self.names.entry(name.clone()).or_default();
                    known.lives.remove(id);
                    known.tokens.remove(id);
                }
                _ => {}
            }
        }
        events
    }

    fn grant(&mut self, now: u64, name: &str, id: ClaimId) {
        let capacity = self.line(name).map_or(1, |line| line.capacity.get());
        let known = self.names.entry(name.to_owned()).or_default();
        if known.tokens.contains_key(&id) {
            return;
        }
        known.newest = now.max(known.newest + 1);
        known.tokens.insert(id, known.newest);
        self.granted.push(Granted { id, token: known.newest, capacity });
    }

    /// Knows the session of a claim.
    pub(super) fn open(&mut self, session: SessionId) {
        self.world.step(Op::Open { session, ttl: FOR_EVER });
    }

    /// Removes the dead claims of a name, except that one, and forgets void ones whose time is over.
    pub(super) fn bury(&mut self, now: u64, name: &str, except: Option<ClaimId>) {
        let Some(known) = self.names.get_mut(name) else { return };
        let is_dead = |(id, life): &(&ClaimId, &Life)| life.ends <= now && Some(**id) != except;
        let dead: Vec<ClaimId> = known.lives.iter().filter(is_dead).map(|(id, _)| *id).collect();
        let void = known.void.iter().filter(|(_, until)| **until <= now).map(|(id, _)| *id);
        let ids: Vec<ClaimId> = dead.iter().copied().chain(void).collect();
        known.void.retain(|_, until| *until > now);
        if !ids.is_empty() {
            self.step(now, Op::Lapse { name: name.to_owned(), ids });
            self.buried.extend(dead);
        }
    }

    /// A lifetime of that many ms begins now.
    pub(super) fn live(&mut self, now: u64, name: &str, id: ClaimId, ttl: u64, label: &str) {
        let known = self.names.entry(name.to_owned()).or_default();
        let life =
            known.lives.entry(id).or_insert_with(|| Life { came: now, ends: 0, label: label.to_owned() });
        life.ends = now + ttl * TICKS;
    }

    /// Remembers that a claim must not join any more.
    pub(super) fn make_void(&mut self, name: &str, id: ClaimId, until: u64) {
        self.names.entry(name.to_owned()).or_default().void.insert(id, until);
    }

    /// Renews the claims of a session that are alive. How many of them hold, the sum of their numbers, and whether any
    /// waits.
    pub(super) fn renew(&mut self, now: u64, name: &str, session: SessionId, ttl: u64) -> (u64, u64, bool) {
        let (mut count, mut sum, mut waits) = (0, 0, false);
        let Some(known) = self.names.get_mut(name) else { return (0, 0, false) };
        for (id, life) in &mut known.lives {
            if id.session != session || life.ends <= now {
                continue;
            }
            life.ends = now + ttl * TICKS;
            match known.tokens.contains_key(id) {
                true => (count, sum) = (count + 1, sum + id.number),
                false => waits = true,
            }
        }
        (count, sum, waits)
    }

    /// In how many ms a waiter has to look: when a holder's lifetime ends, or that of the first waiter.
    pub(super) fn look_in(&self, now: u64, name: &str) -> u64 {
        let Some(known) = self.names.get(name) else { return 1 };
        let first = self.line(name).and_then(|line| line.waiting().next()).map(|claim| claim.id);
        let counts = |id: &ClaimId| known.tokens.contains_key(id) || first == Some(*id);
        let ends = known.lives.iter().filter(|(id, _)| counts(id)).map(|(_, life)| life.ends).min();
        ends.unwrap_or(now).saturating_sub(now).div_ceil(TICKS) + 1
    }

    pub(super) fn line(&self, name: &str) -> Option<&Line> {
        self.world.line(&name.to_owned())
    }

    pub(super) fn token(&self, name: &str, id: ClaimId) -> Option<u64> {
        self.names.get(name)?.tokens.get(&id).copied()
    }

    pub(super) fn life(&self, name: &str, id: ClaimId) -> Option<&Life> {
        self.names.get(name)?.lives.get(&id)
    }

    /// How a claim stands, whether it is alive or dead.
    pub(super) fn stands(&self, name: &str, id: ClaimId) -> Left {
        match self.life(name, id) {
            None => Left::Absent,
            Some(_) if self.token(name, id).is_some() => Left::Held,
            Some(_) => Left::Waiting,
        }
    }

    /// The holders of a session on a name.
    pub(super) fn holders(&self, name: &str, session: SessionId) -> Vec<ClaimId> {
        let tokens = self.names.get(name).map(|known| known.tokens.keys().copied());
        tokens.into_iter().flatten().filter(|id| id.session == session).collect()
    }

    /// What was granted since this was last asked.
    pub(super) fn take_granted(&mut self) -> Vec<Granted> {
        std::mem::take(&mut self.granted)
    }

    /// Who died since this was last asked.
    pub(super) fn take_buried(&mut self) -> Vec<ClaimId> {
        std::mem::take(&mut self.buried)
    }

    /// Everyone who stands in any line: the name, the claim, and whether it holds.
    pub(super) fn everyone(&self) -> Vec<(String, ClaimId, bool)> {
        let of_name = |(name, known): (&String, &Known)| {
            let stands = |id: &ClaimId| (name.clone(), *id, known.tokens.contains_key(id));
            known.lives.keys().map(stands).collect::<Vec<_>>()
        };
        self.names.iter().flat_map(of_name).collect()
    }

    /// The names on which somebody alive stands.
    pub(super) fn in_use(&self, now: u64) -> Vec<String> {
        let is_used = |known: &Known| known.lives.values().any(|life| life.ends > now);
        self.names.iter().filter(|(_, known)| is_used(known)).map(|(name, _)| name.clone()).collect()
    }

    /// Loses these claims without a word to anybody. A name keeps its newest token only as the server's clock.
    pub(super) fn lose(&mut self, now: u64, is_meant: impl Fn(&str, ClaimId) -> bool) {
        let names: Vec<String> = self.names.keys().cloned().collect();
        for name in names {
            let ids: Vec<ClaimId> =
                self.names[&name].lives.keys().copied().filter(|id| is_meant(&name, *id)).collect();
            if !ids.is_empty() {
                self.step(now, Op::Lapse { name, ids });
            }
        }
    }
}
