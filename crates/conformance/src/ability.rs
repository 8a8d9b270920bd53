//! What can be done to a server and its clients, by name: a trial says what it needs, a subject what it can.

use std::fmt;

/// One thing that a trial may need. A subject that cannot do it says why, and the trials that need it are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Ability {
    /// Requests are refused for a while, renewals too.
    Refuse,
    /// Requests are carried out, and their replies get lost.
    LoseReplies,
    /// Requests and replies take long.
    Delay,
    /// Requests, or replies, are held back and let go later.
    HoldBack,
    /// Everything that concerns one name stalls.
    StallName,
    /// Nothing that the store tells by itself arrives.
    DropSignals,
    /// A client dies: nothing of it reaches the store any more, and it gives nothing back.
    Kill,
    /// The store ends a client's session.
    EndSession,
    /// A client is stopped for longer than it can bear, and goes on as if nothing had happened.
    Sleep,
    /// The server is stopped, and started again.
    Restart,
    /// The server's process stands still for a while.
    Pause,
    /// The server forgets everything, and goes on.
    Forget,
    /// A replica takes over from a master, whose last writes it may have missed.
    FailOver,
    /// Names lie on several servers, and can be told and moved from one to another.
    Spread,
    /// Several servers agree on everything, and go on without one of them.
    Agree,
    /// The server's clock is set to another time.
    StepClock,
    /// Clients whose clocks are hours apart.
    SkewClients,
    /// Connections are cut, reset, or die without a word.
    Cut,
    /// Of a client's connections, the one that it is told things on is cut.
    CutPush,
    /// The network carries nothing, or carries it late, one way or both.
    Stall,
    /// A client is a process of its own, which is killed and stopped as the system does it.
    Child,
    /// Connecting with a wrong password.
    WrongPassword,
    /// Connecting as somebody who may log in, and nothing else.
    NoPermission,
    /// Connecting to where no such server is.
    WrongAddress,
    /// Counting what clients send, and what the server tells by itself.
    Count,
    /// Listing whatever is left at the server.
    Leftovers,
}

impl Ability {
    /// Every one of them.
    pub const ALL: [Self; 26] = [
        Self::Refuse,
        Self::LoseReplies,
        Self::Delay,
        Self::HoldBack,
        Self::StallName,
        Self::DropSignals,
        Self::Kill,
        Self::EndSession,
        Self::Sleep,
        Self::Restart,
        Self::Pause,
        Self::Forget,
        Self::FailOver,
        Self::Spread,
        Self::Agree,
        Self::StepClock,
        Self::SkewClients,
        Self::Cut,
        Self::CutPush,
        Self::Stall,
        Self::Child,
        Self::WrongPassword,
        Self::NoPermission,
        Self::WrongAddress,
        Self::Count,
        Self::Leftovers,
    ];

    /// Whether it befalls, or counts, everyone who uses the server: a trial that needs it has a shared one to itself.
    #[must_use]
    pub const fn is_for_everyone(self) -> bool {
        use Ability::{Agree, Count, FailOver, Forget, Pause, Restart, Spread, StepClock};
        matches!(self, Restart | Pause | Forget | FailOver | Spread | Agree | StepClock | Count)
    }

    /// Whether it is done on the way to the server.
    #[must_use]
    pub const fn is_of_the_network(self) -> bool {
        matches!(self, Self::Cut | Self::CutPush | Self::Stall)
    }

    /// Whether it takes its time: servers that serve together wait before they believe that another is gone, or back.
    #[must_use]
    pub const fn is_slow(self) -> bool {
        matches!(self, Self::FailOver | Self::Agree | Self::Restart)
    }

    /// What it is, to finish the sentence "cannot …".
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse requests",
            Self::LoseReplies => "lose replies",
            Self::Delay => "delay requests",
            Self::HoldBack => "hold requests and replies back",
            Self::StallName => "stall one name",
            Self::DropSignals => "drop signals",
            Self::Kill => "kill a client",
            Self::EndSession => "end a session",
            Self::Sleep => "stop a client past its ttl",
            Self::Restart => "stop and start the server",
            Self::Pause => "pause the server",
            Self::Forget => "make the server forget everything",
            Self::FailOver => "fail over",
            Self::Spread => "spread names over servers",
            Self::Agree => "take one of several servers away",
            Self::StepClock => "step the server's clock",
            Self::SkewClients => "set clients' clocks apart",
            Self::Cut => "cut connections",
            Self::CutPush => "cut a push connection alone",
            Self::Stall => "stall or slow the network",
            Self::Child => "run a client as a process",
            Self::WrongPassword => "give a wrong password",
            Self::NoPermission => "take a permission away",
            Self::WrongAddress => "go to a wrong address",
            Self::Count => "count commands",
            Self::Leftovers => "list what is left",
        }
    }
}

impl fmt::Display for Ability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
