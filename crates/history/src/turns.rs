//! Turns: while a client waits in the store's line, no other client gets a turn there again and again.
//!
//! That a client waits in the store's line is known from when the line showed its claim until one of its tasks is granted
//! the name, or gives up: that may be the one whose claim it is. If it is known under which claim it waits, it is known
//! until the task that is granted that claim. What joins the line from then on is behind it. A client has at most one claim there that waits, as its other tasks stand behind that one or behind one that holds. So, as long
//! as the two conflict:
//!
//! - Of the tasks that asked after that moment, all that are granted first share one turn: the one that their client had
//!   then, or the one it waited for. The next one is behind. (A client can read by several grants of the store at once,
//!   but more tasks can share only the newest of them, and none while a claim of their client waits.)
//! - Of the turns that exclude all others, at most two begin: the client may hold one that is recorded late (it need not
//!   be of the local line: `try_lock` asks the store by itself), and wait for another. Turns of readers are not counted
//!   here, because any number of them may be held and recorded late.
//!
//! Semaphores have no turns: see `order`. A client that uses the name as two kinds counts as two.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tidelock_model::{Kind, Token};

use crate::conflicts::{Claim, Claims, LocalLine};
use crate::excused::Excused;
use crate::{Event, EventKind, Promise, Violation};

/// How many turns that exclude all others may begin.
const MOST_ALONE: usize = 2;
/// How many turns those may have who asked later.
const MOST_LATER: usize = 1;

/// A client that waits in the store's line.
#[derive(Debug)]
struct Wait {
    since: usize,
    claim: u64,
    weight: u64,
    /// Whether it is known until this claim is granted.
    is_kept: bool,
    /// The turns of others since then, by their local lines: those that exclude all others, and those of tasks that asked later.
    alone: BTreeMap<LocalLine, BTreeSet<u64>>,
    later: BTreeMap<LocalLine, BTreeSet<u64>>,
}

/// One name's line.
#[derive(Debug, Default)]
struct Line {
    waits: BTreeMap<LocalLine, Wait>,
    /// Where each turn's first grant is recorded.
    began: BTreeMap<u64, usize>,
}

/// A grant, as others see it.
struct Seen<'a> {
    claim: &'a Claim,
    capacity: u64,
    order: u64,
}

pub(crate) fn check(events: &[Event], linger: Duration) -> Vec<Violation> {
    if linger.is_zero() {
        return Vec::new(); // the order is strict
    }
    let (mut claims, mut excused) = (Claims::of(events), Excused::of(events));
    let mut lines: BTreeMap<Arc<str>, Line> = BTreeMap::new();
    let mut found = Vec::new();
    for (position, event) in events.iter().enumerate() {
        claims.see(position, event);
        for claim in excused.see(event).into_iter().filter_map(|claim| claims.get(claim)) {
            lines.entry(claim.name.clone()).or_default().waits.remove(&claim.local_line());
        }
        if matches!(event.what, EventKind::Fault { .. }) {
            lines.values_mut().for_each(|line| line.waits.clear()); // their places may be gone
            continue;
        }
        let Some(claim) = claims.get(event.claim).filter(|claim| claim.kind != Kind::Semaphore) else {
            continue;
        };
        let line = lines.entry(event.name.clone()).or_default();
        match event.what {
            EventKind::Stands => line.stand(position, event, claim, false),
            EventKind::StandsUntilGranted => line.stand(position, event, claim, true),
            EventKind::Granted { token, .. } => {
                line.may_have_left(event, claim);
                let Some(token) = Token::from_u64(token).filter(|_| !excused.is(event.claim)) else {
                    continue;
                };
                let order = token.store_order();
                let capacity = claims.capacity(claim);
                line.began.entry(order).or_insert(position);
                if let Some(passed) = line.passed_by(&Seen { claim, capacity, order }) {
                    found.push(violation(passed, &claims, event, position));
                }
            }
            EventKind::Refused | EventKind::Failed | EventKind::Cancelled | EventKind::Lost => {
                line.may_have_left(event, claim);
            }
            _ => {}
        }
    }
    found
}

fn violation(passed: &Wait, claims: &Claims, event: &Event, position: usize) -> Violation {
    let by = claims.get(passed.claim).map_or_else(String::new, |passed| passed.who.to_string());
    Violation {
        promise: Promise::Order,
        sentence: format!(
            "on {:?} {} got one turn after the other, while {by} was known to wait in the store's line",
            event.name, event.who
        ),
        name: event.name.to_string(),
        claims: vec![passed.claim, event.claim],
        from: passed.since,
        to: position,
    }
}

impl Line {
    fn stand(&mut self, since: usize, event: &Event, claim: &Claim, is_kept: bool) {
        self.waits.entry(claim.local_line()).or_insert_with(|| Wait {
            since,
            claim: event.claim,
            weight: claim.weight,
            is_kept,
            alone: BTreeMap::new(),
            later: BTreeMap::new(),
        });
    }

    /// The client waits no more, as far as is known, because one of its tasks does not.
    fn may_have_left(&mut self, event: &Event, claim: &Claim) {
        let local_line = claim.local_line();
        if self.waits.get(&local_line).is_some_and(|wait| !wait.is_kept || wait.claim == event.claim) {
            self.waits.remove(&local_line);
        }
    }

    /// A client that waits and has seen one turn too many.
    fn passed_by(&mut self, seen: &Seen<'_>) -> Option<&Wait> {
        let began = self.began.get(&seen.order).copied().unwrap_or_default();
        self.waits.values_mut().find_map(|wait| wait.has_seen_too_many(seen, began).then_some(&*wait))
    }
}

impl Wait {
    /// Adds a grant of another client.
    fn has_seen_too_many(&mut self, seen: &Seen<'_>, began: usize) -> bool {
        if self.weight + seen.claim.weight <= seen.capacity {
            return false; // it may hold itself by now
        }
        let add = |turns: &mut BTreeMap<LocalLine, BTreeSet<u64>>| {
            let turns = turns.entry(seen.claim.local_line()).or_default();
            turns.insert(seen.order);
            turns.len()
        };
        let is_alone = seen.claim.weight >= seen.capacity && began > self.since;
        let has_asked_later = seen.claim.asked > self.since;
        is_alone && add(&mut self.alone) > MOST_ALONE || has_asked_later && add(&mut self.later) > MOST_LATER
    }
}
