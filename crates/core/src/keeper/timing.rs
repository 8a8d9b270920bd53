//! How long the keeper waits: for answers, and between two requests.

use std::time::Duration;

use crate::Options;
use crate::backend::Session;

/// How long the store keeps a claim, and at least 10 ms: with a ttl of zero the keeper would do nothing but renew,
/// and it has other sessions to keep.
pub(crate) fn ttl_of(session: &dyn Session) -> Duration {
    const LEAST: Duration = Duration::from_millis(10);
    session.ttl().max(LEAST)
}

/// The time limit of a renewal, of a look, and of a leave before it is sent again.
pub(crate) fn renewal_deadline(options: &Options, session: &dyn Session) -> Duration {
    options.command_deadline.min(ttl_of(session) / 3)
}

/// The longest pause before a renewal or a leave is retried, however long the user's pauses are: leases do not wait.
pub(super) fn longest_pause(options: &Options, session: &dyn Session) -> Duration {
    options.longest_pause.min(ttl_of(session) / 10)
}
