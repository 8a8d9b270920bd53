//! Random histories on long lines, too long to explore exhaustively: the same checks, many claims.

use std::vec::Vec;

use proptest::prelude::*;
use proptest::test_runner::RngAlgorithm;

use crate::explore::crowd::{Crowd, shown};
use crate::explore::moment::Moment;
use crate::explore::witness::{SESSIONS, Witness};
use crate::explore::{check, waking};
use crate::{
    ClaimId, Join, Kind, Leave, Line, Op, Patience, Place, SessionId, ShownLine, Weight, World, place,
};

/// The largest capacity of a semaphore in these histories, and the largest weight of a claim.
const MOST: u32 = 12;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_promise_holds(kind in kinds(), moves in prop::collection::vec(moves(), 400)) {
        let (mut world, mut knows) = (World::new(), Witness::default());
        for one in moves {
            let op = one.op((), kind, &world);
            let (before, knew) = (world.clone(), knows);
            let events = world.step(op.clone());
            knows.note(&op, &events);
            let moment =
                Moment { op: &op, before: &before, after: &world, events: &events, knew: &knew, knows: &knows };
            let broken = check::broken(&moment);
            prop_assert!(broken.is_empty(), "{broken:?} by {op:?} on {before:?}");
        }
    }

    #[test]
    fn a_crowd_is_never_stuck(kind in kinds(), moves in prop::collection::vec(moves(), 400)) {
        let mut crowd = Crowd::default();
        for one in moves {
            match one {
                Move { action: Action::Pass, session, to: 1..=6, .. } => crowd.look(session),
                Move { action: Action::Pass, .. } => everyone_looks(&mut crowd),
                _ => _ = crowd.act(one.op((), kind, &crowd.world)),
            }
            prop_assert!(waking::broken(&crowd).is_empty(), "{crowd:?}");
        }
        everyone_looks(&mut crowd);
        prop_assert!(waking::broken(&crowd).is_empty(), "{crowd:?}");
    }

    #[test]
    fn without_a_shrink_the_line_alone_tells_who_holds(
        kind in kinds(),
        moves in prop::collection::vec(moves(), 200),
    ) {
        let mut world = World::new();
        for one in moves {
            world.step(one.op((), kind, &world));
            let Some(line) = world.line(&()).filter(|line| line.shrunk_at.is_none()) else { continue };
            let shown = without_marks(line);
            for claim in &line.claims {
                let expected = if claim.token.is_some() { Place::Held } else { Place::Waiting };
                prop_assert_eq!(place(&shown, claim.id), expected);
            }
        }
    }

    #[test]
    fn a_name_lives_as_if_it_were_alone(moves in prop::collection::vec((0..3_usize, moves()), 300)) {
        let kinds = [Kind::Mutex, Kind::RwLock, Kind::Semaphore];
        let mut together = World::new();
        let mut alone = [World::new(), World::new(), World::new()];
        for (name, one) in moves {
            together.step(one.op(name, kinds[name], &together));
            for (other, world) in alone.iter_mut().enumerate() {
                if other == name || !one.action.is_about_a_line() {
                    world.step(one.op(other, kinds[other], world));
                }
                prop_assert_eq!(together.line(&other).map(stands), world.line(&other).map(stands));
            }
        }
    }
}

/// Proptest's usual generator is slow where dependencies are not optimised: most of the time was its own.
fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        rng_algorithm: RngAlgorithm::XorShift,
        ..ProptestConfig::with_cases(200)
    }
}

/// One random move; what it means depends on the kind of line.
#[derive(Clone, Copy, Debug)]
struct Move {
    action: Action,
    session: SessionId,
    number: u64,
    weight: u32,
    to: u32,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Open,
    Close,
    Pass,
    Join(Patience),
    Leave(Leave),
    Lighten,
    Resize,
}

impl Action {
    fn is_about_a_line(self) -> bool {
        !matches!(self, Self::Open | Self::Close | Self::Pass)
    }
}

impl Move {
    fn op<N: Ord + Clone>(self, name: N, kind: Kind, world: &World<N>) -> Op<N> {
        let id = ClaimId { session: self.session, number: self.number };
        let weight = |n: u32| match kind {
            Kind::RwLock if n > MOST / 2 => Weight::MAX,
            Kind::Semaphore => Weight::new(n).expect("at least one"),
            _ => Weight::ONE,
        };
        let capacity = match kind {
            Kind::Mutex => Weight::ONE,
            Kind::RwLock => Weight::MAX,
            Kind::Semaphore => weight(MOST),
        };
        match self.action {
            Action::Open => Op::Open { session: self.session, ttl: 4 },
            Action::Close => Op::Close(self.session),
            Action::Pass => Op::Pass(1),
            Action::Join(patience) => {
                Op::Join(Join { name, id, kind, weight: weight(self.weight), capacity, patience })
            }
            Action::Leave(how) => Op::Leave { name, id, how },
            Action::Lighten => Op::Lighten { name, id, weight: weight(self.weight) },
            Action::Resize => {
                let now = world.line(&name).map_or(capacity, |line| line.capacity);
                let from = if self.number == 1 { weight(self.weight) } else { now }; // sometimes a wrong one
                Op::Resize { name, from, to: weight(self.to) }
            }
        }
    }
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Mutex), Just(Kind::RwLock), Just(Kind::Semaphore)]
}

fn moves() -> impl Strategy<Value = Move> {
    let action = prop_oneof![
        8 => Just(Action::Open),
        1 => Just(Action::Close),
        4 => Just(Action::Pass),
        40 => Just(Action::Join(Patience::Wait)),
        8 => Just(Action::Join(Patience::Now)),
        12 => Just(Action::Leave(Leave::Done)),
        2 => Just(Action::Leave(Leave::Void)),
        6 => Just(Action::Lighten),
        12 => Just(Action::Resize),
    ];
    let sessions = (1..=SESSIONS as u64).prop_map(SessionId::from_bits);
    let weights = prop_oneof![3 => 1..=3_u32, 1 => 1..=MOST]; // mostly light: a crowd
    (action, sessions, 1..40_u64, weights, 1..=MOST).prop_map(|(action, session, number, weight, to)| Move {
        action,
        session,
        number,
        weight,
        to,
    })
}

fn everyone_looks(crowd: &mut Crowd) {
    while let Some(session) = crowd.stirred.first().copied() {
        crowd.look(session);
    }
}

/// The line as shown by a store that keeps no mark of granted claims.
fn without_marks(line: &Line) -> ShownLine {
    let mut shown = shown(line);
    shown.claims.iter_mut().for_each(|claim| claim.token = None);
    shown
}

/// The capacity, and each claim with its weight and whether it holds.
fn stands(line: &Line) -> (Weight, Vec<(ClaimId, Weight, bool)>) {
    let each = line.claims.iter().map(|claim| (claim.id, claim.weight, claim.token.is_some()));
    (line.capacity, each.collect())
}
