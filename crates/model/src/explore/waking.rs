//! The game of waking: operations, and looks by the stirred clients, in any order.
//!
//! Once every stirred client has looked, no claim may wait that could be held: otherwise `watch` named the wrong
//! thing. Sessions live for ever here, until they are closed: a close, too, is a departure of many claims.

use std::string::String;
use std::vec::Vec;
use std::{format, vec};

use super::crowd::{Crowd, Knowledge};
use super::game::{Broken, Game};
use super::key::Key;
use super::rule::{resizes, tell};
use super::stage::{Stage, call_session};
use crate::{ClaimId, Join, Kind, Leave, Op, Patience, SessionId, Watch};

const STUCK: Broken = Broken {
    name: "nobody_stuck",
    sentence: "every stirred client has looked, and a claim waits that could be held",
};
const ONE_WAKE: Broken =
    Broken { name: "one_wake", sentence: "one departure from a mutex's line woke more than one waiter" };
const TOLD_IN_VAIN: Broken = Broken {
    name: "told_is_held",
    sentence: "a client was told that it holds, but the line does not say so",
};

/// A stage, and all moves on it.
#[derive(Debug)]
pub(super) struct Waking {
    stage: Stage,
    moves: Vec<Move>,
}

#[derive(Clone, Debug)]
enum Move {
    /// Something happens at the store.
    Op(Op<()>),
    /// A session closes, and its client opens another.
    Restart(SessionId),
    /// A client that was stirred looks.
    Look(SessionId),
}

impl Waking {
    pub(super) fn new(stage: Stage) -> Self {
        let sessions = &stage.sessions;
        let mut moves: Vec<_> = sessions.iter().map(|session| Move::Look(*session)).collect();
        moves.extend(sessions.iter().map(|session| Move::Restart(*session)));
        moves.extend(stage.claims.iter().flat_map(|id| stands(&stage, *id)).map(Move::Op));
        moves.extend(resizes(&stage.sizes).into_iter().map(Move::Op));
        Self { stage, moves }
    }
}

impl Game for Waking {
    type State = Crowd;

    fn title(&self) -> &str {
        self.stage.title
    }

    fn start(&self) -> Crowd {
        let mut crowd = Crowd::default();
        for session in &self.stage.sessions {
            crowd.act(Op::Open { session: *session, ttl: self.stage.ttl });
        }
        crowd
    }

    fn moves(&self) -> usize {
        self.moves.len()
    }

    fn play(&self, before: &Crowd, number: usize) -> (Crowd, Vec<Broken>) {
        let mut crowd = before.clone();
        let fired = match &self.moves[number] {
            Move::Op(op) => crowd.act(op.clone()),
            Move::Restart(session) => self.restart(&mut crowd, *session),
            Move::Look(session) => {
                crowd.look(*session);
                Vec::new()
            }
        };
        let too_many = self.stage.kind == Kind::Mutex && fired.iter().any(|woken| *woken > 1);
        let mut broken = broken(&crowd);
        broken.extend(too_many.then_some(ONE_WAKE));
        (crowd, broken)
    }

    fn key(&self, crowd: &Crowd) -> u128 {
        let mut key = Key::default();
        key.push_world(&self.stage, &crowd.world);
        for session in &self.stage.sessions {
            key.push(usize::from(crowd.stirred.contains(session)), 2);
        }
        for id in &self.stage.claims {
            let code = match crowd.known.get(id) {
                None => 0,
                Some(Knowledge::Stale) => 1,
                Some(Knowledge::Held) => 2,
                Some(Knowledge::Waits(Watch::Line)) => 3,
                Some(Knowledge::Waits(Watch::Claim(watched))) => 4 + self.stage.claim_code(*watched),
            };
            key.push(code, 4 + self.stage.claims.len());
        }
        key.get()
    }

    fn tell(&self, number: usize) -> String {
        match &self.moves[number] {
            Move::Op(op) => tell(op),
            Move::Restart(session) => format!("session {} closes, and another opens", call_session(*session)),
            Move::Look(session) => format!("the client of session {} looks", call_session(*session)),
        }
    }
}

impl Waking {
    fn restart(&self, crowd: &mut Crowd, session: SessionId) -> Vec<usize> {
        let fired = crowd.act(Op::Close(session));
        crowd.stirred.remove(&session); // the new session has nothing to look at
        crowd.act(Op::Open { session, ttl: self.stage.ttl });
        fired
    }
}

/// The names of the checks.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    [STUCK, ONE_WAKE, TOLD_IN_VAIN].map(|check| check.name).into_iter()
}

/// What is wrong with a crowd, whatever the last move was.
pub(crate) fn broken(crowd: &Crowd) -> Vec<Broken> {
    let mut broken = Vec::new();
    let Some(line) = crowd.world.line(&()) else {
        return broken;
    };
    let (mut sum, mut stuck, mut in_vain) = (0, false, false);
    for claim in &line.claims {
        sum += u64::from(claim.weight.get());
        let told = crowd.known.get(&claim.id) == Some(&Knowledge::Held);
        stuck |= !told && sum <= line.capacity.get().into();
        in_vain |= told && claim.token.is_none();
    }
    broken.extend((stuck && crowd.stirred.is_empty()).then_some(STUCK));
    broken.extend(in_vain.then_some(TOLD_IN_VAIN));
    broken
}

/// All operations on a claim.
fn stands(stage: &Stage, id: ClaimId) -> Vec<Op<()>> {
    let (name, kind, capacity, patience) = ((), stage.kind, stage.declared(id), Patience::Wait);
    let mut ops = vec![Op::Leave { name, id, how: Leave::Done }];
    for weight in stage.weights.iter().copied() {
        ops.push(Op::Join(Join { name, id, kind, weight, capacity, patience }));
        ops.push(Op::Lighten { name, id, weight });
    }
    ops
}
