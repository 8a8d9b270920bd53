//! Draws the next time, and the operation at that time.

use alloc::vec::Vec;
use core::fmt::Debug;

use super::{Comparison, Wish};
use crate::{ClaimId, Join, Kind, Leave, SessionId, Weight};

const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3_600 * SECOND;

impl<N: Ord + Clone + Debug> Comparison<'_, N> {
    /// Turns the clock, and draws the next operation.
    pub fn turn(&mut self) -> (u64, Wish<N>) {
        self.turn_to(self.moment());
        let wish = self.wish();
        if matches!(wish, Wish::Lose { .. }) {
            // A store that has lost its newest token goes by the clock, and bursts may have run ahead of that.
            self.turn_to(self.latest + SECOND);
        }
        (self.now, wish)
    }

    fn turn_to(&mut self, moment: u64) {
        let back = self.now.saturating_sub(moment);
        self.books.values_mut().for_each(|book| book.set_back(back));
        self.now = moment;
        self.latest = self.latest.max(moment);
    }

    fn moment(&self) -> u64 {
        let dice = self.wishes.dice();
        if dice.below(100) < self.rates.bursts {
            return self.now + dice.below(30) * dice.below(2);
        }
        if self.rates.turns_back && dice.one_in(8) {
            let by = *dice.pick(&[10, 1_000, SECOND, 20 * SECOND, HOUR, 25 * HOUR]);
            return self.now - dice.below(by);
        }
        let ends: Vec<_> =
            self.books.values().flat_map(super::Book::ends).filter(|end| *end > self.now).collect();
        match dice.below(20) {
            0..5 => self.now + dice.below(2 * SECOND),
            5..9 => self.now + self.ttl(self.wishes.session(&self.world)) / 3,
            9..19 if !ends.is_empty() => {
                let off = *dice.pick(&[0, 10, 900, 1_000, 2_000, 30_000]);
                let end = *dice.pick(&ends);
                let moment = if dice.one_in(2) { end + off } else { end - off };
                moment.max(self.now)
            }
            19 if dice.one_in(2) => self.now + *dice.pick(&[HOUR, 2 * HOUR, 25 * HOUR]),
            _ => self.now + dice.below(20_000),
        }
    }

    fn wish(&mut self) -> Wish<N> {
        let joins = self.rates.joins;
        match self.wishes.dice().below(100) {
            n if n < joins => self.join_new(),
            n if n < joins + 8 => self.join_again(),
            n if n < joins + 22 => self.renew(),
            n if n < joins + 28 => self.look(),
            99 if self.rates.loses => {
                Wish::Lose { name: self.wishes.name(), part: self.wishes.dice().below(4) }
            }
            _ => match self.wishes.dice().below(10) {
                0 => self.lighten(),
                1 => self.resize(),
                _ => self.leave(),
            },
        }
    }

    fn join_new(&mut self) -> Wish<N> {
        let name = self.wishes.name();
        let id = self.wishes.fresh(&self.world, &name);
        self.join(&name, id)
    }

    fn join_again(&mut self) -> Wish<N> {
        let (name, id) = self.wishes.anyone(&self.world);
        self.join(&name, id)
    }

    /// A repeated join is the same as the first one.
    fn join(&mut self, name: &N, id: ClaimId) -> Wish<N> {
        let draw = || {
            let join = self.wishes.join(&self.world, name, id);
            if self.rates.mutexes && self.world.line(name).is_none() {
                return Join { kind: Kind::Mutex, weight: Weight::ONE, capacity: Weight::ONE, ..join };
            }
            join
        };
        Wish::Join(self.joins.entry(id).or_insert_with(draw).clone())
    }

    fn renew(&mut self) -> Wish<N> {
        let (name, id) = self.wishes.anyone(&self.world);
        Wish::Renew { session: id.session, name }
    }

    fn look(&mut self) -> Wish<N> {
        let (name, id) = self.wishes.anyone(&self.world);
        let mut numbers: Vec<_> = self.standing(&name, id.session).map(|id| id.number).collect();
        numbers.retain(|_| !self.wishes.dice().one_in(6));
        if self.wishes.dice().one_in(3) {
            numbers.push(id.number);
            numbers.sort_unstable();
            numbers.dedup();
        }
        Wish::Look { name, session: id.session, numbers }
    }

    fn standing(&self, name: &N, session: SessionId) -> impl Iterator<Item = ClaimId> {
        self.claims(name).iter().map(|claim| claim.id).filter(move |id| id.session == session)
    }

    fn leave(&mut self) -> Wish<N> {
        let (name, id) = self.wishes.anyone(&self.world);
        let by = self.wishes.leaver(&self.world, id);
        let how = if self.wishes.dice().one_in(6) { Leave::Void } else { Leave::Done };
        Wish::Leave { by, name, id, how }
    }

    fn lighten(&mut self) -> Wish<N> {
        let (name, id) = self.wishes.anyone(&self.world);
        Wish::Lighten { name, id, weight: self.wishes.dice().weight(3) }
    }

    /// No resize where the store has lost weights, or while it owes grants: a smaller size would take those back.
    fn resize(&mut self) -> Wish<N> {
        let (name, from, to) = self.wishes.resize(&self.world);
        let book = self.books.get(&name);
        let owes = self
            .claims(&name)
            .iter()
            .any(|claim| claim.token.is_some() && book.is_some_and(|book| !book.holds(claim.id)));
        if owes || book.is_some_and(|book| book.is_doubtful) {
            return self.leave();
        }
        Wish::Resize { by: self.wishes.session(&self.world), name, from, to }
    }
}
