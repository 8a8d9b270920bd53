//! The game of the rule: every possible operation on a stage, whether it makes sense or not.

use std::string::String;
use std::vec::Vec;
use std::{format, vec};

use super::check;
use super::game::{Broken, Game};
use super::key::Key;
use super::moment::Moment;
use super::stage::{Stage, call, call_session};
use super::witness::Witness;
use crate::{ClaimId, Join, Kind, Leave, Op, Patience, SessionId, Weight, World};

/// A stage, and all operations on it.
#[derive(Debug)]
pub(super) struct Rule {
    stage: Stage,
    ops: Vec<Op<()>>,
}

impl Rule {
    pub(super) fn new(stage: Stage) -> Self {
        let mut ops = vec![Op::Pass(1)];
        ops.extend(stage.sessions.iter().flat_map(|session| lives(*session, stage.ttl)));
        ops.extend(stage.claims.iter().flat_map(|id| stands(&stage, *id)));
        ops.extend(resizes(&stage.sizes));
        Self { stage, ops }
    }
}

impl Game for Rule {
    type State = (World<()>, Witness);

    fn title(&self) -> &str {
        self.stage.title
    }

    fn start(&self) -> Self::State {
        Default::default()
    }

    fn moves(&self) -> usize {
        self.ops.len()
    }

    fn play(&self, (before, knew): &Self::State, number: usize) -> (Self::State, Vec<Broken>) {
        let op = &self.ops[number];
        let (mut after, mut knows) = (before.clone(), *knew);
        let events = after.step(op.clone());
        knows.note(op, &events);
        let moment = Moment { op, before, after: &after, events: &events, knew, knows: &knows };
        let broken = check::broken(&moment);
        ((after, knows), broken)
    }

    fn key(&self, (world, witness): &Self::State) -> u128 {
        let mut key = Key::default();
        key.push_world(&self.stage, world);
        key.push_witness(&self.stage, world, witness);
        key.get()
    }

    fn tell(&self, number: usize) -> String {
        tell(&self.ops[number])
    }
}

/// All operations on a session.
fn lives(session: SessionId, ttl: u64) -> [Op<()>; 3] {
    [Op::Open { session, ttl }, Op::Renew(session), Op::Close(session)]
}

/// All operations on a claim.
fn stands(stage: &Stage, id: ClaimId) -> Vec<Op<()>> {
    let name = ();
    let (capacity, kind) = (stage.declared(id), stage.kind);
    let other = if kind == Kind::Mutex { Kind::RwLock } else { Kind::Mutex };
    let join = |kind, weight, patience| Op::Join(Join { name, id, kind, weight, capacity, patience });
    let mut ops = vec![join(other, Weight::ONE, Patience::Wait), Op::Look { name, id }];
    for weight in &stage.weights {
        ops.extend([Patience::Wait, Patience::Now].map(|patience| join(kind, *weight, patience)));
        ops.push(Op::Lighten { name, id, weight: *weight });
    }
    ops.extend([Leave::Done, Leave::Void].map(|how| Op::Leave { name, id, how }));
    ops
}

/// Every change of capacity, from the current one and from wrong ones.
pub(super) fn resizes(sizes: &[Weight]) -> Vec<Op<()>> {
    let pairs = sizes.iter().flat_map(|from| sizes.iter().map(move |to| (*from, *to)));
    pairs.filter(|(from, to)| from != to).map(|(from, to)| Op::Resize { name: (), from, to }).collect()
}

/// An operation, in words.
pub(super) fn tell(op: &Op<()>) -> String {
    match op {
        Op::Open { session, ttl } => format!("session {} opens, with a ttl of {ttl}", call_session(*session)),
        Op::Renew(session) => format!("session {} renews", call_session(*session)),
        Op::Close(session) => format!("session {} closes", call_session(*session)),
        Op::Pass(by) => format!("time passes: {by}"),
        Op::Lapse { ids, .. } => format!("the time of {ids:?} is over"),
        Op::Join(join) => {
            let patience = if join.patience == Patience::Now { "now or never" } else { "with patience" };
            format!(
                "{} joins a {} for {} of {}, {patience}",
                call(join.id),
                join.kind,
                join.weight,
                join.capacity
            )
        }
        Op::Look { id, .. } => format!("{} looks", call(*id)),
        Op::Leave { id, how: Leave::Done, .. } => format!("{} leaves, or is evicted", call(*id)),
        Op::Leave { id, how: Leave::Void, .. } => format!("{} leaves, its join void", call(*id)),
        Op::Lighten { id, weight, .. } => format!("{} is lightened to {weight}", call(*id)),
        Op::Resize { from, to, .. } => format!("the capacity is changed from {from} to {to}"),
    }
}
