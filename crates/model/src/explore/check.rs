//! The promises of the rule. Each one is a named check that examines every step of every history.
//!
//! The order matters only when one fault breaks several: the first check that fails should be the most specific.

use std::vec::Vec;

use super::game::Broken;
use super::moment::Moment;
use crate::{Claim, Event, Kind, Left, Op, Patience, Session};

/// A check: its name, the message when it fails, and whether the promise holds.
type Check = (&'static str, &'static str, fn(&Moment<'_>) -> bool);

#[rustfmt::skip] // a table
const CHECKS: [Check; 18] = [
    ("exclusion", "a claim was granted, and the held claims now exceed the capacity", exclusion),
    ("order", "a claim is held, or stands, ahead of one that came before it", order),
    ("sticky", "a held claim is no longer held, or not by the same token", sticky),
    ("token_growth", "a grant's token is not greater than the token of every earlier grant", token_growth),
    ("nobody_waits_who_fits", "a claim waits although it and all claims ahead of it fit", nobody_waits_who_fits),
    ("nobody_stranded", "a claim waits that is heavier than the whole capacity", nobody_stranded),
    ("session_end", "a session or one of its claims does not end when its lifetime does", session_end),
    ("void_join", "a join came alive after its own void leave", void_join),
    ("refusal", "a refused operation changed something", refusal),
    ("needless_refusal", "an operation was refused without a reason", needless_refusal),
    ("patience", "a join without patience waits", patience),
    ("exact_leave", "a claim that left still stands, or its leave did not say how it stood", exact_leave),
    ("neighbours", "the operation removed, added or changed a claim that it does not concern", neighbours),
    ("same_answer", "a look or a repeated join changed something, or gave a wrong answer", same_answer),
    ("lighten", "a lightened claim does not have the requested weight", lighten),
    ("line_stays", "a line's kind or capacity changed other than by its resize", line_stays),
    ("kind", "a claim joined a name that is in use as another kind", kind),
    ("nothing_left", "an empty line is kept", nothing_left),
];

/// Every promise that did not hold.
pub(crate) fn broken(moment: &Moment<'_>) -> Vec<Broken> {
    let failed = CHECKS.iter().filter(|(_, _, holds)| !holds(moment));
    failed.map(|(name, sentence, _)| Broken { name, sentence }).collect()
}

/// The names of the checks.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|(name, _, _)| *name)
}

fn exclusion(moment: &Moment<'_>) -> bool {
    let held = moment.stand().iter().filter(|claim| claim.token.is_some());
    moment.granted().next().is_none() || sum(held) <= capacity(moment)
}

fn order(moment: &Moment<'_>) -> bool {
    let all = moment.stand();
    let one_front = all.is_sorted_by_key(|claim| claim.token.is_none());
    let as_they_came = all.is_sorted_by(|one, next| one.order < next.order);
    let stayed: Vec<_> =
        moment.stood().iter().filter(|claim| moment.is(claim.id).is_some()).map(|c| c.id).collect();
    one_front && as_they_came && all.iter().map(|claim| claim.id).take(stayed.len()).eq(stayed)
}

fn sticky(moment: &Moment<'_>) -> bool {
    let held = moment.stood().iter().filter(|claim| claim.token.is_some());
    held.filter_map(|claim| Some((claim, moment.is(claim.id)?))).all(|(was, is)| was.token == is.token)
}

fn token_growth(moment: &Moment<'_>) -> bool {
    let mut greatest = moment.knew.greatest();
    moment.granted().filter_map(|claim| claim.token).all(|token| {
        let older = std::mem::replace(&mut greatest, token.store_order());
        older < token.store_order()
    })
}

fn nobody_waits_who_fits(moment: &Moment<'_>) -> bool {
    let all = moment.stand();
    match all.iter().position(|claim| claim.token.is_none()) {
        Some(first) => sum(&all[..=first]) > capacity(moment),
        None => true,
    }
}

fn nobody_stranded(moment: &Moment<'_>) -> bool {
    let heavier = |claim: &Claim| u64::from(claim.weight.get()) > capacity(moment);
    !moment.stand().iter().any(|claim| claim.token.is_none() && heavier(claim))
}

fn session_end(moment: &Moment<'_>) -> bool {
    let lives = |id| moment.knows.until(id).is_some();
    let on_time = |(id, session): (_, &Session<()>)| moment.knows.until(id) == Some(session.until());
    moment.after.sessions().all(on_time) && moment.stand().iter().all(|claim| lives(claim.id.session))
}

fn void_join(moment: &Moment<'_>) -> bool {
    !moment.stand().iter().any(|claim| moment.knows.is_void(claim.id))
}

fn refusal(moment: &Moment<'_>) -> bool {
    moment.refusal().is_none() || moment.nothing_changed() && moment.events.len() == 1
}

fn needless_refusal(moment: &Moment<'_>) -> bool {
    moment.refusal().is_none() || !may(moment)
}

/// Whether the operation is allowed.
fn may(moment: &Moment<'_>) -> bool {
    let line = moment.old_line();
    match moment.op {
        Op::Join(join) => {
            let capacity = line.map_or(join.capacity, |line| line.capacity);
            let fits = sum(moment.stood()) + u64::from(join.weight.get()) <= capacity.get().into();
            let known = moment.knew.until(join.id.session).is_some() && !moment.knew.is_void(join.id);
            let kind = line.is_none_or(|line| line.kind == join.kind);
            known && kind && join.weight <= capacity && (join.patience == Patience::Wait || fits)
        }
        Op::Resize { from, to, .. } => line.is_some_and(|line| {
            let nobody_heavier = !line.claims.iter().any(|claim| claim.token.is_none() && claim.weight > *to);
            line.kind == Kind::Semaphore && line.capacity == *from && nobody_heavier
        }),
        Op::Lighten { id, weight, .. } => moment.was(*id).is_some_and(|claim| *weight <= claim.weight),
        _ => true,
    }
}

fn patience(moment: &Moment<'_>) -> bool {
    let Op::Join(join) = moment.op else { return true };
    let came = moment.is(join.id).filter(|_| moment.was(join.id).is_none());
    join.patience == Patience::Wait || came.is_none_or(|claim| claim.token.is_some())
}

fn exact_leave(moment: &Moment<'_>) -> bool {
    let Op::Leave { id, .. } = moment.op else {
        return true;
    };
    let stood = moment.was(*id).map_or(Left::Absent, |claim| match claim.token {
        Some(_) => Left::Held,
        None => Left::Waiting,
    });
    let told = matches!(moment.events.first(), Some(Event::Left { left, .. }) if *left == stood);
    told && moment.is(*id).is_none()
}

fn neighbours(moment: &Moment<'_>) -> bool {
    let may_change = |claim: &Claim| matches!(moment.op, Op::Lighten { id, .. } if *id == claim.id);
    let may_come = |claim: &Claim| matches!(moment.op, Op::Join(join) if join.id == claim.id);
    let stays = |was: &Claim| match moment.is(was.id) {
        Some(is) => was.order == is.order && (was.weight == is.weight || may_change(was)),
        None => moment.takes_out(was),
    };
    let new = |claim: &Claim| moment.was(claim.id).is_none();
    moment.stood().iter().all(stays) && moment.stand().iter().filter(|claim| new(claim)).all(may_come)
}

fn same_answer(moment: &Moment<'_>) -> bool {
    let id = match moment.op {
        Op::Look { id, .. } => *id,
        Op::Join(join) if moment.was(join.id).is_some() => join.id,
        _ => return true,
    };
    let name = ();
    let stands = match moment.was(id).map(|claim| claim.token) {
        Some(Some(token)) => Event::Held { name, id, token },
        Some(None) => Event::Waiting { name, id },
        None => Event::Absent { name, id },
    };
    moment.nothing_changed() && moment.events == [stands]
}

fn lighten(moment: &Moment<'_>) -> bool {
    let Op::Lighten { id, weight, .. } = moment.op else {
        return true;
    };
    moment.refusal().is_some() || moment.is(*id).is_none_or(|claim| claim.weight == *weight)
}

fn line_stays(moment: &Moment<'_>) -> bool {
    let (Some(old), Some(new)) = (moment.old_line(), moment.new_line()) else {
        return true;
    };
    let asked = match moment.op {
        Op::Resize { to, .. } if moment.refusal().is_none() => *to,
        _ => old.capacity,
    };
    old.kind == new.kind && new.capacity == asked
}

fn kind(moment: &Moment<'_>) -> bool {
    let Op::Join(join) = moment.op else { return true };
    let came = moment.was(join.id).is_none() && moment.is(join.id).is_some();
    !came || moment.new_line().is_some_and(|line| line.kind == join.kind)
}

fn nothing_left(moment: &Moment<'_>) -> bool {
    moment.after.lines().all(|(_, line)| !line.claims.is_empty())
}

fn capacity(moment: &Moment<'_>) -> u64 {
    moment.new_line().map_or(0, |line| line.capacity.get().into())
}

fn sum<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> u64 {
    claims.into_iter().map(|claim| u64::from(claim.weight.get())).sum()
}
