//! Kept: no client loses its hold while all is well.
//!
//! A loss within some time after a fault may be the fault's effect. A loss is recorded with the time of the last look
//! before it, which may be before the fault.

use std::time::Duration;

use crate::conflicts::Claims;
use crate::excused::Excused;
use crate::{Event, EventKind, Promise, Violation};

/// How long before its discovery a loss may be recorded.
const SEEN_LATE: Duration = Duration::from_millis(500);

/// No client loses its hold unless something has gone wrong in the time `before` the loss.
pub(crate) fn check(events: &[Event], before: Duration) -> Vec<Violation> {
    let (mut claims, mut excused) = (Claims::of(events), Excused::of(events));
    let faults = faults(events);
    let mut found = Vec::new();
    for (position, event) in events.iter().enumerate() {
        claims.see(position, event);
        let _ = excused.see(event); // used below
        if event.what != EventKind::Lost || excused.is(event.claim) {
            continue;
        }
        let (at, late) = (event.at, event.at + SEEN_LATE);
        let explains = |(from, to): &(Duration, Option<Duration>)| {
            *from <= late && to.is_none_or(|to| to + before >= at)
        };
        let Some(claim) = claims.get(event.claim).filter(|_| !faults.iter().any(explains)) else { continue };
        found.push(Violation {
            promise: Promise::Kept,
            sentence: format!("on {:?} {} lost what it held, although all was well", event.name, event.who),
            name: event.name.to_string(),
            claims: vec![event.claim],
            from: claim.asked,
            to: position,
        });
    }
    found
}

/// The time ranges in which something was wrong; `None` is until the end.
fn faults(events: &[Event]) -> Vec<(Duration, Option<Duration>)> {
    let mut faults: Vec<(Duration, Option<Duration>)> = Vec::new();
    for event in events {
        match event.what {
            EventKind::Fault { .. } => faults.push((event.at, None)),
            EventKind::Healed => {
                let open = faults.iter_mut().rev().take_while(|(_, to)| to.is_none());
                open.for_each(|(_, to)| *to = Some(event.at));
            }
            _ => {}
        }
    }
    faults
}
