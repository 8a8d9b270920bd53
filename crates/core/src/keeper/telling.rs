//! What the keeper tells operators: jeopardy, and waits that take long.

use std::time::Duration;

use crate::shield::unharmed;
use crate::{Error, Line, Name, Result, SessionId, Shard};

/// A renewal failed, and is tried again: worth a warning the first time.
pub(super) fn jeopardy(shard: Shard, error: &Error, is_news: bool) {
    unharmed(|| match is_news {
        true => {
            tracing::warn!(shard = shard.0, %error, "a renewal failed; what is held is in jeopardy until one succeeds");
        }
        false => tracing::debug!(shard = shard.0, %error, "a renewal failed again"),
    });
}

/// A renewal succeeded after others had failed.
pub(super) fn renewed_again(shard: Shard) {
    unharmed(|| {
        tracing::info!(
            shard = shard.0,
            "a renewal succeeded again; what is still held is in jeopardy no more"
        );
    });
}

/// Somebody of this client has waited for long: says who is in the way.
pub(super) fn long_wait(name: &Name, waited: Duration, line: Result<Line>, own: SessionId) {
    unharmed(|| match line {
        Ok(line) => {
            tracing::warn!(lock.name = %name, ?waited, "waiting for long: {}", in_the_way(&line, own));
        }
        Err(error) => {
            tracing::warn!(lock.name = %name, ?waited, %error, "waiting for long, and the line cannot be seen");
        }
    });
}

/// A leave failed, and is sent again: worth a warning where that is not to be expected to help.
pub(super) fn leave_failed(name: &Name, error: &Error, is_worth_a_warning: bool) {
    unharmed(|| match is_worth_a_warning {
        true => {
            tracing::warn!(lock.name = %name, %error, "a claim cannot be given back; it is tried again until its lease has ended");
        }
        false => tracing::debug!(lock.name = %name, %error, "a leave failed, and is sent again"),
    });
}

/// A backend has panicked.
pub(super) fn failed_inside(panic: &tokio::task::JoinError) {
    unharmed(|| tracing::error!(%panic, "a backend failed inside; its session is given up"));
}

/// Who holds, since when, and how many stand before this client's first waiter.
fn in_the_way(line: &Line, own: SessionId) -> String {
    let ahead = line.waiters().take_while(|waiter| waiter.id.session != own).count();
    let Some(holder) = line.holders().next() else {
        return format!("nobody holds it, {ahead} wait ahead");
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
    let since = holder.since.map(|since| format!(" for {since:?}")).unwrap_or_default();
    format!("{:?}{own_fault}{others} holds it and has been in line{since}, {ahead} wait ahead", holder.label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClaimId, Kind, Stander, Token, Weight};

    #[test]
    fn a_long_wait_names_the_holder_and_the_place_in_line() {
        let own = SessionId::from_bits(1);
        let stander = |session: u64, token: Option<u64>| {
            let id = ClaimId { session: SessionId::from_bits(session), number: 1 };
            let token = token.and_then(Token::from_order);
            Stander::new(id, Weight::ONE, token, format!("worker {session}"), Some(Duration::from_secs(9)))
        };
        let line = |holder| {
            Line::new(
                Kind::Mutex,
                Weight::ONE,
                vec![stander(holder, Some(7)), stander(3, None), stander(1, None)],
            )
        };
        let text = in_the_way(&line(2), own);
        assert!(
            text.contains("\"worker 2\" holds it and has been in line for 9s")
                && text.contains("1 wait ahead"),
            "{text}"
        );
        assert!(in_the_way(&line(1), own).contains("this very client"));
    }
}
