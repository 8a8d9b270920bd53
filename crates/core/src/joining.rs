//! The join of a claim, until the store has answered it or nobody has the time to wait for that.
//!
//! Whoever waits for the answer may stop, and another one go on ([`Standing`](crate::standing::Standing)).

use std::future::{Future, poll_fn, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::at_once::at_once;
use crate::backend::{Grant, Moment, Patience, Place};
use crate::deadline;
use crate::keeper::ttl_of;
use crate::owned_claim::OwnedClaim;
use crate::registry::{Loss, LossListener};
use crate::retries::Retries;
use crate::{Error, ErrorKind, Result, progress, shield};

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
    /// Patience has ended before an answer came. It is known that others are ahead.
    InVain,
    Gone(Loss),
    /// No answer came while the claim surely lived. It leaves, and the acquire joins with another claim.
    TooLate,
}

impl Joined {
    /// The claim was lost before the answer to its join came. If it was lost by the clock, the answer or its user was
    /// too slow.
    pub(crate) fn lost(loss: Loss) -> Self {
        if loss == Loss::Deadline { Self::TooLate } else { Self::Gone(loss) }
    }
}

/// A request under way.
pub(crate) type Request<'a> = Pin<Box<dyn Future<Output = Result<Place>> + Send + 'a>>;

/// A join that the store has not answered.
pub(crate) struct Join<'a> {
    term: Term,
    /// When whoever goes on with it asks again, although no request has failed; and how long to wait the next time.
    again_at: Moment,
    pause: Duration,
    /// Whether who goes on with it now has still to ask then.
    asks_again: bool,
    is_repeated: bool,
    /// Something has come for a request, perhaps its answer, and nobody has looked since.
    has_news: Arc<AtomicBool>,
    /// A request is being polled; if that is over, it has panicked.
    pub(crate) is_polled: bool,
    /// The requests without an answer, the oldest first.
    requests: Vec<Sent<'a>>,
}

/// How long a join may be asked for.
#[derive(Clone, Copy)]
struct Term {
    /// When the store was asked first.
    asked: Moment,
    /// After this moment the claim's lease may have ended in the store. Another request would make it stand there anew,
    /// and a late report of its earlier grant would be taken for the new one. So the acquire then uses another id.
    over: Moment,
}

struct Sent<'a> {
    at: Moment,
    is_first: bool,
    request: Request<'a>,
}

/// An answer, and whether it is the one to the first request.
struct Answer {
    is_first: bool,
    answer: Result<Place>,
}

impl OwnedClaim {
    /// Joins the line. A join without an answer is repeated, until `by` or the deadline of one command.
    pub(crate) async fn join(&self, patience: Patience, by: Moment, retries: &mut Retries) -> Result<Joined> {
        let send = || self.live.session.join(&self.entry.claim, patience);
        match Join::begin(self, send()) {
            Begun::Answered(joined) => Ok(joined),
            // Boxed, so that an acquire that is answered at once does not pay for all that can happen to the others.
            Begun::UnderWay(mut join) => {
                Box::pin(async move { join.answer(self, send, join.asked(), by, retries).await }).await
            }
        }
    }

    /// The store has answered.
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

    /// The store has refused the request.
    fn refused(&self) {
        self.entry.answered();
        self.forget();
    }
}

/// A join that was begun.
pub(crate) enum Begun<'a> {
    /// The store has answered at once.
    Answered(Joined),
    /// It has not, or with an error.
    UnderWay(Join<'a>),
}

impl<'a> Join<'a> {
    /// Begins with this request.
    pub(crate) fn begin(owned: &OwnedClaim, mut request: Request<'a>) -> Begun<'a> {
        let asked = owned.live.clock.now();
        let over = asked + ttl_of(&*owned.live.session);
        owned.entry.is_over_at(over);
        owned.entry.ask();
        let request = match at_once(request.as_mut()) {
            Some(Ok(place)) => return Begun::Answered(owned.joined(place, asked)),
            Some(Err(error)) => Box::pin(ready(Err(error))),
            None => request,
        };
        let (pause, requests) =
            (owned.live.options.first_pause, vec![Sent { at: asked, is_first: true, request }]);
        let term = Term { asked, over };
        let (again_at, has_news) = (asked + pause, Arc::default());
        Begun::UnderWay(Self {
            term,
            again_at,
            pause,
            asks_again: false,
            is_repeated: false,
            has_news,
            is_polled: false,
            requests,
        })
    }

    /// When the store was asked first.
    pub(crate) fn asked(&self) -> Moment {
        self.term.asked
    }

    /// Another one goes on with it, and asks once more, because the requests may have been lost: now, or when their answer
    /// has had some time. Returns why nobody may do that.
    pub(crate) fn go_on(&mut self, owned: &OwnedClaim, send: impl Fn() -> Request<'a>) -> Option<Joined> {
        let now = owned.live.clock.now();
        let lost = self.term.lost(owned, now);
        self.asks_again = !self.requests.is_empty() && now < self.again_at;
        if lost.is_none() && !self.asks_again {
            self.ask_again(owned, send);
        }
        lost
    }

    /// Waits for the outcome since `begun`. An error that may pass is met with another request, until `by` or the deadline
    /// of one command.
    pub(crate) async fn answer(
        &mut self,
        owned: &OwnedClaim,
        send: impl Fn() -> Request<'a>,
        begun: Moment,
        by: Moment,
        retries: &mut Retries,
    ) -> Result<Joined> {
        let (live, clock, term) = (&*owned.live, &owned.live.clock, self.term);
        let mut begun = begun;
        loop {
            let give_up = *retries.give_up.get_or_insert(begun + live.options.command_deadline);
            let (give_up, patience_ends_first) = (give_up.min(by), by <= give_up);
            let ask_at = if self.asks_again { self.again_at } else { Moment::NEVER };
            let until = |_| give_up.min(term.over(owned)).min(ask_at);
            let answer = deadline::by(clock, until, self.unless_gone(owned)).await;
            if answer.is_none() && clock.now() < give_up.min(term.over(owned)) {
                self.ask_again(owned, &send);
                continue;
            }
            if let Some(Ok(Answer { answer: Ok(place), is_first })) = &answer
                && self.is_believed(owned, place, *is_first)
            {
                return Ok(owned.joined(*place, clock.now()));
            }
            retries.excuse(clock.now().since(give_up.min(term.over(owned)).max(begun)), live);
            let error = match answer {
                Some(Ok(Answer { answer: Ok(_), .. })) => return Ok(Joined::TooLate),
                Some(Ok(Answer { answer: Err(error), .. })) => error,
                Some(Err(gone)) => {
                    if self.has_news.load(Ordering::Acquire) {
                        retries.was_away(clock.now()); // the store may have answered long ago
                    }
                    return Ok(gone);
                }
                None if patience_ends_first && clock.now() >= by && retries.know_of_others() => {
                    return Ok(owned.entry.loss().map_or(Joined::InVain, Joined::lost));
                }
                // Prefer the previous error over "no answer": it says more.
                None => retries.trouble.take().unwrap_or_else(deadline::no_answer),
            };
            if !is_unknown(&error) {
                owned.refused();
                return Err(error);
            }
            if let Some(loss) = owned.entry.loss() {
                return Ok(Joined::lost(loss)); // its session ended in the meantime, or is being closed
            }
            let again_at = clock.now() + retries.pause(&live.options);
            let give_up = retries.give_up.unwrap_or(by).min(by);
            let (is_over, is_late) = (clock.now() >= give_up, again_at >= give_up);
            if !error.can_retry() || is_over || is_late && self.requests.is_empty() {
                return Err(error);
            }
            tell(owned, &error);
            retries.trouble = Some(error);
            if !self.requests.is_empty() {
                // The answer to another one may be on its way.
                (self.asks_again, self.again_at) = (!is_late, again_at);
                begun = clock.now();
                continue;
            }
            let wake_at = again_at.min(term.over(owned));
            lost_by(owned, wake_at).await;
            begun = clock.now();
            retries.excuse(begun.since(wake_at), live);
            if let Some(lost) = term.lost(owned, begun) {
                return Ok(lost); // it was evicted in the meantime, or is being closed
            }
            self.ask_again(owned, &send);
        }
    }

    /// What may come too late by now is awaited no more.
    fn ask_again(&mut self, owned: &OwnedClaim, send: impl Fn() -> Request<'a>) {
        let (now, options) = (owned.live.clock.now(), &owned.live.options);
        self.pause = (self.pause * 2).min(options.longest_pause);
        self.again_at = now + self.pause;
        self.requests.retain(|sent| now < sent.at + options.command_deadline);
        (self.asks_again, self.is_repeated) = (false, true);
        owned.entry.ask();
        self.requests.push(Sent { at: now, is_first: false, request: send() });
    }

    /// That the first request made it wait is true, also if it was granted since. An answer to a later one may be that of a
    /// claim that stands there anew.
    fn is_believed(&self, owned: &OwnedClaim, place: &Place, is_first: bool) -> bool {
        let is_in_time = || owned.live.clock.now() < self.term.over(owned);
        let waited = is_first && matches!(place, Place::Waiting { .. });
        let is_true = || waited || !owned.entry.contradicts(place);
        !self.is_repeated || is_in_time() && is_true() || seeded!("a_late_answer_is_believed")
    }

    /// The next answer, or why nobody must wait for it any more. A user that comes back late does not poll a request
    /// again: that could send it, or continue its way to the store, after its leave.
    async fn unless_gone(&mut self, owned: &OwnedClaim) -> Result<Answer, Joined> {
        let Self { term, has_news, is_polled, requests, .. } = self;
        let mut lost: Option<LossListener<'_>> = None; // not needed while a store answers at once
        let mut answer =
            pin!(shield::noting(Some(has_news), poll_fn(|cx| poll_any(requests, is_polled, cx))));
        poll_fn(|cx| {
            if let Some(lost) = term.lost(owned, owned.live.clock.now()) {
                return Poll::Ready(Err(lost));
            }
            match answer.as_mut().poll(cx) {
                Poll::Ready(answer) => Poll::Ready(Ok(answer)),
                Poll::Pending => {
                    let lost = lost.get_or_insert_with(|| owned.entry.listen());
                    lost.poll(cx).map(|loss| Err(Joined::lost(loss)))
                }
            }
        })
        .await
    }
}

impl Term {
    fn over(self, owned: &OwnedClaim) -> Moment {
        self.over.min(self.asked + ttl_of(&*owned.live.session)) // which may change
    }

    /// Why nobody may ask for the claim any more, if so.
    fn lost(self, owned: &OwnedClaim, now: Moment) -> Option<Joined> {
        let too_late = || (now >= self.over(owned)).then_some(Joined::TooLate);
        owned.entry.loss().map(Joined::lost).or_else(too_late)
    }
}

/// The answer to the oldest request that has one. It is under way no more.
fn poll_any(requests: &mut Vec<Sent<'_>>, is_polled: &mut bool, cx: &mut Context<'_>) -> Poll<Answer> {
    for at in 0..requests.len() {
        *is_polled = true;
        let answer = requests[at].request.as_mut().poll(cx);
        *is_polled = false;
        if let Poll::Ready(answer) = answer {
            let is_first = requests.remove(at).is_first;
            return Poll::Ready(Answer { is_first, answer });
        }
    }
    Poll::Pending
}

/// Waits until `at`, or until the claim is lost.
async fn lost_by(owned: &OwnedClaim, at: Moment) {
    let lost = owned.entry.listen();
    deadline::by(&owned.live.clock, |_| at, poll_fn(|cx| lost.poll(cx))).await;
}

fn tell(owned: &OwnedClaim, error: &Error) {
    let name = &owned.entry.claim.name;
    shield::unharmed(
        || tracing::debug!(lock.name = %name, %error, "could not join the line of this lock, retrying"),
    );
    progress::failed(error);
}

/// Whether the store may have carried out the request.
pub(crate) fn is_unknown(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) || error.is_perhaps_done()
}
