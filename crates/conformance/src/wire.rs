//! The wire between one client and its store. It counts requests, and can be made to fail.
//!
//! A request is sent, is carried out, and its reply comes back. Each direction may be slow, be held back, or end in an
//! error. If a join was held back and its caller is gone, it still arrives at the heal, as a packet would. Signals get
//! lost while anything is held back: they are only hints.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{
    Backend, Claim, Clock, Layer, Leave, Left, Patience, Place, Renewal, Reply, Session, Shard, Sight,
    Signals, Sleep,
};
use tidelock_core::{ClaimId, Error, ErrorKind, Line, Name, Options, Result, SessionId, Token, Weight};
use tokio::sync::watch;

use crate::Counts;
use crate::signal::passing;

/// A client's connection to the store.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) label: String,
    clock: Arc<dyn Clock>,
    trouble: watch::Sender<Trouble>,
    commands: AtomicU64,
    told: AtomicU64,
    sessions: Mutex<Vec<Opened>>,
    late: Mutex<Vec<LateJoin>>,
}

/// The current faults of a wire.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trouble {
    pub(crate) is_dead: bool,
    pub(crate) refuses: bool,
    pub(crate) lose_replies: usize,
    pub(crate) delay: Duration,
    pub(crate) holds_requests: bool,
    pub(crate) holds_replies: bool,
    pub(crate) stalled: Option<String>,
    pub(crate) drops_signals: bool,
}

impl Trouble {
    /// Whether a request may be under way for a while.
    fn holds_up(&self) -> bool {
        self.is_dead || self.holds_requests || self.stalled.is_some() || !self.delay.is_zero()
    }
}

#[derive(Debug)]
struct Opened {
    id: SessionId,
    session: Weak<dyn Session>,
    signals: Arc<dyn Signals>,
}

#[derive(Debug)]
struct LateJoin {
    session: Arc<dyn Session>,
    claim: Claim,
    patience: Patience,
}

impl Wire {
    pub(crate) fn new(label: &str, clock: Arc<dyn Clock>, trouble: Trouble) -> Self {
        Self {
            label: label.to_owned(),
            clock,
            trouble: watch::Sender::new(trouble),
            commands: AtomicU64::new(0),
            told: AtomicU64::new(0),
            sessions: Mutex::default(),
            late: Mutex::default(),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts { commands: self.commands.load(Ordering::Relaxed), signals: self.told.load(Ordering::Relaxed) }
    }

    /// Changes its faults.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Trouble)) {
        self.trouble.send_modify(change);
    }

    /// Lets everything through again, late joins first; a dead client stays dead.
    pub(crate) async fn heal(&self) {
        let is_dead = self.trouble.borrow().is_dead;
        if !is_dead {
            let late = std::mem::take(&mut *self.late());
            for LateJoin { session, claim, patience } in late {
                let _ = session.join(&claim, patience).await; // the caller is no longer waiting for the reply
            }
        }
        let mut late = self.late();
        if !is_dead {
            late.clear(); // given up during this heal: lost, or it would stay here until the next one
        }
        self.change(|trouble| *trouble = Trouble { is_dead: trouble.is_dead, ..Trouble::default() });
    }

    fn late(&self) -> std::sync::MutexGuard<'_, Vec<LateJoin>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the client that its sessions are over, and returns them so that they can be ended.
    pub(crate) fn give_up_sessions(&self) -> Vec<Arc<dyn Session>> {
        let opened = std::mem::take(&mut *self.opened());
        opened.iter().for_each(|opened| opened.signals.over());
        opened.iter().filter_map(|opened| opened.session.upgrade()).collect()
    }

    /// How many sessions are still in use.
    pub(crate) fn open_sessions(&self) -> usize {
        self.opened().iter().filter(|opened| opened.session.strong_count() > 0).count()
    }

    /// The ids of the sessions still in use.
    pub(crate) fn open_ids(&self) -> Vec<SessionId> {
        let opened = self.opened();
        opened.iter().filter(|opened| opened.session.strong_count() > 0).map(|opened| opened.id).collect()
    }

    fn opened(&self) -> std::sync::MutexGuard<'_, Vec<Opened>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn there(&self, name: Option<&Name>) -> Result<()> {
        let is_stalled = |trouble: &Trouble| {
            let about_it = |stalled: &String| name.is_some_and(|name| name.as_str() == stalled);
            trouble.stalled.as_ref().is_some_and(about_it)
        };
        let holds = |trouble: &Trouble| trouble.is_dead || trouble.holds_requests || is_stalled(trouble);
        let _ = self.trouble.subscribe().wait_for(|trouble| !holds(trouble)).await;
        let (refuses, delay) = {
            let trouble = self.trouble.borrow();
            (trouble.refuses, trouble.delay)
        };
        self.wait(delay / 2).await;
        self.commands.fetch_add(1, Ordering::Relaxed); // it has arrived
        if refuses {
            return Err(Error::new(ErrorKind::Unavailable, "the trial makes the store refuse this request"));
        }
        Ok(())
    }

    async fn back(&self) -> Result<()> {
        let holds = |trouble: &Trouble| trouble.is_dead || trouble.holds_replies;
        let _ = self.trouble.subscribe().wait_for(|trouble| !holds(trouble)).await;
        let delay = self.trouble.borrow().delay;
        self.wait(delay / 2).await;
        let mut is_lost = false;
        self.trouble.send_if_modified(|trouble| {
            is_lost = trouble.lose_replies > 0;
            trouble.lose_replies -= usize::from(is_lost);
            false
        });
        if is_lost {
            return Err(Error::new(ErrorKind::Timeout, "the trial makes this reply get lost"));
        }
        Ok(())
    }

    async fn wait(&self, delay: Duration) {
        if !delay.is_zero() {
            Sleep::until(&self.clock, self.clock.now() + delay).await;
        }
    }

    fn lets_signals_pass(&self) -> bool {
        let trouble = self.trouble.borrow();
        !(trouble.is_dead || trouble.drops_signals || trouble.holds_replies || trouble.holds_requests)
    }
}

/// A join on its way to the store. If it is dropped before it arrived and a fault delays it, it arrives late.
struct OnItsWay<'a> {
    wire: &'a Wire,
    join: Option<LateJoin>,
}

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        let mut late = self.wire.late();
        if self.wire.trouble.borrow().holds_up() {
            late.extend(self.join.take());
        }
    }
}

#[async_trait]
impl Layer for Wire {
    fn signals(self: Arc<Self>, to: Arc<dyn Signals>) -> Arc<dyn Signals> {
        passing(to, move |signal| {
            let passes = self.lets_signals_pass();
            self.told.fetch_add(u64::from(passes), Ordering::Relaxed);
            passes.then_some(signal)
        })
    }

    async fn open(
        &self,
        to: &dyn Backend,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        self.there(None).await?;
        let session = to.open(id, options, signals.clone()).await?;
        self.back().await?;
        self.opened().push(Opened { id, session: Arc::downgrade(&session), signals });
        Ok(session)
    }

    async fn join(&self, to: &Arc<dyn Session>, claim: &Claim, patience: Patience) -> Result<Place> {
        let sent = self.clock.now(); // the backend counts from the arrival, which is later by exactly this delay
        let join = LateJoin { session: to.clone(), claim: claim.clone(), patience };
        let mut on_its_way = OnItsWay { wire: self, join: Some(join) };
        let there = self.there(Some(&claim.name)).await;
        on_its_way.join = None;
        there?;
        let late = self.clock.now().since(sent);
        let place = to.join(claim, patience).await;
        self.back().await?;
        place.map(|place| match place {
            Place::Held { grant, until } => Place::Held { grant, until: until - late },
            Place::Waiting { until, look_in } => Place::Waiting { until: until - late, look_in },
            other => other,
        })
    }

    async fn look(&self, to: &Arc<dyn Session>, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        self.there(Some(name)).await?;
        let sight = to.look(name, waiting).await;
        self.back().await?;
        sight
    }

    async fn not_held(
        &self,
        to: &Arc<dyn Session>,
        name: &Name,
        believed: &[(ClaimId, Token)],
    ) -> Result<Vec<ClaimId>> {
        self.there(Some(name)).await?;
        let not_held = to.not_held(name, believed).await;
        self.back().await?;
        not_held
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let (to, name) = (to.clone(), name.clone());
        let mut reply: Reply<Left> = Box::pin(async move {
            self.there(Some(&name)).await?;
            let left = to.leave(&name, id, how).await;
            self.back().await?;
            left
        });
        // A leave starts when it is called: unless a fault delays it, it has arrived when this returns.
        let waker = std::task::Waker::noop();
        match reply.as_mut().poll(&mut std::task::Context::from_waker(waker)) {
            std::task::Poll::Ready(left) => Box::pin(std::future::ready(left)),
            std::task::Poll::Pending => reply,
        }
    }

    async fn lighten(&self, to: &Arc<dyn Session>, claim: &Claim, weight: Weight) -> Result<()> {
        self.there(Some(&claim.name)).await?;
        let lightened = to.lighten(claim, weight).await;
        self.back().await?;
        lightened
    }

    async fn resize(&self, to: &Arc<dyn Session>, name: &Name, from: Weight, size: Weight) -> Result<()> {
        self.there(Some(name)).await?;
        let resized = to.resize(name, from, size).await;
        self.back().await?;
        resized
    }

    async fn renew(
        &self,
        to: &Arc<dyn Session>,
        shard: Shard,
        standing: &[(Name, Vec<ClaimId>)],
    ) -> Result<Renewal> {
        let sent = self.clock.now(); // as in `join`
        self.there(None).await?;
        let late = self.clock.now().since(sent);
        let renewal = to.renew(shard, standing).await;
        self.back().await?;
        renewal.map(|renewal| Renewal { until: renewal.until - late, ..renewal })
    }

    async fn line(&self, to: &Arc<dyn Session>, name: &Name) -> Result<Line> {
        self.there(Some(name)).await?;
        let line = to.line(name).await;
        self.back().await?;
        line
    }

    async fn names(&self, to: &Arc<dyn Session>, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        self.there(None).await?;
        let names = to.names(prefix, after).await;
        self.back().await?;
        names
    }

    async fn close(&self, to: &Arc<dyn Session>) -> Result<()> {
        self.there(None).await?;
        let closed = to.close().await;
        self.back().await?;
        closed
    }
}
