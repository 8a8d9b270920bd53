//! Draws for how long clients pass a hold on among their own tasks: not at all in half of the worlds.
//!
//! Some of the others have a holder that is stuck when its claim is lost, with others of its client behind it. And in them
//! more downgrades are dropped half-way.

use tidelock_model::Dice;

use super::choice::{below, index};
use super::locking::{mutex, takes};
use crate::plan::{Action, End, Fault, Plan, Step, Taking, Trouble};

/// One of so many of these worlds has a stuck holder.
const RARE: u64 = 15;

/// Decides that by dice of its own: the rest of the world is as without it.
pub(super) fn into(plan: &mut Plan) {
    let dice = Dice::new(plan.seed, "linger");
    if dice.one_in(2) {
        return;
    }
    let longest = plan.ttl / 3;
    for part in &mut plan.clients {
        part.linger = *dice.pick(&[0, 1, longest / 50, longest / 5, longest, longest]);
    }
    plan.steps.iter_mut().for_each(|step| break_off(&dice, step));
    if dice.one_in(RARE) {
        stick(&dice, plan, longest);
    }
}

/// Perhaps drops a downgrade under way.
fn break_off(dice: &Dice, step: &mut Step) {
    let is_downgrade = matches!(&step.action, Action::Take(Taking { end: End::Downgrade(_), .. }));
    if is_downgrade && dice.one_in(3) {
        step.polls = Some(3 + below(dice, 5));
    }
}

/// A holder does not notice that its claim is lost, while others of its client wait.
fn stick(dice: &Dice, plan: &mut Plan, longest: u64) {
    let (client, name, lost) =
        (index(dice, plan.clients.len()), mutex(plan), plan.ttl + dice.below(plan.ttl));
    (plan.clients[client].max_hold, plan.clients[client].linger) = (None, longest);
    takes(plan, client, name, plan.ttl / 2, (plan.ttl * 9 / 2, End::Drop));
    for _ in 0..2 {
        takes(plan, client, name, plan.ttl / 2 + 1 + dice.below(plan.ttl / 3), (0, End::Release));
    }
    let what = Fault::EndSession { client, is_told: true };
    plan.troubles = vec![Trouble { at: lost, lasts: 0, what }];
}
