//! Draws what goes wrong with servers and with the connections to them.

use tidelock_model::Dice;

use super::choice::{below, index};
use super::{idle, parting};
use crate::plan::{Action, Fault, How, Plan, Step, Stores, Trouble};

/// More messages than pass, one after another, before the first command is answered to a client that asks sentinels first.
const MESSAGES: u64 = 25;

/// The plan of the same clients on servers, with troubles of servers.
pub(crate) fn on(mut plan: Plan, stores: Stores) -> Plan {
    let dice = Dice::new(plan.seed, "servers");
    plan.stores = stores;
    (plan.is_ordered, plan.is_hinting, plan.doubled_pushes) = (true, false, 0);
    plan.shards = if stores == Stores::RedisCluster { 2 + below(&dice, 2) } else { 1 };
    let least = plan.delay * MESSAGES;
    plan.clients.iter_mut().for_each(|part| part.command_deadline = part.command_deadline.max(least));
    plan.troubles.clear();
    if !dice.one_in(5) {
        let victim = dice.one_in(2).then(|| index(&dice, plan.clients.len()));
        for _ in 0..1 + dice.below(6).min(dice.below(6)) {
            let trouble = trouble(&dice, &plan, victim);
            if let Fault::Behind { .. } = trouble.what {
                // Before a failover there is nothing to be behind of.
                let what = Fault::Failover { shard: 0, is_lost: dice.one_in(2), is_alive: dice.one_in(2) };
                plan.troubles.push(Trouble { at: trouble.at, lasts: trouble.lasts / 3, what });
            }
            plan.troubles.push(trouble);
        }
        plan.troubles.sort_by_key(|trouble| trouble.at);
    }
    let ttl = plan.ttl;
    plan.steps.iter_mut().for_each(|step| be_away(&dice, ttl, step));
    idle::into(&mut plan);
    parting::into(&mut plan);
    plan
}

/// Now and then a task waits on a thread that is busy for long.
fn be_away(dice: &Dice, ttl: u64, step: &mut Step) {
    if let Action::Take(taking) = &mut step.action
        && taking.how == How::Wait
        && dice.one_in(25)
    {
        taking.how = How::Away(1 + below(dice, 6), dice.below(ttl * 2));
    }
}

fn trouble(dice: &Dice, plan: &Plan, victim: Option<usize>) -> Trouble {
    let lasts = match dice.below(4) {
        0 => dice.below(plan.ttl / 10),
        1 | 2 => dice.below(plan.ttl),
        _ => dice.below(plan.ttl * 2),
    };
    let at = dice.below(plan.ends * 2 / 3);
    Trouble { at, lasts, what: fault(dice, plan, victim, lasts) }
}

fn fault(dice: &Dice, plan: &Plan, victim: Option<usize>, lasts: u64) -> Fault {
    let client = victim.unwrap_or_else(|| index(dice, plan.clients.len()));
    let shard = below(dice, plan.shards);
    let (is_cluster, has_others) =
        (plan.stores == Stores::RedisCluster, plan.stores == Stores::RedisSentinels);
    match dice.below(24) {
        0 | 1 => {
            let (requests, replies) = *dice.pick(&[(30, 0), (0, 30), (20, 20), (100, 0), (0, 100)]);
            Fault::Rain { client, requests, replies, are_told: dice.one_in(2) }
        }
        2 | 3 => Fault::Slow { client, delay: *dice.pick(&[plan.ttl / 20, plan.ttl / 5, plan.ttl / 2]) },
        4 => Fault::Refuse { client },
        5 | 6 => Fault::Cut { client, are_pushes_lost: dice.one_in(2) },
        7 => Fault::Deaf { client },
        8 | 9 => Fault::StallShard { shard },
        10 => Fault::Suspend { client },
        11 => Fault::Forget { are_told: false },
        12 => Fault::ForgetHolders { name: index(dice, plan.names.len()) },
        13 => Fault::HalfOpen { client },
        14 => Fault::Idle { client },
        15 => Fault::ForgetScripts { shard },
        16 => Fault::Full { shard },
        17 if has_others => Fault::Behind { sentinel: index(dice, 3), count: 1 + index(dice, 2) },
        17 | 18 if is_cluster => Fault::Down { shard },
        19 | 20 if is_cluster => Fault::Move { shard, lasts },
        21 => Fault::Reconnect { client },
        22 => Fault::EndSession { client, is_told: false },
        _ => Fault::Failover { shard, is_lost: dice.one_in(2), is_alive: dice.one_in(2) },
    }
}
