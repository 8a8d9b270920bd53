//! How often things happen in one sequence of operations.

use crate::Dice;

/// How often things happen in one sequence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    /// How many of a hundred operations are joins of new claims.
    pub(super) joins: u64,
    /// How many of a hundred moments are close to the previous one.
    pub(super) bursts: u64,
    /// Whether unused names become mutexes.
    pub(super) mutexes: bool,
    /// Whether the clock is sometimes set back.
    pub(super) turns_back: bool,
    /// Whether the store loses data.
    pub(super) loses: bool,
}

impl Rates {
    pub(super) fn draw(dice: &Dice, can_lose: bool) -> Self {
        Self {
            joins: *dice.pick(&[20, 35, 35, 60]),
            bursts: *dice.pick(&[40, 60, 60, 85]),
            mutexes: dice.one_in(2),
            turns_back: dice.one_in(6),
            loses: can_lose && dice.one_in(4),
        }
    }
}
