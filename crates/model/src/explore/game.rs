//! A game that can be searched: states, and a fixed list of moves.

use std::string::String;
use std::vec::Vec;

/// A promise that did not hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Broken {
    /// The check that noticed.
    pub(crate) name: &'static str,
    /// The message of the check.
    pub(crate) sentence: &'static str,
}

/// States and moves. Every state has the same moves, numbered from zero.
pub(super) trait Game {
    type State: PartialEq;

    fn title(&self) -> &str;
    fn start(&self) -> Self::State;
    fn moves(&self) -> usize;

    /// The state after a move, and the promises that the move broke. A move that is impossible here changes nothing.
    fn play(&self, state: &Self::State, number: usize) -> (Self::State, Vec<Broken>);

    /// The same number for states that no player can tell apart, and only for those.
    fn key(&self, state: &Self::State) -> u128;

    /// The move, in words.
    fn tell(&self, number: usize) -> String;
}
