//! Plain mutexes that nobody else uses, and who takes them.

use crate::plan::{Action, End, How, Plan, Step, Taking, Tool, Usage, Wanted};

/// A name of its own, used as a mutex.
pub(super) fn mutex(plan: &mut Plan) -> usize {
    plan.names.push(Usage::Mutex);
    plan.names.len() - 1
}

/// A task of its own waits for the lock after that time, and keeps it for so long.
pub(super) fn takes(plan: &mut Plan, client: usize, name: usize, rest: u64, (keep, end): (u64, End)) {
    let (wanted, how, tool) = (Wanted::Lock, How::Wait, Tool::Plain);
    let taking = Taking { name, wanted, how, tool, keep, runs: false, end };
    let (task, action) = (plan.tasks(client), Action::Take(taking));
    plan.steps.push(Step { client, task, rest, polls: None, action });
}
