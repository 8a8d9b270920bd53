//! What the lock is there to protect: a stock in segments, places, and a value that is kept twice.
//!
//! A write carries the value that its client computed and the version that it had read. If another write came in
//! between, an accepted one is *wrong*: it undoes the other's work. A fence refuses a token older than the newest seen.

use crate::record::NONE;

/// The most segments of a stock.
pub(crate) const SEGMENTS: usize = 8;

/// The resource.
#[derive(Clone, Debug)]
pub struct Resource {
    /// What is left, by segment.
    pub stock: [u32; SEGMENTS],
    /// How often each was written.
    pub version: [u32; SEGMENTS],
    /// The event of the last write of each.
    pub written: [u32; SEGMENTS],
    /// The newest token seen by each.
    pub fence: [u32; SEGMENTS],
    /// Orders taken.
    pub sold: u32,
    /// How many there were to sell.
    pub initial: u32,
    /// Writes accepted.
    pub accepted: u32,
    /// Requests refused by the fence.
    pub refused: u32,
    /// Writes refused because the version had changed.
    pub conflicts: u32,
    /// Writes accepted that were computed from an old value.
    pub wrong: u32,
    /// Who sits.
    pub seated: u32,
    /// The most who ever sat.
    pub most_seated: u32,
    /// The value in the database.
    pub database: u32,
    /// The value in the cache.
    pub cache: u32,
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Accepted.
    Accepted,
    /// Accepted, though computed from an old value; the event of the write in between.
    Wrong(u32),
    /// Refused: the token is older than the newest one.
    Fenced,
}

impl Resource {
    pub(crate) fn new(stock: u32, segments: u8) -> Self {
        let mut shares = [0; SEGMENTS];
        for item in 0..stock {
            shares[item as usize % usize::from(segments.max(1))] += 1;
        }
        Self {
            stock: shares,
            version: [0; SEGMENTS],
            written: [NONE; SEGMENTS],
            fence: [0; SEGMENTS],
            sold: 0,
            initial: stock,
            accepted: 0,
            refused: 0,
            conflicts: 0,
            wrong: 0,
            seated: 0,
            most_seated: 0,
            database: 0,
            cache: 0,
        }
    }

    /// Whether the fence lets this token pass; it remembers it.
    pub(crate) fn passes(&mut self, segment: usize, token: u32) -> bool {
        if token < self.fence[segment] {
            self.refused += 1;
            return false;
        }
        self.fence[segment] = token;
        true
    }

    /// A write of `value`, computed from version `seen`; `token` if there is a fence. `event` is its own number.
    pub(crate) fn write(
        &mut self,
        segment: usize,
        value: u32,
        seen: u32,
        token: Option<u32>,
        event: u32,
    ) -> Verdict {
        if token.is_some_and(|token| !self.passes(segment, token)) {
            return Verdict::Fenced;
        }
        let between = self.written[segment];
        let is_wrong = self.version[segment] != seen;
        self.stock[segment] = value;
        self.version[segment] += 1;
        self.written[segment] = event;
        self.accepted += 1;
        if is_wrong {
            self.wrong += 1;
            return Verdict::Wrong(between);
        }
        Verdict::Accepted
    }

    pub(crate) fn enter(&mut self) {
        self.seated += 1;
        self.most_seated = self.most_seated.max(self.seated);
    }

    /// What decides what happens next, for comparing two states.
    pub(crate) fn key(&self) -> impl std::hash::Hash + use<> {
        let counts = (self.sold, self.wrong, self.seated, self.most_seated, self.database, self.cache);
        (self.stock, self.version, self.fence, counts)
    }
}
