//! The names of a round, and how each is used.

use crate::{Dice, Want};

/// A name that they fight for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UsedName {
    pub(super) name: String,
    pub(super) usage: Usage,
}

/// How a name is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Usage {
    Mutex,
    RwLock,
    /// All clients declare the same size.
    Semaphore(u32),
    /// Half of the clients declare the first size and half the second, as during the rollout of a new version.
    Rollout(u32, u32),
    /// Its size is changed all the time.
    Resized(u32),
    /// Every kind, and various sizes, in turn.
    Mixed,
}

impl UsedName {
    /// The names of a round.
    pub(super) fn draw(seed: u64) -> Vec<Self> {
        let dice = Dice::new(seed, "names");
        let usages = [
            Usage::Mixed,
            Usage::Rollout(3, 5),
            Usage::Mutex,
            Usage::RwLock,
            Usage::Semaphore(3),
            Usage::Resized(4),
            Usage::Mixed,
        ];
        let used_name = |number: u64| {
            let usage = *dice.pick(&usages);
            Self { name: format!("{} {number}", usage.word()), usage }
        };
        (0..1 + dice.below(3)).map(used_name).collect()
    }
}

impl Usage {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::RwLock => "table",
            Self::Semaphore(_) => "pool",
            Self::Rollout(..) => "rollout",
            Self::Resized(_) => "resized",
            Self::Mixed => "mixed",
        }
    }

    /// A want that a client may have for it.
    pub(super) fn want(self, dice: &Dice, is_newer: bool) -> Want {
        let permits = |of: u32| Want::Permits(dice.weight(of).get(), of);
        match self {
            Self::Mutex => Want::Lock,
            Self::RwLock if dice.one_in(3) => Want::Write,
            Self::RwLock => Want::Read,
            Self::Semaphore(size) | Self::Resized(size) => permits(size),
            Self::Rollout(old, new) => permits(if is_newer { new } else { old }),
            Self::Mixed => match dice.below(6) {
                0 | 1 => Want::Lock,
                2 => Want::Read,
                3 => Want::Write,
                4 => permits(5),
                _ => permits(3),
            },
        }
    }

    /// Whether a client may get the error that the name is of another kind.
    pub(super) fn is_of_many_kinds(self) -> bool {
        self == Self::Mixed
    }

    /// Whether a client may get the error that there are too few permits.
    pub(super) fn is_of_many_sizes(self) -> bool {
        matches!(self, Self::Mixed | Self::Rollout(..) | Self::Resized(_))
    }
}
