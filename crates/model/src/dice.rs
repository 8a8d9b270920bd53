//! Random choices that can be replayed: SplitMix64, seeded with a number and the name of the game.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::Weight;

/// The increment of SplitMix64.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A source of random choices. The same seed and name give the same choices.
#[derive(Debug)]
pub struct Dice(AtomicU64);

impl Dice {
    /// The dice of one game, or of one player in it.
    #[must_use]
    pub fn new(seed: u64, name: &str) -> Self {
        let named = name.bytes().fold(seed, |state, byte| scatter(state ^ u64::from(byte)));
        Self(AtomicU64::new(named))
    }

    /// A number below `sides`.
    pub fn below(&self, sides: u64) -> u64 {
        let state = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        scatter(state) % sides.max(1)
    }

    /// True in one case out of `many`.
    pub fn one_in(&self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// One of `things`, which must not be empty.
    pub fn pick<'a, T>(&self, things: &'a [T]) -> &'a T {
        let index = usize::try_from(self.below(things.len() as u64)).unwrap_or(0);
        &things[index]
    }

    /// A weight from 1 to `most`.
    pub fn weight(&self, most: u32) -> Weight {
        let n = u32::try_from(self.below(most.into())).unwrap_or(0) + 1;
        Weight::new(n).unwrap_or(Weight::MAX)
    }

    /// New dice for another player.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self(AtomicU64::new(self.below(u64::MAX)))
    }
}

fn scatter(mut x: u64) -> u64 {
    x = x.wrapping_add(STEP);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
