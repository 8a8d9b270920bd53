//! Makes a broken world smaller: whatever can be left out while the same check still fails is left out.

use std::time::{Duration, Instant};

use crate::plan::Plan;
use crate::world::{self, Outcome};

/// How long it may take.
const LONGEST: Duration = Duration::from_secs(20);
/// With how many seeds of the network each smaller world is tried: what was left out has changed its choices.
const SEEDS: u64 = 3;

/// The smallest world found that fails by that check, and what becomes of it.
pub(crate) fn shrink(plan: &Plan, check: &str) -> (Plan, Outcome) {
    let began = Instant::now();
    let mut smallest = (plan.clone(), world::play(plan));
    let mut size = smallest.0.steps.len().max(smallest.0.troubles.len());
    while size > 0 {
        let mut is_smaller = false;
        for part in [Part::Troubles, Part::Steps] {
            let mut from = 0;
            while from < part.len(&smallest.0) {
                if began.elapsed() > LONGEST {
                    return smallest;
                }
                match fails(&part.without(&smallest.0, from, size), check) {
                    Some(smaller) => (smallest, is_smaller) = (smaller, true),
                    None => from += size,
                }
            }
        }
        if !is_smaller || size > 1 {
            size /= 2;
        }
    }
    for simpler in simpler(&smallest.0) {
        if let Some(simpler) = fails(&simpler, check) {
            smallest = simpler;
        }
    }
    smallest
}

/// What a world can be without.
#[derive(Clone, Copy)]
enum Part {
    Troubles,
    Steps,
}

impl Part {
    fn len(self, plan: &Plan) -> usize {
        match self {
            Self::Troubles => plan.troubles.len(),
            Self::Steps => plan.steps.len(),
        }
    }

    fn without(self, plan: &Plan, from: usize, count: usize) -> Plan {
        let mut plan = plan.clone();
        let to = (from + count).min(self.len(&plan));
        match self {
            Self::Troubles => drop(plan.troubles.drain(from..to)),
            Self::Steps => drop(plan.steps.drain(from..to)),
        }
        plan
    }
}

/// The same world with plainer settings, one at a time.
fn simpler(plan: &Plan) -> Vec<Plan> {
    let with = |change: fn(&mut Plan)| {
        let mut plan = plan.clone();
        change(&mut plan);
        plan
    };
    vec![
        with(|plan| (plan.lost_pushes, plan.doubled_pushes) = (0, 0)),
        with(|plan| plan.is_ordered = true),
        with(|plan| plan.clients.iter_mut().for_each(|part| part.linger = 0)),
        with(|plan| plan.clients.iter_mut().for_each(|part| part.ppm = 0)),
    ]
}

/// The world if it fails by that check, perhaps with another seed of the network.
fn fails(plan: &Plan, check: &str) -> Option<(Plan, Outcome)> {
    (0..SEEDS).find_map(|seed| {
        let mut plan = plan.clone();
        plan.seed = plan.seed.wrapping_add(seed << 32);
        let outcome = world::play(&plan);
        let first = outcome.findings.iter().any(|finding| finding.check == check);
        first.then_some((plan, outcome))
    })
}
