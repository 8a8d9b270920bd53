//! An open session: the state that all its operations share.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tidelock_core::backend::{Clock, Moment, Signals};
use tidelock_core::{Name, SessionId};
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Mutex, Notify};

use crate::beat::Pulse;
use crate::busy::Busy;
use crate::keys::Keys;
use crate::lane::Lanes;
use crate::lease::Lease;
use crate::link::Link;
use crate::looks::Looks;
use crate::own_claims::{Command, News, OwnClaims, SOON};

/// The time between two sweeps of watches that are not needed any more.
const SWEEP: Duration = Duration::from_millis(200);

/// The state that all operations of one session share.
pub(crate) struct OpenSession {
    pub(crate) id: SessionId,
    pub(crate) keys: Keys,
    pub(crate) link: Arc<Link>,
    pub(crate) lease: Lease,
    pub(crate) own_claims: OwnClaims,
    pub(crate) lanes: Lanes,
    pub(crate) busy: Busy,
    pub(crate) looks: Looks,
    /// How many claims renewals have looked at, one by one.
    pub(crate) looked_at: AtomicUsize,
    pub(crate) watches: UnboundedSender<Command>,
    /// Wakes joins that wait until a watch has shown their claim.
    pub(crate) stirred: Notify,
    /// The keep-alives, of which one is under way at a time.
    pub(crate) pulse: Mutex<Pulse>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) signals: Arc<dyn Signals>,
    /// The keeper's runtime: all requests are sent there, except those of other lanes.
    pub(crate) runtime: Handle,
}

impl OpenSession {
    /// What this lease is called in the store.
    pub(crate) fn lease_id(&self) -> i64 {
        lease_id(self.id)
    }

    /// Until when the session surely lives.
    pub(crate) fn until(&self) -> Moment {
        self.lease.until()
    }

    /// Does what follows from a step, and sweeps up after it.
    pub(crate) fn tell(self: &Arc<Self>, name: &Name, news: News) {
        for (id, grant) in news.held {
            self.signals.held(id, grant);
        }
        for id in news.gone {
            self.signals.gone(id);
        }
        if news.look {
            self.signals.look(name);
        }
        // Errors: the session is over.
        if let Some(watch) = news.stop {
            let _ = self.watches.send(Command::Stop(watch));
        }
        if let Some(wanted) = news.start {
            let _ = self.watches.send(Command::Start(wanted));
        }
        if news.read {
            self.runtime.spawn(self.clone().close_gap(name.clone()));
        }
        if !news.check.is_empty() {
            self.runtime.spawn(self.clone().check(name.clone(), news.check, news.since));
        }
        if let Some(watch) = news.gap {
            self.runtime.spawn(self.clone().look_into_gap(watch));
        }
        if self.own_claims.begins_to_sweep() {
            self.runtime.spawn(self.clone().sweep());
        }
    }

    /// Something may have happened before that watch was set. If the watch does not report anything soon, that is looked at.
    async fn look_into_gap(self: Arc<Self>, watch: i64) {
        tokio::time::sleep(SOON).await;
        if let Some((name, news)) = self.own_claims.gap_is_due(watch) {
            self.tell(&name, news);
        }
    }

    /// A watch that nobody needs is kept for a moment: its line may be wanted again at once.
    async fn sweep(self: Arc<Self>) {
        loop {
            tokio::time::sleep(SWEEP).await;
            let Some(unneeded) = self.own_claims.sweep() else { return };
            for watch in unneeded {
                let _ = self.watches.send(Command::Stop(watch)); // an error: the session is over
            }
        }
    }
}

/// The number of a session's lease: core's ids have 63 bits for this.
pub(crate) fn lease_id(session: SessionId) -> i64 {
    session.get().cast_signed()
}

impl fmt::Debug for OpenSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {} at {}", self.id, self.link.place())
    }
}
