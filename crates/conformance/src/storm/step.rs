//! The steps of a task: without end, and the same for the same dice.

use std::time::Duration;

use super::used_name::{Usage, UsedName};
use crate::{Dice, Want};

/// The largest number of tasks in one burst.
const BURST: u64 = 40;

/// One step of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// How long it rests before.
    pub(super) rest: Duration,
    /// The index of the name.
    pub(super) name: usize,
    pub(super) action: Action,
}

/// What is done with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Take(Taking),
    /// This many tasks take the name at once, and all of them give up after a while.
    Burst {
        takings: Vec<Taking>,
        after: Duration,
    },
    Resize(u32),
}

/// How a name is taken, and what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Taking {
    pub(super) want: Want,
    pub(super) how: How,
    /// How long it is held.
    pub(super) keep: Duration,
    pub(super) end: End,
}

/// How long a task waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Wait,
    Try,
    Within(Duration),
    /// The call is dropped after this time.
    Drop(Duration),
    /// The call is dropped after this many polls of another future.
    DropAfter(u64),
}

/// How a hold ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Release,
    Drop,
    /// A writer continues as a reader for the same time again, and then gives back.
    Downgrade,
}

/// The steps of one task.
#[derive(Debug)]
pub(super) struct Steps {
    dice: Dice,
    names: Vec<UsedName>,
    is_newer: bool,
    ttl: Duration,
    pace: Pace,
}

/// How fast a task goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Most rests, and some holds, last a fraction of the ttl.
    Leisurely,
    Steady,
    Quick,
    Hectic,
}

impl Pace {
    /// About one step in this many takes long.
    const fn seldom(self) -> u64 {
        match self {
            Self::Leisurely => 10,
            Self::Steady => 200,
            Self::Quick => 2_000,
            Self::Hectic => 20_000,
        }
    }
}

impl Steps {
    pub(super) fn new(dice: Dice, names: Vec<UsedName>, is_newer: bool, pace: Pace, ttl: Duration) -> Self {
        Self { dice, names, is_newer, ttl, pace }
    }

    fn taking(&self, usage: Usage) -> Taking {
        let how = match self.dice.below(10) {
            0 | 1 => How::Try,
            2 => How::Within(self.part(3)),
            3 => How::Within(self.part(200)),
            4 => How::Drop(self.part(200)),
            5 => How::DropAfter(self.dice.below(8)),
            _ => How::Wait,
        };
        let keep = match self.dice.below(self.pace.seldom()) {
            0 => self.part(1) + self.part(2), // it is renewed meanwhile
            1..=9 => self.part(20),
            10..=60 => self.part(500),
            _ => Duration::ZERO,
        };
        let end = *self.dice.pick(&[End::Release, End::Drop, End::Downgrade]);
        Taking { want: usage.want(&self.dice, self.is_newer), how, keep, end }
    }

    /// A random time, at most `ttl / of`.
    fn part(&self, of: u32) -> Duration {
        let most = u64::try_from((self.ttl / of).as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.dice.below(most))
    }
}

impl Iterator for Steps {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let rest = match self.dice.below(self.pace.seldom()) {
            0..=4 if self.pace == Pace::Leisurely => self.part(1),
            0..=4 => self.part(4),
            5..=50 => self.part(200),
            _ => Duration::ZERO,
        };
        let name = usize::try_from(self.dice.below(self.names.len() as u64)).unwrap_or(0);
        let usage = self.names[name].usage;
        let action = match (usage, self.dice.below(100)) {
            (Usage::Resized(size), 0..=5) => Action::Resize(self.dice.weight(size * 2).get()),
            (_, 6) => {
                let takings = (0..2 + self.dice.below(BURST)).map(|_| self.taking(usage)).collect();
                Action::Burst { takings, after: self.part(5) }
            }
            _ => Action::Take(self.taking(usage)),
        };
        Some(Step { rest, name, action })
    }
}
