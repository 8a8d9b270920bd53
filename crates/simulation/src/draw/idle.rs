//! Draws a world in which a client waits and sends nothing, while a firewall forgets the connection on which it waits; and
//! in which it has nothing to do, while all of its connections are forgotten.
//!
//! Whoever waits hears of its turn on a connection on which it says nothing itself. Whoever comes after a long time finds
//! a connection that carries.

use tidelock_model::Dice;

use super::choice::index;
use super::locking::{mutex, takes};
use crate::plan::{End, Fault, Part, Plan, Trouble};

/// One world of so many is of this kind.
const RARE: u64 = 30;
/// How often it waits.
const TURNS: u64 = 3;
const TTL: u64 = 15_000;

/// Makes it that, perhaps.
pub(super) fn into(plan: &mut Plan) {
    let dice = Dice::new(plan.seed, "idle");
    if !dice.one_in(RARE) {
        return;
    }
    let waiter = index(&dice, plan.clients.len());
    let holder = (waiter + 1) % plan.clients.len();
    plan.clients[holder] = Part { max_hold: None, ..plan.clients[holder].clone() };
    plan.steps.retain(|step| step.client != waiter);
    plan.troubles.clear();
    (plan.ttl, plan.lost_pushes) = (TTL, 0);
    for turn in 0..TURNS {
        let at = plan.ttl / 2 + plan.ttl * 2 * turn;
        let silent = 500 + dice.below(plan.ttl / 2);
        let name = mutex(plan);
        let what = Fault::Idle { client: waiter };
        plan.troubles.push(Trouble { at: at + silent, lasts: 0, what });
        // It is a third of the ttl until something is sent, and then there is another connection soon.
        let keep = silent + plan.ttl / 2 + dice.below(plan.ttl / 3);
        for (client, rest, keep) in [(holder, at, keep), (waiter, at + 200, 0)] {
            takes(plan, client, name, rest, (keep, End::Release));
        }
    }
    comes_back(plan, waiter);
}

/// The client comes again, long after its connections were forgotten.
fn comes_back(plan: &mut Plan, client: usize) {
    let forgotten = plan.ttl / 2 + plan.ttl * 2 * TURNS;
    plan.troubles.push(Trouble { at: forgotten, lasts: 0, what: Fault::HalfOpen { client } });
    let name = mutex(plan);
    takes(plan, client, name, forgotten + plan.ttl * 3 / 2, (0, End::Release));
    plan.ends = plan.ends.max(plan.ttl * 9);
}
