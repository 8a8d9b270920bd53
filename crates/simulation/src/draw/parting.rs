//! Draws a world in which a client is closed in a hurry, while its connections are being made again.
//!
//! Its leaves wait for a connection by then, and nobody waits for them.

use tidelock_model::Dice;

use super::choice::index;
use super::locking::{mutex, takes};
use crate::plan::{Action, End, Fault, Part, Plan, Step, Trouble};

/// One world of so many is of this kind.
const RARE: u64 = 30;
/// How many names it holds.
const HELD: usize = 4;
const TTL: u64 = 15_000;
/// How long a message takes at most: making a connection takes a few.
const DELAY: u64 = 20;

/// Makes it that, perhaps.
pub(super) fn into(plan: &mut Plan) {
    let dice = Dice::new(plan.seed, "parting");
    if !dice.one_in(RARE) {
        return;
    }
    let client = index(&dice, plan.clients.len());
    let (ppm, command_deadline, first_pause, longest_pause, max_hold, linger) =
        (0, 2_000, 20, 1_000, None, 0);
    plan.clients[client] =
        Part { ppm, command_deadline, first_pause, longest_pause, max_hold, linger, is_closed: true };
    plan.steps.retain(|step| step.client != client);
    (plan.ttl, plan.delay) = (TTL, DELAY);
    let ends = TTL + dice.below(TTL);
    plan.troubles = vec![Trouble { at: ends, lasts: 0, what: Fault::Reconnect { client } }];
    for _ in 0..HELD {
        let name = mutex(plan);
        takes(plan, client, name, TTL / 2, (TTL * 4, End::Drop));
    }
    let (rest, action) = (ends + dice.below(DELAY * 3), Action::Close { within: vec![1] });
    plan.steps.push(Step { client, task: HELD, rest, polls: None, action });
    plan.ends = plan.ends.max(TTL * 5);
}
