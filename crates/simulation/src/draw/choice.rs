//! Choices by the dice of a plan.

use tidelock_model::Dice;

/// One of so many.
pub(super) fn index(dice: &Dice, below: usize) -> usize {
    usize::try_from(dice.below(below as u64)).unwrap_or(0)
}

pub(super) fn below(dice: &Dice, sides: u32) -> u32 {
    u32::try_from(dice.below(sides.into())).unwrap_or(0)
}
