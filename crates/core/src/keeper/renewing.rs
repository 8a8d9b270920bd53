//! How the renewals of a shard go, and when a renewal that failed is retried.

use std::time::Duration;

use super::timing::longest_pause;
use crate::Options;
use crate::backend::{Moment, Session};
use crate::registry::EarlyRenewal;

#[derive(Default)]
pub(super) struct Renewing {
    pub(super) under_way: bool,
    pub(super) is_failing: bool,
    pub(super) again: Option<Again>,
    /// It was to be renewed while a renewal was under way, which may have passed the reason by.
    pub(super) missed: Option<EarlyRenewal>,
}

impl Renewing {
    /// Its renewal begins. What it was due for is no reason to renew it once more.
    pub(super) fn begin(&mut self) {
        self.under_way = true;
        if let Some(again) = &mut self.again {
            again.at = Moment::NEVER; // the answer says when it is due again
        }
    }

    /// Schedules a retry after a pause that grows each time, and is shorter when little is left until `end`. If
    /// `end` has passed there is no hurry.
    pub(super) fn ask_again(&mut self, now: Moment, end: Moment, options: &Options, session: &dyn Session) {
        let longest = longest_pause(options, session);
        let grown = self.again.as_ref().map_or(options.first_pause, |again| again.pause).min(longest);
        let hurry = if end > now { end.since(now) / 4 } else { longest };
        let pause = grown.min(hurry.max(options.first_pause.min(longest)));
        let pause = if seeded!("a_failed_renewal_is_not_retried") { session.ttl() } else { pause };
        self.again = Some(Again { at: now + pause, pause: grown * 2 });
    }
}

/// A renewal failed or was not enough: when to retry, and how long to pause if that is not enough either.
pub(super) struct Again {
    pub(super) at: Moment,
    pub(super) pause: Duration,
}
