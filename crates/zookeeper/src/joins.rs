//! The joins that are under way: of each claim one at a time.
//!
//! Core may ask for a claim once more while an earlier join of it is still polled. The nodes of one would be another
//! claim to the other, and whatever is on its way goes by the same connection, in order: so the later one waits.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use tidelock_core::ClaimId;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Joins {
    /// Each is rung when it has ended, by whatever way.
    under_way: Mutex<HashMap<ClaimId, Arc<Notify>>>,
}

/// A join that is under way until this is dropped.
pub(crate) struct UnderWay<'a> {
    joins: &'a Joins,
    id: ClaimId,
}

impl Joins {
    /// Without another join of the claim it begins when this is polled first.
    pub(crate) async fn begin(&self, id: ClaimId) -> UnderWay<'_> {
        loop {
            let other = match self.all().entry(id) {
                Entry::Vacant(place) => {
                    place.insert(Arc::default());
                    return UnderWay { joins: self, id };
                }
                Entry::Occupied(other) => other.get().clone().notified_owned(),
            };
            other.await;
        }
    }

    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<ClaimId, Arc<Notify>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let ended = self.joins.all().remove(&self.id);
        if let Some(ended) = ended {
            ended.notify_waiters(); // without the lock: a waker may join at once
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use tidelock_core::SessionId;

    use super::*;

    #[test]
    fn a_claim_is_joined_by_one_at_a_time() {
        let joins = Joins::default();
        let id = |number| ClaimId { session: SessionId::from_bits(1), number };
        let cx = &mut Context::from_waker(Waker::noop());
        let (mut first, mut second) = (pin!(joins.begin(id(1))), pin!(joins.begin(id(1))));
        let Poll::Ready(under_way) = first.as_mut().poll(cx) else { panic!("nobody joins") };
        assert!(second.as_mut().poll(cx).is_pending());
        assert!(pin!(joins.begin(id(2))).poll(cx).is_ready(), "that is another claim");
        drop(under_way);
        assert!(second.as_mut().poll(cx).is_ready());
        assert!(joins.all().is_empty());
    }
}
