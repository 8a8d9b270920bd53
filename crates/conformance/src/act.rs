//! The acts of a trial: faults and changes of the server, or of the network between it and its clients.

use std::fmt;
use std::time::Duration;

use crate::{Ability, Way};

/// The clients that an act concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Every client, and with them the server.
    Everyone,
    /// The client with that label.
    Client(String),
}

impl Whom {
    /// Whether this includes the client with that label.
    #[must_use]
    pub fn is(&self, label: &str) -> bool {
        match self {
            Self::Everyone => true,
            Self::Client(meant) => meant == label,
        }
    }
}

/// A role among several servers that form a quorum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seat {
    /// The server that the others follow.
    Leader,
    /// A server that follows.
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

/// One act on the server, or on a connection. It lasts until [`Act::Heal`], unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Act {
    /// Every request is refused.
    Refuse(Whom),
    /// This many replies from now on are lost. Their requests are carried out.
    LoseReplies(Whom, usize),
    /// Each request with its reply takes this much longer.
    Delay(Whom, Duration),
    /// Requests do not arrive before the heal. Then they do, even if the caller is no longer waiting for the reply.
    HoldRequests(Whom),
    /// Requests arrive, but no reply comes back before the heal.
    HoldReplies(Whom),
    /// Requests of any client about this name do not arrive before the heal.
    StallName(String),
    /// The store's signals are dropped.
    DropSignals(Whom),
    /// The client dies, for good.
    Kill(Whom),
    /// The session ends at once.
    EndSession(Whom),
    /// Clients stand still for this long, as on a machine that sleeps. When they continue, that time has passed.
    Sleep(Duration),
    /// Every connection is closed, and so is each new one.
    Cut(Whom),
    /// Every connection is reset, and so is each new one.
    Reset(Whom),
    /// Each time the client's connections to a server have carried this many pieces there, the connection that carried
    /// the last one is cut: the request arrives, its reply does not. New connections work.
    CutAfter(Whom, u64),
    /// The existing connections carry nothing any more, for good, and neither side is told. New connections work.
    HalfOpen(Whom),
    /// The client's push connection is closed, and so is each new one.
    CutPush(Whom),
    /// The network carries nothing in that direction; at the heal it arrives.
    Stall(Whom, Way),
    /// Data sent on the existing connections is held back. At the heal it arrives, even if the client gave these
    /// connections up. New connections work.
    Strand(Whom),
    /// The network takes this much longer in that direction.
    Lag(Whom, Way, Duration),
    /// The server is shut down cleanly and started again at once.
    Restart,
    /// The server dies and is started again at once.
    Crash,
    /// The server is stopped; it is started at the heal.
    Stop,
    /// The server's process is paused; it continues at the heal.
    Pause,
    /// The server forgets everything.
    Forget,
    /// Replicas miss all writes from now on, until one takes over.
    FallBehind,
    /// The server dies, and a replica takes over.
    FailOver,
    /// The server that has this name gives it to another one. This takes a while, and is complete when the call
    /// returns.
    MoveName(String),
    /// The server that has this name is paused; it continues at the heal.
    PauseHome(String),
    /// The server that has this name dies; it is started at the heal.
    KillHome(String),
    /// The server in that seat dies; it is started at the heal.
    KillSeat(Seat),
    /// Nothing gets through between the server in that seat and all others until the heal. Clients reach it as before.
    CutOff(Seat),
    /// The server's clock is set forward by this much, for good.
    StepClock(Duration),
    /// The server's clock is set back by this much, for good.
    StepClockBack(Duration),
    /// For each client that connects from now on as a process of its own, the clock is this much later than the
    /// previous client's.
    SkewClients(Duration),
    /// Everything works again. Dead clients stay dead.
    Heal,
}

impl Act {
    /// The ability that a subject needs for it. Every subject can heal.
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

/// The text in a history.
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
            Self::DropSignals(whom) => write!(f, "signals to {whom} are dropped"),
            Self::Kill(whom) => write!(f, "{whom} dies"),
            Self::EndSession(whom) => write!(f, "the session of {whom} ends"),
            Self::Sleep(by) => write!(f, "clients stand still for {by:?}"),
            Self::Cut(whom) => write!(f, "the connections of {whom} are cut"),
            Self::Reset(whom) => write!(f, "the connections of {whom} are reset"),
            Self::CutAfter(whom, pieces) => {
                write!(f, "a connection of {whom} is cut just after each {pieces}th piece that it sends")
            }
            Self::HalfOpen(whom) => write!(f, "the connections of {whom} die silently"),
            Self::CutPush(whom) => write!(f, "the push connection of {whom} is cut"),
            Self::Stall(whom, way) => write!(f, "the network of {whom} stalls {way}"),
            Self::Strand(whom) => write!(f, "data that {whom} sends on its connections is held back"),
            Self::Lag(whom, way, by) => write!(f, "the network of {whom} takes {by:?} longer {way}"),
            Self::Restart => f.write_str("the server is restarted"),
            Self::KillSeat(seat) => write!(f, "{seat} dies"),
            Self::CutOff(seat) => write!(f, "{seat} is cut off from the other servers"),
            Self::Crash => f.write_str("the server dies, and is started again"),
            Self::Stop => f.write_str("the server is stopped"),
            Self::Pause => f.write_str("the server is paused"),
            Self::Forget => f.write_str("the server forgets everything"),
            Self::FallBehind => f.write_str("replicas miss all writes"),
            Self::FailOver => f.write_str("the server dies, and a replica takes over"),
            Self::MoveName(name) => write!(f, "{name:?} moves to another server"),
            Self::PauseHome(name) => write!(f, "the server that has {name:?} is paused"),
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
