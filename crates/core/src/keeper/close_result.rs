//! The end of a session, and the result of a close.
//!
//! The end of the session ends every claim, so where the store confirmed it nothing else matters. Nor does a failure
//! once every lease of the session has ended.

use std::future;
use std::sync::Arc;

use super::log;
use super::timing::longest_pause;
use crate::backend::{Clock, Moment, Session};
use crate::limit::Limit;
use crate::{Error, ErrorKind, Name, Options, Result};

/// Ends a session. One that is over already is as good as ended.
pub(super) async fn end(session: &dyn Session) -> Result<()> {
    match session.close().await {
        Err(error) if error.kind() == ErrorKind::Lost => Ok(()),
        ended => ended,
    }
}

/// Ends a session whose claims may still stand in others' way, until `surely_over` in the store: tries again while there
/// is time. `None` if no try was answered in time.
pub(crate) async fn end_surely(
    session: &dyn Session,
    clock: &Arc<dyn Clock>,
    options: &Options,
    by: Limit,
    surely_over: Moment,
) -> Option<Result<()>> {
    let longest = longest_pause(options, session);
    let (mut pause, mut last) = (options.first_pause.min(longest), None);
    loop {
        match by.of(clock, end(session)).await {
            None => return last,
            Some(Err(error)) if error.can_retry() => last = Some(Err(error)),
            ended => return ended,
        }
        // On a clock that stands still, the pause is one of real time.
        by.of(clock, Limit::after(pause, clock).of(clock, future::pending::<()>())).await;
        if by.is_over(clock) || clock.now() > surely_over {
            return last;
        }
        pause = (pause * 2).min(longest);
    }
}

/// `unconfirmed` are the locks that the store may still have. With `is_over`, the session's lease has ended in the
/// store, whatever it said.
pub(super) fn close_result(ended: Option<Result<()>>, unconfirmed: &[&Name], is_over: bool) -> Result<()> {
    let trouble = match ended {
        Some(Ok(())) => return Ok(()),
        _ if unconfirmed.is_empty() && is_over => return Ok(()),
        Some(Err(error)) if unconfirmed.is_empty() => return Err(error),
        Some(Err(error)) => Error::new(error.kind(), unconfirmed_names(unconfirmed)).because(error),
        None => Error::new(ErrorKind::Timeout, unconfirmed_names(unconfirmed)),
    };
    Err(trouble)
}

fn unconfirmed_names(unconfirmed: &[&Name]) -> String {
    match unconfirmed.is_empty() {
        true => "the store did not confirm the end of the session in time; it ends with its lease".to_owned(),
        false => format!(
            "the store did not confirm that these locks were given back: {}; they are free when their lease ends",
            log::list(unconfirmed.iter().copied())
        ),
    }
}
