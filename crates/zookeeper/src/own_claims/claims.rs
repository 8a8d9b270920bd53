//! The stage of each claim of a client.

use std::collections::HashMap;

use tidelock_core::Token;

use crate::nodes::{Node, is_before};

/// The stage of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its nodes were requested, and the reply has not come, or never will.
    Asked,
    /// It has nodes.
    Stands(Stands),
    /// It was refused, and certainly has no nodes.
    Nowhere,
}

/// A claim that has nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stands {
    pub(crate) nodes: Vec<String>,
    pub(crate) token: Token,
    /// Whether it was seen to have its turn. Nothing takes that back.
    pub(crate) is_held: bool,
}

impl Stands {
    /// Whether it stands at this node.
    pub(super) fn is_at(&self, node: &str) -> bool {
        self.nodes.first().is_some_and(|first| first == node)
    }
}

/// What was known of a claim when its join began.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JoinStart {
    New,
    /// An earlier join asked for it.
    Asked,
    Stands(Stands),
    /// Its leave came first.
    Void,
    /// The paths of the session's claims fill [`MOST`].
    Full,
}

/// The limit for the paths of a session's claims, in bytes. When a session ends, the server deletes all of them in one
/// transaction, and no server can read a transaction of more than two megabytes: the ensemble stops serving, and does
/// not recover.
const MOST: usize = 1_800_000;

/// The claims of one session, by number.
#[derive(Debug, Default)]
pub(super) struct Claims {
    claims: HashMap<u64, Entry>,
    /// The size of all their paths.
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    stage: Stage,
    /// The size of its paths, while it may have nodes.
    bytes: usize,
}

impl Claims {
    /// A join begins. `bytes` is the size of the claim's paths.
    pub(super) fn begin(&mut self, number: u64, bytes: usize) -> JoinStart {
        match self.stage(number) {
            Some(Stage::Stands(stands)) => return JoinStart::Stands(stands.clone()),
            Some(Stage::Asked) => return JoinStart::Asked,
            Some(Stage::Nowhere) | None => self.forget(number),
        }
        if self.bytes + bytes > MOST {
            self.claims.insert(number, Entry { stage: Stage::Nowhere, bytes: 0 });
            return JoinStart::Full;
        }
        self.bytes += bytes;
        self.claims.insert(number, Entry { stage: Stage::Asked, bytes });
        JoinStart::New
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.bytes == 0
    }

    pub(super) fn stage(&self, number: u64) -> Option<&Stage> {
        self.claims.get(&number).map(|entry| &entry.stage)
    }

    pub(super) fn standing(&self, number: u64) -> Option<&Stands> {
        match self.stage(number) {
            Some(Stage::Stands(stands)) => Some(stands),
            _ => None,
        }
    }

    pub(super) fn standing_mut(&mut self, number: u64) -> Option<&mut Stands> {
        match self.claims.get_mut(&number).map(|entry| &mut entry.stage) {
            Some(Stage::Stands(stands)) => Some(stands),
            _ => None,
        }
    }

    pub(super) fn is_at(&self, number: u64, node: &str) -> bool {
        self.standing(number).is_some_and(|stands| stands.is_at(node))
    }

    /// Whether the first stands before the second. A claim whose nodes are only requested comes behind all that stand.
    /// But a look may see its turn, and watch for a claim behind it, before the reply to its join arrives.
    pub(super) fn is_ahead(&self, first: u64, second: u64) -> bool {
        let place = |number| Some(Node::parse(&self.standing(number)?.nodes[0])?.sequence);
        match (place(first), place(second)) {
            (Some(first), Some(second)) => is_before(first, second),
            (first, None) => first.is_some(),
            (None, Some(_)) => false,
        }
    }

    /// The claim has reached this stage. A claim that has left meanwhile is not entered again.
    pub(super) fn comes_to(&mut self, number: u64, stage: Stage) {
        if let Some(entry) = self.claims.get_mut(&number) {
            entry.stage = stage;
        }
    }

    pub(super) fn forget(&mut self, number: u64) {
        if let Some(entry) = self.claims.remove(&number) {
            self.bytes -= entry.bytes;
        }
    }
}
