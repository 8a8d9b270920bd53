//! Fence: a resource never accepts an older token after a newer one, and never refuses a current holder.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::excused::Excused;
use crate::{Event, EventKind, Promise, Violation};

pub(crate) fn check(events: &[Event]) -> Vec<Violation> {
    let mut newest: BTreeMap<Arc<str>, (u64, usize)> = BTreeMap::new();
    let mut found = Vec::new();
    for (position, event) in events.iter().enumerate() {
        let EventKind::Wrote { token, accepted: true } = event.what else { continue };
        let (seen, at) = newest.entry(event.name.clone()).or_insert((token, position));
        if *seen > token {
            let (name, who) = (&event.name, &event.who);
            found.push(Violation {
                promise: Promise::Fence,
                sentence: format!("{name} accepted token {token} of {who} after it had accepted {seen}"),
                name: name.to_string(),
                claims: Vec::new(),
                from: *at,
                to: position,
            });
        } else {
            (*seen, *at) = (token, position);
        }
    }
    found
}

/// A client that surely holds alone, before and after its write, must not be refused.
pub(crate) fn refusals(events: &[Event]) -> Vec<Violation> {
    let mut excused = Excused::of(events);
    let mut held: BTreeMap<u64, usize> = BTreeMap::new();
    let mut refused: BTreeMap<u64, (usize, u64)> = BTreeMap::new();
    let mut found = Vec::new();
    for (position, event) in events.iter().enumerate() {
        let _ = excused.see(event); // used below
        match event.what {
            EventKind::Granted { .. } => drop(held.insert(event.claim, position)),
            EventKind::Wrote { token, accepted: false } if held.contains_key(&event.claim) => {
                refused.insert(event.claim, (position, token));
            }
            EventKind::Lost => drop((held.remove(&event.claim), refused.remove(&event.claim))),
            EventKind::LetGo => {
                let (from, to) = (held.remove(&event.claim), refused.remove(&event.claim));
                let (Some(from), Some((to, token))) = (from, to) else { continue };
                if !excused.is(event.claim) {
                    found.push(Violation {
                        promise: Promise::Fence,
                        sentence: format!(
                            "{} refused token {token} of {}, which held {:?} before and after",
                            events[to].name, event.who, event.name
                        ),
                        name: event.name.to_string(),
                        claims: vec![event.claim],
                        from,
                        to,
                    });
                }
            }
            EventKind::Overlap if event.claim == 0 => held.clear(),
            _ => {}
        }
    }
    found
}
