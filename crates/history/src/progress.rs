//! Progress: no claim waits for long while nobody holds, and once everything is healed every claim is granted.
//!
//! Between a fault and its heal nothing is promised here, so the time begins anew at the heal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::{Event, EventKind, Promise, Violation};

/// What is known of one name's line.
#[derive(Debug, Default)]
struct Line {
    /// Claims that were asked for and have no answer.
    asking: BTreeSet<u64>,
    holding: BTreeSet<u64>,
    /// The position and time since when a claim waits and nobody holds.
    idle: Option<(usize, Duration)>,
}

/// No claim waits for longer than `bound` while nobody holds.
pub(crate) fn bounded(events: &[Event], bound: Duration) -> Vec<Violation> {
    let mut lines: BTreeMap<Arc<str>, Line> = BTreeMap::new();
    let (mut found, mut is_faulty) = (Vec::new(), false);
    for (position, event) in events.iter().enumerate() {
        match event.what {
            EventKind::Fault { .. } => is_faulty = true,
            EventKind::Healed => {
                is_faulty = false;
                lines.values_mut().filter(|line| line.idle.is_some()).for_each(|line| {
                    line.idle = Some((position, event.at));
                });
            }
            _ if event.claim > 0 => {
                let line = lines.entry(event.name.clone()).or_default();
                if let Some(violation) = line.waited_for_long(bound, position, event)
                    && !is_faulty
                {
                    found.push(violation);
                }
                line.see(position, event);
            }
            _ => {}
        }
    }
    found
}

/// A claim that was asked for after the last heal has an answer by the end, or another claim holds the name.
pub(crate) fn usable(events: &[Event]) -> Vec<Violation> {
    let Some(healed) = events.iter().rposition(|event| event.what == EventKind::Healed) else {
        return Vec::new();
    };
    let mut lines: BTreeMap<Arc<str>, Line> = BTreeMap::new();
    let mut asked_at: BTreeMap<u64, usize> = BTreeMap::new();
    for (position, event) in events.iter().enumerate().filter(|(_, event)| event.claim > 0) {
        if matches!(event.what, EventKind::Asked { .. }) {
            asked_at.insert(event.claim, position);
        }
        lines.entry(event.name.clone()).or_default().see(position, event);
    }
    let mut found = Vec::new();
    for (name, line) in lines.iter().filter(|(_, line)| line.holding.is_empty()) {
        let late = line.asking.iter().filter_map(|claim| Some((*claim, *asked_at.get(claim)?)));
        for (claim, asked) in late.filter(|(_, asked)| *asked > healed) {
            found.push(Violation {
                promise: Promise::Usable,
                sentence: format!(
                    "{name:?} is unusable after everything was healed: {} asked, and nobody holds it",
                    events[asked].who
                ),
                name: name.to_string(),
                claims: vec![claim],
                from: asked,
                to: events.len() - 1,
            });
        }
    }
    found
}

impl Line {
    fn see(&mut self, position: usize, event: &Event) {
        let claim = event.claim;
        match event.what {
            EventKind::Asked { .. } => drop(self.asking.insert(claim)),
            EventKind::Granted { .. } => {
                self.asking.remove(&claim);
                self.holding.insert(claim);
            }
            EventKind::Refused | EventKind::Failed | EventKind::Cancelled => drop(self.asking.remove(&claim)),
            EventKind::LetGo | EventKind::Lost => drop(self.holding.remove(&claim)),
            _ => {}
        }
        let is_idle = self.holding.is_empty() && !self.asking.is_empty();
        self.idle = is_idle.then(|| self.idle.unwrap_or((position, event.at)));
    }

    fn waited_for_long(&self, bound: Duration, position: usize, event: &Event) -> Option<Violation> {
        let (from, since) = self.idle?;
        let waited = event.at.saturating_sub(since);
        (waited > bound).then(|| Violation {
            promise: Promise::Bounded,
            sentence: format!("on {:?} a claim waited for {waited:?} while nobody held the name", event.name),
            name: event.name.to_string(),
            claims: self.asking.iter().take(4).copied().collect(),
            from,
            to: position,
        })
    }
}
