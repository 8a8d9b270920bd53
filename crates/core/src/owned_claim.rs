//! A claim that leaves when it is dropped, however far it has come.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::at_once::at_once;
use crate::backend::{Claim, Grant, Kept, Leave, Left, Moment, Patience, Place};
use crate::deadline;
use crate::keeper::{Leaving, renewal_deadline, ttl_of};
use crate::live_session::LiveSession;
use crate::registry::{EarlyRenewal, Entry, Loss, LossListener, Stage, Turn};
use crate::{Error, ErrorKind, Options, Result, progress, shield};

/// The outcome of a join.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Joined {
    Held {
        grant: Grant,
        /// When this was heard, or a little before.
        at: Moment,
    },
    Waiting,
    Refused,
    Gone(Loss),
    /// No answer came while the claim surely lived. It leaves, and the acquire joins with another claim.
    TooLate,
}

impl Joined {
    /// The claim was lost before the answer to its join came. If it was lost by the clock, the answer or its user was
    /// too slow.
    fn lost(loss: Loss) -> Self {
        if loss == Loss::Deadline { Self::TooLate } else { Self::Gone(loss) }
    }
}

/// How often in one acquire the user may be away for longer than a command may take. Without this limit, an acquire
/// on a runtime that is always that late would wait for a dead store for ever.
const MOST_ABSENCES: u32 = 8;

/// What an acquire remembers of unanswered joins, from one claim to the next.
#[derive(Debug, Default)]
pub(crate) struct Retries {
    /// Since when the store has not answered, as far as one that leads others knows.
    began: Option<Moment>,
    give_up: Option<Moment>,
    pause: Option<Duration>,
    trouble: Option<Error>,
    absences: u32,
    /// How many passes of a hold `max_hold` had ended in a row before this acquire came to lead.
    pub(crate) outlived: u32,
    /// Until when a session may be opened, if that has no deadline of its own.
    open_by: Option<Moment>,
    /// Whether a session is awaited.
    opens: bool,
}

impl Retries {
    /// Those of an acquire that gives up then, and awaits a session that is being opened for longer.
    pub(crate) fn until(give_up: Moment, open_by: Moment) -> Self {
        Self { give_up: Some(give_up), open_by: Some(open_by), ..Self::default() }
    }

    /// The store is about to be asked, perhaps again.
    pub(crate) fn begin(&mut self, now: Moment) {
        self.began.get_or_insert(now);
        self.opens = true;
    }

    /// Whether patience until `by` has left them all their time. A leader that had waited well until its session was lost
    /// may have begun just before its patience ended; and nobody knows of one that was away.
    pub(crate) fn had_time(&self, by: Moment, options: &Options) -> bool {
        let longest = options.command_deadline;
        let (longest, enough) = match self.opens {
            true => (longest.max(options.connect_deadline), self.open_by),
            false => (longest, self.give_up),
        };
        let enough = enough.or_else(|| self.began.map(|began| began + longest));
        enough.is_some_and(|enough| by >= enough)
    }

    /// Until when a session may be opened, with patience until `by`.
    pub(crate) fn open_by(&self, by: Moment) -> Moment {
        self.open_by.map_or(by, |open_by| open_by.min(by))
    }

    /// Until when that may be tried again, if it has no deadline of its own.
    pub(crate) fn open_again_by(&self) -> Moment {
        self.open_by.and(self.give_up).unwrap_or(Moment::NEVER)
    }

    /// A session is open. If it was not before, the store has begun to answer only now, and the join has its full time.
    pub(crate) fn opened(&mut self, was_open: bool) {
        self.opens = false;
        if !was_open && self.open_by.take().is_some() {
            self.give_up = None;
        }
    }

    /// Whether a session that is open already makes a difference.
    pub(crate) fn asks_whether_open(&self) -> bool {
        self.open_by.is_some()
    }

    /// How long to pause this time. Each pause is twice as long as the one before.
    fn pause(&mut self, options: &Options) -> Duration {
        let pause = self.pause.unwrap_or(options.first_pause);
        self.pause = Some((pause * 2).min(options.longest_pause));
        pause
    }

    /// The user came this late after it was to be woken. That time does not count, because the user was away and not
    /// the store. If it was away for longer than a command may take, nobody knows since when, so the store gets its
    /// full time again.
    fn excuse(&mut self, late: Duration, live: &LiveSession) {
        if late >= live.claim_deadline() && self.absences < MOST_ABSENCES {
            let trouble = self.trouble.take();
            *self = Self { trouble, absences: self.absences + 1, ..Self::default() };
        } else if let Some(give_up) = &mut self.give_up {
            *give_up = *give_up + late;
        }
    }
}

/// A join under way.
type Joining<'a> = Pin<Box<dyn Future<Output = Result<Place>> + Send + 'a>>;

/// One claim of this client, and the duty to give it back.
#[derive(Debug)]
pub(crate) struct OwnedClaim {
    pub(crate) live: Arc<LiveSession>,
    pub(crate) entry: Arc<Entry>,
}

impl OwnedClaim {
    /// Enters a claim, unless its session is over. Nothing is sent.
    pub(crate) fn new(live: Arc<LiveSession>, claim: Claim, kept: Option<Kept>) -> Result<Self, Loss> {
        let entry = live.registry.enter(claim, kept)?;
        Ok(Self { live, entry })
    }

    /// Joins the line. A join without an answer is repeated, until `by` or the deadline of one command.
    pub(crate) async fn join(&self, patience: Patience, by: Moment, retries: &mut Retries) -> Result<Joined> {
        let asked = self.live.clock.now();
        self.entry.is_over_at(asked + ttl_of(&*self.live.session));
        self.entry.ask();
        let mut joining = self.live.session.join(&self.entry.claim, patience);
        match at_once(joining.as_mut()) {
            Some(Ok(place)) => Ok(self.joined(place, asked)),
            // Boxed, so that an acquire that is answered at once does not pay for all that can happen to the others.
            answer => Box::pin(self.join_in_time(asked, (joining, answer), patience, by, retries)).await,
        }
    }

    /// Continues a join whose first answer did not come at once, or was an error.
    async fn join_in_time<'a>(
        &'a self,
        asked: Moment,
        first: (Joining<'a>, Option<Result<Place>>),
        patience: Patience,
        by: Moment,
        retries: &mut Retries,
    ) -> Result<Joined> {
        let (live, clock) = (&*self.live, &self.live.clock);
        // After this moment the claim's lease may have ended in the store. Another join would make it stand there
        // anew, and a late report of its earlier grant would be taken for the new one. So the acquire then uses
        // another id.
        let first_over = asked + ttl_of(&*live.session);
        let ttl = || ttl_of(&*live.session); // which may change
        let over = || first_over.min(asked + ttl());
        let (mut begun, mut is_repeated) = (asked, false);
        let (mut joining, mut first_answer) = first;
        loop {
            let give_up = *retries.give_up.get_or_insert(begun + live.options.command_deadline);
            let give_up = give_up.min(by);
            let answer = match first_answer.take() {
                Some(answer) => Some(Ok(answer)),
                None => {
                    let joining = self.unless_gone(over, shield::around(joining));
                    deadline::by(clock, |_| give_up.min(over()), joining).await
                }
            };
            let is_believed = |place| {
                !is_repeated
                    || clock.now() < over() && !self.entry.contradicts(place)
                    || seeded!("a_late_answer_is_believed")
            };
            if let Some(Ok(Ok(place))) = &answer
                && is_believed(place)
            {
                return Ok(self.joined(*place, clock.now()));
            }
            retries.excuse(clock.now().since(give_up.min(over()).max(begun)), live);
            let error = match answer {
                Some(Ok(Ok(_))) => return Ok(Joined::TooLate),
                Some(Ok(Err(error))) => error,
                Some(Err(gone)) => return Ok(gone),
                // Prefer the previous error over "no answer": it says more.
                None => retries.trouble.take().unwrap_or_else(deadline::no_answer),
            };
            if !is_unknown(&error) {
                self.entry.answered();
                self.forget();
                return Err(error);
            }
            if let Some(loss) = self.entry.loss() {
                return Ok(Joined::lost(loss)); // its session ended in the meantime, or is being closed
            }
            let again_at = clock.now() + retries.pause(&live.options);
            if !error.can_retry() || again_at >= retries.give_up.unwrap_or(by).min(by) {
                return Err(error);
            }
            let name = &self.entry.claim.name;
            shield::unharmed(
                || tracing::debug!(lock.name = %name, %error, "could not join the line of this lock, retrying"),
            );
            progress::failed(&error);
            retries.trouble = Some(error);
            let wake_at = again_at.min(over());
            let lost = self.lost_by(wake_at).await;
            (begun, is_repeated) = (clock.now(), true);
            retries.excuse(begun.since(wake_at), live);
            if let Some(loss) = lost {
                return Ok(Joined::lost(loss)); // it was evicted in the meantime, or is being closed
            }
            if begun >= over() {
                return Ok(Joined::TooLate);
            }
            self.entry.ask();
            joining = live.session.join(&self.entry.claim, patience);
        }
    }

    /// The result of the join, or why nobody must wait for it any more. A user that comes back late does not poll the
    /// join again: that could send it, or continue its way to the store, after its leave.
    async fn unless_gone<T>(
        &self,
        over: impl Fn() -> Moment,
        join: impl Future<Output = T>,
    ) -> Result<T, Joined> {
        let mut join = pin!(join);
        let mut lost: Option<LossListener<'_>> = None; // not needed while a store answers at once
        poll_fn(|cx| {
            if lost.is_some() {
                if let Some(loss) = self.entry.loss() {
                    return Poll::Ready(Err(Joined::lost(loss)));
                }
                if self.live.clock.now() >= over() {
                    return Poll::Ready(Err(Joined::TooLate));
                }
            }
            match join.as_mut().poll(cx) {
                Poll::Ready(answer) => Poll::Ready(Ok(answer)),
                Poll::Pending => {
                    let lost = lost.get_or_insert_with(|| self.entry.listen());
                    lost.poll(cx).map(|loss| Err(Joined::lost(loss)))
                }
            }
        })
        .await
    }

    /// Waits until `at`. Returns why the claim is lost, if that happens earlier.
    async fn lost_by(&self, at: Moment) -> Option<Loss> {
        let lost = self.entry.listen();
        deadline::by(&self.live.clock, |_| at, poll_fn(|cx| lost.poll(cx))).await
    }

    /// The claim's turn, or its end; `None` if `by` comes first.
    pub(crate) async fn turn(&self, by: Moment) -> Option<Turn> {
        let by = if seeded!("patience_has_no_end") { Moment::NEVER } else { by };
        deadline::by(&self.live.clock, |_| by, poll_fn(|cx| self.entry.poll_turn(cx))).await
    }

    /// Renews a grant before it is handed out at `at`, if its deadline is nearly over because the answer came late or
    /// the store was away. It waits no longer than `by` and the time limit of a renewal. Returns why the claim is
    /// gone, if it is.
    pub(crate) async fn freshen(&self, at: Moment, by: Moment) -> Option<Loss> {
        match self.live.registry.is_nearly_over(&self.entry, at) {
            true => Box::pin(self.freshened(by)).await, // boxed because it is rare: see `Client::live_session`
            false => None,
        }
    }

    async fn freshened(&self, by: Moment) -> Option<Loss> {
        let (registry, clock) = (&self.live.registry, &self.live.clock);
        let renewed = async {
            loop {
                let next = registry.next_renewal(); // listens from now on
                registry.wake_ups.renew_early(EarlyRenewal::Short);
                shield::around(next).await;
                if self.entry.loss().is_some() || !registry.is_nearly_over(&self.entry, clock.now()) {
                    return;
                }
            }
        };
        let longest = renewal_deadline(&self.live.options, &*self.live.session);
        deadline::by(clock, |now| by.min(now + longest), renewed).await;
        self.loss()
    }

    /// Whether it can be handed out as it is: it holds, and has as much time left as a grant must have. Tells nobody.
    pub(crate) fn is_fresh(&self, now: Moment) -> bool {
        let is_short = self.entry.is_in_jeopardy() || self.live.registry.is_nearly_over(&self.entry, now);
        !is_short && now < self.entry.until() && self.entry.loss().is_none()
    }

    /// Why it cannot be trusted any more, if so. A claim that is lost by the clock stays lost.
    pub(crate) fn loss(&self) -> Option<Loss> {
        self.loss_at(self.live.clock.now())
    }

    pub(crate) fn loss_at(&self, now: Moment) -> Option<Loss> {
        loss_at(&self.live, &self.entry, now)
    }

    /// Leaves, and waits for the store to confirm it.
    pub(crate) async fn release(&self) -> Result<()> {
        let lost = |loss: Loss| loss.error("the lock was lost before");
        let now = self.live.clock.now();
        if !seeded!("an_overdue_lock_is_released") {
            self.loss_at(now);
        }
        if self.entry.lose(Loss::Left).is_none() {
            return Err(lost(self.entry.loss().unwrap_or(Loss::NotInLine)));
        }
        let kept_until = self.entry.kept_until(); // nothing renews it from now on
        self.entry.is_over_at(now + self.live.claim_deadline());
        let mut leaving = Leaving::start(&self.live, &self.entry);
        if seeded!("a_claim_is_forgotten_before_its_leave") {
            self.live.registry.remove(self.entry.claim.id.number);
        }
        let left = match leaving.answer_at_once() {
            Some(left) => Ok(left),
            // Boxed, so that a release that is answered at once does not pay for it.
            None => {
                self.entry.leaves_slowly();
                Box::pin(self.live.ask_within(self.live.claim_deadline(), leaving.answer())).await
            }
        };
        if is_not_there(&left) {
            // No loss, if what took it out came after the release began.
            if self.live.registry.may_overtake_leaves() {
                return Err(overtaken("this Locks was closed"));
            }
            if self.live.clock.now() >= kept_until {
                return Err(overtaken("the lease ended"));
            }
        }
        match left? {
            Left::Held => Ok(()),
            Left::Waiting | Left::Absent => Err(lost(Loss::NotInLine)),
        }
    }

    fn joined(&self, place: Place, at: Moment) -> Joined {
        self.entry.answered();
        let registry = &self.live.registry;
        match place {
            Place::Held { grant, until } => {
                registry.extend(&self.entry, until);
                registry.hold(&self.entry, grant).map_or(Joined::Held { grant, at }, Joined::lost)
            }
            Place::Waiting { until, look_in } => {
                registry.extend(&self.entry, until);
                registry.wait(&self.entry, look_in);
                Joined::Waiting
            }
            Place::Refused => {
                self.forget();
                Joined::Refused
            }
            Place::Gone => {
                self.forget();
                Joined::Gone(Loss::NotInLine)
            }
        }
    }

    /// Forgets a claim of which nothing is in the store. If an earlier join of it got no answer, this does nothing.
    fn forget(&self) {
        if self.entry.how_to_leave() == Leave::Done {
            self.live.registry.remove(self.entry.claim.id.number);
            self.entry.lose(Loss::Left);
        }
    }
}

impl Drop for OwnedClaim {
    fn drop(&mut self) {
        match self.entry.lose(Loss::Left) {
            Some(Stage::Waiting) if seeded!("a_cancelled_acquire_leaks") => {}
            Some(stage) => {
                if stage == Stage::Waiting {
                    self.live.registry.stop_waiting(self.entry.claim.id.number);
                }
                drop(Leaving::start(&self.live, &self.entry));
            }
            // Its leave was handled when it was lost. But a join that was still on its way may have arrived after
            // that leave; from now on no other join can.
            None if self.entry.loss() != Some(Loss::Left) && self.entry.how_to_leave() == Leave::Void => {
                drop(Leaving::start(&self.live, &self.entry));
            }
            None => {}
        }
    }
}

/// Why the claim cannot be trusted any more at `now`, if so. If its time is over, it is lost and given back.
pub(crate) fn loss_at(live: &LiveSession, entry: &Arc<Entry>, now: Moment) -> Option<Loss> {
    if entry.until() <= now && entry.lose(entry.why_overdue(now)).is_some() {
        drop(Leaving::start(live, entry));
    }
    entry.loss()
}

/// Whether the store does not have the claim any more, or the session is over.
fn is_not_there(left: &Result<Left>) -> bool {
    match left {
        Ok(left) => *left == Left::Absent,
        Err(error) => error.kind() == ErrorKind::Lost,
    }
}

fn overtaken(by: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{by} while the release was on its way"))
}

/// Whether the store may have carried out the request.
fn is_unknown(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) || error.is_perhaps_done()
}
