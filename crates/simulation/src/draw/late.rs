//! Draws a world in which joins are answered late, and nothing else is wrong.
//!
//! Such an answer leaves less of a claim's life than there is between two renewals, and more than a renewal takes. Before
//! that, the client asks for nothing for longer than its session lives by itself.

use tidelock_model::Dice;

use super::choice::index;
use super::locking::{mutex, takes};
use crate::plan::{Action, End, Fault, Part, Plan, Step, Trouble};

/// One world of so many is of this kind.
const RARE: u64 = 30;
/// How many names stall, one after the other.
const STALLS: usize = 3;

/// Makes it that, perhaps.
pub(super) fn into(plan: &mut Plan) {
    let dice = Dice::new(plan.seed, "late");
    if !dice.one_in(RARE) {
        return;
    }
    let client = index(&dice, plan.clients.len());
    let other = (client + 1) % plan.clients.len();
    plan.steps.retain(|step| step.client != client);
    let action = Action::Inspect { name: 0 };
    plan.steps.push(Step { client, task: 0, rest: 0, polls: None, action });
    for client in [client, other] {
        plan.clients[client] = patient(plan.ttl, &plan.clients[client]);
    }
    plan.is_ordered = false; // or everything would wait behind what is late
    plan.troubles.clear();
    for stall in 0..STALLS as u64 {
        let (at, lasts) =
            (plan.ttl * 3 / 2 + plan.ttl * 2 * stall, plan.ttl * 2 / 3 + dice.below(plan.ttl / 5));
        let name = mutex(plan);
        plan.troubles.push(Trouble { at, lasts, what: Fault::StallName { name } });
        for client in [client, other] {
            let keep = plan.ttl / 10;
            takes(plan, client, name, at + 1 + dice.below(20), (keep, End::Release));
        }
    }
    plan.ends = plan.ends.max(plan.ttl * 8);
}

/// A client that waits for long, tries again soon, and has a true clock.
fn patient(ttl: u64, part: &Part) -> Part {
    let (command_deadline, first_pause, longest_pause) = (ttl * 2, 5, 50);
    Part { ppm: 0, command_deadline, first_pause, longest_pause, max_hold: None, ..part.clone() }
}
