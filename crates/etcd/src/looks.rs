//! When to look again for claims that wait behind other sessions' claims.
//!
//! Many may wait behind one session, each in a line of its own. Its lease is asked for once for all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidelock_core::SessionId;
use tidelock_core::backend::Moment;
use tokio::sync::OnceCell;

/// When to look again for what waits behind other sessions, by when that was asked for.
#[derive(Debug, Default)]
pub(crate) struct Looks(Mutex<HashMap<SessionId, Known>>);

#[derive(Debug)]
struct Known {
    since: Moment,
    look_in: Arc<OnceCell<Duration>>,
}

impl Looks {
    /// What was asked of this session's lease, at most so long ago. It is empty until somebody asks.
    pub(crate) fn look_in(&self, session: SessionId, now: Moment, age: Duration) -> Arc<OnceCell<Duration>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, known| now.since(known.since) < age);
        let new = || Known { since: now, look_in: Arc::default() };
        all.entry(session).or_insert_with(new).look_in.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_asked_for_once_in_a_while() {
        let (looks, age) = (Looks::default(), Duration::from_secs(1));
        let [a, b] = [1, 2].map(SessionId::from_bits);
        let at = |millis| Moment::START + Duration::from_millis(millis);
        let first = looks.look_in(a, at(0), age);
        assert!(Arc::ptr_eq(&first, &looks.look_in(a, at(900), age)));
        assert!(!Arc::ptr_eq(&first, &looks.look_in(b, at(900), age)));
        assert!(!Arc::ptr_eq(&first, &looks.look_in(a, at(1_000), age)));
    }
}
