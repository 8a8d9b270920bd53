//! The end of a session, and the result of a close.
//!
//! The end of the session ends every claim, so where the store confirmed it nothing else matters. Nor does a failure
//! once every lease of the session has ended.

use super::log;
use crate::backend::Session;
use crate::{Error, ErrorKind, Name, Result};

/// Ends a session. One that is over already is as good as ended.
pub(crate) async fn end(session: &dyn Session) -> Result<()> {
    match session.close().await {
        Err(error) if error.kind() == ErrorKind::Lost => Ok(()),
        ended => ended,
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
