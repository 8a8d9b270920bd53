//! The result of a close.
//!
//! The end of the session ends every claim, so where the store confirmed it nothing else matters.

use std::collections::BTreeMap;

use super::log;
use crate::{ClaimId, Error, ErrorKind, Name, Result};

/// `unconfirmed` are the claims whose leave the store has not confirmed.
pub(super) fn close_result(unconfirmed: &BTreeMap<ClaimId, Name>, ended: Option<Result<()>>) -> Result<()> {
    let trouble = match ended {
        Some(Ok(())) => return Ok(()),
        Some(Err(error)) if unconfirmed.is_empty() => return Err(error),
        Some(Err(error)) => Error::new(error.kind(), unconfirmed_names(unconfirmed)).because(error),
        _ => Error::new(ErrorKind::Timeout, unconfirmed_names(unconfirmed)),
    };
    Err(trouble)
}

fn unconfirmed_names(unconfirmed: &BTreeMap<ClaimId, Name>) -> String {
    match unconfirmed.is_empty() {
        true => "the store did not confirm the end of the session in time; it ends with its lease".to_owned(),
        false => format!(
            "the store did not confirm that these locks were given back: {}; they are free when their lease ends",
            log::list(unconfirmed.values())
        ),
    }
}
