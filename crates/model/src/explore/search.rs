//! Breadth-first search, so the history of a broken promise is a shortest one. States are remembered by their keys,
//! each with the move that first led to it. The states themselves are kept for one depth only.

use core::fmt;
use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashSet;
use std::string::String;
use std::vec::Vec;
use std::{mem, vec};

use super::game::{Broken, Game};

/// A broken promise, and the moves that led to it.
pub(super) struct Defeat {
    pub(super) broken: Vec<Broken>,
    title: String,
    history: Vec<String>,
}

impl fmt::Display for Defeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Broken { name, sentence } in &self.broken {
            writeln!(f, "broken: {name}: {sentence}")?;
        }
        writeln!(f, "on a {} line, after", self.title)?;
        self.history.iter().try_for_each(|told| writeln!(f, "  {told}"))
    }
}

/// Visits every state that moves lead to, and returns how many there are.
pub(super) fn search<G: Game>(game: &G) -> Result<usize, Defeat> {
    let start = game.start();
    let mut seen: HashSet<u128, BuildHasherDefault<Mix>> = HashSet::default();
    seen.insert(game.key(&start));
    let mut trail: Vec<(usize, usize)> = vec![(0, 0)]; // for each state: from which one, by which move
    let mut depth = vec![(0, start)];
    while !depth.is_empty() {
        for (from, state) in mem::take(&mut depth) {
            for number in 0..game.moves() {
                let (after, broken) = game.play(&state, number);
                if !broken.is_empty() {
                    trail.push((from, number));
                    return Err(Defeat {
                        broken,
                        title: game.title().into(),
                        history: history(game, &trail),
                    });
                }
                if after != state && seen.insert(game.key(&after)) {
                    depth.push((trail.len(), after));
                    trail.push((from, number));
                }
            }
        }
    }
    Ok(seen.len())
}

/// The moves that led to the last state of the trail, in words.
fn history<G: Game>(game: &G, trail: &[(usize, usize)]) -> Vec<String> {
    let mut told = Vec::new();
    let mut at = trail.len() - 1;
    while at > 0 {
        let (from, number) = trail[at];
        told.push(game.tell(number));
        at = from;
    }
    told.reverse();
    told
}

/// Keys are dense numbers: two multiplications spread them well enough.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u128(u128::from(*byte));
        }
    }

    fn write_u128(&mut self, key: u128) {
        let halves = (key as u64) ^ ((key >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let spread = u128::from(halves ^ self.0) * 0xd6e8_feb8_6659_fd93;
        self.0 = (spread as u64) ^ ((spread >> 64) as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
