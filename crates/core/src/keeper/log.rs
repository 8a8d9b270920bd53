//! What the keeper logs for operators: failed renewals, long waits, failed leaves.

use std::time::Duration;

use crate::backend::Shard;
use crate::registry::Standing;
use crate::shield::unharmed;
use crate::{Error, Line, Name, Result, SessionId};

/// A renewal failed and is retried. The first failure is a warning.
pub(super) fn renewal_failed(shard: Shard, standing: &Standing<'_>, error: &Error, is_news: bool) {
    unharmed(|| match (is_news, standing.held.is_empty()) {
        (true, false) => {
            let names = list(standing.held.iter().copied());
            tracing::warn!(lock.names = %names, %error, "renewal failed, retrying; these locks are lost if no retry succeeds in time");
        }
        (true, true) => {
            let names = list(standing.waiting.iter().copied());
            tracing::warn!(lock.names = %names, %error, "renewal failed, retrying; the places in line for these locks are lost if no retry succeeds in time");
        }
        (false, _) => tracing::debug!(shard = shard.0, %error, "renewal failed again, retrying"),
    });
}

/// The first few of these names, for a message.
pub(super) fn list<'a>(names: impl ExactSizeIterator<Item = &'a Name>) -> String {
    const SHOWN: usize = 5;
    let rest = names.len().saturating_sub(SHOWN);
    let mut shown: Vec<_> = names.take(SHOWN).map(|name| format!("{name:?}")).collect();
    if rest > 0 {
        shown.push(format!("and {rest} more"));
    }
    shown.join(", ")
}

/// A renewal was answered after others had failed.
pub(super) fn renewed_again(standing: &Standing<'_>) {
    unharmed(|| match (standing.held.as_slice(), standing.waiting.as_slice()) {
        ([], []) => tracing::info!("renewals succeed again"),
        ([], waiting) => {
            let names = list(waiting.iter().copied());
            tracing::info!(lock.names = %names, "renewals succeed again; the places in line for these locks are kept");
        }
        (held, _) => {
            let names = list(held.iter().copied());
            tracing::info!(lock.names = %names, "renewals succeed again; these locks are still held");
        }
    });
}

/// A waiter of this client has waited for long: says which client is in the way.
pub(super) fn long_wait(name: &Name, waited: Duration, line: Result<Line>, own: SessionId) {
    unharmed(|| match line {
        Ok(line) => {
            tracing::warn!(lock.name = %name, ?waited, "still waiting for this lock: {}", in_the_way(&line, own));
        }
        Err(error) => {
            tracing::warn!(lock.name = %name, ?waited, %error, "still waiting for this lock; cannot read its line");
        }
    });
}

/// A leave failed and is sent again. It is a warning where a retry is not expected to help.
pub(super) fn leave_failed(name: &Name, error: &Error, is_worth_a_warning: bool) {
    unharmed(|| match is_worth_a_warning {
        true => {
            tracing::warn!(lock.name = %name, %error, "cannot give back a claim on this lock; retrying until its lease has ended");
        }
        false => tracing::debug!(lock.name = %name, %error, "giving back a claim failed, retrying"),
    });
}

/// A backend has panicked.
pub(super) fn failed_inside(panic: &tokio::task::JoinError) {
    unharmed(
        || tracing::error!(%panic, "the backend panicked; its session is abandoned and its locks are lost"),
    );
}

/// Which client holds, when it joined the line, and how many waiters are ahead of this client's first one.
fn in_the_way(line: &Line, own: SessionId) -> String {
    let ahead = line.waiters().take_while(|waiter| waiter.id.session != own).count();
    let Some(holder) = line.holders().next() else {
        return format!("nobody holds it; waiters ahead: {ahead}");
    };
    let own_fault = if holder.id.session == own {
        " (this very client: is a guard kept, or a lock taken twice?)"
    } else {
        ""
    };
    let others = match line.holders().count() {
        1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    // `since` is the time in line, waiting included: for how long the claim has held is not known.
    let since = holder.since.map(|since| format!(" (joined the line {since:?} ago)")).unwrap_or_default();
    format!("held by {:?}{since}{own_fault}{others}; waiters ahead: {ahead}", holder.label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClaimId, ClaimInfo, Kind, Token, Weight};

    #[test]
    fn a_long_wait_names_the_holder_and_the_place_in_line() {
        let own = SessionId::from_bits(1);
        let claim = |session: u64, token: Option<u64>| {
            let id = ClaimId { session: SessionId::from_bits(session), number: 1 };
            let token = token.and_then(Token::from_order);
            ClaimInfo::new(id, Weight::ONE, token, format!("worker {session}"), Some(Duration::from_secs(9)))
        };
        let line = |holder| {
            Line::new(Kind::Mutex, Weight::ONE, vec![claim(holder, Some(7)), claim(3, None), claim(1, None)])
        };
        let text = in_the_way(&line(2), own);
        assert!(
            text.contains("held by \"worker 2\" (joined the line 9s ago)")
                && text.contains("waiters ahead: 1"),
            "{text}"
        );
        assert!(in_the_way(&line(1), own).contains("this very client"));
    }
}
