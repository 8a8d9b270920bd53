//! One client: where it stands in its program, and what it believes.

use crate::draw::Draws;
use crate::record::NONE;

/// What a client is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doing {
    /// About to do its next step.
    Ready,
    /// Waits for a reply.
    Calling,
    /// Stands in the line.
    InLine,
    /// Sleeps, and tries again.
    Asleep,
    /// Waits for a hint that the lock is free.
    Watching,
    /// Has ended.
    Ended,
    /// Its process is dead.
    Dead,
}

/// One client.
#[derive(Clone, Debug)]
pub struct Client {
    /// The next step of its program.
    pub pc: usize,
    /// What it is doing.
    pub doing: Doing,
    /// Counts its transitions: what was meant for an earlier one comes too late.
    pub turn: u32,
    /// Rounds that are done.
    pub rounds: u32,
    /// Whether it ends after this round.
    pub is_last: bool,
    /// Until when it stands still.
    pub paused_until: u32,
    /// Until when nothing reaches it.
    pub cut_until: u32,
    /// Which of its two locks it believes that it holds, with the token of each.
    pub holds: [Option<u32>; 2],
    /// Whether it has noticed that it lost the lock.
    pub knows_loss: bool,
    /// Whether another began to hold during its hold.
    pub crossed: bool,
    /// Whether its lease ended while it held.
    pub outlived: bool,
    /// The number of its session: a new one after each end. The tasks of a process share the session of its first lane.
    pub session: u32,
    /// The number of the newest session that the store knows.
    pub opened: u32,
    /// The number of its claim, for each of its locks; 0: none.
    pub claims: [u32; 2],
    /// Until when it may trust its lock, by its own clock.
    pub trusted_until: u32,
    /// Whether its last renewal failed.
    pub is_in_jeopardy: bool,
    /// How long a second of its own clock takes, in per cent of a second.
    pub second: u32,
    /// Whether its next reply is to be lost.
    pub loses_reply: bool,
    /// What it has read: the value and its version.
    pub read: (u32, u32),
    /// Whether `GET` named it as the owner.
    pub is_owner: bool,
    /// Votes of masters.
    pub votes: u8,
    /// Whether it works on the resource.
    pub is_at_work: bool,
    /// Since when it waits for the lock.
    pub waits_since: Option<u32>,
    /// Whether its keeper renews.
    pub keeper: bool,
    /// The event at which it read, waits or was last caused to act.
    pub because: u32,
    /// Its delays.
    pub draws: Draws,
}

impl Client {
    pub(crate) fn new(seed: u32, who: u16) -> Self {
        Self {
            pc: 0,
            doing: Doing::Ready,
            turn: 0,
            rounds: 0,
            is_last: false,
            paused_until: 0,
            cut_until: 0,
            holds: [None; 2],
            knows_loss: false,
            crossed: false,
            outlived: false,
            session: 1,
            opened: 0,
            claims: [0; 2],
            trusted_until: 0,
            is_in_jeopardy: false,
            second: 100,
            loses_reply: false,
            read: (0, 0),
            is_owner: false,
            votes: 0,
            is_at_work: false,
            waits_since: None,
            keeper: false,
            because: NONE,
            draws: Draws::new(seed, who.into()),
        }
    }

    /// How long this time by its own clock really takes.
    #[must_use]
    pub fn by_its_clock(&self, time: u32) -> u32 {
        (u64::from(time) * u64::from(self.second) / 100) as u32
    }

    /// Whether it believes that it holds anything.
    #[must_use]
    pub fn holds_any(&self) -> bool {
        self.holds.iter().any(Option::is_some)
    }

    /// Whether it will never do anything again.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        matches!(self.doing, Doing::Ended | Doing::Dead)
    }

    /// The token that it sends.
    #[must_use]
    pub fn token(&self) -> u32 {
        self.holds[0].unwrap_or(0)
    }

    /// What decides what it does next, for comparing two states. Which number its claim has does not.
    pub(crate) fn key(&self) -> impl std::hash::Hash + use<> {
        let place = (self.pc, self.doing, self.rounds, self.is_last, self.outlived, self.crossed);
        (place, self.holds, self.claims, self.session, self.read, self.is_owner, self.votes, self.is_at_work)
    }
}

/// What a process is called.
#[must_use]
pub(crate) fn name(process: u16) -> String {
    format!("c{}", process + 1)
}
