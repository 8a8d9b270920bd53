//! The way to a grant: enter a claim, join the line, and wait for the turn.
//!
//! A claim that is dropped on the way leaves by itself ([`OwnedClaim`]). A waiting claim that loses its session joins the
//! line again, at the tail.

use std::future::poll_fn;
use std::time::Duration;

use tracing::field::{Empty, debug, display};

use crate::backend::{Claim, Grant, Moment, Numbered, Patience, Signals};
use crate::client::Client;
use crate::cohort::{Baton, Behind, Entered, Lead, Leading, News};
use crate::deadline::no_answer;
use crate::declared_size::DeclaredSize;
use crate::joining::{Joined, is_unknown};
use crate::owned_claim::OwnedClaim;
use crate::registry::{Loss, Turn, reads};
use crate::retries::Retries;
use crate::span::Span;
use crate::standing::Standing;
use crate::tied::is_alone;
use crate::{ClaimId, Error, ErrorKind, Guard, Kind, Name, Result, Weight, progress};

/// How often in a row a claim may be lost before it has waited, until the acquire gives up.
const TRIES: u32 = 4;

/// The request of an acquire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want<'a> {
    pub(crate) name: &'a Name,
    pub(crate) kind: Kind,
    pub(crate) weight: Weight,
    /// Read again for each claim: a claim that joins after a resize must not bring the old size.
    pub(crate) capacity: &'a DeclaredSize,
}

/// The outcome of one claim.
enum Outcome {
    Granted(OwnedClaim, Grant),
    /// The lock was not free, or the turn did not come in time.
    NotGranted,
    Gone {
        loss: Loss,
        had_waited: bool,
    },
    /// The store did not answer in time.
    TooLate,
}

impl Client {
    /// Waits for a grant: with patience until `by`, without patience for one answer of the store.
    pub(crate) async fn acquire(
        &self,
        want: Want<'_>,
        patience: Patience,
        by: Moment,
    ) -> Result<Option<Guard>> {
        let span = span_of(want);
        let acquired = match span.is_disabled() {
            true => self.stand_alone(want, patience, by).await,
            false => span.around(self.stand_alone(want, patience, by)).await,
        };
        finished(want, &span, acquired)
    }

    /// Waits for a grant until `by`, behind others of this client that want the same.
    pub(crate) async fn acquire_in_cohort(&self, want: &Want<'_>, by: Moment) -> Result<Option<Guard>> {
        if is_alone() {
            return Box::pin(self.acquire(*want, Patience::Wait, by)).await;
        }
        let span = span_of(*want);
        if span.is_disabled() {
            drop(span); // it has a size, and there may be very many that wait
            let acquired = self.stand_in_cohort(want, by).await;
            return finished(*want, &Span::none(), acquired);
        }
        let inside = async { finished(*want, &span, span.around(self.stand_in_cohort(want, by)).await) };
        Box::pin(inside).await
    }

    /// In the store's line, unless the local line has an answer for somebody without patience.
    async fn stand_alone(&self, want: Want<'_>, patience: Patience, by: Moment) -> Result<Option<Guard>> {
        if patience == Patience::Now && self.cohorts().is_on() && want.kind != Kind::Semaphore {
            tokio::task::coop::consume_budget().await; // the local line always answers at once
            match self.cohorts().tried(want.kind, want.name, want.reads(), self.clock().now()) {
                Some(Some(baton)) if baton.loss().is_some() => {}
                Some(said) => return Ok(said.map(Guard::passed)),
                None => {}
            }
        }
        let mut retries = Retries::default();
        let granted = self.stand_in_line(want, patience, by, &mut None, None, &mut retries).await?;
        Ok(granted.map(|(owned, grant)| Guard::new(owned, grant)))
    }

    async fn stand_in_cohort(&self, want: &Want<'_>, by: Moment) -> Result<Option<Guard>> {
        let mut outlived = 0;
        while outlived < TRIES {
            // Yields now and then, also if the hold is always passed on at once.
            tokio::task::coop::consume_budget().await;
            let entered = self.cohorts().enter(want.kind, want.name, want.reads(), &self.clock());
            let lead = match entered {
                Entered::Closed => return Err(self.takes_no_locks()),
                Entered::Leads(lead) => lead,
                Entered::Shares(baton) => match passed(baton, &mut outlived) {
                    None => continue,
                    guard => return Ok(guard),
                },
                Entered::Waits(mut waiting, stood) => {
                    progress::behind(|| stood.question(&waiting));
                    match poll_fn(|cx| waiting.poll_until(by, || self.clock(), cx)).await {
                        None if stood.has_to_wait(&waiting) => return Ok(None),
                        None => return Err(no_answer()),
                        Some(News::Failed(error)) => return Err(error),
                        Some(News::Passed(baton)) => match passed(baton, &mut outlived) {
                            None => continue,
                            guard => return Ok(guard),
                        },
                        Some(News::Leads(lead)) => lead,
                    }
                }
            };
            // Boxed: most of a crowd only waits.
            return Box::pin(self.lead(lead, *want, by, outlived)).await;
        }
        Err(self.options().max_hold.map_or_else(forgets_at_once, too_short))
    }

    /// Stands in the store's line for all that stand behind. `max_hold` has ended so many passes in a row before.
    async fn lead(&self, mut lead: Lead, want: Want<'_>, by: Moment, outlived: u32) -> Result<Option<Guard>> {
        let (clock, longest) = (self.clock(), self.options().command_deadline);
        let began = clock.now();
        let (behind, mut retries) = (lead.behind(), lead.retries(began, self.options()));
        retries.outlived = outlived;
        let stood = {
            let Leading { waits, retries, .. } = &mut lead.leading(&mut retries); // told also if this is given up
            self.stand_in_line(want, Patience::Wait, by, waits, Some(&behind), retries).await
        };
        match stood {
            Ok(Some((owned, grant))) => Ok(Some(Guard::passed(lead.holds(owned, grant, want.reads())))),
            Ok(None) => Ok(None), // the next one leads
            Err(error) => {
                // Otherwise it has given up early, and the next one has more patience.
                let is_own = error.kind() == ErrorKind::Lost; // it was polled too late, and others may not be
                if !is_own && retries.had_time(by, self.options()) {
                    match error.can_retry() {
                        true => lead.fails_in_silence(&error, clock.now() - longest), // another silence is as long
                        false => lead.fails(&error, began), // another request would be answered alike
                    }
                }
                Err(error)
            }
        }
    }

    /// `waits`: a claim that stands in line already, or will. It stays there if nobody waits for it any more. Those
    /// `behind` hear of it.
    async fn stand_in_line(
        &self,
        want: Want<'_>,
        patience: Patience,
        by: Moment,
        waits: &mut Option<Standing>,
        behind: Option<&Behind>,
        retries: &mut Retries,
    ) -> Result<Option<(OwnedClaim, Grant)>> {
        retries.tell();
        // Yields now and then, also if the store always answers at once.
        tokio::task::coop::consume_budget().await;
        let mut lost_in_a_row = retries.outlived;
        let mut is_too_short = self.options().max_hold.filter(|_| lost_in_a_row > 0);
        while lost_in_a_row < TRIES {
            match self.stand_once(want, patience, by, retries, waits, behind).await? {
                Outcome::Granted(owned, grant) => return Ok(Some((owned, grant))),
                Outcome::NotGranted => return Ok(None),
                Outcome::TooLate => continue,
                Outcome::Gone { loss: Loss::Closed, .. } => return Err(self.takes_no_locks()),
                // The grant expired before its user looked: the runtime was busy, or max_hold is always too short.
                Outcome::Gone { loss: Loss::MaxHold, .. } => {
                    (lost_in_a_row, *retries) = (lost_in_a_row + 1, Retries::default());
                    is_too_short = self.options().max_hold;
                }
                // Its session or its lease has ended: it joins the line again, at the tail.
                Outcome::Gone { had_waited: true, .. } => {
                    (lost_in_a_row, is_too_short, *retries) = (0, None, Retries::default());
                }
                Outcome::Gone { had_waited: false, loss } => {
                    (lost_in_a_row, is_too_short) = (lost_in_a_row + 1, None);
                    if loss == Loss::SessionOver {
                        *retries = Retries::default(); // opening the next session has its own deadline
                    }
                }
            }
        }
        Err(is_too_short.map_or_else(forgets_at_once, too_short))
    }

    /// Stands in line with one claim until its outcome is known: with the one that waits or joins already, if there is one.
    async fn stand_once(
        &self,
        want: Want<'_>,
        patience: Patience,
        by: Moment,
        retries: &mut Retries,
        waits: &mut Option<Standing>,
        behind: Option<&Behind>,
    ) -> Result<Outcome> {
        if waits.is_none() {
            if let Some(behind) = behind {
                let now = self.clock().now();
                retries.begin(now);
                behind.asks(now);
            }
            let (open_by, again_by) = (retries.open_by(by), retries.open_again_by());
            let (live, was_open) = self.live_session_after_outage(open_by, again_by).await?;
            let is_new = retries.opened(live.opened_at, was_open);
            if let Some(behind) = behind {
                behind.asks_anew(if is_new { self.clock().now() } else { live.opened_at });
            }
            let id = live.registry.next_id();
            let Numbered { number, kept } = live.session.number(want.name, id.number);
            let claim = want.claim(ClaimId { number, ..id });
            let owned = match OwnedClaim::new(live, claim, kept) {
                Ok(owned) => owned,
                Err(loss) => return Ok(Outcome::Gone { loss, had_waited: false }),
            };
            if let Some(behind) = behind {
                behind.is_led_with(&owned);
            }
            *waits = Some(Standing::of(owned));
        }
        let Some(standing) = waits.as_mut().filter(|standing| !standing.is_answered()) else {
            return Ok(self.waited(waits, by).await);
        };
        let joined = match behind {
            Some(_) => standing.join(by, retries).await,
            None => standing.join_alone(patience, by, retries).await,
        };
        self.joined(joined, patience, by, retries, waits, behind).await
    }

    /// The join of a claim has this outcome.
    async fn joined(
        &self,
        joined: Result<Joined>,
        patience: Patience,
        by: Moment,
        retries: &Retries,
        waits: &mut Option<Standing>,
        behind: Option<&Behind>,
    ) -> Result<Outcome> {
        Ok(match joined {
            Ok(Joined::Held { grant, at }) => self.granted(waits, grant, Some(at), by).await,
            // Without patience, dropping the claim leaves the line.
            Ok(Joined::Refused | Joined::InVain) => Outcome::NotGranted,
            Ok(Joined::Waiting) if patience == Patience::Now => Outcome::NotGranted,
            Ok(Joined::Waiting) => {
                if let (Some(behind), Some(standing)) = (behind, &*waits) {
                    behind.is_answered(&standing.owned);
                }
                self.waited(waits, by).await
            }
            Ok(Joined::Gone(loss)) => {
                *waits = None;
                Outcome::Gone { loss, had_waited: false }
            }
            Ok(Joined::TooLate) => {
                *waits = None;
                Outcome::TooLate
            }
            Err(error) if error.kind() == ErrorKind::Lost => {
                if let Some(standing) = waits.take() {
                    standing.owned.live.registry.over();
                }
                Outcome::Gone { loss: Loss::SessionOver, had_waited: false }
            }
            Err(error) => {
                // Otherwise it has given up early, and its join is the next one's, who has more patience.
                if !is_unknown(&error) || retries.had_time(by, self.options()) {
                    *waits = None;
                }
                return Err(error);
            }
        })
    }

    /// Waits for the turn of a claim that stands in line. Without it the claim stays there.
    async fn waited(&self, waits: &mut Option<Standing>, by: Moment) -> Outcome {
        let Some(Standing { owned, .. }) = &*waits else { return Outcome::NotGranted };
        progress::waiting();
        let turn = owned.turn(by).await;
        progress::unanswered();
        match turn {
            Some(Turn::Held(grant)) => self.granted(waits, grant, None, by).await,
            Some(Turn::Gone(loss)) => {
                *waits = None;
                Outcome::Gone { loss, had_waited: true }
            }
            None => Outcome::NotGranted,
        }
    }

    /// The claim has its turn; it was known to hold at `known_at`, if it has not waited. Until it is handed out it stays
    /// there, for the next one of a local line.
    async fn granted(
        &self,
        waits: &mut Option<Standing>,
        grant: Grant,
        known_at: Option<Moment>,
        by: Moment,
    ) -> Outcome {
        let Some(Standing { owned, .. }) = &*waits else { return Outcome::NotGranted };
        let loss = self.freshen(owned, known_at, by).await;
        match (loss, waits.take()) {
            (Some(loss), _) => Outcome::Gone { loss, had_waited: known_at.is_none() },
            (None, Some(standing)) => Outcome::Granted(standing.owned, grant),
            (None, None) => Outcome::NotGranted,
        }
    }

    /// Makes sure that the grant that is handed out is held. It was known to be at `known_at`; without that, it is
    /// only known now. Returns why it is gone, if it is.
    async fn freshen(&self, owned: &OwnedClaim, known_at: Option<Moment>, by: Moment) -> Option<Loss> {
        let at = known_at.unwrap_or_else(|| owned.live.clock.now());
        let loss = owned.freshen(at, by).await;
        // The grant may have come long before its user polls.
        loss.or_else(|| self.options().max_hold.and_then(|_| owned.loss()))
    }
}

fn span_of(want: Want<'_>) -> Span {
    Span::debug(
        || tracing::debug_span!("acquire", lock.name = %want.name, lock.kind = %want.kind, outcome = Empty, error.kind = Empty, error = Empty),
    )
}

/// The outcome of an acquire as its user gets it.
fn finished(want: Want<'_>, span: &Span, acquired: Result<Option<Guard>>) -> Result<Option<Guard>> {
    let mut acquired = acquired.map_err(|error| error.during(verb(want)).on(want.name));
    match &mut acquired {
        Ok(Some(guard)) => {
            span.record("outcome", "granted");
            guard.begin_span(span);
        }
        Ok(None) => span.record("outcome", "none"),
        Err(error) => {
            span.record("outcome", "error");
            span.record("error.kind", debug(error.kind()));
            span.record("error", display(error));
        }
    }
    acquired
}

/// The guard of a hold that was passed on, unless that is lost by now. Counts the passes in a row that `max_hold` ended.
fn passed(baton: Baton, outlived: &mut u32) -> Option<Guard> {
    *outlived = match baton.loss() {
        None => return Some(Guard::passed(baton)),
        Some(Loss::MaxHold) => *outlived + 1,
        Some(_) => 0,
    };
    None
}

fn forgets_at_once() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "every session, or every claim in it, was lost as soon as the store had it; see the store's own log",
    )
}

fn too_short(max_hold: Duration) -> Error {
    let wrong = format!(
        "max_hold ({max_hold:?}) ended every grant before it could be handed out: the store or this program is slower than that; raise max_hold"
    );
    Error::new(ErrorKind::Lost, wrong)
}

impl Want<'_> {
    fn claim(&self, id: ClaimId) -> Claim {
        Claim::new(id, self.name.clone(), self.kind, self.weight, self.capacity.get())
    }

    /// Whether others of its kind may hold too.
    fn reads(&self) -> bool {
        reads(self.kind, self.weight)
    }
}

fn verb(want: Want<'_>) -> &'static str {
    match want.kind {
        Kind::RwLock if want.weight == Weight::MAX => "write-lock",
        Kind::RwLock => "read-lock",
        Kind::Semaphore => "take permits of",
        _ => "lock",
    }
}
