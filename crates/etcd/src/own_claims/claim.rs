//! One claim of ours, and how far it has come.

use tidelock_core::{Kind, Token};

/// One claim of ours.
#[derive(Debug)]
pub(super) struct Own {
    pub(super) kind: Kind,
    pub(super) stage: Stage,
    /// Whether a join of it was ever sent.
    pub(super) was_sent: bool,
    /// A join of it got no answer, and may arrive at any time.
    pub(super) is_unsure: bool,
    /// It was a writer, and is a reader since this revision. A view from before that may still be on its way.
    pub(super) lightened: Option<i64>,
    /// The last revision at which it surely stood in its place.
    pub(super) seen: i64,
    /// The last revision at which somebody else took it out of its line.
    pub(super) evicted: i64,
    pub(super) is_leaving: bool,
    /// Its last leave got no answer, or was refused.
    pub(super) has_not_left: bool,
}

/// How far a claim of ours has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its place is not known: it was asked for, or it is moving.
    Asked,
    /// It stands at this place.
    Stands(Stands),
    /// It certainly has no place.
    Nowhere,
}

/// A claim that has a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stands {
    pub(crate) order: u64,
    pub(crate) token: Token,
    /// Whether it was seen to have its turn. Nothing takes that back.
    pub(crate) is_held: bool,
}

impl Own {
    pub(super) fn has_place(&self) -> bool {
        matches!(self.stage, Stage::Stands(stands) if !stands.is_held) && !self.is_leaving
    }

    pub(super) fn is_at(&self, order: u64) -> bool {
        self.has_place() && matches!(self.stage, Stage::Stands(stands) if stands.order == order)
    }

    pub(super) fn stands_at(&mut self, order: u64, token: Token) {
        if matches!(self.stage, Stage::Stands(stands) if stands.order > order) {
            return; // an older answer: a claim that moves gets a later place
        }
        if order <= self.evicted.unsigned_abs() {
            self.stage = Stage::Nowhere; // the news of its eviction came before the answer to its join
            return;
        }
        let is_there = matches!(self.stage, Stage::Stands(stands) if stands.order == order);
        if !is_there {
            self.stage = Stage::Stands(Stands { order, token, is_held: false });
            self.seen = i64::try_from(order).unwrap_or(i64::MAX);
        }
    }

    /// It was seen in this place at that revision.
    pub(super) fn was_seen(&mut self, order: u64, revision: i64) {
        if matches!(self.stage, Stage::Stands(stands) if stands.order == order) {
            self.seen = self.seen.max(revision);
        }
    }
}
