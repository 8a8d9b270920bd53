//! A session: one client's lease. It ends when it is closed, or when its lifetime passes without a renewal.

use crate::table::Table;

/// One client's lease, as a [`World`](crate::World) keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Session<N> {
    ttl: u64,
    until: u64,
    void: Table<(N, u64), ()>,
}

impl<N: Ord> Session<N> {
    pub(crate) fn new(ttl: u64, now: u64) -> Self {
        let ttl = ttl.max(1);
        Self { ttl, until: now.saturating_add(ttl), void: Table::new() }
    }

    /// How long it lives after each renewal.
    #[must_use]
    pub const fn ttl(&self) -> u64 {
        self.ttl
    }

    /// When it ends, unless it is renewed.
    #[must_use]
    pub const fn until(&self) -> u64 {
        self.until
    }

    /// The void joins, which must not come alive later: names, and numbers of claims.
    pub fn void(&self) -> impl Iterator<Item = (&N, u64)> {
        self.void.iter().map(|((name, number), ())| (name, *number))
    }

    pub(crate) fn renew(&mut self, now: u64) {
        self.until = now.saturating_add(self.ttl);
    }

    pub(crate) fn make_void(&mut self, name: N, number: u64) {
        self.void.get_or_insert((name, number), ());
    }

    pub(crate) fn forget_void(&mut self, name: N, number: u64) {
        self.void.remove(&(name, number));
    }

    pub(crate) fn is_void(&self, name: N, number: u64) -> bool {
        !seeded!("late_join_after_void") && self.void.get(&(name, number)).is_some()
    }
}
