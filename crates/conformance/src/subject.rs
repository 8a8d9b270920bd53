//! What the suite is given: a backend, how to open clients of it, and what can be done to its server.
//!
//! Nothing is optional in silence: an ability that is absent, and a fault under which two may both believe that they
//! hold, are declared with a reason that people will read.

use std::fmt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock::{Locks, Options, Result};

use crate::history::Witness;
use crate::{Ability, Act, Seat, Time};

/// A backend under trial.
#[async_trait]
pub trait Subject: fmt::Debug + Send + Sync + 'static {
    /// What it is called in reports: `memory`, `redis sentinel`.
    fn name(&self) -> &str;

    /// What its promises rest on, a sentence each.
    fn assumptions(&self) -> Vec<String>;

    /// Whether it can do that; if not, why.
    fn can(&self, ability: Ability) -> Can;

    /// Whether two guards may both be believed under that mishap.
    fn belief(&self, mishap: Mishap) -> Belief;

    /// How long its claims live in the trials. A server in real time takes a short one, of 1 to 2 s.
    fn ttl(&self) -> Duration;

    /// What its operations cost.
    fn cost(&self) -> Cost;

    /// Whether its stages share one server, so that a trial that does something to it has to run alone.
    fn is_shared(&self) -> bool;

    /// A server for one trial that needs these, on which nobody else's names are: a fresh one, or a fresh namespace.
    async fn server(&self, needs: &[Ability]) -> Result<Box<dyn Server>>;
}

/// What one trial plays on.
#[async_trait]
pub trait Server: fmt::Debug + Send + Sync + 'static {
    /// The time that its leases go by.
    fn time(&self) -> Arc<dyn Time>;

    /// One more client, as good as a process of its own. Acts find it by the options' label; a namespace that the
    /// options name lies within the stage's own.
    async fn connect(&self, options: Options) -> Result<Arc<dyn Locks>>;

    /// The same, for a client that knows of one server alone, the one in that seat.
    async fn connect_to(&self, seat: Seat, options: Options) -> Result<Arc<dyn Locks>>;

    /// The same with something wrong about it. What comes of it is the trial's.
    async fn connect_wrongly(&self, wrong: Wrong, options: Options) -> Result<Arc<dyn Locks>>;

    /// From now on, that witness hears what new clients are told of their claims.
    fn listen(&self, witness: Arc<Witness>);

    /// What runs one more client in a process of its own: it does what [`serve_as_child`](crate::serve_as_child) is
    /// told.
    fn program(&self, options: Options) -> Result<Command>;

    /// Does something to the server, or to what lies between it and its clients.
    async fn act(&self, act: Act) -> Result<()>;

    /// Which server has each of these names, by whatever it is called.
    async fn homes(&self, names: &[String]) -> Result<Vec<String>>;

    /// What was sent and told so far.
    async fn counts(&self) -> Result<Counts>;

    /// Whatever is left of the names and clients of this trial, a line each; nothing, when all is clean.
    async fn leftovers(&self) -> Result<Vec<String>>;
}

/// Whether a subject can do something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Can {
    /// It can.
    Yes,
    /// It cannot, for this reason.
    No(String),
}

/// What is wrong about the way a client connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wrong {
    /// The password, of somebody whom the server knows. It has `wrong-password` in it.
    Password,
    /// The permissions: whoever it connects as may log in, and nothing else.
    Permission,
    /// The address: nobody is there.
    Address,
    /// The address: something else answers there.
    Stranger,
    /// The address: something takes the connection, and says nothing.
    Mute,
}

impl Wrong {
    /// What a subject must be able to do for it.
    #[must_use]
    pub const fn needs(self) -> Ability {
        match self {
            Self::Password => Ability::WrongPassword,
            Self::Permission => Ability::NoPermission,
            Self::Address | Self::Stranger | Self::Mute => Ability::WrongAddress,
        }
    }
}

/// What happens outside the assumptions of most stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mishap {
    /// An operator takes a holder out of the line.
    Eviction,
    /// A client is stopped past its ttl between looking at its guard and writing.
    StoppedClient,
    /// The server is restarted.
    Restart,
    /// An operator makes the server forget everything.
    Forgetting,
    /// A replica takes over that missed the grant.
    FailOver,
    /// The server's clock is stepped forward.
    ClockStep,
}

impl Mishap {
    /// Every one of them.
    pub const ALL: [Self; 6] = [
        Self::Eviction,
        Self::StoppedClient,
        Self::Restart,
        Self::Forgetting,
        Self::FailOver,
        Self::ClockStep,
    ];

    /// What happens.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Eviction => "an eviction",
            Self::StoppedClient => "a client stopped past its ttl",
            Self::Restart => "a restart of the server",
            Self::Forgetting => "an operator who makes the server forget everything",
            Self::FailOver => "a failover that missed the grant",
            Self::ClockStep => "a step of the server's clock",
        }
    }
}

/// Whether two may both believe that they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Belief {
    /// Never: a trial shows that they do not.
    NeverOverlaps,
    /// They may, for this reason: a trial forces it and shows that the fence refuses the older one.
    MayOverlap(String),
    /// The mishap cannot happen to this backend, for this reason.
    CannotHappen(String),
}

/// What a store's operations cost, in commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// To take what is free.
    pub acquire: u64,
    /// To give it back.
    pub release: u64,
    /// To pass it on to a waiter: commands, without the release itself.
    pub hand_off: u64,
    /// To keep one more name alive, each time.
    pub renewal: u64,
}

/// What was sent and told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests of clients.
    pub commands: u64,
    /// What the server told by itself.
    pub signals: u64,
}

impl std::ops::Add for Counts {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { commands: self.commands + other.commands, signals: self.signals + other.signals }
    }
}

impl std::ops::Sub for Counts {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self { commands: self.commands - earlier.commands, signals: self.signals - earlier.signals }
    }
}
