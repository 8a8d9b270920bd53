//! The client behind every `Locks`: one session at a time over one backend.
//!
//! A session opens at first use, and again when the last one is over. All callers that need it in the meantime share
//! one opening. Once the client is closed no other session opens, and one that is being opened then is closed as soon as
//! it is open: no lock is in it, so nobody waits for that.

mod pause;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use self::pause::{CurrentPause, Pause};
use crate::backend::{Backend, Clock, Moment};
use crate::cohort::Cohorts;
use crate::deadline;
use crate::keeper;
use crate::limit::Limit;
use crate::live_session::LiveSession;
use crate::shared_task::{SharedTask, failed_inside};
use crate::size_warnings::SizeWarnings;
use crate::{Error, ErrorKind, Line, Name, Options, Result, progress};

/// After a failed opening, a new caller starts the next one after at most this pause.
const NEWCOMER_PAUSE: Duration = Duration::from_millis(20);

/// A cheap handle to one client. The session ends with the last handle.
#[derive(Clone)]
pub(crate) struct Client(Arc<Shared>);

struct Shared {
    backend: Arc<dyn Backend>,
    options: Arc<Options>,
    slot: Mutex<Slot>,
    /// Whether it takes no more locks. Its session may still be open.
    is_draining: AtomicBool,
    size_warnings: SizeWarnings,
    cohorts: Arc<Cohorts>,
}

/// The session of a client.
#[derive(Debug, Default)]
enum Slot {
    #[default]
    Empty,
    Opening(Opening),
    Failed(Pause),
    Open(Arc<LiveSession>),
    Closing(Closing),
}

/// A session that is being opened, after a pause.
#[derive(Clone, Debug)]
struct Opening {
    task: SharedTask<Arc<LiveSession>>,
    current_pause: Arc<CurrentPause>,
}

/// The end of a session. It keeps the session until the store has confirmed the end.
#[derive(Clone, Debug)]
struct Closing {
    end: SharedTask<()>,
    of: Option<Arc<LiveSession>>,
}

impl Closing {
    /// There is no session to end.
    fn done() -> Self {
        Self { end: SharedTask::done(()), of: None }
    }
}

/// Whether the end of a session was begun by this caller or by another one before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BegunBy {
    Asker,
    Another,
}

impl BegunBy {
    /// What is said to a caller whose time is over before the end has come.
    fn still_closes(self) -> &'static str {
        match self {
            Self::Asker => {
                "there was no time to hear whether all was given back; what was not is free when its lease ends"
            }
            Self::Another => {
                "another close with a longer deadline is still under way; the locks are not free yet"
            }
        }
    }
}

/// Whether this caller has heard of the failed opening, and asks for the next one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    No,
    Yes,
}

/// The session that an acquire finds.
enum Current {
    Open(Arc<LiveSession>),
    Opening(SharedTask<Arc<LiveSession>>),
}

impl Client {
    pub(crate) fn new(backend: Arc<dyn Backend>, options: Options) -> Result<Self> {
        options.check()?;
        backend.check(&options).map_err(|error| error.during("connect"))?;
        Ok(Self(Arc::new(Shared {
            backend,
            cohorts: Cohorts::new(options.linger, options.command_deadline, options.ttl),
            options: Arc::new(options),
            slot: Mutex::default(),
            is_draining: AtomicBool::new(false),
            size_warnings: SizeWarnings::default(),
        })))
    }

    /// Adds the store, the namespace and the label to what a handle shows of itself.
    pub(crate) fn describe(&self, shown: &mut fmt::DebugStruct<'_, '_>) {
        let (store, namespace) = self.store();
        shown.field("store", &store).field("namespace", &namespace).field("label", &self.options().label);
    }

    /// The store and the namespace, in the same words in every process.
    pub(crate) fn store(&self) -> (&str, &str) {
        (self.0.backend.store(), &self.0.options.namespace)
    }

    /// Tells the backends of this process apart, also those whose stores have the same name.
    pub(crate) fn backend_address(&self) -> usize {
        Arc::as_ptr(&self.0.backend).addr()
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        self.0.backend.clock()
    }

    /// The moment `longest` from now.
    pub(crate) fn after(&self, longest: Duration) -> Moment {
        self.clock().now() + longest
    }

    /// The session in use. If there is none, opens one and waits for it until `by`.
    pub(crate) async fn live_session(&self, by: Moment) -> Result<Arc<LiveSession>> {
        match self.current(Again::No)? {
            Current::Open(live) => Ok(live),
            // Boxed because it is rare: otherwise every acquire's future would be as large.
            Current::Opening(task) => Box::pin(self.opened(task, by)).await,
        }
    }

    /// The session in use, for an acquire, and whether it was open already. If none can be opened now, retries for as
    /// long as one command may take. All acquires share the retries and the pauses between them.
    pub(crate) async fn live_session_after_outage(
        &self,
        by: Moment,
        again_by: Moment,
    ) -> Result<(Arc<LiveSession>, bool)> {
        if self.is_draining() {
            return Err(self.takes_no_locks());
        }
        let found = match self.current(Again::No)? {
            Current::Open(live) => Ok((live, true)),
            Current::Opening(task) => {
                progress::unanswered();
                let opened = Box::pin(self.opened_after_outage(task, by, again_by)).await;
                opened.map(|live| (live, false))
            }
        };
        // Asked again: a drain that saw it being opened waits for nobody in it.
        if self.is_draining() { Err(self.takes_no_locks()) } else { found }
    }

    fn is_draining(&self) -> bool {
        self.0.is_draining.load(Ordering::Acquire)
    }

    async fn opened_after_outage(
        &self,
        task: SharedTask<Arc<LiveSession>>,
        by: Moment,
        again_by: Moment,
    ) -> Result<Arc<LiveSession>> {
        let clock = self.clock();
        let give_up = by.min(again_by).min(self.after(self.options().command_deadline));
        let mut opened = self.opened(task, by).await;
        while let Err(trouble) = &opened
            && trouble.can_retry()
            && clock.now() < give_up
        {
            progress::failed(trouble);
            let next = match self.current(Again::Yes)? {
                Current::Open(live) => return Ok(live),
                Current::Opening(task) => task,
            };
            match deadline::by(&clock, |_| give_up, self.outcome(next)).await {
                Some(outcome) => opened = outcome,
                None => break, // the last error says more than "no time left"
            }
        }
        opened
    }

    async fn opened(&self, task: SharedTask<Arc<LiveSession>>, by: Moment) -> Result<Arc<LiveSession>> {
        let late = || {
            Err(Error::new(
                ErrorKind::Timeout,
                "the store did not open a session in time; check that it is up and can be reached",
            ))
        };
        deadline::by(&self.clock(), |_| by, self.outcome(task)).await.unwrap_or_else(late)
    }

    async fn outcome(&self, task: SharedTask<Arc<LiveSession>>) -> Result<Arc<LiveSession>> {
        // A close gives up the opening, whose own error then says nothing useful.
        task.result().await.map_err(|error| if self.0.is_closing() { closed() } else { error })
    }

    fn current(&self, again: Again) -> Result<Current> {
        let mut slot = self.0.slot();
        match &*slot {
            Slot::Closing(_) => return Err(closed()),
            Slot::Open(live) if !live.registry.is_over() => return Ok(Current::Open(live.clone())),
            Slot::Opening(opening) if opening.task.is_under_way() => {
                if again == Again::No {
                    opening.current_pause.cut_short();
                }
                return Ok(Current::Opening(opening.task.clone()));
            }
            Slot::Empty | Slot::Failed(_) | Slot::Open(_) | Slot::Opening(_) => {}
        }
        let pause = match &*slot {
            Slot::Failed(pause) if again == Again::Yes => Some(*pause),
            _ => None,
        };
        let (shared, current_pause) = (Arc::downgrade(&self.0), Arc::new(CurrentPause::before(pause)));
        let least = NEWCOMER_PAUSE.min(self.options().first_pause);
        let opening = Shared::open_after_pause(shared, self.clock(), pause, current_pause.clone(), least);
        let task = SharedTask::begin(opening)?;
        *slot = Slot::Opening(Opening { task: task.clone(), current_pause });
        Ok(Current::Opening(task))
    }

    /// Ends the session, and any other that could still be opened. Several callers of close wait for the same end,
    /// each up to its own deadline. If that end fails because another caller gave it less time, a caller with time
    /// left begins the end again.
    pub(crate) async fn close(&self, longest: Duration) -> Result<()> {
        let clock = self.clock();
        let by = Limit::after(longest, &clock);
        let asked_by = Limit::after(longest - longest / 10, &clock); // leaves time to hear the result
        self.0.cohorts.close(&closed());
        loop {
            let (end, begun_by) = self.begin_closing(asked_by)?;
            let limit = match begun_by {
                BegunBy::Another if seeded!("a_closer_waits_for_another") => {
                    Limit::after(longest * 100, &clock)
                }
                _ => by,
            };
            let Some(ended) = limit.of(&clock, end.result()).await else {
                return Err(Error::new(ErrorKind::Timeout, begun_by.still_closes()));
            };
            if ended.is_ok() || begun_by == BegunBy::Asker || asked_by.is_over(&clock) {
                return ended;
            }
        }
    }

    /// Takes no more locks, waits until those that are held were given back, for `longest` at most, and then ends the
    /// session. Returns whether all were given back.
    pub(crate) async fn drain(&self, longest: Option<Duration>) -> Result<bool> {
        let by = longest.map(|longest| Limit::after(longest, &self.clock()));
        self.0.is_draining.store(true, Ordering::Release);
        self.0.cohorts.close(&draining());
        let live = match &*self.0.slot() {
            Slot::Open(live) => Some(live.clone()),
            _ => None, // nobody holds anything
        };
        let all = match live {
            Some(live) => live.drain(by).await,
            None => true,
        };
        self.close(self.options().command_deadline).await?;
        Ok(all)
    }

    fn begin_closing(&self, by: Limit) -> Result<(SharedTask<()>, BegunBy)> {
        let mut slot = self.0.slot();
        let closing = match std::mem::take(&mut *slot) {
            Slot::Empty | Slot::Failed(_) => Closing::done(),
            Slot::Closing(closing) if !closing.end.has_failed() => {
                let end = closing.end.clone();
                *slot = Slot::Closing(closing);
                return Ok((end, BegunBy::Another));
            }
            Slot::Closing(closing) => match closing.of {
                // Try again: the store may be back.
                Some(live) => {
                    let session = live.clone();
                    Closing { end: self.begin_end(async move { session.end(by).await })?, of: Some(live) }
                }
                None => Closing::done(),
            },
            Slot::Open(live) => {
                let session = live.clone();
                Closing { end: self.begin_end(async move { session.close(by).await })?, of: Some(live) }
            }
            Slot::Opening(opening) => {
                opening.task.cancel(); // those that wait for it hear at once that the client is closed
                Closing::done()
            }
        };
        let end = closing.end.clone();
        *slot = Slot::Closing(closing);
        Ok((end, BegunBy::Asker))
    }

    /// Ends a session. Once the end is confirmed, the client drops the session and its connections, even if handles
    /// live on.
    fn begin_end(&self, ending: impl Future<Output = Result<()>> + Send + 'static) -> Result<SharedTask<()>> {
        let shared = self.0.clone();
        SharedTask::begin(async move {
            let ended = ending.await;
            if ended.is_ok() {
                shared.forget_session();
            }
            ended
        })
    }

    /// Another client of the same store, with its own session.
    pub(crate) fn sibling(&self, ttl: Duration) -> Result<Self> {
        if self.0.is_closing() || self.is_draining() {
            return Err(self.takes_no_locks());
        }
        let linger = self.options().linger.min(ttl / 3);
        Self::new(self.0.backend.clone(), self.options().clone().ttl(ttl).linger(linger))
    }

    /// The error for a request for a lock after a drain or a close was begun.
    pub(crate) fn takes_no_locks(&self) -> Error {
        if self.0.is_closing() { closed() } else { draining() }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    /// The local lines of its tasks.
    pub(crate) fn cohorts(&self) -> &Arc<Cohorts> {
        &self.0.cohorts
    }

    pub(crate) fn size_warnings(&self) -> &SizeWarnings {
        &self.0.size_warnings
    }

    /// The line of a name at the moment.
    pub(crate) async fn line(&self, name: &Name) -> Result<Line> {
        let live = self.live_session(Moment::NEVER).await?;
        let mut line = live.ask(live.session.line(name)).await?;
        let own = live.registry.session;
        let waiting = self.cohorts().waiting(name, |id| line.claims.iter().any(|claim| claim.id == id));
        // With two, one holds and the other waits for the whole local line.
        if let Some(last) = line.claims.iter_mut().rev().find(|claim| claim.id.session == own) {
            last.behind = waiting;
        }
        Ok(line)
    }
}

impl Shared {
    /// Opens a session after a pause, unless the client is gone by then.
    async fn open_after_pause(
        shared: Weak<Self>,
        clock: Arc<dyn Clock>,
        pause: Option<Pause>,
        current_pause: Arc<CurrentPause>,
        least: Duration,
    ) -> Result<Arc<LiveSession>> {
        if let Some(pause) = pause {
            current_pause.until(&clock, pause, least).await;
        }
        let shared = shared.upgrade().ok_or_else(closed)?;
        if shared.is_closing() {
            return Err(closed());
        }
        // For a new caller the pauses begin with the shortest one again, whatever earlier callers met: it may have
        // little time left.
        let next = |now| {
            let grown = pause.filter(|_| !current_pause.has_newcomer());
            let length = grown.map_or(shared.options.first_pause, |pause| pause.next);
            Pause::of(length, now, &shared.options)
        };
        Self::open(&shared, next).await
    }

    /// Opens a session and puts it where all callers find it; after a failure, the next pause instead.
    async fn open(shared: &Arc<Self>, next: impl FnOnce(Moment) -> Pause) -> Result<Arc<LiveSession>> {
        let clock = shared.backend.clock();
        // In a task of its own: if a close cancels this one, the session that the store may have by then is dropped as
        // soon as it is open, and its keeper closes it.
        let opening =
            keeper::handle()?.spawn(LiveSession::open(shared.backend.clone(), shared.options.clone()));
        let opened = opening.await.unwrap_or_else(|_| Err(failed_inside()));
        match (&mut *shared.slot(), &opened) {
            (Slot::Closing(_), Ok(live)) => live.registry.begin_closing(),
            (Slot::Closing(_), Err(_)) => {}
            (slot, Ok(live)) => *slot = Slot::Open(live.clone()),
            (slot, Err(_)) => *slot = Slot::Failed(next(clock.now())),
        }
        opened
    }

    /// The end of the session is confirmed.
    fn forget_session(&self) {
        let session = match &mut *self.slot() {
            Slot::Closing(closing) => closing.of.take(),
            _ => None,
        };
        drop(session); // outside the lock: dropping it may run any code
    }

    fn is_closing(&self) -> bool {
        matches!(&*self.slot(), Slot::Closing(_))
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    /// Nobody is left to use a session that would be opened after a pause.
    fn drop(&mut self) {
        if let Slot::Opening(opening) = self.slot.get_mut().unwrap_or_else(PoisonError::into_inner) {
            opening.task.cancel();
        }
    }
}

/// The error for every request to a closed client.
fn closed() -> Error {
    Error::new(ErrorKind::Closed, "this Locks was closed")
}

/// The error for a request for a lock while the holders of the others finish.
fn draining() -> Error {
    Error::new(ErrorKind::Closed, "this Locks is being drained; it takes no new locks")
}
