//! The orders in which requests that were made at the same time can have taken effect.
//!
//! Joins of a name that are let in keep the order in which they came; all others can come anywhere between them, and so can
//! joins of other names: the line of one may have needed a second transaction. Time may have passed before any of them.

use std::collections::HashSet;

use tidelock_core::backend::Place;
use tidelock_core::{Error, ErrorKind, Name, Result};
use tidelock_model::{Event, Join, Left, Op, Refusal, World};

use crate::request::Outcome;

/// A request, and the store's answer.
pub(super) struct Done {
    pub(super) op: Op<Name>,
    pub(super) answer: Result<Outcome>,
}

/// The name that a request is about.
pub(super) fn name(op: &Op<Name>) -> &Name {
    match op {
        Op::Join(Join { name, .. })
        | Op::Leave { name, .. }
        | Op::Lighten { name, .. }
        | Op::Resize { name, .. } => name,
        other => panic!("{other:?} is about no name"),
    }
}

/// The worlds that give these answers. If `by` is set, so much time has passed: between any two of the requests if
/// `has_jumped`, otherwise behind the last one.
pub(super) fn worlds(
    before: &World<Name>,
    done: &[Done],
    by: Option<u64>,
    has_jumped: bool,
    is_lenient: impl Fn(&Name) -> bool,
) -> Vec<World<Name>> {
    let (in_order, others): (Vec<&Done>, Vec<&Done>) = done.iter().partition(|done| is_let_in(done));
    let mut search =
        Search { in_order, others, has_jumped, is_lenient, seen: HashSet::new(), found: Vec::new() };
    search.go_on(Node { world: before.clone(), in_order: 0, others: 0, left: by });
    search.found
}

/// Whether it is a join that keeps its order. One that was refused may have been asked again behind the others.
fn is_let_in(done: &Done) -> bool {
    let is_in = matches!(done.answer, Ok(Outcome::Joined(Place::Held { .. } | Place::Waiting { .. })));
    matches!(done.op, Op::Join(_)) && is_in
}

struct Search<'a, F> {
    in_order: Vec<&'a Done>,
    others: Vec<&'a Done>,
    has_jumped: bool,
    is_lenient: F,
    seen: HashSet<Node>,
    found: Vec<World<Name>>,
}

/// How far an order has got.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Node {
    world: World<Name>,
    /// Which of those in order, and which of the others, are done: a bit for each.
    in_order: u32,
    others: u32,
    /// The time that still has to pass.
    left: Option<u64>,
}

impl<F: Fn(&Name) -> bool> Search<'_, F> {
    fn go_on(&mut self, node: Node) {
        if !self.seen.insert(node.clone()) {
            return;
        }
        let is_done = node.in_order.count_ones() as usize == self.in_order.len()
            && node.others.count_ones() as usize == self.others.len();
        if let Some(by) = node.left.filter(|_| self.has_jumped || is_done) {
            let mut next = Node { left: None, ..node.clone() };
            next.world.step(Op::Pass(by));
            self.go_on(next);
        }
        if is_done && node.left.is_none() && !self.found.contains(&node.world) {
            self.found.push(node.world);
            return;
        }
        for at in 0..self.in_order.len() {
            if self.is_next(&node, at)
                && let Some(world) = self.after(&node.world, self.in_order[at])
            {
                self.go_on(Node { world, in_order: node.in_order | 1 << at, ..node.clone() });
            }
        }
        for at in (0..self.others.len()).filter(|at| node.others & 1 << at == 0) {
            if let Some(world) = self.after(&node.world, self.others[at]) {
                self.go_on(Node { world, others: node.others | 1 << at, ..node.clone() });
            }
        }
    }

    /// Whether all joins of its name are done that came before it, and it is not.
    fn is_next(&self, node: &Node, at: usize) -> bool {
        let is_done = |at: usize| node.in_order & 1 << at != 0;
        let is_before = |before: &usize| name(&self.in_order[*before].op) == name(&self.in_order[at].op);
        !is_done(at) && (0..at).filter(is_before).all(is_done)
    }

    fn after(&self, world: &World<Name>, done: &Done) -> Option<World<Name>> {
        let mut world = world.clone();
        let is_over = matches!(done.op, Op::Leave { id, .. } if world.session(id.session).is_none());
        let event = world.step(done.op.clone()).remove(0);
        is_right(&event, &done.answer, is_over, (self.is_lenient)(name(&done.op))).then_some(world)
    }
}

/// Whether the store may answer so. `is_lenient`: a claim ahead may be dead or leave at the same time, and then a claim
/// that the rule lets in is still told to wait; the line that is compared afterwards shows that it holds.
fn is_right(event: &Event<Name>, answer: &Result<Outcome>, is_over: bool, is_lenient: bool) -> bool {
    match (event, answer) {
        (Event::Held { .. }, Ok(Outcome::Joined(Place::Held { .. })))
        | (Event::Waiting { .. }, Ok(Outcome::Joined(Place::Waiting { .. })))
        | (Event::Refused { why: Refusal::Busy, .. }, Ok(Outcome::Joined(Place::Refused)))
        | (Event::Refused { why: Refusal::Void, .. }, Ok(Outcome::Joined(Place::Gone)))
        // Its client learns that from the next renewal; until then its claim is dead in line.
        | (Event::Refused { why: Refusal::SessionOver, .. }, _)
        | (
            Event::Lightened { .. } | Event::Resized { .. } | Event::Refused { why: Refusal::NoLine, .. },
            Ok(Outcome::Done),
        ) => true,
        (Event::Held { .. }, Ok(Outcome::Joined(Place::Waiting { .. }))) => is_lenient,
        (Event::Left { left, .. }, Ok(Outcome::Left(said))) => {
            left == said || is_over || is_lenient && *left == Left::Held && *said == Left::Waiting
        }
        (Event::Absent { .. }, Err(error)) => error.kind() == ErrorKind::Conflict,
        (Event::Refused { why, .. }, Err(error)) => Error::of_refusal(*why).is_some_and(|wanted| {
            wanted.kind() == error.kind() && wanted.to_string() == error.to_string()
        }),
        _ => false,
    }
}
