//! The seam: what a store has to do, and what it may say.
//!
//! A backend keeps lines and nothing else. Core chooses every id before any I/O, watches every deadline, looks again
//! for whoever waits, retries, cancels and tells of loss: no backend decides when a waiter is looked after, nor when
//! a claim is lost. Its two traits have required methods only.
//!
//! What core promises to a backend:
//! - The futures of [`Session::join`], [`Session::line`] and [`Session::names`] are dropped whenever a user loses
//!   interest, and polled wherever the user is, on a tokio runtime or not: they must not need one. A join that was
//!   dropped or failed is followed by `leave(…, Leave::Void)`.
//! - The futures of [`Backend::open`] and of everything else are polled on the keeper's own tokio runtime, which lives
//!   as long as the process: what they spawn there outlives every runtime of the user. They are dropped only at their
//!   deadline; an `open` also when its client is closed before. What a dropped `open` has spawned must end with it.
//! - Wakers that a backend is given, and [`Signals`], do not panic, whatever users' wakers do.
//! - One look at a time for each name; one renewal at a time for each shard.
//! - Renewals go by what remains. They come every third of the ttl; where an answer, of a join or of a renewal, leaves less
//!   than that for the next one, the shard is renewed again at once, and then after growing pauses, until enough remains.
//!   No grant whose deadline is nearly over is handed out before that was tried.
//! - No answer about a claim is waited for longer than the ttl, and no renewal, look or leave longer than a third of it,
//!   whatever `command_deadline` says.
//! - A reply of a leave that its user drops is polled by the keeper; one that its user leaves lying too, from the first
//!   round of renewals on that comes when its time as a command is over. Until then nobody else polls it.
//! - A leave that failed is sent again, after pauses of at most a tenth of the ttl, until it succeeds or its claim is
//!   surely over; after any error but [`ErrorKind::Lost`](crate::ErrorKind::Lost), for a permission that is missing now
//!   may be there soon.
//! - A claim's id is never used again, not for another claim either. A join is repeated under its id only within a ttl of
//!   the first time, and no answer to a repetition is believed after that: the claim may have been granted and have ended
//!   meanwhile, and what was told of that, late, must not be taken for what the repetition came to.
//!
//! - An eviction is a `leave(…, Leave::Void)` of another session's claim, which stood in line: a join of it that is asked
//!   again, or comes late, is answered [`Place::Gone`]. A number of a client's that was not in line, and that it may use
//!   yet, is never made void by another.
//! - A claim of whose joins one got no answer is asked about by [`Session::not_held`] after each renewal, for as long as it
//!   holds: that join may have come after the store forgot the claim, and what stands there is no hold then, or another.
//! - What listens to users' tracing may panic. On threads of ours, say it through [`unharmed`](crate::unharmed).
//!
//! What a backend promises to core:
//! - An error of kind [`ErrorKind::Lost`](crate::ErrorKind::Lost) means that the *session* is over, and nothing else
//!   does. An outcome that is not known is [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) or
//!   [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable), never a guess; any other error means that nothing was
//!   done.
//! - A deadline it reports counts from *before* the request was sent, on its own [`Clock`]. That of a repeated join
//!   counts from its first request, unless the repetition renewed the claim or says what remains. So does a session's own:
//!   from before it was asked to be opened. What is not sure of itself, because a server that answers may not be the one
//!   that counts, is said as what *is* sure: an early deadline costs a renewal, a late one costs exclusion.
//! - A store that may grant less than before when it is connected to again says so: [`Session::ttl`] is the new one from
//!   then on, [`Signals::look_everywhere`] has core renew at once, and [`Renewal::until`] is believed although it is earlier
//!   than what was said before. Where it cannot be known the session is over.
//! - Tokens of conflicting grants of a name grow, whatever happens to claims, lines, processes and the server.
//! - Whoever a renewal does not name as gone or unsure is renewed. A claim that could not be asked about is unsure, and only
//!   what the store says is gone is gone.
//! - Repeating a request of the same claim is harmless: join says where the claim stands, leave says `Absent`. Only
//!   core repeats a leave: a backend that did so after an unknown outcome would make its own success look like a loss.

use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{
    ClaimId, Clock, Kind, Leave, Left, Line, Moment, Name, Options, Patience, Result, SessionId, Token,
    Weight,
};

/// A store that keeps lines, and the connection to it.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync + 'static {
    /// The clock that every [`Moment`] of this backend is read from.
    fn clock(&self) -> Arc<dyn Clock>;

    /// Which store this is, without a password: `redis 10.0.0.7:6379/0`. The same text in every process that uses it, as
    /// far as can be, and another than any other store's: what a URL says of *where* it is belongs into it. Locks of one
    /// name in several stores are taken in the order of this text. Which lock is which it does not decide.
    fn store(&self) -> &str;

    /// Opens a session of the given id, whose claims carry `options.label` and live for `options.ttl` unrenewed.
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
    /// How long a claim lives unrenewed: what the store granted, which may differ from what was asked. It may change; core
    /// asks again with each renewal. Less than 10 ms is taken for 10 ms.
    fn ttl(&self) -> Duration;

    /// What stalls together with this name now: a whole server, or one master of a cluster. It may change.
    fn shard(&self, name: &Name) -> Shard;

    /// Stands in line. The only call that creates anything.
    async fn join(&self, claim: &Claim, patience: Patience) -> Result<Place>;

    /// Looks once for all of this session's waiting claims on one name. Never creates.
    async fn look(&self, name: &Name, waiting: &[ClaimId]) -> Result<Sight>;

    /// Which of these claims of this session do not hold there, or not under these tokens. By a look, unless a store
    /// knows it by itself.
    async fn not_held(&self, name: &Name, believed: &[(ClaimId, Token)]) -> Result<Vec<ClaimId>> {
        let claims: Vec<ClaimId> = believed.iter().map(|(id, _)| *id).collect();
        let held = self.look(name, &claims).await?.held;
        let held: HashSet<(ClaimId, Token)> = held.into_iter().map(|(id, grant)| (id, grant.token)).collect();
        Ok(believed.iter().filter(|one| !held.contains(one)).map(|(id, _)| *id).collect())
    }

    /// Takes a claim out of the line: this session's own, or another's, as an operator's eviction.
    ///
    /// It *starts* when it is called, from any thread, and must not wait there; the reply may be polled or dropped
    /// anywhere, and needs no runtime.
    fn leave(&self, name: &Name, id: ClaimId, how: Leave) -> Reply<Left>;

    /// Makes a held claim as light as `weight`. It keeps its place and its token. A claim that is not there is a
    /// [`Conflict`](crate::ErrorKind::Conflict).
    async fn lighten(&self, claim: &Claim, weight: Weight) -> Result<()>;

    /// Changes the capacity of a semaphore's line that is in use, when it still is `from`; otherwise a
    /// [`Conflict`](crate::ErrorKind::Conflict). A line of another kind is refused as a
    /// [`KindMismatch`](crate::ErrorKind::KindMismatch). Refused as [`InvalidPermits`](crate::ErrorKind::InvalidPermits)
    /// while a claim waits that could then never fit. A line that nobody stands in has no capacity: nothing happens.
    async fn resize(&self, name: &Name, from: Weight, to: Weight) -> Result<()>;

    /// Keeps the standing claims of one shard alive; those whose time ends first come first. Also called with none, for
    /// a session that must be kept itself. It has no longer than a command, or a third of the ttl: whom a backend does
    /// not come to in that time it is unsure of, and they are asked about again soon.
    async fn renew(&self, shard: Shard, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal>;

    /// The whole line of a name, for people to look at.
    async fn line(&self, name: &Name) -> Result<Line>;

    /// The names in use that begin with `prefix` and come after `after`, in order, one page of them.
    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>>;

    /// Ends the session: all of its claims leave.
    async fn close(&self) -> Result<()>;
}

/// What a backend tells core without being asked. Every word is a hint: losing all of them costs only time.
///
/// No call waits, and none calls back into the backend.
pub trait Signals: fmt::Debug + Send + Sync + 'static {
    /// This claim has been granted. If it has left before, which a store that takes over from another may not know, it is
    /// given back soon: what stands in its line is renewed at once, and such a claim is a stray.
    fn held(&self, id: ClaimId, grant: Grant);
    /// This claim, held or waiting, is no longer in line.
    fn gone(&self, id: ClaimId);
    /// Something changed in this line: look.
    fn look(&self, name: &Name);
    /// Signals may have been missed, after a reconnect for instance: look at every line, and renew everything.
    fn look_everywhere(&self);
    /// The session is over, with all of its claims.
    fn over(&self);
}

/// A reply under way, independent of whoever asked.
pub type Reply<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// What a client asks of a line.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Claim {
    /// Chosen by core before any I/O.
    pub id: ClaimId,
    /// Which line.
    pub name: Name,
    /// Which kind of lock the line has to be.
    pub kind: Kind,
    /// How much of the capacity the claim takes.
    pub weight: Weight,
    /// The capacity of the line if this claim is its first.
    pub capacity: Weight,
}

impl Claim {
    /// A claim for whoever drives a backend without core: a test of the backend alone.
    #[must_use]
    pub fn new(id: ClaimId, name: Name, kind: Kind, weight: Weight, capacity: Weight) -> Self {
        Self { id, name, kind, weight, capacity }
    }
}

/// A grant of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The fence.
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
        /// Until when the claim lives unrenewed.
        until: Moment,
    },
    /// It stands in line.
    Waiting {
        /// Until when the claim lives unrenewed.
        until: Moment,
        /// When a look is due although nothing was heard: the end of the holder's lifetime.
        look_in: Duration,
    },
    /// It was not free, and the join had no patience. Nothing stands in line.
    Refused,
    /// It cannot be in line any more: its leave came first. Nothing else is said so.
    Gone,
}

/// What a look saw. Whoever is in neither list still waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// Claims that are held.
    pub held: Vec<(ClaimId, Grant)>,
    /// Claims that are not in line any more.
    pub gone: Vec<ClaimId>,
    /// When to look again although nothing was heard.
    pub look_in: Duration,
}

/// What a renewal found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewal {
    /// Until when every claim that was found lives unrenewed; the session too, if it has to be kept itself. It replaces
    /// what was said of them before, later or earlier.
    pub until: Moment,
    /// Claims that core thinks standing, and the store does not know.
    pub gone: Vec<ClaimId>,
    /// Claims of which nothing was learnt this time, because the store stumbled over their name alone: their old
    /// deadline stands.
    pub unsure: Vec<ClaimId>,
    /// Claims of this session that the store knows, and core did not name.
    pub strays: Vec<(Name, ClaimId)>,
}

/// What stalls together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(pub u32);
