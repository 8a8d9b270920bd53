//! What all operations of one session share.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidelock_core::backend::{Clock, Grant, Moment, Signals};
use tidelock_core::{ClaimId, Error, ErrorKind, SessionId};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::lane::Lanes;
use crate::link::Link;
use crate::own_claims::OwnClaims;
use crate::packet::Caller;
use crate::sweep::Sweep;
use crate::trouble::{self, Said};
use crate::untidy::Untidy;
use crate::which_server::WhichServer;

pub(crate) struct OpenSession {
    pub(crate) id: SessionId,
    pub(crate) ttl: Duration,
    /// How long one request may take, with all its repetitions.
    pub(crate) within: Duration,
    pub(crate) caller: Caller,
    /// For joins, leaves and changes: one transaction at a time in each.
    pub(crate) lanes: Lanes,
    /// For looks and operators' views.
    pub(crate) looks: Arc<Link>,
    /// For renewals.
    pub(crate) beats: Arc<Link>,
    /// Which server has renewed it last, or has opened it.
    pub(crate) server: Mutex<WhichServer>,
    /// For the statement that sleeps in the server.
    pub(crate) bell: Arc<Link>,
    pub(crate) own_claims: OwnClaims,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) signals: Arc<dyn Signals>,
    /// The keeper's runtime.
    pub(crate) runtime: Handle,
    /// Until when the session surely lives, in nanoseconds of the clock.
    lease: AtomicU64,
    /// The next mark of a packet.
    marks: AtomicU64,
    /// Wakes the watcher: a claim waits.
    pub(crate) waits: Notify,
    /// Wakes the task that watches transactions of the user: one more can end.
    pub(crate) ending: Notify,
    /// How many requests were made, so that an idle client does not clean up.
    pub(crate) requests: AtomicU64,
    pub(crate) sweep_from: Sweep,
    /// Whether it has met claims of a dead client since its last sweep: more of that client may be left.
    pub(crate) has_met_dead: AtomicBool,
    /// Looks after lines that nobody waits for, except a close.
    pub(crate) tidying: Mutex<JoinSet<()>>,
    pub(crate) untidy: Untidy,
}

/// What a session is made of.
pub(crate) struct Parts {
    pub(crate) id: SessionId,
    pub(crate) ttl: Duration,
    pub(crate) within: Duration,
    pub(crate) caller: Caller,
    pub(crate) lane: Arc<Link>,
    /// Whether callers' runtimes get lanes of their own.
    pub(crate) has_lanes: bool,
    pub(crate) looks: Arc<Link>,
    pub(crate) beats: Arc<Link>,
    pub(crate) server: WhichServer,
    pub(crate) bell: Arc<Link>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) signals: Arc<dyn Signals>,
    pub(crate) until: Moment,
}

impl OpenSession {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { id, ttl, within, caller, lane, has_lanes, .. } = parts;
        let Parts { looks, beats, server, bell, clock, signals, until, .. } = parts;
        Self {
            id,
            ttl,
            within,
            caller,
            lanes: Lanes::new(&Handle::current(), lane, has_lanes),
            looks,
            beats,
            server: Mutex::new(server),
            bell,
            own_claims: OwnClaims::of(id),
            clock,
            signals,
            runtime: Handle::current(),
            lease: AtomicU64::new(until.as_nanos()),
            marks: AtomicU64::new(getrandom::u64().unwrap_or_default() >> 1),
            waits: Notify::new(),
            ending: Notify::new(),
            requests: AtomicU64::new(0),
            sweep_from: Sweep::default(),
            has_met_dead: AtomicBool::new(false),
            tidying: Mutex::default(),
            untidy: Untidy::default(),
        }
    }

    pub(crate) fn until(&self) -> Moment {
        Moment::from_nanos(self.lease.load(Ordering::Acquire))
    }

    pub(crate) fn lives_until(&self, until: Moment) {
        self.lease.fetch_max(until.as_nanos(), Ordering::AcqRel);
    }

    pub(crate) fn mark(&self) -> u64 {
        self.marks.fetch_add(1, Ordering::Relaxed)
    }

    /// Tells core that a claim of ours holds.
    pub(crate) fn tell(&self, id: ClaimId, grant: Grant) {
        self.own_claims.waits_no_more(id.number);
        self.signals.held(id, grant);
    }

    pub(crate) fn trouble(&self, said: &Said) -> Error {
        trouble::from(said, self.looks.place())
    }
}

/// The runtime that had a request has ended.
pub(crate) fn given_up() -> Error {
    Error::new(ErrorKind::Unavailable, "this process is ending")
}

impl fmt::Debug for OpenSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenSession").field("id", &self.id).field("at", &self.looks.place()).finish()
    }
}
