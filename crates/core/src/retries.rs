//! What an acquire remembers of unanswered joins: for how long the store was silent, and how long to try on.

use std::time::Duration;

use crate::backend::Moment;
use crate::live_session::LiveSession;
use crate::{Error, Options, progress};

/// How often in one acquire the user may be away for longer than a command may take. Without this limit, an acquire
/// on a runtime that is always that late would wait for a dead store for ever.
const MOST_ABSENCES: u32 = 8;

/// What an acquire remembers of unanswered joins, from one claim to the next.
#[derive(Debug, Default)]
pub(crate) struct Retries {
    /// Since when the store has not answered, as far as one that leads others knows.
    began: Option<Moment>,
    /// Since when it has waited for a word of the store behind others, unless a session was opened since.
    unanswered_since: Option<Moment>,
    pub(crate) give_up: Option<Moment>,
    pause: Option<Duration>,
    pub(crate) trouble: Option<Error>,
    absences: u32,
    /// When the user came back from the last of them.
    pub(crate) back_at: Option<Moment>,
    /// How many passes of a hold `max_hold` had ended in a row before this acquire came to lead.
    pub(crate) outlived: u32,
    /// Until when a session may be opened, if that has no deadline of its own.
    open_by: Option<Moment>,
    /// Whether a session is awaited.
    opens: bool,
    /// Whether others are known to be ahead, because it has waited behind some of its client.
    is_behind: bool,
}

impl Retries {
    /// Those of an acquire that has heard nothing `since` then, and gives up at `give_up`. It awaits a session that is being
    /// opened for longer. Perhaps it knows that others are ahead.
    pub(crate) fn until(since: Moment, give_up: Moment, open_by: Moment, is_behind: bool) -> Self {
        let (unanswered_since, give_up, open_by) = (Some(since), Some(give_up), Some(open_by));
        Self { unanswered_since, give_up, open_by, is_behind, ..Self::default() }
    }

    /// Those of an acquire that has its full time, and perhaps knows already that others are ahead.
    pub(crate) fn with_full_time(is_behind: bool) -> Self {
        Self { is_behind, ..Self::default() }
    }

    /// Whether others are known to be ahead, and the store has been silent since, and no more than that.
    pub(crate) fn know_of_others(&self) -> bool {
        self.is_behind && self.trouble.is_none()
    }

    /// Tells a caller with its own time limit whether others are known to be ahead.
    pub(crate) fn tell(&self) {
        if self.is_behind { progress::waiting() } else { progress::unanswered() }
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

    /// A session is open since `at`. If it was not before, nobody has asked the store in it yet, and the join has its full
    /// time. Returns whether that is so: one that leads may find it open, because those before it were not polled.
    pub(crate) fn opened(&mut self, at: Moment, was_open: bool) -> bool {
        self.opens = false;
        let is_new = !was_open || self.unanswered_since.is_some_and(|since| since < at);
        if is_new {
            (self.is_behind, self.unanswered_since) = (false, None);
            if self.open_by.take().is_some() {
                self.give_up = None;
            }
        }
        is_new
    }

    /// How long to pause this time. Each pause is twice as long as the one before.
    pub(crate) fn pause(&mut self, options: &Options) -> Duration {
        let pause = self.pause.unwrap_or(options.first_pause);
        self.pause = Some((pause * 2).min(options.longest_pause));
        pause
    }

    /// The user came this late after it was to be woken. That time does not count, because the user was away and not
    /// the store.
    pub(crate) fn excuse(&mut self, late: Duration, live: &LiveSession) {
        if late >= live.claim_deadline() && self.absences < MOST_ABSENCES {
            self.was_away(live.clock.now());
        } else if let Some(give_up) = &mut self.give_up {
            *give_up = *give_up + late;
        }
    }

    /// The user was away for longer than a command may take, or while the store may have answered. Nobody knows since
    /// when, so the store gets its full time again.
    pub(crate) fn was_away(&mut self, back: Moment) {
        if self.absences < MOST_ABSENCES {
            let trouble = self.trouble.take();
            let (absences, back_at) = (self.absences + 1, Some(back));
            *self = Self { trouble, absences, back_at, ..Self::default() };
        }
    }
}
