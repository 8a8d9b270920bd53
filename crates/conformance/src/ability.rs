//! Names everything that can be done to a server and its clients. A trial says what it needs, a subject says what it
//! can do.

use std::fmt;

/// One thing that a trial may need. A subject that cannot do it says why, and the trials that need it are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Ability {
    /// Requests are refused for a while, renewals too.
    Refuse,
    /// Requests are carried out, but their replies get lost.
    LoseReplies,
    /// Requests and replies take long.
    Delay,
    /// Requests, or replies, are held back and let go later.
    HoldBack,
    /// Everything that concerns one name stalls.
    StallName,
    /// No signal of the store arrives.
    DropSignals,
    /// A client dies: none of its requests reach the store any more, and it gives nothing back.
    Kill,
    /// The store ends a client's session.
    EndSession,
    /// A client is stopped for longer than its ttl, and then continues as if nothing had happened.
    Sleep,
    /// The server is stopped and started again.
    Restart,
    /// The server's process is paused for a while.
    Pause,
    /// The server forgets everything, and continues.
    Forget,
    /// A replica takes over from a master, and may have missed its last writes.
    FailOver,
    /// Names are on several servers. The suite can find out which server has a name, and can move it to another.
    Spread,
    /// Several servers form a quorum, and continue without one of them.
    Agree,
    /// The server's clock is set to another time.
    StepClock,
    /// Clients whose clocks are hours apart.
    SkewClients,
    /// Connections are cut, reset, or die silently.
    Cut,
    /// Only a client's push connection is cut.
    CutPush,
    /// The network carries nothing, or carries it late, in one direction or both.
    Stall,
    /// A client is a process of its own, which the system can kill and stop.
    Child,
    /// Connecting with a wrong password.
    WrongPassword,
    /// Connecting as a user who may log in, and nothing else.
    NoPermission,
    /// Connecting to an address without such a server.
    WrongAddress,
    /// Counting the commands of clients and the signals of the server.
    Count,
    /// Listing everything that is left at the server.
    Leftovers,
    /// Serving thousands of requests at once, or one right after another.
    Crowd,
}

impl Ability {
    /// All abilities.
    pub const ALL: [Self; 27] = [
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
        Self::Crowd,
    ];

    /// Whether it affects, or counts, every user of the server or of the processors. A trial that needs it must have a
    /// shared server to itself.
    #[must_use]
    pub const fn is_for_everyone(self) -> bool {
        use Ability::{Agree, Count, Crowd, FailOver, Forget, Pause, Restart, Spread, StepClock};
        matches!(self, Restart | Pause | Forget | FailOver | Spread | Agree | StepClock | Count | Crowd)
    }

    /// Whether it is done on the network between client and server.
    #[must_use]
    pub const fn is_of_the_network(self) -> bool {
        matches!(self, Self::Cut | Self::CutPush | Self::Stall)
    }

    /// Whether it is slow: servers that serve together wait before they decide that another one is gone, or back.
    #[must_use]
    pub const fn is_slow(self) -> bool {
        matches!(self, Self::FailOver | Self::Agree | Self::Restart)
    }

    /// The phrase for it in the sentence "cannot …".
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
            Self::Sleep => "stop a client for longer than its ttl",
            Self::Restart => "stop and start the server",
            Self::Pause => "pause the server",
            Self::Forget => "make the server forget everything",
            Self::FailOver => "fail over",
            Self::Spread => "spread names over servers",
            Self::Agree => "take one of several servers away",
            Self::StepClock => "step the server's clock",
            Self::SkewClients => "make clients' clocks differ",
            Self::Cut => "cut connections",
            Self::CutPush => "cut only the push connection",
            Self::Stall => "stall or slow the network",
            Self::Child => "run a client as a process",
            Self::WrongPassword => "give a wrong password",
            Self::NoPermission => "take a permission away",
            Self::WrongAddress => "connect to a wrong address",
            Self::Count => "count commands",
            Self::Leftovers => "list leftovers",
            Self::Crowd => "serve a crowd",
        }
    }
}

impl fmt::Display for Ability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
