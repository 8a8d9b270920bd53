//! A whole run, from its settings to its end, and any moment of it.
//!
//! The run is carried out once, and the machine is kept every few hundred events. A moment is the machine before it,
//! cloned and run again up to that event: a step back costs what a step forward costs.

use std::collections::BinaryHeap;

use crate::machine::Machine;
use crate::record::{Kind, Record};
use crate::settings::{Act, Settings};

/// A run ends after so many events.
const MOST: u32 = 150_000;

/// A run, with everything that happened in it.
#[derive(Debug)]
pub struct Run {
    settings: Settings,
    /// What happened.
    pub record: Record,
    kept: Vec<(u32, Machine)>,
    last: Machine,
    end: u32,
}

/// What can be counted in a run up to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Orders, and how many there were to sell.
    pub sold: u32,
    /// See `sold`.
    pub stock: u32,
    /// Writes refused by the fence.
    pub refused: u32,
    /// Writes accepted that were computed from an old value.
    pub wrong: u32,
    /// Times a client began to hold while another believed that it held.
    pub overlaps: u32,
    /// Rounds completed.
    pub rounds: u32,
    /// Messages.
    pub messages: u32,
    /// Times a client began to hold.
    pub holds: u32,
    /// Waits: half of them were at most this long.
    pub p50: u32,
    /// 99 of 100 were.
    pub p99: u32,
    /// The longest, those that still wait included.
    pub max_wait: u32,
    /// Jain's index of the rounds of the clients, in per cent.
    pub fairness: u32,
    /// Clients that wait.
    pub waiting: u32,
    /// The most who sat at the same time.
    pub most_seated: u32,
    /// The value in the database, and in the cache.
    pub database: u32,
    /// See `database`.
    pub cache: u32,
    /// Requests to the store.
    pub requests: u32,
    /// Times a hold was passed on inside a process.
    pub passes: u32,
}

/// In order. A heap sorts in a tenth of the code of the library's sort, and the module is loaded by everybody.
pub(crate) fn sorted(numbers: Vec<u32>) -> Vec<u32> {
    BinaryHeap::from(numbers).into_sorted_vec()
}

impl Figures {
    /// Each figure by its word in a lesson's text.
    #[must_use]
    pub fn words(&self) -> [(&'static str, u32); 19] {
        [
            ("sold", self.sold),
            ("stock", self.stock),
            ("refused", self.refused),
            ("wrong", self.wrong),
            ("overlaps", self.overlaps),
            ("rounds", self.rounds),
            ("messages", self.messages),
            ("holds", self.holds),
            ("per", (self.messages + self.holds / 2) / self.holds.max(1)),
            ("p50", self.p50),
            ("p99", self.p99),
            ("max", self.max_wait),
            ("fairness", self.fairness),
            ("waiting", self.waiting),
            ("seated", self.most_seated),
            ("database", self.database),
            ("cache", self.cache),
            ("requests", self.requests),
            ("passes", self.passes),
        ]
    }
}

impl Run {
    /// Carries out the run with these settings.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let mut machine = Machine::new(settings);
        let mut record = Record::kept();
        let mut kept = vec![(0, machine.clone())];
        let every = 400.max(u32::from(settings.lanes()) * 16);
        let is_scheduled = !settings.schedule.is_empty();
        if is_scheduled {
            for choice in &settings.schedule {
                machine.choose(*choice, &mut record);
            }
        } else {
            while record.count < MOST && machine.step(settings.end, &mut record) {
                if record.count >= kept.last().map_or(0, |last| last.0) + every {
                    kept.push((record.count, machine.clone()));
                }
            }
        }
        let last_event = record.events.last().map_or(0, |event| event.at);
        let is_short = is_scheduled || machine.is_over() || record.count >= MOST;
        let end = if is_short { last_event + 200 } else { settings.end };
        record.close(end);
        Self { settings: settings.clone(), record, kept, last: machine, end }
    }

    /// The settings that made it.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// How many events it has.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.record.count
    }

    /// When it ends.
    #[must_use]
    pub const fn end(&self) -> u32 {
        self.end
    }

    /// The machine at the end.
    #[must_use]
    pub const fn last(&self) -> &Machine {
        &self.last
    }

    /// The machine after so many events.
    #[must_use]
    pub fn moment(&self, count: u32) -> Machine {
        self.moment_after(count, None).0
    }

    /// The machine after so many events, and how many they really are: what happens at once is not divided. If a moment
    /// not long before it is at hand, it goes on from there.
    #[must_use]
    pub fn moment_after(&self, count: u32, at_hand: Option<(Machine, u32)>) -> (Machine, u32) {
        if count >= self.record.count {
            return (self.last.clone(), self.record.count);
        }
        let before = self.kept.partition_point(|kept| kept.0 <= count).saturating_sub(1);
        let (begun, kept) = &self.kept[before];
        if !self.settings.schedule.is_empty() {
            return self.scheduled_moment(count, kept.clone());
        }
        let (mut machine, begun) = match at_hand {
            Some((machine, reached)) if reached >= *begun && reached <= count => (machine, reached),
            _ => (kept.clone(), *begun),
        };
        let mut record = Record::counted(begun);
        while record.count < count && machine.step(self.settings.end, &mut record) {}
        (machine, record.count)
    }

    fn scheduled_moment(&self, count: u32, mut machine: Machine) -> (Machine, u32) {
        let mut record = Record::counted(0);
        for choice in &self.settings.schedule {
            if record.count >= count {
                break;
            }
            machine.begin(*choice, &mut record);
            while record.count < count && machine.step(u32::MAX, &mut record) {}
        }
        (machine, record.count)
    }

    /// How many events there were at this time.
    #[must_use]
    pub fn count_at(&self, time: u32) -> u32 {
        self.record.events.partition_point(|event| event.at <= time) as u32
    }

    /// The figures after so many events, of which `machine` is the moment.
    #[must_use]
    pub fn figures(&self, count: u32, machine: &Machine) -> Figures {
        let now = if count >= self.record.count { self.end } else { machine.now };
        let over = self.record.waits.partition_point(|wait| wait.0 <= now);
        let waits = sorted(self.record.waits[..over].iter().map(|wait| wait.2).collect());
        let at = |percent: usize| waits.get((waits.len() * percent / 100).min(waits.len().saturating_sub(1)));
        let still =
            machine.clients.iter().filter(|client| !client.is_over()).filter_map(|client| client.waits_since);
        let longest = still.clone().map(|since| now.saturating_sub(since)).max().unwrap_or(0);
        let rounds: Vec<u64> = machine.clients.iter().map(|client| client.rounds.into()).collect();
        let (sum, squares) = rounds.iter().fold((0, 0), |(sum, squares), n| (sum + n, squares + n * n));
        let fairness = if squares == 0 { 100 } else { sum * sum * 100 / (squares * rounds.len() as u64) };
        Figures {
            sold: machine.resource.sold,
            stock: machine.resource.initial,
            refused: machine.resource.refused,
            wrong: machine.resource.wrong,
            overlaps: machine.counters.overlaps,
            rounds: machine.counters.rounds,
            messages: machine.counters.messages,
            holds: machine.counters.holds,
            p50: at(50).copied().unwrap_or(0),
            p99: at(99).copied().unwrap_or(0),
            max_wait: waits.last().copied().unwrap_or(0).max(longest),
            fairness: fairness as u32,
            waiting: still.count() as u32 + machine.behind_the_crowd(now),
            most_seated: machine.resource.most_seated,
            database: machine.resource.database,
            cache: machine.resource.cache,
            requests: machine.counters.requests,
            passes: machine.counters.passes,
        }
    }

    /// How many of the crowd wait, at 201 moments from the beginning to the end; nothing if there is no crowd.
    #[must_use]
    pub fn crowd(&self) -> Vec<u32> {
        const PARTS: u32 = 200;
        let crowd = self.settings.clients;
        if !self.settings.is_crowd(crowd) {
            return Vec::new();
        }
        let is_bare = self.settings.policy.is_bare();
        let mut its = self.record.events.iter().filter(|event| event.who == crowd).peekable();
        let (mut served, mut is_over) = (0, false);
        let mut waiting = |time: u32| {
            while let Some(event) = its.next_if(|event| event.at <= time) {
                let is_served = if is_bare { event.kind == Kind::Done } else { event.kind == Kind::Held };
                served += u32::from(is_served);
                is_over |=
                    event.kind == Kind::Ended || (event.kind, event.a) == (Kind::Act, Act::Kill as u32);
            }
            let come = crate::arrivals::have_come(&self.settings, time);
            if is_over { 0 } else { come.saturating_sub(served) }
        };
        (0..=PARTS)
            .map(|part| waiting((u64::from(self.end) * u64::from(part) / u64::from(PARTS)) as u32))
            .collect()
    }

    /// The figures of the whole run.
    #[must_use]
    pub fn outcome(&self) -> Figures {
        self.figures(self.record.count, &self.last)
    }

    /// A number that tells two runs apart: of all events, in order.
    #[must_use]
    pub fn fingerprint(&self) -> u32 {
        let mut mixed: u32 = 0x811c_9dc5;
        let mut mix = |n: u32| mixed = (mixed ^ n).wrapping_mul(0x0100_0193).rotate_left(5);
        for event in &self.record.events {
            for n in [event.at, event.kind as u32, event.who.into(), event.a, event.b, event.cause] {
                mix(n);
            }
        }
        mixed
    }

    /// The first event of this kind.
    #[must_use]
    pub fn first(&self, kind: Kind) -> Option<u32> {
        self.record.events.iter().position(|event| event.kind == kind).map(|index| index as u32)
    }
}
