//! Every order of a few clients' operations, and the faults that are allowed: the shortest way to a broken promise.
//!
//! Breadth first, so what is found first is shortest. Two orders that lead to the same state are followed once. Each
//! client does one round. The search is carried on in portions, so that it can show how far it is and be stopped.

use std::collections::VecDeque;

use crate::client::Doing;
use crate::machine::Machine;
use crate::record::Record;
use crate::seen::Seen;
use crate::settings::{Choice, Settings};

/// What is searched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// No accepted write was computed from an old value.
    NoWrongWrite,
    /// No more is sold than there is.
    NoOversell,
    /// No two clients believe that they hold at the same time.
    Exclusion,
    /// No two clients hold at the same time whose leases are both alive.
    Loyalty,
    /// Nobody waits for ever.
    Progress,
}

/// The faults that the search may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// How often a client may stand still until its lease is over.
    pub pauses: u8,
    /// How many clients may die.
    pub crashes: u8,
    /// How often a replica may take over that missed the newest write.
    pub failovers: u8,
}

struct Node {
    parent: u32,
    choice: Choice,
}

/// A search that is under way.
pub struct Search {
    settings: Settings,
    promise: Promise,
    seen: Seen,
    nodes: Vec<Node>,
    open: VecDeque<(u32, Machine, Allowed)>,
    found: Option<u32>,
    runs: u32,
}

/// No parent: the beginning.
const ROOT: u32 = u32::MAX;

impl std::fmt::Debug for Search {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Search")
            .field("states", &self.seen.count())
            .field("open", &self.open.len())
            .finish_non_exhaustive()
    }
}

impl Search {
    /// A search over the clients of these settings, four at most.
    #[must_use]
    pub fn new(settings: &Settings, promise: Promise, allowed: Allowed) -> Self {
        let mut settings = settings.clone();
        settings.clients = settings.clients.min(4);
        settings.rounds = 1;
        settings.crowd = 0;
        settings.actions.clear();
        settings.schedule.clear();
        settings.loss = 0;
        let machine = Machine::to_be_scheduled(&settings, allowed.failovers > 0);
        let mut seen = Seen::new();
        seen.insert(machine.key());
        let open = VecDeque::from([(ROOT, machine, allowed)]);
        Self { settings, promise, seen, nodes: Vec::new(), open, found: None, runs: 0 }
    }

    /// Follows up to so many states. False: it is over.
    pub fn go_on(&mut self, portion: u32) -> bool {
        for _ in 0..portion {
            if self.found.is_some() {
                return false;
            }
            let Some((node, machine, allowed)) = self.open.pop_front() else { return false };
            self.expand(node, &machine, allowed);
        }
        self.found.is_none() && !self.open.is_empty()
    }

    /// How many different states it has seen.
    #[must_use]
    pub fn states(&self) -> u32 {
        self.seen.count() as u32
    }

    /// How many steps it has tried.
    #[must_use]
    pub const fn steps(&self) -> u32 {
        self.runs
    }

    /// The run that breaks the promise, if one was found: the shortest.
    #[must_use]
    pub fn found(&self) -> Option<Settings> {
        let mut schedule = Vec::new();
        let mut at = self.found?;
        while at != ROOT {
            let node = &self.nodes[at as usize];
            schedule.push(node.choice);
            at = node.parent;
        }
        schedule.reverse();
        Some(Settings { schedule, ..self.settings.clone() })
    }

    fn expand(&mut self, parent: u32, machine: &Machine, allowed: Allowed) {
        let mut is_stuck = !machine.is_over();
        for (choice, allowed, is_fault) in choices(machine, allowed) {
            let mut next = machine.clone();
            next.choose(choice, &mut Record::counted(0));
            self.runs += 1;
            let key = next.key() ^ key_of(allowed);
            if next.key() != machine.key() && !is_fault {
                is_stuck = false;
            }
            if !self.seen.insert(key) {
                continue;
            }
            self.nodes.push(Node { parent, choice });
            let node = self.nodes.len() as u32 - 1;
            if self.is_broken(&next) {
                self.found = Some(node);
                return;
            }
            self.open.push_back((node, next, allowed));
        }
        if is_stuck && self.promise == Promise::Progress && parent != ROOT {
            self.found = Some(parent);
        }
    }

    fn is_broken(&self, machine: &Machine) -> bool {
        match self.promise {
            Promise::NoWrongWrite => machine.resource.wrong > 0,
            Promise::NoOversell => machine.resource.sold > machine.resource.initial,
            Promise::Exclusion => machine.counters.overlaps > 0,
            Promise::Loyalty => machine.counters.betrayals > 0,
            Promise::Progress => false,
        }
    }
}

/// What can happen next, with what is allowed after it, and whether it is a fault that need not happen.
fn choices(machine: &Machine, allowed: Allowed) -> Vec<(Choice, Allowed, bool)> {
    let mut choices = Vec::new();
    for who in 0..machine.clients.len() as u8 {
        let client = &machine.clients[usize::from(who)];
        if machine.can_step(who.into()) {
            choices.push((Choice::Step(who), allowed, false));
        }
        let is_dead = client.doing == Doing::Dead;
        if is_dead && machine.has_lease(who.into()) {
            choices.push((Choice::Lapse(who), allowed, false)); // time passes: the lease of a dead one ends
        } else if !client.is_over() && allowed.pauses > 0 && machine.has_lease(who.into()) {
            choices.push((Choice::Lapse(who), Allowed { pauses: allowed.pauses - 1, ..allowed }, true));
        }
        if !client.is_over() && allowed.crashes > 0 {
            choices.push((Choice::Crash(who), Allowed { crashes: allowed.crashes - 1, ..allowed }, true));
        }
    }
    if allowed.failovers > 0 {
        choices.push((Choice::Failover, Allowed { failovers: allowed.failovers - 1, ..allowed }, true));
    }
    choices
}

fn key_of(allowed: Allowed) -> u128 {
    u128::from(allowed.pauses) << 96
        | u128::from(allowed.crashes) << 104
        | u128::from(allowed.failovers) << 112
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;

    /// What a search comes to: its schedule, or nothing if the promise is kept in every order.
    fn search(link: &str, promise: Promise, pauses: u8, crashes: u8, failovers: u8) -> Option<Settings> {
        let allowed = Allowed { pauses, crashes, failovers };
        let mut search = Search::new(&Settings::read(link).unwrap(), promise, allowed);
        while search.go_on(1000) {}
        search.found()
    }

    #[test]
    fn on_tidelocks_line_no_accepted_write_is_wrong() {
        for link in [
            "v2;policy=line;clients=3",
            "v2;policy=cohort;clients=3;tasks=2",
            "v2;policy=cohort;clients=3;tasks=3;linger=100",
            "v2;policy=cohort;clients=3;tasks=2;linger=5000", // longer than a lease
            "v2;policy=sorted;clients=2",
            "v2;policy=reentrant;clients=3",
        ] {
            assert_eq!(search(link, Promise::NoWrongWrite, 1, 0, 0), None, "{link}");
            assert_eq!(search(link, Promise::Loyalty, 1, 0, 0), None, "{link}");
            assert_eq!(search(link, Promise::Progress, 1, 1, 0), None, "{link}");
        }
        assert_eq!(search("v2;policy=line;clients=2", Promise::NoWrongWrite, 1, 1, 1), None);
        assert_eq!(search("v2;policy=line;clients=4", Promise::Exclusion, 0, 0, 0), None);
        assert_eq!(search("v2;policy=cohort;clients=4;tasks=2", Promise::Exclusion, 0, 0, 0), None);
        assert_eq!(search("v2;policy=atomic;clients=4;stock=1", Promise::NoOversell, 0, 1, 0), None);
        assert_eq!(search("v2;policy=version;clients=4", Promise::NoWrongWrite, 1, 1, 0), None);
    }

    #[test]
    fn without_the_whole_fence_a_pause_loses_an_update() {
        for fence in ["fence=0", "fence=1"] {
            let found = search(&format!("v2;policy=line;clients=3;{fence}"), Promise::NoWrongWrite, 1, 0, 0);
            let found = found.expect("a lost update");
            assert_eq!(found.schedule.len(), 7);
            assert_eq!(Run::new(&found).outcome().wrong, 1); // what is found can be played
        }
    }

    #[test]
    fn each_naive_policy_has_its_bug() {
        let wrong = Promise::NoWrongWrite;
        for (policy, promise, pauses, crashes, failovers, steps) in [
            ("none", wrong, 0, 0, 0, 4),
            ("setnx", wrong, 1, 0, 0, 7),
            ("setnx", wrong, 0, 0, 1, 7),
            ("nottl", Promise::Progress, 0, 1, 0, 4),
            ("expire", Promise::Progress, 0, 1, 0, 4),
            ("readdel", Promise::Loyalty, 1, 0, 0, 8),
            ("blinddel", Promise::Loyalty, 1, 0, 0, 7),
            ("thread", wrong, 0, 0, 0, 6),
            ("unread", wrong, 0, 0, 0, 6),
            ("redlock", Promise::Loyalty, 0, 0, 1, 9),
            ("early", wrong, 0, 0, 0, 8),
            ("nested", Promise::Progress, 0, 0, 0, 4),
            ("unsorted", Promise::Progress, 0, 0, 0, 5),
        ] {
            let found = search(&format!("v2;policy={policy};clients=3"), promise, pauses, crashes, failovers);
            let found = found.unwrap_or_else(|| panic!("{policy}: nothing found"));
            assert_eq!(found.schedule.len(), steps, "{policy}: {}", found.write());
        }
    }
}
