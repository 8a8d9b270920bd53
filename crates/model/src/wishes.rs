//! Random operations, to compare a store with the rule. They are drawn so that everything that can go wrong comes up
//! within a few operations.

use alloc::vec::Vec;

use crate::{ClaimId, Dice, Join, Kind, Line, Patience, SessionId, Weight, World};

/// Draws the next operation for a [`World`] that has at least one open session. The same seed gives the same draws.
///
/// ```
/// use tidelock_model::{Op, SessionId, Wishes, World};
///
/// let (mut world, mut last_number) = (World::new(), 0);
/// world.step(Op::Open { session: SessionId::from_bits(1), ttl: 1 });
/// let mut wishes = Wishes::new(42, vec!["stock", "till"], &mut last_number);
/// for _ in 0..10 {
///     let (name, id) = wishes.anyone(&world);
///     let join = wishes.join(&world, &name, id);
///     println!("{join:?}: {:?}", world.step(Op::Join(join.clone()))); // ask the store the same, and compare
/// }
/// ```
#[derive(Debug)]
pub struct Wishes<'a, N> {
    dice: Dice,
    names: Vec<N>,
    known: Vec<(N, ClaimId)>,
    last_number: &'a mut u64,
}

impl<'a, N: Ord + Clone> Wishes<'a, N> {
    /// Draws from these names, the first most often. Claims are numbered from `last_number` on, so sessions that
    /// outlive this value never see a number twice.
    ///
    /// # Panics
    /// When there are no names.
    #[must_use]
    pub fn new(seed: u64, names: Vec<N>, last_number: &'a mut u64) -> Self {
        assert!(!names.is_empty(), "`Wishes` needs at least one name");
        Self { dice: Dice::new(seed, "wishes"), names, known: Vec::new(), last_number }
    }

    /// The dice, for all other random choices.
    #[must_use]
    pub const fn dice(&self) -> &Dice {
        &self.dice
    }

    /// The names to draw from.
    #[must_use]
    pub fn names(&self) -> &[N] {
        &self.names
    }

    /// The name for which this claim was drawn.
    #[must_use]
    pub fn name_of(&self, id: ClaimId) -> Option<&N> {
        self.known.iter().find(|(_, known)| *known == id).map(|(name, _)| name)
    }

    /// One of the names: five times in eight the first.
    pub fn name(&self) -> N {
        let which = self.dice.pick(&[0, 0, 0, 0, 0, 1, 1, 2]);
        self.names[which % self.names.len()].clone()
    }

    /// One of the sessions that are open.
    pub fn session(&self, world: &World<N>) -> SessionId {
        let open: Vec<_> = world.sessions().map(|(id, _)| id).collect();
        *self.dice.pick(&open)
    }

    /// A number that no claim has.
    pub const fn number(&mut self) -> u64 {
        *self.last_number += 1;
        *self.last_number
    }

    /// A new claim, known to no store.
    pub fn fresh(&mut self, world: &World<N>, name: &N) -> ClaimId {
        let id = ClaimId { session: self.session(world), number: self.number() };
        self.known.push((name.clone(), id));
        id
    }

    /// Mostly a claim that stands in line, sometimes one that left or never joined.
    pub fn anyone(&mut self, world: &World<N>) -> (N, ClaimId) {
        let ids = |(name, line): (&N, &Line)| {
            line.claims.iter().map(|claim| (name.clone(), claim.id)).collect::<Vec<_>>()
        };
        let standing: Vec<_> = world.lines().flat_map(ids).collect();
        match self.dice.below(10) {
            0..7 if !standing.is_empty() => self.dice.pick(&standing).clone(),
            7..9 if !self.known.is_empty() => self.dice.pick(&self.known).clone(),
            _ => {
                let name = self.name();
                let id = self.fresh(world, &name);
                (name, id)
            }
        }
    }

    /// A claim in this line.
    pub fn stander(&self, line: &Line) -> ClaimId {
        self.dice.pick(&line.claims).id
    }

    /// A join for this claim: mostly of the kind in use, sometimes of any kind.
    pub fn join(&self, world: &World<N>, name: &N, id: ClaimId) -> Join<N> {
        let kind = match world.line(name) {
            Some(line) if !self.dice.one_in(16) => line.kind,
            _ => *self.dice.pick(&[Kind::Mutex, Kind::RwLock, Kind::Semaphore, Kind::Semaphore]),
        };
        let (weight, capacity) = match kind {
            Kind::Mutex => (Weight::ONE, Weight::ONE),
            Kind::RwLock => (*self.dice.pick(&[Weight::ONE, Weight::ONE, Weight::MAX]), Weight::MAX),
            Kind::Semaphore => (self.dice.weight(4), self.dice.weight(5)),
        };
        let patience = if self.dice.one_in(5) { Patience::Now } else { Patience::Wait };
        Join { name: name.clone(), id, kind, weight, capacity, patience }
    }

    /// The session that asks for the leave: mostly the claim's own. Otherwise, or if that is over, any open one, as
    /// in an eviction.
    pub fn leaver(&self, world: &World<N>, id: ClaimId) -> SessionId {
        let is_eviction = world.session(id.session).is_none() || self.dice.one_in(4);
        if is_eviction { self.session(world) } else { id.session }
    }

    /// A resize: the name, the old capacity (mostly the right one) and the new one.
    pub fn resize(&self, world: &World<N>) -> (N, Weight, Weight) {
        let name = self.name();
        let capacity = world.line(&name).map(|line| line.capacity).filter(|_| !self.dice.one_in(6));
        let from = capacity.unwrap_or_else(|| self.dice.weight(5));
        (name, from, self.dice.weight(6))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::format;
    use std::string::{String, ToString};

    use super::*;
    use crate::{Event, Leave, Op};

    /// Some operations of two sessions, each with its answer.
    fn play(seed: u64) -> Vec<(Op<char>, Event<char>)> {
        let (mut world, mut last_number, mut played) = (World::new(), 0, Vec::new());
        for session in [1, 2] {
            world.step(Op::Open { session: SessionId::from_bits(session), ttl: 1 });
        }
        let mut wishes = Wishes::new(seed, ['a', 'b', 'c'].to_vec(), &mut last_number);
        for _ in 0..12 {
            let op = draw(&mut wishes, &world);
            played.push((op.clone(), world.step(op)[0].clone()));
        }
        played
    }

    fn draw(wishes: &mut Wishes<'_, char>, world: &World<char>) -> Op<char> {
        let (name, id) = wishes.anyone(world);
        match wishes.dice().below(8) {
            0..3 => {
                let id = wishes.fresh(world, &name);
                Op::Join(wishes.join(world, &name, id))
            }
            3 => Op::Join(wishes.join(world, &name, id)),
            4..7 => Op::Leave { name, id, how: *wishes.dice().pick(&[Leave::Done, Leave::Void]) },
            _ => {
                let (name, from, to) = wishes.resize(world);
                Op::Resize { name, from, to }
            }
        }
    }

    #[test]
    fn a_seed_is_replayed() {
        assert_eq!(play(7), play(7));
        assert_ne!(play(7), play(8));
    }

    #[test]
    fn everything_comes_up_that_can_be_answered() {
        let word = |text: &str| text.split(['(', ' ']).next().unwrap_or_default().to_string();
        let answer = |(op, event): (Op<char>, Event<char>)| match event {
            Event::Refused { why, .. } => {
                format!("{} {}", word(&format!("{op:?}")), word(&format!("{why:?}")))
            }
            Event::Left { left, .. } => format!("Left {left:?}"),
            event => word(&format!("{event:?}")),
        };
        let answers: BTreeSet<String> = (0..500).flat_map(play).map(answer).collect();
        let all = [
            "Held",
            "Waiting",
            "Join Busy",
            "Join Kind",
            "Join TooHeavy",
            "Join Void",
            "Left Absent",
            "Left Held",
            "Left Waiting",
            "Resize Capacity",
            "Resize Kind",
            "Resize NoLine",
            "Resize Strands",
            "Resized",
        ];
        assert_eq!(answers, all.map(String::from).into());
    }

    #[test]
    fn an_evicting_client_is_open() {
        let (mut world, mut last_number) = (World::new(), 0);
        let [gone, open] = [1, 2].map(SessionId::from_bits);
        world.step(Op::Open { session: open, ttl: 1 });
        let wishes = Wishes::new(1, ['a'].to_vec(), &mut last_number);
        for _ in 0..100 {
            assert_eq!(wishes.leaver(&world, ClaimId { session: gone, number: 1 }), open);
        }
    }
}
