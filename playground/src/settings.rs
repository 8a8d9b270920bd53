//! Everything that decides a run: settings, a seed, and what was done to it. A link is exactly this, as text.
//!
//! ```text
//! v2;policy=line;work=sale;clients=3;…;do=2000.pause.0.4000,…;steps=s0s1p0
//! ```
//!
//! Only what differs from the default is written. A text with another version, an unknown word or a number out of
//! range is an error, with a sentence for the reader.

use std::ops::Range;

use crate::client::name;
use crate::policy::Policy;

/// The version of the rules of a run. A link with another one could show another run, so it is refused. In v1 a crowd
/// was how many people each lane stood for; servers restarted and clocks ran by other rules.
pub const VERSION: &str = "v2";

/// What is done under the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// Read the stock, and write one less.
    Sale,
    /// Readers and writers of one page.
    Pages,
    /// Places, of which there are only so many.
    Seats,
    /// The same value into a database and a cache.
    Cache,
}

/// How clients come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arrival {
    /// One round after the other, with about the same time between them.
    Steady,
    /// All in the first moment; later rounds are steady.
    Once,
    /// By chance: often close together, and sometimes long not at all.
    Poisson,
    /// In waves, each a gap after the last.
    Bursts,
}

/// How news travels from the store to one that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flavour {
    /// The store tells the one whose turn it is (Redis).
    Push,
    /// The store fires a watch, and the client looks (ZooKeeper).
    Watch,
    /// The same, on a range of keys (etcd).
    Range,
    /// The client asks now and then (MySQL).
    Poll,
}

/// What may be done to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Act {
    /// The client stands still for so long: a garbage collection, a sleeping laptop.
    Pause,
    /// The client's process dies.
    Kill,
    /// Nothing reaches the client or comes from it for so long.
    Partition,
    /// The next reply to the client is lost.
    LoseReply,
    /// The client stops waiting.
    Cancel,
    /// The client's own clock runs slow by so many per cent from now on.
    Slow,
    /// The client's own clock runs fast by so many per cent from now on.
    Fast,
    /// The client's wall clock is set ahead by so much.
    Skew,
    /// The network between the client and the rest is whole again.
    Heal,
    /// The server restarts: it is away for so long.
    Restart,
    /// The server's process is killed, and stays away.
    Stop,
    /// It is started again.
    Start,
    /// A replica takes over that has missed the newest writes.
    Failover,
    /// The server's clock jumps ahead by so much.
    Jump,
}

/// Each act and its word in a link.
pub const ACTS: [(Act, &str); 14] = [
    (Act::Pause, "pause"),
    (Act::Kill, "kill"),
    (Act::Partition, "partition"),
    (Act::LoseReply, "lose"),
    (Act::Cancel, "cancel"),
    (Act::Slow, "slow"),
    (Act::Fast, "fast"),
    (Act::Skew, "skew"),
    (Act::Heal, "heal"),
    (Act::Restart, "restart"),
    (Act::Stop, "stop"),
    (Act::Start, "start"),
    (Act::Failover, "failover"),
    (Act::Jump, "jump"),
];

/// One thing done to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Action {
    /// When, in milliseconds.
    pub at: u32,
    /// What.
    pub act: Act,
    /// To which client, or to which server.
    pub who: u16,
    /// For how long, by how much.
    pub by: u32,
}

/// One step of a schedule: what the search chooses from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Nothing: the beginning of a schedule that is still to be chosen.
    Begin,
    /// This client does its next operation.
    Step(u8),
    /// This client stands still until its lease is over, while all others go on renewing.
    Lapse(u8),
    /// This client's process dies.
    Crash(u8),
    /// A replica takes over that has missed the newest write.
    Failover,
}

/// Everything that decides a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How the lock is taken.
    pub policy: Policy,
    /// What is done under it.
    pub work: Work,
    /// How news travels.
    pub flavour: Flavour,
    /// How many clients.
    pub clients: u16,
    /// How many more clients there are, all in one lane.
    pub crowd: u32,
    /// How many of the clients are tasks of one process: the first so many, the next so many, and so on.
    pub tasks: u16,
    /// For how long the tasks of a process may pass a hold along.
    pub linger: u32,
    /// How clients come.
    pub arrival: Arrival,
    /// The seed of all delays.
    pub seed: u32,
    /// Items to sell.
    pub stock: u32,
    /// Rounds of each client; 0: until nothing is left.
    pub rounds: u16,
    /// The lease, in milliseconds.
    pub ttl: u32,
    /// Whether leases are renewed.
    pub renew: bool,
    /// What the resource checks: 0 nothing, 1 the token of writes, 2 of reads and writes.
    pub fence: u8,
    /// Mean time of a message.
    pub latency: u32,
    /// Lost messages, in per cent.
    pub loss: u32,
    /// Mean time of the work under the lock.
    pub hold: u32,
    /// Mean time between two rounds of a client.
    pub gap: u32,
    /// Time between two polls.
    pub poll: u32,
    /// Permits of a semaphore.
    pub permits: u32,
    /// Into how many segments the stock is divided, each with its own lock.
    pub segments: u8,
    /// How many of the clients write, if the others read.
    pub writers: u16,
    /// The length of the run, in milliseconds.
    pub end: u32,
    /// What is done to it.
    pub actions: Vec<Action>,
    /// If not empty: the order of operations, one after the other.
    pub schedule: Vec<Choice>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: Policy::Nothing,
            work: Work::Sale,
            flavour: Flavour::Push,
            clients: 2,
            crowd: 0,
            tasks: 1,
            linger: 400,
            arrival: Arrival::Steady,
            seed: 1,
            stock: 10,
            rounds: 0,
            ttl: 2_000,
            renew: true,
            fence: 2,
            latency: 20,
            loss: 0,
            hold: 120,
            gap: 120,
            poll: 100,
            permits: 3,
            segments: 1,
            writers: 1,
            end: 12_000,
            actions: Vec::new(),
            schedule: Vec::new(),
        }
    }
}

/// The numbers of a link: word, smallest and greatest value.
const NUMBERS: [(&str, u32, u32); 19] = [
    ("clients", 1, 200),
    ("crowd", 0, 100_000),
    ("tasks", 1, 200),
    ("linger", 0, 20_000),
    ("seed", 0, 999_999),
    ("stock", 0, 100_000),
    ("rounds", 0, 10_000),
    ("ttl", 50, 60_000),
    ("renew", 0, 1),
    ("fence", 0, 2),
    ("latency", 0, 1_000),
    ("loss", 0, 90),
    ("hold", 0, 20_000),
    ("gap", 0, 20_000),
    ("poll", 5, 5_000),
    ("permits", 1, 200),
    ("segments", 1, 8),
    ("writers", 0, 200),
    ("end", 500, 600_000),
];

/// The most actions that a link may have.
const MOST: usize = 400;

impl Settings {
    /// Reads the text of a link.
    ///
    /// # Errors
    ///
    /// A sentence about what is wrong with it.
    pub fn read(text: &str) -> Result<Self, String> {
        let mut parts = text.split(';');
        match parts.next() {
            Some(VERSION) => {}
            Some(other) if other.starts_with('v') && other.len() < 5 => {
                return Err(format!(
                    "this link was made by version {other} of the playground; this is {VERSION}"
                ));
            }
            _ => return Err("this link is damaged: it does not begin with a version".to_owned()),
        }
        let mut settings = Self::default();
        for part in parts.filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| damaged(part))?;
            settings.set(key, value)?;
        }
        Ok(settings)
    }

    /// Changes one setting.
    ///
    /// # Errors
    ///
    /// A sentence about what is wrong with it.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "policy" => self.policy = Policy::of_word(value).ok_or_else(|| damaged(value))?,
            "work" => {
                self.work = match value {
                    "sale" => Work::Sale,
                    "pages" => Work::Pages,
                    "seats" => Work::Seats,
                    "cache" => Work::Cache,
                    _ => return Err(damaged(value)),
                }
            }
            "flavour" => {
                self.flavour = match value {
                    "push" => Flavour::Push,
                    "watch" => Flavour::Watch,
                    "range" => Flavour::Range,
                    "poll" => Flavour::Poll,
                    _ => return Err(damaged(value)),
                }
            }
            "arrival" => {
                self.arrival = match value {
                    "steady" => Arrival::Steady,
                    "once" => Arrival::Once,
                    "poisson" => Arrival::Poisson,
                    "bursts" => Arrival::Bursts,
                    _ => return Err(damaged(value)),
                }
            }
            "do" => self.actions = value.split(',').map(action).collect::<Result<_, _>>()?,
            "steps" => self.schedule = choices(value)?,
            _ => self.set_number(key, value)?,
        }
        if self.actions.len() > MOST || self.schedule.len() > MOST {
            return Err(format!("this link is damaged: it has more than {MOST} actions"));
        }
        Ok(())
    }

    fn set_number(&mut self, key: &str, value: &str) -> Result<(), String> {
        let row = NUMBERS.iter().find(|row| row.0 == key).ok_or_else(|| damaged(key))?;
        let number: u32 = value.parse().map_err(|_| damaged(value))?;
        if !(row.1..=row.2).contains(&number) {
            return Err(format!("{key} is {number}; it must be from {} to {}", row.1, row.2));
        }
        let small = number as u16;
        match key {
            "clients" => self.clients = small,
            "crowd" => self.crowd = number,
            "tasks" => self.tasks = small,
            "linger" => self.linger = number,
            "seed" => self.seed = number,
            "stock" => self.stock = number,
            "rounds" => self.rounds = small,
            "ttl" => self.ttl = number,
            "renew" => self.renew = number == 1,
            "fence" => self.fence = number as u8,
            "latency" => self.latency = number,
            "loss" => self.loss = number,
            "hold" => self.hold = number,
            "gap" => self.gap = number,
            "poll" => self.poll = number,
            "permits" => self.permits = number,
            "segments" => self.segments = number as u8,
            "writers" => self.writers = small,
            _ => self.end = number,
        }
        Ok(())
    }

    fn number(&self, key: &str) -> u32 {
        match key {
            "clients" => self.clients.into(),
            "crowd" => self.crowd,
            "tasks" => self.tasks.into(),
            "linger" => self.linger,
            "seed" => self.seed,
            "stock" => self.stock,
            "rounds" => self.rounds.into(),
            "ttl" => self.ttl,
            "renew" => self.renew.into(),
            "fence" => self.fence.into(),
            "latency" => self.latency,
            "loss" => self.loss,
            "hold" => self.hold,
            "gap" => self.gap,
            "poll" => self.poll,
            "permits" => self.permits,
            "segments" => self.segments.into(),
            "writers" => self.writers.into(),
            _ => self.end,
        }
    }

    /// The value of a setting, as its text.
    #[must_use]
    pub fn get(&self, key: &str) -> String {
        match key {
            "policy" => self.policy.word().to_owned(),
            "work" => match self.work {
                Work::Sale => "sale",
                Work::Pages => "pages",
                Work::Seats => "seats",
                Work::Cache => "cache",
            }
            .to_owned(),
            "flavour" => match self.flavour {
                Flavour::Push => "push",
                Flavour::Watch => "watch",
                Flavour::Range => "range",
                Flavour::Poll => "poll",
            }
            .to_owned(),
            "arrival" => match self.arrival {
                Arrival::Steady => "steady",
                Arrival::Once => "once",
                Arrival::Poisson => "poisson",
                Arrival::Bursts => "bursts",
            }
            .to_owned(),
            "do" => joined(&self.actions.iter().map(written).collect::<Vec<_>>(), ","),
            "steps" => self.schedule.iter().map(|choice| choice.written()).collect(),
            _ => self.number(key).to_string(),
        }
    }

    /// The text of a link.
    #[must_use]
    pub fn write(&self) -> String {
        let plain = Self::default();
        let mut text = VERSION.to_owned();
        let keys = ["policy", "work", "flavour", "arrival"].into_iter();
        let keys = keys.chain(NUMBERS.iter().map(|row| row.0)).chain(["do", "steps"]);
        for key in keys {
            let value = self.get(key);
            if value != plain.get(key) {
                text.extend([";", key, "=", &value]);
            }
        }
        text
    }

    /// Whether the server has what it kept after a restart: all but a Redis, as it is usually set up.
    #[must_use]
    pub const fn keeps_on_disk(&self) -> bool {
        let is_redis = matches!(self.flavour, Flavour::Push);
        matches!(self.policy, Policy::Herd) || (self.policy.has_line() && !is_redis)
    }

    /// How many lanes there are: one for each client, and one for the crowd.
    #[must_use]
    pub const fn lanes(&self) -> u16 {
        self.clients + (self.crowd > 0) as u16
    }

    /// The process of this lane. The crowd is one of its own.
    #[must_use]
    pub const fn process(&self, who: u16) -> u16 {
        if self.is_crowd(who) { self.clients.div_ceil(self.tasks) } else { who / self.tasks }
    }

    /// The lanes of this process.
    #[must_use]
    pub fn lanes_of(&self, process: u16) -> Range<u16> {
        let first = u32::from(process) * u32::from(self.tasks);
        if first >= self.clients.into() {
            return self.clients..self.lanes();
        }
        first as u16..(first + u32::from(self.tasks)).min(self.clients.into()) as u16
    }

    /// What a lane is called: by its process, and if that has several tasks, by the task.
    #[must_use]
    pub(crate) fn name(&self, who: u16) -> String {
        let process = name(self.process(who));
        if self.tasks == 1 || self.is_crowd(who) {
            return process;
        }
        format!("{process}.{}", who % self.tasks + 1)
    }

    /// Whether this lane is the crowd's.
    #[must_use]
    pub const fn is_crowd(&self, who: u16) -> bool {
        self.crowd > 0 && who == self.clients
    }

    /// Whether this client only reads.
    #[must_use]
    pub const fn reads_only(&self, who: u16) -> bool {
        matches!(self.work, Work::Pages) && who >= self.writers
    }
}

/// These texts, with something between them.
pub(crate) fn joined(parts: &[String], between: &str) -> String {
    let mut text = String::new();
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            text.push_str(between);
        }
        text.push_str(part);
    }
    text
}

fn damaged(part: &str) -> String {
    format!("this link is damaged: it says \"{}\"", part.get(..20).unwrap_or(part))
}

fn action(text: &str) -> Result<Action, String> {
    let mut parts = text.split('.');
    let mut next = || parts.next().unwrap_or_default();
    let at = next().parse::<u32>().ok();
    let word = next();
    let act = ACTS.iter().find(|row| row.1 == word).map(|row| row.0);
    let (who, by) = (next().parse::<u32>().ok(), next().parse::<u32>().ok());
    match (at, act, who, by) {
        (Some(at @ ..=600_000), Some(act), Some(who @ ..=200), Some(by @ ..=600_000)) => {
            Ok(Action { at, act, who: who as u16, by })
        }
        _ => Err(damaged(text)),
    }
}

fn written(action: &Action) -> String {
    let word = ACTS.iter().find(|row| row.0 == action.act).map_or("", |row| row.1);
    format!("{}.{word}.{}.{}", action.at, action.who, action.by)
}

fn choices(text: &str) -> Result<Vec<Choice>, String> {
    let mut letters = text.chars();
    let mut found = Vec::new();
    while let Some(letter) = letters.next() {
        let digit = letters.next().and_then(|digit| digit.to_digit(10)).ok_or_else(|| damaged(text))? as u8;
        found.push(match letter {
            'b' => Choice::Begin,
            's' => Choice::Step(digit),
            'p' => Choice::Lapse(digit),
            'k' => Choice::Crash(digit),
            'f' => Choice::Failover,
            _ => return Err(damaged(text)),
        });
    }
    Ok(found)
}

impl Choice {
    fn written(self) -> String {
        match self {
            Self::Begin => "b0".to_owned(),
            Self::Step(who) => format!("s{who}"),
            Self::Lapse(who) => format!("p{who}"),
            Self::Crash(who) => format!("k{who}"),
            Self::Failover => "f0".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_as_it_was_written() {
        let text = "v2;policy=line;clients=4;renew=0;do=100.pause.1.4000,200.failover.0.0;steps=s0p1k2f0";
        let settings = Settings::read(text).unwrap();
        assert_eq!(settings.write(), text);
        assert_eq!(Settings::read(&Settings::default().write()).unwrap(), Settings::default());
    }

    #[test]
    fn a_link_that_is_damaged_says_so() {
        for text in [
            "",
            "hello",
            "v0;policy=line",
            "v2;policy=magic",
            "v2;clients=0",
            "v2;do=1.nap.0.0",
            "v2;steps=x1",
        ] {
            assert!(Settings::read(text).is_err(), "{text}");
        }
        assert!(Settings::read("v0;a=b").unwrap_err().contains("version v0"));
    }

    /// What the runs of some links are under this version: their events, mixed.
    const RULES: (&str, u32) = ("v2", 2_338_917_831);

    #[test]
    fn who_changes_the_rules_raises_the_version() {
        let links = [
            "policy=line;clients=5;crowd=300;arrival=bursts;stock=40;loss=4",
            "policy=line;flavour=watch;clients=4;do=700.restart.0.800,1600.slow.1.50,1800.failover.0.0",
            "policy=line;flavour=poll;work=pages;clients=4;do=500.partition.1.9000",
            "policy=setnx;clients=3;crowd=50;do=900.pause.0.3000,1500.kill.1.0",
            "policy=redlock;clients=3;do=160.jump.0.3000,1400.restart.1.0",
            "policy=line;clients=2;rounds=1;fence=1;steps=s0s0p0s1s1s0s1",
            "policy=cohort;clients=5;tasks=3;crowd=90;linger=250;loss=4;do=900.cancel.0.0,1700.pause.1.3000",
        ];
        let print =
            |link| crate::Run::new(&Settings::read(&format!("{VERSION};{link}")).unwrap()).fingerprint();
        let mixed = links.map(print).iter().fold(0, |mixed: u32, print| mixed.rotate_left(5) ^ print);
        let said =
            "a link shows another run than before: raise VERSION, and write down here what its runs are now";
        assert_eq!((VERSION, mixed), RULES, "{said}");
    }
}
