//! The interface to a store: what a backend has to do, and what it may report.
//!
//! A store implements [`Backend`] and [`Session`], and reports through [`Signals`]. [`connect`] or [`attach`] make
//! [`Locks`](crate::Locks) of it. A [`Layer`] lies between core and any backend: metrics, faults and counters are
//! layers. The rest of this module is what several backends share: [`Batcher`] gathers requests, [`OwnLine`] is for
//! stores that show their line, [`Sleep`] waits on a [`Clock`].
//!
//! A backend keeps lines and nothing else. Core chooses every id before any I/O, watches every deadline, looks again
//! for waiters, retries, cancels, and reports losses. No backend decides when to look for a waiter or when a claim is
//! lost. All methods of its two traits are required, except [`Session::not_held`] and [`Session::number`].
//!
//! Core promises to a backend:
//! - The futures of [`Session::join`], [`Session::line`] and [`Session::names`] are dropped whenever a user loses
//!   interest. They are polled wherever the user is, on a tokio runtime or not: they must not need one. A join that
//!   was dropped or failed is followed by `leave(…, Leave::Void)`.
//! - The futures of [`Backend::open`] and of all other methods are polled on the keeper's own tokio runtime, which
//!   lives as long as the process. Tasks that they spawn there outlive every runtime of the user. These futures are
//!   dropped only at their deadline. Tasks spawned by a dropped `open` must end with it. If the client is closed before
//!   an `open` has ended, the `open` goes on, and its session is closed at once.
//! - The wakers that a backend is given, and [`Signals`], do not panic, whatever the users' wakers do.
//! - There is one look at a time for each name, and one renewal at a time for each shard.
//! - Renewals go by the time that is left. They come every third of the ttl. If the answer to a join or a renewal
//!   leaves less than that until the next renewal, the shard is renewed again at once, and then after growing pauses,
//!   until enough is left. A grant whose deadline is nearly over is not handed out before that was tried.
//! - No answer about a claim is awaited for longer than the ttl, and no renewal, look or leave for longer than a
//!   third of it, whatever `command_deadline` says.
//! - If the user drops the reply of a leave, the keeper polls it. If the user neither polls nor drops it, the keeper
//!   polls it from the first round of renewals after its time as a command is over. Until then nobody else polls it.
//! - A leave that failed is sent again, after pauses of at most a tenth of the ttl, until it succeeds or its claim is
//!   surely over. This holds for any error but [`ErrorKind::Lost`](crate::ErrorKind::Lost), because a permission that
//!   is missing now may be granted soon.
//! - A claim's id is never used again, for this claim or another one. A join is repeated under its id only within a
//!   ttl of the first request, and no answer to a repetition is believed after that: the claim may have been granted
//!   and have ended in the meantime, and a late report of that grant must not be taken for the result of the
//!   repetition.
//! - An eviction is a `leave(…, Leave::Void)` of another session's claim that stood in line. A join of that claim
//!   that is repeated, or arrives late, is answered [`Place::Gone`]. If a claim's number was not in line and its
//!   client may still use it, no other client makes it void.
//! - If one of a claim's joins got no answer, core asks about the claim by [`Session::not_held`] after each renewal,
//!   for as long as it holds. That join may have arrived after the store forgot the claim. The claim that stands
//!   there is then not held, or under another grant.
//! - Subscribers to users' tracing may panic. On Tidelock's own threads, log through [`unharmed`].
//!
//! A backend promises to core:
//! - An error of kind [`ErrorKind::Lost`](crate::ErrorKind::Lost) means that the *session* is over, and no other
//!   error does. An unknown outcome is [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) or
//!   [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable), never a guess. Any other error means that nothing was
//!   done.
//! - A deadline that it reports counts from *before* the request was sent, on its own [`Clock`]. The deadline of a
//!   repeated join counts from its first request, unless the repetition renewed the claim or reports what is left. A
//!   session's own deadline counts from before the request to open it. If a deadline is uncertain, because the server
//!   that answers may not be the one that counts, the backend reports the part that *is* certain: an early deadline
//!   costs a renewal, a late one costs exclusion.
//! - A store that may grant less than before after a reconnect says so: [`Session::ttl`] is the new ttl from then on,
//!   [`Signals::look_everywhere`] makes core renew at once, and core believes [`Renewal::until`] even if it is
//!   earlier than an earlier report. If the backend cannot know, the session is over.
//! - Tokens of conflicting grants of a name grow, whatever happens to claims, lines, processes and the server.
//! - A claim that a renewal does not report as gone or unsure is renewed. A claim that could not be asked about is
//!   unsure. A claim is gone only if the store says so.
//! - A renewal reports each claim that waits. Core may know the claim to hold, by a grant of another server that this
//!   one does not know of; then the claim is lost. Without the report it would be renewed without end, beside the
//!   holder that this server knows.
//! - Repeating a request of the same claim is harmless: join reports where the claim stands, leave reports `Absent`. A
//!   join may be repeated while the one before is still polled.
//!   Only core repeats a leave: if a backend did so after an unknown outcome, its own success would look like a loss.

mod layer;
mod numbered;

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use tidelock_model::{Leave, Left, Patience, Refusal, Watch};

pub use self::layer::{Layer, Layered};
pub use self::numbered::{Kept, Numbered};
pub use crate::alarms::Alarms;
pub use crate::aside::Aside;
pub use crate::batcher::{Batch, Batchable, Batcher};
pub use crate::boot_clock::boot_clock;
pub use crate::certificates::{ClientTlsConfig, TlsCertificates};
pub use crate::clock::Clock;
pub use crate::driven::{Distrust, Driven};
pub use crate::escape::{escape, unescape};
pub use crate::factory::{attach, connect};
pub use crate::keeper::keepers_caught_up;
pub use crate::local::{LOCAL_BY_DEFAULT, Local, Locals, Witness, Witnessed};
pub use crate::login::{Asked, Credentials, Login, MUST_BE_ENCODED};
pub use crate::moment::Moment;
pub use crate::own_line::{Aim, Armed, OwnLine};
pub use crate::server_kind::server_kind;
pub use crate::shield::unharmed;
pub use crate::sleep::Sleep;
pub use crate::tied::{Tied, alone, tie};
use crate::{ClaimId, Kind, Line, Name, Options, Result, SessionId, Token, Weight};

/// A store that keeps lines, and the connection to it.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// The clock of every [`Moment`] of this backend.
    fn clock(&self) -> Arc<dyn Clock>;

    /// The name of this store, without a password: `redis 10.0.0.7:6379/0`. As far as possible, it is the same text
    /// in every process that uses this store, and differs from that of any other store: include the part of a URL
    /// that says *where* the store is. Locks of one name in several stores are taken in the order of this text. It
    /// does not decide whether two locks are the same.
    fn store(&self) -> &str;

    /// Refuses options that this store can never keep, as far as that is known without asking a server. Core calls it
    /// when a client is made, also one that is only attached.
    fn check(&self, _options: &Options) -> Result<()> {
        Ok(())
    }

    /// Opens a session with the given id. Its claims carry `options.label` and live for `options.ttl` without
    /// renewal.
    async fn open(
        &self,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>>;
}

/// One client's lease, and the claims it keeps alive.
#[async_trait]
pub trait Session: fmt::Debug + Send + Sync + 'static {
    /// How long a claim lives without renewal: the time that the store granted, which may differ from the request. It
    /// may change; core asks again with each renewal. Core takes less than 10 ms for 10 ms.
    fn ttl(&self) -> Duration;

    /// The shard of this name at the moment: names in one shard stall together. It is a whole server, or one master
    /// of a cluster. It may change.
    fn shard(&self, name: &Name) -> Shard;

    /// The number of a new claim in this line. `fresh` was never used in this session, and grows. The number that is
    /// returned must never have been used either, and grows too: override this only if the store lets claims that come
    /// after one another share something, and `fresh` has less than 44 bits. A session around another one passes this on.
    fn number(&self, _name: &Name, fresh: u64) -> Numbered {
        fresh.into()
    }

    /// Stands in line. The only call that creates anything.
    async fn join(&self, claim: &Claim, patience: Patience) -> Result<Place>;

    /// Looks once for all of this session's waiting claims on one name. It never creates anything.
    async fn look(&self, name: &Name, waiting: &[ClaimId]) -> Result<Sight>;

    /// Those of these claims of this session that do not hold there, or not under these tokens. Core asks where a
    /// renewal cannot tell: after [`look_everywhere`](Signals::look_everywhere) about several claims that hold on one
    /// name, and about a claim of which a join may still be on its way. The default does a look; override it if the
    /// store knows by itself.
    async fn not_held(&self, name: &Name, believed: &[(ClaimId, Token)]) -> Result<Vec<ClaimId>> {
        let claims: Vec<ClaimId> = believed.iter().map(|(id, _)| *id).collect();
        Ok(self.look(name, &claims).await?.not_held(believed))
    }

    /// Takes a claim out of the line: this session's own, or another's, as an operator's eviction.
    ///
    /// The leave *starts* with the call, which may come from any thread and must not block. The reply may be polled
    /// or dropped anywhere, and needs no runtime.
    fn leave(&self, name: &Name, id: ClaimId, how: Leave) -> Reply<Left>;

    /// Reduces the weight of a held claim to `weight`. The claim keeps its place and its token. Core asks again after
    /// [`look_everywhere`](Signals::look_everywhere): if the weight is `weight` already, nothing happens. If the claim is
    /// not there, the error is [`Conflict`](crate::ErrorKind::Conflict).
    async fn lighten(&self, claim: &Claim, weight: Weight) -> Result<()>;

    /// Changes the capacity of a semaphore's line that is in use, if it still is `from`; otherwise the error is
    /// [`Conflict`](crate::ErrorKind::Conflict). A line of another kind is a
    /// [`KindMismatch`](crate::ErrorKind::KindMismatch). It is [`InvalidPermits`](crate::ErrorKind::InvalidPermits)
    /// if a waiting claim could then never fit. A line without claims has no capacity: nothing happens.
    async fn resize(&self, name: &Name, from: Weight, to: Weight) -> Result<()>;

    /// Keeps the standing claims of one shard alive. The claims whose time ends first come first. Core also calls it for
    /// `Shard(0)` without claims, for a session that needs its own renewals. It has as long as a command, or a third of
    /// the ttl if that is less. Report claims that you do not get to in that time as unsure; core asks about them again
    /// soon. A line that is named without claims is only read, for strays; one that you do not get to is missed.
    async fn renew(&self, shard: Shard, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal>;

    /// The whole line of a name, for operators.
    async fn line(&self, name: &Name) -> Result<Line>;

    /// The names in use that begin with `prefix` and come after `after`, in order, one page of them.
    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>>;

    /// Ends the session: all of its claims leave. Core may ask again after an error, and give up a call half-way.
    async fn close(&self) -> Result<()>;

    /// Cleans up for others behind the end of the session, if the store needs that. Core calls it after a confirmed
    /// [`Session::close`], gives it what is left of the time, and does not ask what became of it.
    async fn clean_up(&self) {}
}

/// What a backend tells core unasked. Every signal is a hint: losing all of them costs only time.
///
/// No call blocks, and none calls back into the backend.
pub trait Signals: fmt::Debug + Send + Sync + 'static {
    /// This claim has been granted. If it has left before, it is a [`stray`](Signals::stray).
    fn held(&self, id: ClaimId, grant: Grant);
    /// This claim of the session stands in line, or holds, although it has left: a store that takes over from another
    /// may not know that. Core gives it back at once if it remembers the claim's line. Otherwise a renewal finds it
    /// soon, once it holds, if other claims of the session stand in its line or have left it lately.
    fn stray(&self, id: ClaimId);
    /// This claim, held or waiting, is no longer in line.
    fn gone(&self, id: ClaimId);
    /// Something changed in this line: look.
    fn look(&self, name: &Name);
    /// Signals may have been missed, for instance after a reconnect: look at every line, and renew everything.
    fn look_everywhere(&self);
    /// The session is over, and all of its claims with it.
    fn over(&self);
}

/// A reply on its way. It does not depend on the task that sent the request.
pub type Reply<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// A client's request to stand in a line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// Chosen by core before any I/O.
    pub id: ClaimId,
    /// The line.
    pub name: Name,
    /// The kind of lock that the line must be.
    pub kind: Kind,
    /// The part of the capacity that the claim takes.
    pub weight: Weight,
    /// The capacity of the line if this claim is its first.
    pub capacity: Weight,
}

impl Claim {
    /// A claim for a test that drives a backend without core.
    #[must_use]
    pub fn new(id: ClaimId, name: Name, kind: Kind, weight: Weight, capacity: Weight) -> Self {
        Self { id, name, kind, weight, capacity }
    }
}

/// A grant of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The fencing token.
    pub token: Token,
    /// The line's capacity, which may differ from the one this client asked for.
    pub capacity: Weight,
}

/// Where a claim stands after a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It has its turn.
    Held {
        /// What was granted.
        grant: Grant,
        /// Until when the claim lives without renewal.
        until: Moment,
    },
    /// It stands in line.
    Waiting {
        /// Until when the claim lives without renewal.
        until: Moment,
        /// When to look if no signal comes: when the holder's lease ends.
        look_in: Duration,
    },
    /// The lock was not free, and the join was without patience. The claim does not stand in line.
    Refused,
    /// The claim cannot be in line any more, because its leave came first. It is the answer in no other case.
    Gone,
}

/// The result of a look. A claim in neither list still waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Claims that are held.
    pub held: Vec<(ClaimId, Grant)>,
    /// Claims that are no longer in line.
    pub gone: Vec<ClaimId>,
    /// When to look again if no signal comes.
    pub look_in: Duration,
}

impl Sight {
    /// Those of these claims that this look did not find held, or not under these tokens.
    #[must_use]
    pub fn not_held(&self, believed: &[(ClaimId, Token)]) -> Vec<ClaimId> {
        let held: HashSet<(ClaimId, Token)> =
            self.held.iter().map(|(id, grant)| (*id, grant.token)).collect();
        believed.iter().filter(|one| !held.contains(one)).map(|(id, _)| *id).collect()
    }
}

/// The result of a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// Until when every claim that was found lives without further renewal; also the session, if it needs its own
    /// renewals. It replaces all earlier reports, also if it is earlier than they were. After a renewal without claims,
    /// a store that keeps nothing of a session without claims says [`Moment::START`].
    pub until: Moment,
    /// Claims that core believes to stand and the store does not know.
    pub gone: Vec<ClaimId>,
    /// Claims about which this renewal learnt nothing, because the store failed at their name alone. Their old
    /// deadline stands.
    pub unsure: Vec<ClaimId>,
    /// Lines that core named without claims, because strays may stand there, and that this renewal did not get to. Core
    /// names them again.
    pub missed: Vec<Name>,
    /// Those of the claims that core named that stand in line and do not hold. If core knew such a claim to hold before
    /// it asked, the claim is lost: another server granted it, and this one does not know that. A claim that holds in
    /// spite of a smaller semaphore is none of them. Leave this empty if each client finds out by itself, from the
    /// line, which of its claims hold.
    pub waiting: Vec<ClaimId>,
    /// Claims of this session that the store knows and core did not name.
    pub strays: Vec<(Name, ClaimId)>,
}

impl Renewal {
    /// Whether there is anything whose end `until` tells, after these claims were renewed.
    pub(crate) fn keeps_anything(&self, standing: &[(Name, Vec<ClaimId>)]) -> bool {
        !standing.is_empty() || self.until > Moment::START
    }
}

/// A part of a store that stalls as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(pub u32);
