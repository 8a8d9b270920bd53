//! The suite's input: a backend, how to open clients of it, and what can be done to its server.
//!
//! Nothing is silently optional. A missing ability must be declared with a reason that people will read; so must a
//! fault under which two clients may both believe that they hold.

use std::fmt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::{Locks, Options, Result};

use crate::history::Witness;
use crate::{Ability, Act, Seat, Time};

/// A backend under trial.
#[async_trait]
pub trait Subject: fmt::Debug + Send + Sync + 'static {
    /// The name in reports: `memory`, `redis sentinel`.
    fn name(&self) -> &str;

    /// The assumptions behind its promises, one sentence each.
    fn assumptions(&self) -> Vec<String>;

    /// Whether it has that ability; if not, why.
    fn can(&self, ability: Ability) -> Can;

    /// Whether two guards may both be trusted under that mishap.
    fn belief(&self, mishap: Mishap) -> Belief;

    /// How long its claims live in the trials. For a server in real time this is short, 1 to 2 s.
    fn ttl(&self) -> Duration;

    /// The cost of its operations.
    fn cost(&self) -> Cost;

    /// Whether its stages share one server, so that a trial that acts on the server must run alone.
    fn is_shared(&self) -> bool;

    /// A server for one trial that needs these abilities. It has no names of other trials: it is new, or its namespace
    /// is.
    async fn server(&self, needs: &[Ability]) -> Result<Box<dyn Server>>;
}

/// The server of one trial.
#[async_trait]
pub trait Server: fmt::Debug + Send + Sync + 'static {
    /// The clock of its leases.
    fn time(&self) -> Arc<dyn Time>;

    /// Opens one more client, equivalent to a process of its own. Acts find it by the label in the options. A
    /// namespace in the options lies within the stage's own.
    async fn connect(&self, options: Options) -> Result<Arc<dyn Locks>>;

    /// The same, for a client that knows only one server, the one in that seat.
    async fn connect_to(&self, seat: Seat, options: Options) -> Result<Arc<dyn Locks>>;

    /// The same with something wrong. The trial judges the result.
    async fn connect_wrongly(&self, wrong: Wrong, options: Options) -> Result<Arc<dyn Locks>>;

    /// From now on, that witness receives what new clients are told of their claims.
    fn listen(&self, witness: Arc<Witness>);

    /// The command that runs one more client in a process of its own. It does what
    /// [`serve_as_child`](crate::serve_as_child) is told.
    fn program(&self, options: Options) -> Result<Command>;

    /// Carries out an act on the server, or on the network between it and its clients.
    async fn act(&self, act: Act) -> Result<()>;

    /// The server that has each of these names, under any name for it.
    async fn homes(&self, names: &[String]) -> Result<Vec<String>>;

    /// The commands and signals so far.
    async fn counts(&self) -> Result<Counts>;

    /// What is left of the names and clients of this trial, one line each; empty if all is clean.
    async fn leftovers(&self) -> Result<Vec<String>>;
}

/// Whether a subject has an ability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Can {
    /// It can.
    Yes,
    /// It cannot, for this reason.
    No(String),
}

/// What is wrong with a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wrong {
    /// The password of a user whom the server knows. It contains `wrong-password`.
    Password,
    /// The permissions: the user may log in, and nothing else.
    Permission,
    /// The address: nothing listens there.
    Address,
    /// The address: another kind of server answers there.
    Stranger,
    /// The address: a server accepts the connection and never answers.
    Mute,
}

impl Wrong {
    /// The ability that a subject needs for it.
    #[must_use]
    pub const fn needs(self) -> Ability {
        match self {
            Self::Password => Ability::WrongPassword,
            Self::Permission => Ability::NoPermission,
            Self::Address | Self::Stranger | Self::Mute => Ability::WrongAddress,
        }
    }
}

/// Events outside the assumptions of most stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mishap {
    /// An operator takes a holder out of the line.
    Eviction,
    /// A client is stopped for longer than its ttl between checking its guard and writing.
    StoppedClient,
    /// The server is restarted.
    Restart,
    /// An operator makes the server forget everything.
    Forgetting,
    /// A replica takes over that missed the grant.
    FailOver,
    /// The server's clock is set forward.
    ClockStep,
}

impl Mishap {
    /// All mishaps.
    pub const ALL: [Self; 6] = [
        Self::Eviction,
        Self::StoppedClient,
        Self::Restart,
        Self::Forgetting,
        Self::FailOver,
        Self::ClockStep,
    ];

    /// The mishap in words.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Eviction => "an eviction",
            Self::StoppedClient => "a client pause longer than its ttl",
            Self::Restart => "a server restart",
            Self::Forgetting => "an operator command that deletes the server's data",
            Self::FailOver => "a failover that missed the grant",
            Self::ClockStep => "a step of the server's clock",
        }
    }
}

/// Whether two clients may both believe that they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Belief {
    /// Never: a trial shows that they do not.
    NeverOverlaps,
    /// They may, for this reason. A trial forces it and shows that the fence refuses the older one.
    MayOverlap(String),
    /// The mishap cannot happen to this backend, for this reason.
    CannotHappen(String),
}

/// The cost of a store's operations, in commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// To take a free name.
    pub acquire: u64,
    /// To give it back.
    pub release: u64,
    /// To pass it on to a waiter, without the release itself.
    pub hand_off: u64,
    /// Each renewal of one more name.
    pub renewal: u64,
}

/// The traffic of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests of clients.
    pub commands: u64,
    /// Signals of the server.
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
