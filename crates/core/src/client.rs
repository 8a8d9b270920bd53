//! The client behind every `Locks`: one session at a time over one backend.
//!
//! A session opens at first use, and anew when the store has ended the last one: once for everyone who asks for it
//! meanwhile. When the client is closed no other opens.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::deadline;
use crate::live::Live;
use crate::pledge::Pledge;
use crate::{Backend, Clock, Error, ErrorKind, Line, Moment, Name, Options, Result, Sleep};

/// A cheap handle to one client; the last one that goes ends its session.
#[derive(Clone, Debug)]
pub(crate) struct Client(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    backend: Arc<dyn Backend>,
    options: Arc<Options>,
    slot: Mutex<Slot>,
}

/// The session of a client.
#[derive(Debug, Default)]
enum Slot {
    #[default]
    Empty,
    Opening(Opening),
    Failed(Rest),
    Open(Arc<Live>),
    Closing(Closing),
}

/// A session that is being opened, after a rest.
#[derive(Clone, Debug)]
struct Opening {
    pledge: Pledge<Arc<Live>>,
    rest: Rest,
}

/// Until when nobody opens a session again whose acquire goes on trying, and how long to rest if that fails too.
#[derive(Clone, Copy, Debug)]
struct Rest {
    until: Moment,
    next: Duration,
}

impl Rest {
    /// What comes when an opening after this one has failed at `now`.
    fn after_this(self, now: Moment, options: &Options) -> Self {
        Self { until: now + self.next, next: (self.next * 2).min(options.longest_pause) }
    }
}

/// The end of a session, and the session itself, once it is open, for as long as the store has not confirmed it.
#[derive(Clone, Debug)]
struct Closing {
    end: Pledge<()>,
    of: Option<Pledge<Arc<Live>>>,
}

impl Closing {
    /// The session that is to be ended once more.
    fn has_left_open(&self) -> Option<Arc<Live>> {
        if self.end.has_failed() { self.of.as_ref()?.outcome() } else { None }
    }
}

/// Whether an opening that has failed is asked for again by who heard of that.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    No,
    Yes,
}

/// The session that an acquire finds.
enum Current {
    Open(Arc<Live>),
    Opening(Pledge<Arc<Live>>),
}

impl Client {
    pub(crate) fn new(backend: Arc<dyn Backend>, options: Options) -> Result<Self> {
        options.check()?;
        Ok(Self(Arc::new(Shared { backend, options: Arc::new(options), slot: Mutex::default() })))
    }

    /// Which store, and which part of it, in the same words in every process.
    pub(crate) fn store(&self) -> (&str, &str) {
        (self.0.backend.store(), &self.0.options.namespace)
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        self.0.backend.clock()
    }

    /// The moment `longest` from now.
    pub(crate) fn after(&self, longest: Duration) -> Moment {
        self.clock().now() + longest
    }

    /// The session in use; opens one if there is none, and waits for that until `by`.
    pub(crate) async fn live(&self, by: Moment) -> Result<Arc<Live>> {
        match self.current(Again::No)? {
            Current::Open(live) => Ok(live),
            // Boxed, because it is rare, and every acquire's future would be as large.
            Current::Opening(pledge) => Box::pin(self.opened(pledge, by)).await,
        }
    }

    /// The session in use, for an acquire. Where none can be opened now, it is tried again for as long as one command may
    /// take: by one for all who acquire, who rest together in between.
    pub(crate) async fn live_after_outage(&self, by: Moment) -> Result<Arc<Live>> {
        match self.current(Again::No)? {
            Current::Open(live) => Ok(live),
            Current::Opening(pledge) => Box::pin(self.opened_after_outage(pledge, by)).await,
        }
    }

    async fn opened_after_outage(&self, pledge: Pledge<Arc<Live>>, by: Moment) -> Result<Arc<Live>> {
        let clock = self.clock();
        let give_up = by.min(self.after(self.options().command_deadline));
        let mut opened = self.opened(pledge, by).await;
        while let Err(trouble) = &opened
            && trouble.can_retry()
            && clock.now() < give_up
        {
            let next = match self.current(Again::Yes)? {
                Current::Open(live) => return Ok(live),
                Current::Opening(pledge) => pledge,
            };
            match deadline::by(&clock, |_| give_up, self.outcome(next)).await {
                Some(outcome) => opened = outcome,
                None => break, // the last trouble says more than that there was no time
            }
        }
        opened
    }

    async fn opened(&self, pledge: Pledge<Arc<Live>>, by: Moment) -> Result<Arc<Live>> {
        let late = || Err(Error::new(ErrorKind::Timeout, "the store did not open a session in time"));
        deadline::by(&self.clock(), |_| by, self.outcome(pledge)).await.unwrap_or_else(late)
    }

    async fn outcome(&self, pledge: Pledge<Arc<Live>>) -> Result<Arc<Live>> {
        // Whoever closes gives up what is still being opened, and says nothing else of it.
        pledge.result().await.map_err(|error| if self.0.is_closing() { closed() } else { error })
    }

    fn current(&self, again: Again) -> Result<Current> {
        let mut slot = self.0.slot();
        match &*slot {
            Slot::Closing(_) => return Err(closed()),
            Slot::Open(live) if !live.registry.is_over() => return Ok(Current::Open(live.clone())),
            Slot::Opening(opening) if opening.pledge.is_under_way() => {
                return Ok(Current::Opening(opening.pledge.clone()));
            }
            Slot::Empty | Slot::Failed(_) | Slot::Open(_) | Slot::Opening(_) => {}
        }
        let rest = match &*slot {
            Slot::Failed(rest) if again == Again::Yes => *rest,
            Slot::Failed(Rest { next, .. }) => Rest { until: Moment::START, next: *next },
            _ => Rest { until: Moment::START, next: self.options().first_pause },
        };
        let pledge = Pledge::begin(Shared::open(self.0.clone(), rest))?;
        *slot = Slot::Opening(Opening { pledge: pledge.clone(), rest });
        Ok(Current::Opening(pledge))
    }

    /// Ends its session, and every other that could be opened. Whoever closes it too waits for the same end, each no
    /// longer than it wanted to.
    pub(crate) async fn close(&self, longest: Duration) -> Result<()> {
        let by = self.after(longest);
        let closing = self.begin_closing(self.after(longest - longest / 10))?;
        let late = || {
            let still = "it is still being closed, by somebody who gave it more time: what its leases keep is not free yet";
            Err(Error::new(ErrorKind::Timeout, still))
        };
        deadline::by(&self.clock(), |_| by, closing.end.result()).await.unwrap_or_else(late)
    }

    /// Whoever is first says by when; in a tenth less than its time, so that it hears what has come of it.
    fn begin_closing(&self, by: Moment) -> Result<Closing> {
        let mut slot = self.0.slot();
        let closing = match std::mem::take(&mut *slot) {
            Slot::Empty | Slot::Failed(_) => Closing { end: Pledge::kept(()), of: None },
            Slot::Closing(closing) => match closing.has_left_open() {
                // The store may be back.
                Some(live) => Closing { end: Pledge::begin(async move { live.end(by).await })?, ..closing },
                None => closing,
            },
            Slot::Open(live) => {
                let session = live.clone();
                let of = Some(Pledge::kept(live));
                Closing { end: Pledge::begin(async move { session.close(by).await })?, of }
            }
            Slot::Opening(opening) if self.clock().now() < opening.rest.until => {
                opening.pledge.give_up(); // nothing is asked for yet
                Closing { end: Pledge::kept(()), of: None }
            }
            Slot::Opening(Opening { pledge, .. }) => {
                let end = Pledge::begin(Self::close_opening(self.clock(), pledge.clone(), by))?;
                Closing { end, of: Some(pledge) }
            }
        };
        *slot = Slot::Closing(closing.clone());
        Ok(closing)
    }

    /// Closes what is being opened as soon as it is open; what takes too long for that is given up.
    async fn close_opening(clock: Arc<dyn Clock>, opening: Pledge<Arc<Live>>, by: Moment) -> Result<()> {
        match deadline::by(&clock, |_| by, opening.clone().result()).await {
            Some(Ok(live)) => live.close(by).await,
            Some(Err(_)) => Ok(()), // there is nothing to close
            None => {
                opening.give_up();
                let wrong = "the session that was being opened was not open in time, and is given up; nothing was \
                             locked in it, and if the store has it, its lease will end it";
                Err(Error::new(ErrorKind::Timeout, wrong))
            }
        }
    }

    /// Another client of the same store, with a session of its own.
    pub(crate) fn sibling(&self, ttl: Duration) -> Result<Self> {
        match &*self.0.slot() {
            Slot::Closing(_) => Err(closed()),
            _ => Self::new(self.0.backend.clone(), self.options().clone().ttl(ttl)),
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.0.options
    }

    /// The line of a name as it is now.
    pub(crate) async fn line(&self, name: &Name) -> Result<Line> {
        let live = self.live(Moment::NEVER).await?;
        live.ask(live.session.line(name)).await
    }
}

impl Shared {
    /// Opens a session and puts it where everyone finds it.
    async fn open(shared: Arc<Self>, rest: Rest) -> Result<Arc<Live>> {
        let clock = shared.backend.clock();
        Sleep::until(&clock, rest.until).await;
        let opened = Live::open(shared.backend.clone(), shared.options.clone()).await;
        match (&mut *shared.slot(), &opened) {
            (Slot::Closing(_), Ok(live)) => live.registry.begin_closing(), // whoever closes it waits for it
            (Slot::Closing(_), Err(_)) => {}
            (slot, Ok(live)) => *slot = Slot::Open(live.clone()),
            (slot, Err(_)) => *slot = Slot::Failed(rest.after_this(clock.now(), &shared.options)),
        }
        opened
    }

    fn is_closing(&self) -> bool {
        matches!(&*self.slot(), Slot::Closing(_))
    }

    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nothing can be asked of this client any more.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "its Locks was closed")
}
