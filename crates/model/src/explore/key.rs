//! The canonical form of a state, packed into a number.
//!
//! The absolute time does not matter, only how long each session still lives. The absolute values of orders and
//! tokens do not matter, only how they compare: orders with the moment of the last shrink; tokens with each other,
//! with the greatest ever given and with the counter that gives them.

use super::stage::Stage;
use super::witness::Witness;
use crate::{Claim, Line, World};

/// Digits of different bases, one after the other, always the same bases for one stage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Key(u128);

impl Key {
    /// Appends a digit below `base`.
    pub(super) fn push(&mut self, digit: usize, base: usize) {
        assert!(digit < base, "{digit} is no digit of base {base}");
        self.0 = self.0.checked_mul(base as u128).expect("the stage is too large for a key") + digit as u128;
    }

    /// Appends everything that matters of a world.
    pub(super) fn push_world(&mut self, stage: &Stage, world: &World<()>) {
        for session in &stage.sessions {
            let lives = world.session(*session).map_or(0, |session| session.until() - world.now());
            self.push(lives as usize, stage.ttl as usize + 1);
        }
        for id in &stage.claims {
            let session = world.session(id.session);
            let void = session.is_some_and(|session| session.void().any(|(_, number)| number == id.number));
            self.push(usize::from(void), 2);
        }
        self.push_line(stage, world.line(&()));
    }

    /// Appends a fixed number of digits, whatever stands there: keys of different lengths could be equal.
    fn push_line(&mut self, stage: &Stage, line: Option<&Line>) {
        let claims = line.map_or(&[][..], |line| &line.claims);
        let rank = |claim: &Claim| claims.iter().filter(|other| other.token < claim.token).count();
        for position in 0..stage.claims.len() {
            let claim = claims.get(position);
            let mut digit = |of: &dyn Fn(&Claim) -> usize, base| self.push(claim.map_or(0, of), base);
            digit(&|claim| stage.claim_code(claim.id) + 1, stage.claims.len() + 1);
            digit(&|claim| stage.weight_code(claim.weight), stage.weights.len());
            digit(&|claim| usize::from(claim.token.is_some()), 2);
            digit(&rank, stage.claims.len());
        }
        self.push(usize::from(line.is_some_and(|line| line.kind != stage.kind)), 2);
        let size = line.map_or(0, |line| stage.size_code(line.capacity) + 1);
        self.push(size, stage.sizes.len() + 1);
        let shrunk_at = line.and_then(|line| line.shrunk_at).unwrap_or(0);
        let older = claims.iter().filter(|claim| claim.order < shrunk_at).count();
        self.push(older, stage.claims.len() + 1);
    }

    /// Appends what an outsider knows beyond the world itself. It adds no state while the world keeps its promises.
    pub(super) fn push_witness(&mut self, stage: &Stage, world: &World<()>, witness: &Witness) {
        for id in &stage.claims {
            self.push(usize::from(witness.is_void(*id)), 2);
        }
        self.push(world.last_token().cmp(&witness.greatest()) as i8 as usize & 3, 4);
    }

    /// The number.
    pub(super) fn get(self) -> u128 {
        self.0
    }
}
