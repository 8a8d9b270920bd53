//! The way to a grant: enter a claim, join, and wait for its turn.
//!
//! Whatever is dropped on the way leaves by itself ([`Stake`]). Who loses its session while it only waits stands in
//! line anew, at the tail.

use std::time::Duration;

use crate::client::{Client, closed};
use crate::named_line::Declared;
use crate::span::Span;
use crate::stake::{Joined, Stake, Trying};
use crate::standing::{Loss, Turn};
use crate::{
    Claim, ClaimId, Error, ErrorKind, Guard, Kind, Moment, Name, Patience, Result, Signals, Weight, word,
};

/// How often in a row a claim may be lost before it waits, until an acquire gives up.
const TRIES: u32 = 4;

/// What is asked of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want<'a> {
    pub(crate) name: &'a Name,
    pub(crate) kind: Kind,
    pub(crate) weight: Weight,
    /// Read anew for each claim: one that stands in line after a resize must not bring the size of before.
    pub(crate) capacity: &'a Declared,
}

/// What standing in line with one claim has come to.
enum Stood {
    Granted(Guard),
    /// It was not free, or its turn did not come in time.
    InVain,
    Gone {
        loss: Loss,
        had_waited: bool,
    },
    /// The store did not answer in time.
    TooLate,
}

impl Client {
    /// Waits for a grant: with patience until `by`, without for the store's one answer.
    pub(crate) async fn acquire(
        &self,
        want: Want<'_>,
        patience: Patience,
        by: Moment,
    ) -> Result<Option<Guard>> {
        let span =
            Span::debug(|| tracing::debug_span!("acquire", lock.name = %want.name, lock.kind = %want.kind));
        let mut acquired = match span.is_disabled() {
            true => self.stand_in_line(want, patience, by).await,
            false => span.around(self.stand_in_line(want, patience, by)).await,
        };
        if let Ok(Some(guard)) = &mut acquired {
            guard.begin_span(&span);
        }
        acquired.map_err(|error| error.during(verb(want)).on(want.name))
    }

    async fn stand_in_line(&self, want: Want<'_>, patience: Patience, by: Moment) -> Result<Option<Guard>> {
        word::asks();
        // A store that answers at once must not keep a loop from ever yielding.
        tokio::task::coop::consume_budget().await;
        let (mut lost_in_a_row, mut trying, mut is_too_short) = (0, Trying::default(), None);
        while lost_in_a_row < TRIES {
            match self.stand_once(want, patience, by, &mut trying).await? {
                Stood::Granted(guard) => return Ok(Some(guard)),
                Stood::InVain => return Ok(None),
                Stood::TooLate => continue,
                Stood::Gone { loss: Loss::Closed, .. } => return Err(closed()),
                // Its user looked too late: this runtime was busy, or it is always too late.
                Stood::Gone { loss: Loss::MaxHold, .. } => {
                    (lost_in_a_row, trying) = (lost_in_a_row + 1, Trying::default());
                    is_too_short = self.options().max_hold;
                }
                // Its session has ended, or its lifetime: it stands in line anew, at the tail.
                Stood::Gone { had_waited: true, .. } => {
                    (lost_in_a_row, trying) = (0, Trying::default());
                }
                Stood::Gone { had_waited: false, loss } => {
                    lost_in_a_row += 1;
                    if loss == Loss::SessionOver {
                        trying = Trying::default(); // to open the next one has its own deadline
                    }
                }
            }
        }
        Err(is_too_short.map_or_else(forgets_at_once, outlived))
    }

    /// Stands in line with one claim, until it is over with it one way or another.
    async fn stand_once(
        &self,
        want: Want<'_>,
        patience: Patience,
        by: Moment,
        trying: &mut Trying,
    ) -> Result<Stood> {
        let live = self.live_after_outage(by).await?;
        let claim = want.claim(live.registry.next_id());
        let stake = match Stake::new(live, claim) {
            Ok(stake) => stake,
            Err(loss) => return Ok(Stood::Gone { loss, had_waited: false }),
        };
        let mut known_at = None;
        let (turn, had_waited) = match stake.join(patience, by, trying).await {
            Ok(Joined::Held { grant, at }) => {
                known_at = Some(at);
                (Some(Turn::Held(grant)), false)
            }
            Ok(Joined::Refused) => (None, false),
            Ok(Joined::Waiting) if patience == Patience::Now => (None, false), // and its stake leaves
            Ok(Joined::Waiting) => {
                word::waits();
                let turn = stake.turn(by).await;
                word::asks();
                (turn, true)
            }
            Ok(Joined::Gone(loss)) => (Some(Turn::Gone(loss)), false),
            Ok(Joined::TooLate) => return Ok(Stood::TooLate),
            Err(error) if error.kind() == ErrorKind::Lost => {
                stake.live.registry.over();
                (Some(Turn::Gone(Loss::SessionOver)), false)
            }
            Err(error) => return Err(error),
        };
        Ok(match turn {
            Some(Turn::Held(grant)) => match self.freshen(&stake, known_at, by).await {
                Some(loss) => Stood::Gone { loss, had_waited },
                None => Stood::Granted(Guard::new(stake, grant)),
            },
            Some(Turn::Gone(loss)) => Stood::Gone { loss, had_waited },
            None => Stood::InVain,
        })
    }

    /// Sees to it that what is handed out is held, and was known to be at `known_at`, or is only now. Says why it is
    /// gone, if so.
    async fn freshen(&self, stake: &Stake, known_at: Option<Moment>, by: Moment) -> Option<Loss> {
        let at = known_at.unwrap_or_else(|| stake.live.clock.now());
        let loss = stake.freshen(at, by).await;
        // The grant may have come long before its user looks.
        loss.or_else(|| self.options().max_hold.and_then(|_| stake.loss()))
    }
}

fn forgets_at_once() -> Error {
    Error::new(ErrorKind::Unavailable, "the store ends every session, or forgets every claim, at once")
}

fn outlived(max_hold: Duration) -> Error {
    let wrong = format!(
        "max_hold, which is {max_hold:?}, ends every grant before it can be handed out; the store, or this program, takes longer for that"
    );
    Error::new(ErrorKind::Lost, wrong)
}

impl Want<'_> {
    fn claim(&self, id: ClaimId) -> Claim {
        Claim::new(id, self.name.clone(), self.kind, self.weight, self.capacity.get())
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
