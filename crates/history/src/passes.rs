//! Passes: what the store granted once is passed on for no longer than the client may linger, and at most 31 times.
//!
//! A grant is recorded late, when its task runs. But a pass was surely given after its receiver had asked for it, and
//! after the one before let go, if that one excluded all others: both are recorded before they happen. And the client may
//! linger from when it heard of the store's grant, which was before that grant was recorded. So a pass that was given too
//! late by these times was given too late, however slow the tasks were.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidelock_model::{Kind, Token};

use crate::conflicts::Claims;
use crate::{Event, EventKind, Promise, Violation};

/// How often one grant of the store may be given to a task: first by the store, and then by 31 passes.
const MOST: u32 = 32;

/// One grant of the store, and what became of it.
#[derive(Debug)]
struct Turn {
    /// The first grant of it that was recorded: when, where, and to which claim.
    began: Duration,
    from: usize,
    claim: u64,
    grants: u32,
    /// When the latest holder that excluded all others let go.
    let_go: Duration,
}

pub(crate) fn check(events: &[Event], linger: Duration) -> Vec<Violation> {
    let mut claims = Claims::of(events);
    let mut turns: BTreeMap<(Arc<str>, u64), Turn> = BTreeMap::new();
    let mut alone: BTreeMap<u64, u64> = BTreeMap::new(); // holders that exclude all others, and the store's order
    let mut found = Vec::new();
    for (position, event) in events.iter().enumerate() {
        claims.see(position, event);
        let Some(claim) = claims.get(event.claim) else { continue };
        match event.what {
            EventKind::Granted { token, .. } => {
                let Some(token) = Token::from_u64(token) else { continue };
                if claim.weight >= claims.capacity(claim) {
                    alone.insert(event.claim, token.store_order());
                }
                let longest = if claim.kind == Kind::Semaphore { Duration::ZERO } else { linger };
                let turn = turns.entry((event.name.clone(), token.store_order()));
                let turn = turn.or_insert_with(|| Turn::of(position, event));
                turn.grants += 1;
                let given = turn.let_go.max(events[claim.asked].at);
                if let Some(how) = turn.is_overdone(token, given, longest) {
                    found.push(Violation {
                        promise: Promise::Passes,
                        sentence: format!(
                            "on {:?} {} passed a hold on {how}: {longest:?} and {} times are allowed",
                            event.name,
                            event.who,
                            MOST - 1
                        ),
                        name: event.name.to_string(),
                        claims: vec![turn.claim, event.claim],
                        from: turn.from,
                        to: position,
                    });
                }
            }
            EventKind::LetGo => {
                if let Some(order) = alone.remove(&event.claim)
                    && let Some(turn) = turns.get_mut(&(event.name.clone(), order))
                {
                    turn.let_go = turn.let_go.max(event.at);
                }
            }
            EventKind::Lost | EventKind::Lightened { .. } => drop(alone.remove(&event.claim)),
            _ => {}
        }
    }
    found
}

impl Turn {
    fn of(from: usize, event: &Event) -> Self {
        Self { began: event.at, from, claim: event.claim, grants: 0, let_go: Duration::ZERO }
    }

    /// In which way it was passed on more than it may be.
    fn is_overdone(&self, token: Token, given: Duration, longest: Duration) -> Option<String> {
        if self.grants > MOST {
            return Some(format!("{} times", self.grants - 1));
        }
        let after = given.saturating_sub(self.began);
        let is_late = token.pass() > 0 && self.grants > 1 && given >= self.began + longest;
        is_late.then(|| format!("{after:?} after the store had granted it"))
    }
}
