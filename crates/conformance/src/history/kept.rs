//! Kept: nobody loses what it holds while all is well.
//!
//! What is lost within a while after a fault, the fault may have cost; and a loss is written down as of the last look
//! before it, which may have been before the fault.

use std::time::Duration;

use super::conflicts::Claims;
use super::excused::Excused;
use super::{Event, Promise, Violation, What};

/// How long before a loss was seen it may be written down.
const SEEN_LATE: Duration = Duration::from_millis(500);

/// Nobody loses what it holds, unless something has gone wrong in the time `before` it.
pub(super) fn check(events: &[Event], before: Duration) -> Vec<Violation> {
    let (mut claims, mut excused) = (Claims::of(events), Excused::of(events));
    let faults = faults(events);
    let mut found = Vec::new();
    for (position, event) in events.iter().enumerate() {
        claims.see(position, event);
        let _ = excused.see(event); // it is asked below
        if event.what != What::Lost || excused.is(event.claim) {
            continue;
        }
        let (at, late) = (event.at, event.at + SEEN_LATE);
        let explains = |(from, to): &(Duration, Option<Duration>)| {
            *from <= late && to.is_none_or(|to| to + before >= at)
        };
        let Some(claim) = claims.get(event.claim).filter(|_| !faults.iter().any(explains)) else { continue };
        found.push(Violation {
            promise: Promise::Kept,
            sentence: format!("on {:?} {} lost what it held, and all was well", event.name, event.who),
            name: event.name.to_string(),
            claims: vec![event.claim],
            from: claim.asked,
            to: position,
        });
    }
    found
}

/// When something was wrong, and until when; `None`: to the end.
fn faults(events: &[Event]) -> Vec<(Duration, Option<Duration>)> {
    let mut faults: Vec<(Duration, Option<Duration>)> = Vec::new();
    for event in events {
        match event.what {
            What::Fault { .. } => faults.push((event.at, None)),
            What::Healed => {
                let open = faults.iter_mut().rev().take_while(|(_, to)| to.is_none());
                open.for_each(|(_, to)| *to = Some(event.at));
            }
            _ => {}
        }
    }
    faults
}
