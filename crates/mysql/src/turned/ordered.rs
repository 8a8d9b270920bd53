//! The orders in which requests that were made at the same time can have taken effect.
//!
//! Joins keep the order in which they came; leaves and changes can come anywhere between them. Time may have passed
//! before any of them.

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
    let first_cut = if has_jumped { 0 } else { done.len() };
    let cuts: Vec<usize> = if by.is_some() { (first_cut..=done.len()).collect() } else { vec![done.len()] };
    let mut found: Vec<World<Name>> = Vec::new();
    for order in orders(done) {
        for cut in &cuts {
            let world = play(before.clone(), &order, *cut, by, &is_lenient);
            found.extend(world.filter(|world| !found.contains(world)));
        }
    }
    found
}

fn orders(done: &[Done]) -> Vec<Vec<&Done>> {
    let (joins, others): (Vec<&Done>, Vec<&Done>) =
        done.iter().partition(|done| matches!(done.op, Op::Join(_)));
    let mut orders = vec![joins];
    for other in others {
        let mut longer = Vec::new();
        for order in &orders {
            for at in 0..=order.len() {
                let mut order = order.clone();
                order.insert(at, other);
                longer.push(order);
            }
        }
        orders = longer;
    }
    orders
}

fn play(
    mut world: World<Name>,
    order: &[&Done],
    cut: usize,
    by: Option<u64>,
    is_lenient: &impl Fn(&Name) -> bool,
) -> Option<World<Name>> {
    for (at, done) in order.iter().enumerate() {
        if at == cut {
            by.map(|by| world.step(Op::Pass(by)));
        }
        let is_over = matches!(done.op, Op::Leave { id, .. } if world.session(id.session).is_none());
        let event = world.step(done.op.clone()).remove(0);
        if !is_right(&event, &done.answer, is_over, is_lenient(name(&done.op))) {
            return None;
        }
    }
    if cut == order.len() {
        by.map(|by| world.step(Op::Pass(by)));
    }
    Some(world)
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
