//! The canonical form of a state, packed into a number.
//!
//! What time it is does not matter, only how long each session still lives. How high orders and tokens are does not
//! matter, only how they compare: orders with the moment of the last shrink, tokens with each other, with the
//! greatest ever given and with the counter that gives them.

use super::stage::Stage;
use super::witness::Witness;
use crate::{Line, World};

/// Digits of different bases, one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Key(u128);

impl Key {
    /// Appends a digit below `base`.
    pub(super) fn push(&mut self, digit: usize, base: usize) {
        assert!(digit < base, "{digit} is no digit of base {base}");
        self.0 = self
            .0
            .checked_mul(base as u128)
            .expect("the stage is too large for a key")
            + digit as u128;
    }

    /// Appends all that matters of a world.
    pub(super) fn push_world(&mut self, stage: &Stage, world: &World<()>) {
        for session in &stage.sessions {
            let lives = world
                .session(*session)
                .map_or(0, |session| session.until() - world.now());
            self.push(lives as usize, stage.ttl as usize + 1);
        }
        for id in &stage.claims {
            let session = world.session(id.session);
            let void = session.is_some_and(|session| session.void().any(|(_, number)| number == id.number));
            self.push(usize::from(void), 2);
        }
        self.push(world.lines().count(), 2);
        if let Some(line) = world.line(&()) {
            self.push_line(stage, line);
        }
    }

    fn push_line(&mut self, stage: &Stage, line: &Line) {
        let rank = |claim: &crate::Claim| {
            line.claims
                .iter()
                .filter(|other| other.token < claim.token)
                .count()
        };
        for claim in &line.claims {
            let slot = stage
                .claims
                .iter()
                .position(|id| *id == claim.id)
                .expect("a claim of the stage");
            self.push(slot + 1, stage.claims.len() + 1);
            self.push(stage.weight_code(claim.weight), stage.weights.len());
            self.push(usize::from(claim.token.is_some()), 2);
            self.push(rank(claim), stage.claims.len());
        }
        self.push(0, stage.claims.len() + 1); // nobody else
        self.push(stage.size_code(line.capacity), stage.sizes.len());
        let shrunk_at = line.shrunk_at.unwrap_or(0);
        self.push(
            line.claims.iter().filter(|claim| claim.order < shrunk_at).count(),
            stage.claims.len() + 1,
        );
    }

    /// Appends what an outsider knows beyond the world itself. It adds no state as long as the world keeps its word.
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
