//! The setting of a game: the kind of line, its claims and their sessions, the possible weights and sizes.

use std::format;
use std::string::String;
use std::vec::Vec;

use crate::{ClaimId, Kind, SessionId, Weight};

/// A small line and all claims that may ever stand in it.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub(super) title: &'static str,
    pub(super) kind: Kind,
    /// Sessions a, b and c.
    pub(super) sessions: Vec<SessionId>,
    /// Their claims.
    pub(super) claims: Vec<ClaimId>,
    /// The possible weights of a claim, lightest first.
    pub(super) weights: Vec<Weight>,
    /// The possible capacities. Most claims declare the first one.
    pub(super) sizes: Vec<Weight>,
    /// How many ticks a session lives.
    pub(super) ttl: u64,
}

impl Stage {
    fn new(title: &'static str, kind: Kind, weights: &[u32], sizes: &[u32]) -> Self {
        let weight = |n: &u32| Weight::new(*n).expect("weights from 1 to MAX");
        let (weights, sizes) = (weights.iter().map(weight).collect(), sizes.iter().map(weight).collect());
        let sessions = [1, 2, 3].map(SessionId::from_bits);
        let id = |(session, number): (usize, u64)| ClaimId { session: sessions[session], number };
        let claims = [(0, 1), (0, 2), (1, 1), (2, 1)].map(id).to_vec();
        Self { title, kind, sessions: sessions.to_vec(), claims, weights, sizes, ttl: 1 }
    }

    fn living(self, ttl: u64) -> Self {
        Self { ttl, ..self }
    }

    /// The capacity that this claim's join declares: the last claim's program was deployed with another size.
    pub(super) fn declared(&self, id: ClaimId) -> Weight {
        let odd = self.claims.last() == Some(&id);
        let size = if odd { self.sizes.last() } else { self.sizes.first() };
        *size.expect("a stage has a size")
    }

    pub(super) fn claim_code(&self, id: ClaimId) -> usize {
        self.claims.iter().position(|other| *other == id).expect("a claim of the stage")
    }

    pub(super) fn weight_code(&self, weight: Weight) -> usize {
        self.weights.iter().position(|other| *other == weight).expect("a weight of the stage")
    }

    pub(super) fn size_code(&self, size: Weight) -> usize {
        self.sizes.iter().position(|other| *other == size).expect("a size of the stage")
    }
}

/// For each kind of line: the stage for the game of the rule, and the stage for the game of waking.
pub(super) fn all(deep: bool) -> [(Stage, Stage); 4] {
    let two = semaphore("semaphore of 2", &[1, 2], &[2, 1]);
    let three = |weights, sizes| semaphore("semaphore of 3", weights, sizes);
    let threes = if deep {
        (three(&[1, 2, 3], &[3, 2, 4]).living(2), three(&[1, 2, 3], &[3, 2]))
    } else {
        (three(&[1, 3], &[3, 2]), three(&[1], &[3, 2, 1]))
    };
    [
        (mutex().living(2), mutex()),
        (read_write().living(2), read_write()),
        threes,
        (two.clone().living(2), two),
    ]
}

fn mutex() -> Stage {
    Stage::new("mutex", Kind::Mutex, &[1], &[1])
}

fn read_write() -> Stage {
    Stage::new("read-write", Kind::RwLock, &[1, Weight::MAX.get()], &[Weight::MAX.get()])
}

fn semaphore(title: &'static str, weights: &[u32], sizes: &[u32]) -> Stage {
    Stage::new(title, Kind::Semaphore, weights, sizes)
}

/// The name of a claim in histories: `a1` is the first of session a.
pub(super) fn call(id: ClaimId) -> String {
    format!("{}{}", call_session(id.session), id.number)
}

pub(super) fn call_session(id: SessionId) -> char {
    char::from(b'a' + (id.get() - 1) as u8)
}
