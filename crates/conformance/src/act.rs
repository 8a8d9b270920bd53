//! What a trial does to the server, or to what lies between it and its clients.

use std::fmt;
use std::time::Duration;

use crate::{Ability, Way};

/// Whom an act concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Every client, and so the server.
    Everyone,
    /// The client of that label.
    Client(String),
}

impl Whom {
    /// Whether the client of that label is meant.
    #[must_use]
    pub fn is(&self, label: &str) -> bool {
        match self {
            Self::Everyone => true,
            Self::Client(meant) => meant == label,
        }
    }
}

/// Which of several servers that agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// Whom the others follow.
    Leader,
    /// One that follows.
    Follower,
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leader => "the leader",
            Self::Follower => "a follower",
        })
    }
}

/// One thing done to the server, or to a connection. It lasts until [`Act::Heal`], unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Act {
    /// Everything is refused.
    Refuse(Whom),
    /// The next so many replies are lost, though what was asked is done.
    LoseReplies(Whom, usize),
    /// Each request and its reply together take so much longer.
    Delay(Whom, Duration),
    /// Requests do not arrive before the heal; they do then, even if nobody waits for the reply any more.
    HoldRequests(Whom),
    /// Requests arrive, and nothing comes back before the heal.
    HoldReplies(Whom),
    /// Requests of any client that concern this name do not arrive before the heal.
    StallName(String),
    /// Nothing is told by itself.
    DropSignals(Whom),
    /// The client is dead, for good.
    Kill(Whom),
    /// The session is over at once.
    EndSession(Whom),
    /// Clients stand still for so long, as on a machine that sleeps; when they go on, it has passed.
    Sleep(Duration),
    /// Every connection is closed, and each new one too.
    Cut(Whom),
    /// Every connection is reset, and each new one too.
    Reset(Whom),
    /// Each time the client's connections to a server have carried so many pieces there, the one that carried the last
    /// is cut: what was asked arrives, and its reply does not. New ones work.
    CutAfter(Whom, u64),
    /// The connections that there are carry nothing any more, for good, and nobody is told. New ones work.
    HalfOpen(Whom),
    /// The connection that the client is told things on is closed, and each new one too.
    CutPush(Whom),
    /// The network carries nothing that way; at the heal it arrives.
    Stall(Whom, Way),
    /// What is sent on the connections that there are stays on its way; at the heal it arrives, even if they were
    /// given up. New ones work.
    Strand(Whom),
    /// What the network carries that way takes so much longer.
    Lag(Whom, Way, Duration),
    /// The server is stopped in good order, and started again at once.
    Restart,
    /// The server dies, and is started again at once.
    Crash,
    /// The server is stopped; it is started at the heal.
    Stop,
    /// The server's process stands still; it goes on at the heal.
    Pause,
    /// The server forgets everything it was told.
    Forget,
    /// Replicas miss what is written from now on, until one takes over.
    FallBehind,
    /// The server dies, and a replica takes over.
    FailOver,
    /// The server that has this name gives it to another one. It takes a while, and is over when this returns.
    MoveName(String),
    /// The server that has this name stands still; it goes on at the heal.
    PauseHome(String),
    /// The server that has this name dies; it is started at the heal.
    KillHome(String),
    /// The server in that seat dies; it is started at the heal.
    KillSeat(Seat),
    /// Between the server in that seat and all others nothing gets through, until the heal. Clients reach it as before.
    CutOff(Seat),
    /// The server's clock is set so much later, for good.
    StepClock(Duration),
    /// The server's clock is set so much earlier, for good.
    StepClockBack(Duration),
    /// Each client in a process of its own that connects from now on has a clock that is so much later than the last one's.
    SkewClients(Duration),
    /// Everything is as it should be. The dead stay dead.
    Heal,
}

impl Act {
    /// What a subject must be able to do for it; healing is for everyone.
    #[must_use]
    pub fn needs(&self) -> Option<Ability> {
        Some(match self {
            Self::Refuse(_) => Ability::Refuse,
            Self::LoseReplies(..) => Ability::LoseReplies,
            Self::Delay(..) => Ability::Delay,
            Self::HoldRequests(_) | Self::HoldReplies(_) => Ability::HoldBack,
            Self::StallName(_) => Ability::StallName,
            Self::DropSignals(_) => Ability::DropSignals,
            Self::Kill(_) => Ability::Kill,
            Self::EndSession(_) => Ability::EndSession,
            Self::Sleep(_) => Ability::Sleep,
            Self::Cut(_) | Self::Reset(_) | Self::CutAfter(..) | Self::HalfOpen(_) => Ability::Cut,
            Self::CutPush(_) => Ability::CutPush,
            Self::Stall(..) | Self::Strand(_) | Self::Lag(..) => Ability::Stall,
            Self::Restart | Self::Crash | Self::Stop => Ability::Restart,
            Self::Pause => Ability::Pause,
            Self::Forget => Ability::Forget,
            Self::FallBehind | Self::FailOver => Ability::FailOver,
            Self::MoveName(_) | Self::PauseHome(_) | Self::KillHome(_) => Ability::Spread,
            Self::KillSeat(_) | Self::CutOff(_) => Ability::Agree,
            Self::StepClock(_) | Self::StepClockBack(_) => Ability::StepClock,
            Self::SkewClients(_) => Ability::SkewClients,
            Self::Heal => return None,
        })
    }
}

/// As a history tells it.
impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuse(whom) => write!(f, "every request of {whom} is refused"),
            Self::LoseReplies(whom, usize::MAX) => write!(f, "every reply to {whom} is lost"),
            Self::LoseReplies(whom, 1) => write!(f, "the next reply to {whom} is lost"),
            Self::LoseReplies(whom, count) => write!(f, "the next {count} replies to {whom} are lost"),
            Self::Delay(whom, delay) => write!(f, "requests of {whom} take {delay:?} longer"),
            Self::HoldRequests(whom) => write!(f, "requests of {whom} are held back"),
            Self::HoldReplies(whom) => write!(f, "replies to {whom} are held back"),
            Self::StallName(name) => write!(f, "everything about {name:?} stalls"),
            Self::DropSignals(whom) => write!(f, "nothing is told to {whom} any more"),
            Self::Kill(whom) => write!(f, "{whom} dies"),
            Self::EndSession(whom) => write!(f, "the session of {whom} ends"),
            Self::Sleep(by) => write!(f, "clients stand still for {by:?}"),
            Self::Cut(whom) => write!(f, "the connections of {whom} are cut"),
            Self::Reset(whom) => write!(f, "the connections of {whom} are reset"),
            Self::CutAfter(whom, pieces) => {
                write!(f, "a connection of {whom} is cut just after each {pieces}th piece that it sends")
            }
            Self::HalfOpen(whom) => write!(f, "the connections of {whom} die without a word"),
            Self::CutPush(whom) => write!(f, "the connection that {whom} is told things on is cut"),
            Self::Stall(whom, way) => write!(f, "the network of {whom} stalls {way}"),
            Self::Strand(whom) => write!(f, "what {whom} sends on its connections stays on its way"),
            Self::Lag(whom, way, by) => write!(f, "the network of {whom} takes {by:?} longer {way}"),
            Self::Restart => f.write_str("the server is restarted"),
            Self::KillSeat(seat) => write!(f, "{seat} dies"),
            Self::CutOff(seat) => write!(f, "{seat} is cut off from the other servers"),
            Self::Crash => f.write_str("the server dies, and is started again"),
            Self::Stop => f.write_str("the server is stopped"),
            Self::Pause => f.write_str("the server stands still"),
            Self::Forget => f.write_str("the server forgets everything"),
            Self::FallBehind => f.write_str("replicas miss what is written"),
            Self::FailOver => f.write_str("the server dies, and a replica takes over"),
            Self::MoveName(name) => write!(f, "{name:?} moves to another server"),
            Self::PauseHome(name) => write!(f, "the server that has {name:?} stands still"),
            Self::KillHome(name) => write!(f, "the server that has {name:?} dies"),
            Self::StepClock(by) => write!(f, "the server's clock is set {by:?} forward"),
            Self::StepClockBack(by) => write!(f, "the server's clock is set {by:?} back"),
            Self::SkewClients(by) => write!(f, "clients' clocks are {by:?} apart"),
            Self::Heal => f.write_str("everything works again"),
        }
    }
}

impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everyone => f.write_str("everyone"),
            Self::Client(label) => f.write_str(label),
        }
    }
}
