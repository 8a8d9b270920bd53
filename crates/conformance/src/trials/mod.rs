//! The trials: a file for each point of the contract, and two for networks and processes, which touch most points.
//! Each file has a table that says what its trials test.

mod agreement;
mod cancellation;
mod cohorts;
mod cost;
mod crowds;
mod dead_clients;
mod exclusion;
mod failover;
mod input;
mod isolation;
mod leaks;
mod leave;
mod loss;
mod mixed;
mod network;
mod order;
mod processes;
mod restart;
mod signals;
mod spread;
mod tokens;

use std::sync::OnceLock;

use crate::Trial;

/// All trials, in the order of the contract's points.
pub fn all() -> &'static [Trial] {
    static ALL: OnceLock<Vec<Trial>> = OnceLock::new();
    ALL.get_or_init(|| {
        let files = [
            exclusion::TRIALS,
            mixed::TRIALS,
            tokens::TRIALS,
            order::TRIALS,
            cohorts::TRIALS,
            loss::TRIALS,
            dead_clients::TRIALS,
            cancellation::TRIALS,
            leave::TRIALS,
            signals::TRIALS,
            isolation::TRIALS,
            crowds::TRIALS,
            leaks::TRIALS,
            input::TRIALS,
            cost::TRIALS,
            restart::TRIALS,
            failover::TRIALS,
            spread::TRIALS,
            agreement::TRIALS,
            network::TRIALS,
            processes::TRIALS,
        ];
        files.concat()
    })
}

/// Lessons that only a server can show, and why a backend inside a process cannot.
pub const ONLY_SERVERS: &[(u8, &str)] = &[
    (11, "clients of one process read the same clock; a server's clients read their own"),
    (23, "a process's memory has no replica to fail over to"),
    (25, "a process's memory asks for no password and no token of access"),
    (36, "a process's memory has no connection to lose"),
    (39, "a process's memory has no server to fail over to"),
];

/// Lessons that no trial shows, and where they are shown.
pub const ELSEWHERE: &[(u8, &str)] = &[
    (37, "a backend's own tests lower the lifetime that its server grants"),
    (38, "a trial has one store: the tests of core have two"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Can, Subject, subjects};

    fn in_memory() -> impl Iterator<Item = &'static Trial> {
        let memory = subjects::memory();
        all().iter().filter(move |trial| trial.needs.iter().all(|need| memory.can(*need) == Can::Yes))
    }

    #[test]
    fn every_point_of_the_contract_has_a_trial_that_memory_can_run() {
        let points: BTreeSet<u8> = in_memory().flat_map(|trial| trial.points).copied().collect();
        assert_eq!(points, (1..=13).collect());
    }

    #[test]
    fn every_lesson_has_a_trial_that_memory_can_run_or_a_reason() {
        let shown: BTreeSet<u8> = in_memory().flat_map(|trial| trial.lessons).copied().collect();
        let only_servers: BTreeSet<u8> = ONLY_SERVERS.iter().map(|(lesson, _)| *lesson).collect();
        let elsewhere = || ELSEWHERE.iter().map(|(lesson, _)| *lesson);
        let all: BTreeSet<u8> = shown.union(&only_servers).copied().chain(elsewhere()).collect();
        assert_eq!(all, (1..=40).collect());
        assert_eq!(shown.intersection(&only_servers).count(), 0, "a reason that is not needed");
    }

    #[test]
    fn every_lesson_of_servers_has_a_trial_too() {
        let lessons: BTreeSet<u8> = all().iter().flat_map(|trial| trial.lessons).copied().collect();
        let elsewhere = || ELSEWHERE.iter().map(|(lesson, _)| *lesson);
        assert_eq!(lessons, (1..=40).filter(|lesson| elsewhere().all(|other| other != *lesson)).collect());
    }

    #[test]
    fn no_two_trials_have_one_name() {
        let names: BTreeSet<&str> = all().iter().map(|trial| trial.name).collect();
        assert_eq!(names.len(), all().len());
    }
}
