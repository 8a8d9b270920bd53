//! How far each claim of a client's has come.

use std::collections::HashMap;

use tidelock::Token;

use crate::listing::is_before;
use crate::nodes::Node;

/// How far a claim has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its nodes were asked for, and the answer has not come, or never will.
    Asked,
    /// It has nodes.
    Stands(Stands),
    /// It was refused, and surely has none.
    Nowhere,
}

/// A claim that has nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stands {
    pub(crate) nodes: Vec<String>,
    pub(crate) token: Token,
    /// Whether it was seen to have its turn: nothing takes that back.
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
pub(crate) enum Before {
    New,
    /// It was asked for before.
    Asked,
    Stands(Stands),
    /// Its leave came first.
    Void,
    /// The session has as many claims as can be.
    Full,
}

/// The most that the paths of a session's claims may take. When a session ends the server makes one transaction of all of
/// them, and no server can read one of more than two megabytes: an ensemble stops serving, and does not come back.
const MOST: usize = 1_800_000;

/// The claims of one session, by number.
#[derive(Debug, Default)]
pub(super) struct Claims {
    claims: HashMap<u64, Entry>,
    /// What the paths of all of them take.
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    stage: Stage,
    /// What its paths take, for as long as it may have nodes.
    bytes: usize,
}

impl Claims {
    /// A join begins of a claim whose paths take so much.
    pub(super) fn begin(&mut self, number: u64, bytes: usize) -> Before {
        match self.stage(number) {
            Some(Stage::Stands(stands)) => return Before::Stands(stands.clone()),
            Some(Stage::Asked) => return Before::Asked,
            Some(Stage::Nowhere) | None => self.forget(number),
        }
        if self.bytes + bytes > MOST {
            self.claims.insert(number, Entry { stage: Stage::Nowhere, bytes: 0 });
            return Before::Full;
        }
        self.bytes += bytes;
        self.claims.insert(number, Entry { stage: Stage::Asked, bytes });
        Before::New
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

    /// Whether the first stands before the second. Whoever is only asking comes behind all who stand; but a look may
    /// have seen its turn, and watch for somebody behind it, before it hears that it stands.
    pub(super) fn is_ahead(&self, first: u64, second: u64) -> bool {
        let place = |number| Some(Node::parse(&self.standing(number)?.nodes[0])?.sequence);
        match (place(first), place(second)) {
            (Some(first), Some(second)) => is_before(first, second),
            (first, None) => first.is_some(),
            (None, Some(_)) => false,
        }
    }

    /// It has come this far. Whoever has left meanwhile is not entered again.
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
