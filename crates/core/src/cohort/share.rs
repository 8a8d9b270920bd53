//! A read claim that several readers of this client share.

use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use crate::backend::{Grant, Moment};
use crate::owned_claim::OwnedClaim;
use crate::sync::AtomicU64;

/// A claim and how many use it. One that nobody uses any more gets no other user, because the last one gives it back.
pub(super) struct Used {
    owned: OwnedClaim,
    users: AtomicU64,
}

impl Used {
    pub(super) fn by_one(owned: OwnedClaim) -> Arc<Self> {
        Arc::new(Self { owned, users: AtomicU64::new(1) })
    }

    /// One more uses it, if anybody does.
    fn join(&self) -> bool {
        let one_more = |users: u64| {
            let may = users > 0 || seeded!("a_share_is_taken_from_nobody");
            may.then_some(users + 1)
        };
        self.users.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_ok()
    }

    /// One of its users gives it back. Returns whether that was the last one.
    pub(super) fn leave(&self) -> bool {
        let seen =
            if seeded!("each_leaves_it_to_the_other") { self.users.load(Ordering::Acquire) } else { 0 };
        let before = self.users.fetch_sub(1, Ordering::AcqRel);
        before.max(seen) == 1
    }
}

impl Deref for Used {
    type Target = OwnedClaim;

    fn deref(&self) -> &OwnedClaim {
        &self.owned
    }
}

/// How one more reader shares the claim.
pub(super) struct Share {
    used: Weak<Used>,
    /// The last grant.
    grant: Grant,
    /// From then on nobody else shares it.
    ends: Moment,
}

impl Share {
    pub(super) fn new(used: &Arc<Used>, grant: Grant, ends: Moment) -> Self {
        Self { used: Arc::downgrade(used), grant, ends }
    }

    /// The next grant, and when sharing ends; `None` if nobody else may share the claim.
    pub(super) fn next(&mut self, now: Moment) -> Option<(Arc<Used>, Grant, Moment)> {
        if now >= self.ends && !seeded!("readers_share_after_the_linger") {
            return None;
        }
        let token = self.grant.token.next_pass()?;
        // Its last user ends the turn, and with it this, before it drops the claim: so that is not dropped here.
        let used = self.used.upgrade().filter(|used| used.is_fresh(now) && used.join())?;
        self.grant = Grant { token, ..self.grant };
        Some((used, self.grant, self.ends))
    }
}
