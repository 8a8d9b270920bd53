//! Fence: a resource never accepts an older token after a newer one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Event, Promise, Violation, What};

pub(super) fn check(events: &[Event]) -> Vec<Violation> {
    let mut newest: BTreeMap<Arc<str>, (u64, usize)> = BTreeMap::new();
    let mut found = Vec::new();
    for (position, event) in events.iter().enumerate() {
        let What::Wrote { token, accepted: true } = event.what else { continue };
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
