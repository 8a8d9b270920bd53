//! The plan of one round: who does what when, all drawn from a seed before the round begins.
//!
//! Each part has its own dice, named after it. So a process that plays one part draws the same as the process that
//! drew the whole plan. The outcome is not in the plan: it depends on the store and on chance in the machine.

use std::time::Duration;

use tidelock_core::Options;

use super::step::{Pace, Steps};
use super::trouble::{self, Targets, Trouble};
use super::used_name::UsedName;
use crate::{Ability, Can, Dice, Subject};

/// The plan of one round.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) names: Vec<UsedName>,
    /// Clients of this process.
    pub(super) clients: Vec<Part>,
    /// Clients in processes of their own.
    pub(super) processes: Vec<Part>,
    /// The troubles, one after the other; none in a calm round.
    pub(super) troubles: Vec<Trouble>,
}

/// The part of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) label: String,
    pub(super) tasks: usize,
    seed: u64,
    /// Which of two sizes it declares.
    is_newer: bool,
    patience: Patience,
}

/// How a client deals with a store that does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    Usual,
    /// It gives up a command soon, and asks again at once.
    Hasty,
    /// It waits for a whole ttl before it asks again.
    Slow,
}

impl Plan {
    /// The plan of a seed, for a round of this length on this subject.
    pub(super) fn draw(seed: u64, subject: &dyn Subject, lasts: Duration) -> Self {
        let dice = Dice::new(seed, "round");
        let names = UsedName::draw(seed);
        let part = |kind: &str, number: u64| Part::draw(seed, &format!("{kind} {number}"));
        let is_lonely = is_lonely(seed);
        let clients = if is_lonely { 1 } else { 2 + dice.below(3) };
        let clients: Vec<Part> = (0..clients).map(|number| part("client", number)).collect();
        let has_processes = subject.can(Ability::Child) == Can::Yes && !is_lonely;
        let processes = if has_processes { dice.below(4) } else { 0 };
        let processes: Vec<Part> = (0..processes).map(|number| part("process", number)).collect();
        let is_calm = dice.one_in(5);
        let mut plan = Self { seed, names, clients, processes, troubles: Vec::new() };
        if !is_calm {
            let targets = Targets {
                names: plan.names.iter().map(|used_name| &*used_name.name).collect(),
                clients: plan.clients.iter().map(|part| &*part.label).collect(),
                processes: plan.processes.len(),
            };
            plan.troubles = trouble::draw(seed, &targets, subject, lasts);
        }
        plan
    }

    /// The plan in one line.
    pub(super) fn sentence(&self) -> String {
        let names: Vec<&str> = self.names.iter().map(|used_name| &*used_name.name).collect();
        let tasks: usize = self.clients.iter().chain(&self.processes).map(|part| part.tasks).sum();
        format!(
            "{} clients and {} processes, {tasks} tasks, on {}; linger {:?}; {}",
            self.clients.len(),
            self.processes.len(),
            names.join(", "),
            linger(self.seed),
            match self.troubles.len() {
                0 => "calm".to_owned(),
                faults => format!("up to {faults} faults"),
            }
        )
    }
}

impl Part {
    /// The part of the client with that label in the round with that seed.
    pub(super) fn draw(seed: u64, label: &str) -> Self {
        let dice = Dice::new(seed, label);
        let patience = match is_lonely(seed) {
            true => *dice.pick(&[Patience::Slow, Patience::Slow, Patience::Usual]),
            false => *dice.pick(&[Patience::Usual, Patience::Hasty, Patience::Slow]),
        };
        Self {
            label: label.to_owned(),
            tasks: usize::try_from(2 + dice.below(4)).unwrap_or(2),
            seed,
            is_newer: dice.one_in(2),
            patience,
        }
    }

    /// Its options, if claims live that long.
    pub(super) fn options(&self, ttl: Duration) -> Options {
        let options = Options::new().ttl(ttl).linger(linger(self.seed)).label(&self.label);
        match self.patience {
            Patience::Usual => options,
            Patience::Hasty => options
                .command_deadline(ttl / 4)
                .back_off(Duration::from_millis(5), Duration::from_millis(50)),
            Patience::Slow => options.back_off(ttl, ttl),
        }
    }

    /// The steps of one of its tasks, without end.
    pub(super) fn steps(&self, task: usize, names: &[UsedName], ttl: Duration) -> Steps {
        let dice = Dice::new(self.seed, &format!("{}, task {task}", self.label));
        let pace = match is_lonely(self.seed) {
            true => *dice.pick(&[Pace::Leisurely, Pace::Leisurely, Pace::Steady]),
            false => *dice.pick(&[Pace::Steady, Pace::Quick, Pace::Hectic]),
        };
        Steps::new(dice, names.to_vec(), self.is_newer, pace, ttl)
    }
}

/// Whether the round has a single client. In a crowd another client always comes in between. Only without one can be
/// seen how tasks of one client affect each other, and what a request does that is repeated late.
fn is_lonely(seed: u64) -> bool {
    Dice::new(seed, "lonely").one_in(3)
}

/// For how long the clients of the round pass a hold on among their own tasks. All the same: what one client may pass on
/// is what all others have to expect.
pub(super) fn linger(seed: u64) -> Duration {
    let dice = Dice::new(seed, "linger");
    if dice.one_in(2) { Duration::ZERO } else { Duration::from_millis(1 + dice.below(20)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subjects;

    #[test]
    fn a_seed_is_a_plan() {
        let (memory, lasts) = (subjects::memory_in_real_time(), Duration::from_secs(6));
        for seed in 0..50 {
            let plan = Plan::draw(seed, &memory, lasts);
            assert_eq!(Plan::draw(seed, &memory, lasts), plan);
            let steps =
                |part: &Part| -> Vec<_> { part.steps(0, &plan.names, memory.ttl()).take(100).collect() };
            for part in &plan.clients {
                // A process draws it like this: it knows only the seed and its label.
                let alone = Part::draw(seed, &part.label);
                assert_eq!((steps(&alone), &alone), (steps(part), part));
            }
        }
        assert_ne!(Plan::draw(1, &memory, lasts), Plan::draw(2, &memory, lasts));
    }

    #[test]
    fn all_usages_come_up_and_some_rounds_are_calm() {
        let memory = subjects::memory_in_real_time();
        let plans: Vec<Plan> =
            (0..200).map(|seed| Plan::draw(seed, &memory, Duration::from_secs(6))).collect();
        for word in ["mutex", "table", "pool", "rollout", "resized", "mixed"] {
            let has = |plan: &&Plan| plan.names.iter().any(|used_name| used_name.usage.word() == word);
            assert!(plans.iter().filter(has).count() > 20, "{word}");
        }
        let calm = plans.iter().filter(|plan| plan.troubles.is_empty()).count();
        assert!((20..60).contains(&calm), "{calm}"); // memory has no network, but other faults
        let strict = (0..200).filter(|seed| linger(*seed).is_zero()).count();
        assert!((70..130).contains(&strict), "{strict}");
    }
}
