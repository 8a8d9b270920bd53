//! Draws a plan from a seed.
//!
//! Worlds differ in kind, because a fault needs its own kind of world: lonely clients and crowds, calm and stormy ones,
//! long holds and short ones.

mod choice;
mod idle;
mod late;
mod linger;
mod locking;
mod parting;
pub(crate) mod servers;

use tidelock_model::Dice;

use self::choice::{below, index};
use crate::plan::{Action, End, Fault, How, Part, Plan, Step, Stores, Taking, Tool, Trouble, Usage, Wanted};

/// How much two clocks may differ, in millionths: the margin of a deadline is a five-hundredth of the ttl.
const DRIFT: u64 = 1_900;

/// The plan of a seed.
pub(crate) fn plan(seed: u64) -> Plan {
    let dice = Dice::new(seed, "plan");
    let is_crowded = dice.one_in(30);
    let ttl = if is_crowded { 1_000 } else { *dice.pick(&[1_000, 2_000, 5_000, 10_000, 15_000]) };
    let names: Vec<Usage> = (0..1 + dice.below(6)).map(|_| usage(&dice)).collect();
    let clients: Vec<Part> = (0..clients(&dice)).map(|_| part(&dice, ttl)).collect();
    let ends = ttl * (6 + dice.below(8));
    let mut plan = Plan {
        seed,
        stores: Stores::Memory,
        ttl,
        shards: if dice.one_in(3) { 2 + below(&dice, 2) } else { 1 },
        is_ordered: dice.one_in(2),
        is_hinting: dice.one_in(3),
        delay: *dice.pick(&[1, 2, 5, 20]),
        lost_pushes: *dice.pick(&[0, 0, 0, 10, 100]),
        doubled_pushes: *dice.pick(&[0, 0, 20]),
        ends,
        names,
        clients,
        steps: Vec::new(),
        troubles: Vec::new(),
    };
    plan.steps = steps(&dice, &plan);
    if dice.one_in(4) {
        plan.steps.iter_mut().for_each(hurry);
    }
    if is_crowded {
        crowd(&dice, &mut plan);
    }
    if !dice.one_in(5) {
        plan.troubles = troubles(&dice, &plan);
    }
    late::into(&mut plan);
    linger::into(&mut plan);
    plan
}

/// A client whose keeper is never idle: many tasks let go all the time, for longer than a claim lives, while one of them
/// holds on.
fn crowd(dice: &Dice, plan: &mut Plan) {
    let (client, read, held) = (index(dice, plan.clients.len()), plan.names.len(), plan.names.len() + 1);
    plan.delay = 20;
    plan.names.extend([Usage::RwLock, Usage::Mutex]);
    plan.clients[client].max_hold = None;
    let task = plan.tasks(client);
    let take = |name, wanted, keep, end| {
        let (how, tool) = (How::Wait, Tool::Plain);
        Action::Take(Taking { name, wanted, how, tool, keep, runs: false, end })
    };
    for step in 0..24 * 60 {
        let (rest, keep) = (dice.below(4), dice.below(4));
        let action = take(read, Wanted::Read, keep, End::Drop);
        plan.steps.push(Step { client, task: task + step % 24, rest, polls: None, action });
    }
    let action = take(held, Wanted::Lock, plan.ttl * 3, End::Release);
    plan.steps.push(Step { client, task: task + 24, rest: 0, polls: None, action });
}

fn clients(dice: &Dice) -> u64 {
    2 + dice.below(5).min(dice.below(5)) // the fewer, the more can be seen
}

fn usage(dice: &Dice) -> Usage {
    match dice.below(8) {
        0..3 => Usage::Mutex,
        3..5 => Usage::RwLock,
        5..7 => Usage::Semaphore(1 + below(dice, 5)),
        _ => Usage::Mixed,
    }
}

fn part(dice: &Dice, ttl: u64) -> Part {
    let ppm = i64::try_from(dice.below(DRIFT * 2)).unwrap_or(0) - DRIFT.cast_signed();
    let (command_deadline, first_pause, longest_pause) = match dice.below(4) {
        0 => (ttl / 4, 5, 50),
        1 => (ttl * 2, ttl / 2, ttl),
        _ => (2_000, 20, 1_000),
    };
    Part {
        ppm: if dice.one_in(3) { 0 } else { ppm },
        command_deadline: command_deadline.max(100),
        first_pause,
        longest_pause,
        max_hold: dice.one_in(6).then(|| ttl / 4 + dice.below(ttl * 2)),
        linger: 0,
        is_closed: !dice.one_in(4),
    }
}

fn steps(dice: &Dice, plan: &Plan) -> Vec<Step> {
    let most = *dice.pick(&[2, 4, 8, 8, 50]);
    let mut steps = Vec::new();
    for client in 0..plan.clients.len() {
        for task in 0..1 + index(dice, most) {
            let pace = *dice.pick(&[plan.ttl / 20, plan.ttl / 4, plan.ttl]);
            for _ in 0..3 + dice.below(12) {
                let (rest, action) = (dice.below(pace * 2), action(dice, plan));
                let polls = dice.one_in(12).then(|| 1 + below(dice, 10));
                steps.push(Step { client, task, rest, polls, action });
            }
        }
    }
    steps
}

/// In some worlds everything is so short that the news of one hand-off meets that of the next.
fn hurry(step: &mut Step) {
    step.rest %= 8;
    if let Action::Take(taking) = &mut step.action {
        taking.keep %= 4;
        if let End::HandOver(length) | End::Downgrade(length) = &mut taking.end {
            *length %= 4;
        }
    }
}

fn action(dice: &Dice, plan: &Plan) -> Action {
    let name = index(dice, plan.names.len());
    match dice.below(60) {
        0 => Action::Evict { name, count: 1 + index(dice, 2) },
        1 | 2 => Action::Inspect { name },
        3 if dice.one_in(3) => {
            let within = (0..=dice.below(3)).map(|_| *dice.pick(&[1, plan.ttl / 10, plan.ttl * 3]));
            Action::Close { within: within.collect() }
        }
        4 if dice.one_in(3) => Action::Drain { within: *dice.pick(&[10, plan.ttl / 4, plan.ttl * 2]) },
        5..8 if matches!(plan.names[name], Usage::Semaphore(_)) => {
            Action::Resize { name, to: 1 + below(dice, 6) }
        }
        _ => Action::Take(taking(dice, plan, name)),
    }
}

fn taking(dice: &Dice, plan: &Plan, name: usize) -> Taking {
    let wanted = wanted(dice, plan.names[name]);
    let mut tool = Tool::Plain;
    if wanted == Wanted::Lock {
        let mutexes =
            (0..plan.names.len()).filter(|other| *other != name && plan.names[*other] == Usage::Mutex);
        let others: Vec<usize> = mutexes.take(2).collect();
        tool = match dice.below(16) {
            0 | 1 => Tool::Reentrant { at_once: dice.one_in(2) },
            2 if dice.one_in(2) => Tool::AnyStripe,
            2 => Tool::Striped(dice.below(3)),
            3 | 4 if !others.is_empty() => Tool::All(others),
            _ => Tool::Plain,
        };
    }
    if dice.one_in(40) {
        tool = Tool::Ttl((plan.ttl / 2 + dice.below(plan.ttl)).max(1_000));
    }
    let how = match dice.below(12) {
        0 | 1 => How::Try,
        2 | 3 => How::Within(dice.below(plan.ttl * 2)),
        4 => How::Polls(below(dice, 8), dice.below(plan.ttl)),
        5 => How::Neglect(dice.below(plan.ttl * 4)),
        _ => How::Wait,
    };
    let end = match dice.below(10) {
        0..3 => End::Drop,
        3 => End::Neglect(dice.below(plan.ttl * 4)),
        4 => End::HandOver(dice.below(plan.ttl / 4)),
        5 | 6 if wanted == Wanted::Write => End::Downgrade(dice.below(plan.ttl)),
        _ => End::Release,
    };
    let keep = dice.below(*dice.pick(&[2, plan.ttl / 20, plan.ttl / 4, plan.ttl / 4, plan.ttl * 3]));
    Taking { name, wanted, how, tool, keep, runs: dice.one_in(4), end }
}

fn wanted(dice: &Dice, usage: Usage) -> Wanted {
    match usage {
        Usage::Mutex => Wanted::Lock,
        Usage::RwLock if dice.one_in(3) => Wanted::Write,
        Usage::RwLock => Wanted::Read,
        Usage::Semaphore(size) => {
            let size = if dice.one_in(12) { 1 + below(dice, 6) } else { size };
            Wanted::Permits(1 + below(dice, size), size)
        }
        Usage::Mixed => {
            let usage = *dice.pick(&[Usage::Mutex, Usage::RwLock, Usage::Semaphore(3)]);
            wanted(dice, usage)
        }
    }
}

fn troubles(dice: &Dice, plan: &Plan) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    // One trouble upon another does the most harm.
    let victim = dice.one_in(2).then(|| index(dice, plan.clients.len()));
    for _ in 0..1 + dice.below(6).min(dice.below(6)) {
        let what = fault(dice, plan, victim);
        let lasts = match dice.below(5) {
            // A join that waited so long is answered when little is left of its claim's life.
            0..3 if matches!(what, Fault::StallName { .. }) => plan.ttl * 2 / 3 + dice.below(plan.ttl / 5),
            0 => dice.below(plan.ttl / 10),
            1..3 => dice.below(plan.ttl),
            3 => plan.ttl / 4 + dice.below(plan.ttl / 2),
            _ => dice.below(plan.ttl * 2),
        };
        let at = dice.below(plan.ends * 2 / 3);
        troubles.push(Trouble { at, lasts, what });
    }
    if dice.one_in(4) {
        troubles.extend(worse_and_worse(dice, plan, victim));
    }
    troubles.sort_by_key(|trouble| trouble.at);
    troubles
}

/// A client's messages get slow, and then none arrive at all for longer than its claims live: what it heard last counts.
fn worse_and_worse(dice: &Dice, plan: &Plan, victim: Option<usize>) -> [Trouble; 2] {
    let client = victim.unwrap_or_else(|| index(dice, plan.clients.len()));
    let (at, slow, silent) =
        (dice.below(plan.ends / 2), plan.ttl / 2 + dice.below(plan.ttl), plan.ttl + dice.below(plan.ttl));
    let delay = *dice.pick(&[plan.ttl / 20, plan.ttl / 10, plan.ttl / 7]);
    let end = match dice.below(3) {
        0 => Fault::Cut { client, are_pushes_lost: false },
        1 => Fault::Suspend { client },
        _ => Fault::Rain { client, requests: 100, replies: 0, are_told: dice.one_in(2) },
    };
    [
        Trouble { at, lasts: slow, what: Fault::Slow { client, delay } },
        Trouble { at: at + slow, lasts: silent, what: end },
    ]
}

fn fault(dice: &Dice, plan: &Plan, victim: Option<usize>) -> Fault {
    let (client, name) = (index(dice, plan.clients.len()), index(dice, plan.names.len()));
    let client = victim.unwrap_or(client);
    match dice.below(21) {
        0..3 => {
            let (requests, replies) = *dice.pick(&[(30, 0), (0, 30), (20, 20), (100, 0), (0, 100)]);
            Fault::Rain { client, requests, replies, are_told: dice.one_in(2) }
        }
        3..5 => Fault::Slow { client, delay: *dice.pick(&[plan.ttl / 20, plan.ttl / 5, plan.ttl / 2]) },
        5 => Fault::Refuse { client },
        6..8 => Fault::Cut { client, are_pushes_lost: dice.one_in(2) },
        8 => Fault::Deaf { client },
        9..11 => Fault::StallShard { shard: below(dice, plan.shards) },
        11 | 20 => Fault::StallName { name },
        12..14 => Fault::Suspend { client },
        14 => Fault::EndSession { client, is_told: dice.one_in(2) },
        15 => Fault::Forget { are_told: dice.one_in(2) },
        16 => Fault::ForgetHolders { name },
        17 => Fault::Revive { client, count: 1 + index(dice, 4) },
        18 => Fault::LosePushes { client },
        _ => Fault::Reconnect { client },
    }
}
