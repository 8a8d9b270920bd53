//! A world as data: who does what when, and what goes wrong. The same plan is the same history, byte by byte.
//!
//! All times are in milliseconds.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock_history::Want;

/// A world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Decides every choice of the network, and the order of what happens at once.
    pub(crate) seed: u64,
    /// What keeps the lines.
    #[serde(default)]
    pub(crate) stores: Stores,
    pub(crate) ttl: u64,
    /// In one shard, a claim lives as long as its session. With more, it lives by itself, as in a cluster.
    pub(crate) shards: u32,
    /// Whether messages of one client arrive in the order in which they were sent.
    pub(crate) is_ordered: bool,
    /// Whether the store tells of a grant only that its line has changed.
    pub(crate) is_hinting: bool,
    /// How long a message takes at most.
    pub(crate) delay: u64,
    /// How many pushes in a hundred are lost, and how many come twice.
    pub(crate) lost_pushes: u64,
    pub(crate) doubled_pushes: u64,
    /// When the tasks begin nothing new.
    pub(crate) ends: u64,
    pub(crate) names: Vec<Usage>,
    pub(crate) clients: Vec<Part>,
    pub(crate) steps: Vec<Step>,
    pub(crate) troubles: Vec<Trouble>,
}

/// What keeps the lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stores {
    /// The memory backend, behind a network.
    #[default]
    Memory,
    /// The Redis backend, on a server of ours.
    Redis,
    /// The same, on the master that sentinels name.
    RedisSentinels,
    /// The same, on the masters of a cluster.
    RedisCluster,
}

/// How a name is used. Its index in the plan is its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Usage {
    Mutex,
    RwLock,
    Semaphore(u32),
    /// As all of them.
    Mixed,
}

/// A client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Part {
    /// How many millionths its clock gains.
    pub(crate) ppm: i64,
    pub(crate) command_deadline: u64,
    pub(crate) first_pause: u64,
    pub(crate) longest_pause: u64,
    pub(crate) max_hold: Option<u64>,
    /// For how long it passes a hold on among its own tasks.
    #[serde(default)]
    pub(crate) linger: u64,
    /// Whether it is closed at the end. Otherwise its last handle is dropped.
    pub(crate) is_closed: bool,
}

/// One step of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) client: usize,
    pub(crate) task: usize,
    /// How long the task rests before.
    pub(crate) rest: u64,
    /// The future of the step is dropped instead of this poll, wherever it waits by then.
    #[serde(default)]
    pub(crate) polls: Option<u32>,
    pub(crate) action: Action,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Action {
    Take(Taking),
    Resize {
        name: usize,
        to: u32,
    },
    /// Takes the first claims out of a line.
    Evict {
        name: usize,
        count: usize,
    },
    Inspect {
        name: usize,
    },
    /// Several at once, each with its own time.
    Close {
        within: Vec<u64>,
    },
    Drain {
        within: u64,
    },
}

/// An acquire, and what becomes of the guard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Taking {
    pub(crate) name: usize,
    pub(crate) wanted: Wanted,
    pub(crate) how: How,
    pub(crate) tool: Tool,
    pub(crate) keep: u64,
    /// Whether the guard runs the work.
    pub(crate) runs: bool,
    pub(crate) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Wanted {
    Lock,
    Read,
    Write,
    Permits(u32, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum How {
    Wait,
    Try,
    Within(u64),
    /// The future is dropped after so many polls, or that time.
    Polls(u32, u64),
    /// The future is polled once, and dropped after that time.
    Neglect(u64),
    /// The future is polled so often and then not for that time, as where its thread is busy. Then it waits.
    Away(u32, u64),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Tool {
    Plain,
    /// With the lifetime of its own that `with_ttl` gives.
    Ttl(u64),
    /// The owner takes it twice, the second time inside or at once.
    Reentrant {
        at_once: bool,
    },
    /// The stripe of a key.
    Striped(u64),
    /// Whichever stripe is free.
    AnyStripe,
    /// Together with these.
    All(Vec<usize>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum End {
    Release,
    Drop,
    /// The future of the release is polled once, and dropped after that time.
    Neglect(u64),
    /// Another task drops the guard.
    HandOver(u64),
    /// A writer becomes a reader, and is released after that time.
    Downgrade(u64),
}

/// Something that goes wrong for a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trouble {
    pub(crate) at: u64,
    pub(crate) lasts: u64,
    pub(crate) what: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Fault {
    /// Requests and replies of a client are lost, so many in a hundred; some are told.
    Rain { client: usize, requests: u64, replies: u64, are_told: bool },
    /// Messages of a client take up to so long.
    Slow { client: usize, delay: u64 },
    /// Every request of a client is refused at once.
    Refuse { client: usize },
    /// Nothing goes between a client and the store; what was sent arrives late.
    Cut { client: usize, are_pushes_lost: bool },
    /// No answers come, and what was asked is done.
    Deaf { client: usize },
    /// The server of a shard stands still.
    StallShard { shard: u32 },
    /// Requests for one name wait.
    StallName { name: usize },
    /// The machine of a client sleeps.
    Suspend { client: usize },
    /// The store ends the sessions of a client.
    EndSession { client: usize, is_told: bool },
    /// The store forgets everything but the last token.
    Forget { are_told: bool },
    /// The store forgets who holds a name.
    ForgetHolders { name: usize },
    /// Claims of a client that have left stand in line again.
    Revive { client: usize, count: usize },
    /// No pushes come, nor news of that.
    LosePushes { client: usize },
    /// The client hears that it may have missed pushes.
    Reconnect { client: usize },
    /// The connections of a client carry nothing any more, and nobody says so. (From here on: only with servers.)
    HalfOpen { client: usize },
    /// The same for the one on which the client hears of its turns, and says nothing.
    Idle { client: usize },
    /// A server knows no scripts any more.
    ForgetScripts { shard: u32 },
    /// A server accepts no more connections.
    Full { shard: u32 },
    /// A shard gets another master in the end. If something is lost, it is what was done from the beginning of the fault.
    /// The old master may be alive, and then refuses writes.
    Failover { shard: u32, is_lost: bool, is_alive: bool },
    /// So many sentinels, from this one on, still name the master before.
    Behind { sentinel: usize, count: usize },
    /// A cluster's node serves nothing, because it is not in touch with the others.
    Down { shard: u32 },
    /// Slots of a shard are moved to the next one, in that time.
    Move { shard: u32, lasts: u64 },
}

impl Plan {
    pub(crate) fn ttl(&self) -> Duration {
        ms(self.ttl)
    }

    /// When the last trouble is over.
    pub(crate) fn healed(&self) -> Duration {
        let last = self.troubles.iter().map(|trouble| {
            let late = if let Fault::Slow { delay, .. } = trouble.what { delay } else { 0 };
            trouble.at + trouble.lasts + late // for a message takes its time also if it was sent at the last moment
        });
        ms(last.max().unwrap_or(0))
    }

    /// The longest lifetime that any claim has.
    pub(crate) fn longest_ttl(&self) -> Duration {
        let own = self.steps.iter().filter_map(|step| match &step.action {
            Action::Take(Taking { tool: Tool::Ttl(ttl), .. }) => Some(*ttl),
            _ => None,
        });
        ms(own.max().unwrap_or(0).max(self.ttl))
    }

    /// Whether every push comes, unless something goes wrong for its client.
    pub(crate) fn are_pushes_reliable(&self) -> bool {
        let are_lost = |trouble: &Trouble| {
            matches!(trouble.what, Fault::LosePushes { .. } | Fault::EndSession { .. } | Fault::Forget { .. })
        };
        self.lost_pushes == 0 && !self.troubles.iter().any(are_lost)
    }

    /// Whether anybody takes claims out of that line.
    pub(crate) fn evicts(&self, from: usize) -> bool {
        self.steps.iter().any(|step| matches!(step.action, Action::Evict { name, .. } if name == from))
    }

    /// Whether a client is closed or drained before the end.
    pub(crate) fn ends_early(&self, client: usize) -> bool {
        let ends = |action: &Action| matches!(action, Action::Close { .. } | Action::Drain { .. });
        self.steps.iter().any(|step| step.client == client && ends(&step.action))
    }

    /// Whether any client passes holds on among its own tasks.
    pub(crate) fn lingers(&self) -> bool {
        self.clients.iter().any(|part| part.linger > 0)
    }

    /// For how long, at most, a client passes a hold on, by the time of the world: its clock may be slow.
    pub(crate) fn longest_linger(&self) -> Duration {
        let longest = self.clients.iter().map(|part| part.linger).max().unwrap_or(0);
        Duration::from_millis(if longest > 0 { longest + longest / 400 + 1 } else { 0 })
    }

    /// How many tasks a client has.
    pub(crate) fn tasks(&self, client: usize) -> usize {
        let tasks = self.steps.iter().filter(|step| step.client == client).map(|step| step.task + 1);
        tasks.max().unwrap_or(0)
    }
}

/// The text of a name of the plan.
pub(crate) fn name_of(name: usize) -> String {
    format!("n{name}")
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

impl Wanted {
    pub(crate) fn want(self) -> Want {
        match self {
            Self::Lock => Want::Lock,
            Self::Read => Want::Read,
            Self::Write => Want::Write,
            Self::Permits(n, of) => Want::Permits(n, of),
        }
    }
}

impl Action {
    /// The names that it is about.
    pub(crate) fn names(&self) -> Vec<usize> {
        match self {
            Self::Take(Taking { name, tool: Tool::All(others), .. }) => {
                std::iter::once(*name).chain(others.iter().copied()).collect()
            }
            Self::Take(Taking { name, .. })
            | Self::Resize { name, .. }
            | Self::Evict { name, .. }
            | Self::Inspect { name } => vec![*name],
            Self::Close { .. } | Self::Drain { .. } => Vec::new(),
        }
    }
}

impl fmt::Display for Plan {
    /// The plan as a story.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, ttl, shards, delay, lost_pushes, doubled_pushes, .. } = self;
        let order = if self.is_ordered { "in order" } else { "in any order" };
        writeln!(
            f,
            "seed {seed}: claims live for {ttl} ms, {shards} shards; messages take up to {delay} ms and arrive {order}; of a hundred pushes {lost_pushes} are lost, {doubled_pushes} come twice"
        )?;
        let acts = |client: usize| self.steps.iter().any(|step| step.client == client);
        for (client, part) in self.clients.iter().enumerate().filter(|(client, _)| acts(*client)) {
            let Part { ppm, command_deadline, first_pause, longest_pause, max_hold, linger, is_closed } =
                part;
            let limit = max_hold.map_or_else(String::new, |limit| format!(", holds for {limit} ms at most"));
            let end = if *is_closed { "closed" } else { "dropped" };
            writeln!(
                f,
                "client {client}: gains {ppm} ppm, a command may take {command_deadline} ms, pauses {first_pause} to {longest_pause} ms{limit}, lingers for {linger} ms; {end} in the end"
            )?;
        }
        for Step { client, task, rest, polls, action } in &self.steps {
            let dropped =
                polls.map_or_else(String::new, |polls| format!(", which is dropped after {polls} polls"));
            writeln!(f, "client {client}, task {task}: after {rest} ms {action:?}{dropped}")?;
        }
        for Trouble { at, lasts, what } in &self.troubles {
            writeln!(f, "after {at} ms, for {lasts} ms: {what:?}")?;
        }
        write!(f, "after {} ms: nothing new is begun", self.ends)
    }
}
