//! A leave that is repeated until the store confirms it or the claim's lifetime is surely over.

use std::sync::Arc;

use super::log;
use super::timing::{longest_pause, renewal_deadline};
use crate::backend::{Clock, Left, Reply, Session, Signals, Sleep};
use crate::deadline;
use crate::registry::Entry;
use crate::registry::Registry;
use crate::shared_leave::SeenThrough;
use crate::{ErrorKind, Options};

/// Waits for `reply`, and repeats the leave for as long as the store may still have the claim.
pub(super) async fn until_confirmed(
    session: &dyn Session,
    registry: &Registry,
    clock: &Arc<dyn Clock>,
    options: &Options,
    entry: &Entry,
    mut reply: Option<Reply<Left>>,
) {
    let (name, id) = (&entry.claim.name, entry.claim.id);
    let longest = longest_pause(options, session);
    let (mut pause, mut was_told) = (options.first_pause.min(longest), false);
    let _seen_through = SeenThrough(&entry.leave);
    loop {
        let leave = reply.take().unwrap_or_else(|| session.leave(name, id, entry.how_to_leave()));
        let answer = deadline::answer_within(clock, renewal_deadline(options, session), leave).await;
        entry.leave.answered(&answer);
        match answer {
            Ok(_) => return,
            Err(error) if error.kind() == ErrorKind::Lost => return registry.over(), // and the claim with it
            // Any other error may be temporary: permissions get edited, servers refuse for a moment.
            // Giving up would leave the claim in everyone's way for its whole lifetime.
            Err(error) => {
                let is_worth_a_warning = !error.can_retry() && !was_told;
                was_told |= is_worth_a_warning;
                log::leave_failed(name, &error, is_worth_a_warning);
                if seeded!("a_leave_is_sent_once") {
                    return;
                }
            }
        }
        // Renewals of neighbouring claims may keep this one alive, so their deadline counts too.
        if registry.is_over() || clock.now() > entry.gone_by().max(registry.kept_until(session.shard(name))) {
            return;
        }
        Sleep::until(clock, clock.now() + pause).await;
        pause = (pause * 2).min(longest);
    }
}
