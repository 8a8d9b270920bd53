//! Sizes: clients that hold a semaphore together were told the same size, and one that a client had declared.
//!
//! While a line is not empty, only a resize changes its size. A new claim that declares another size does not.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::conflicts::Claims;
use crate::excused::Excused;
use crate::{Event, EventKind, Promise, Violation};

/// The holders of one name: claims, with the size they were told and the position.
type Holders = BTreeMap<u64, (u64, usize)>;

pub(crate) fn check(events: &[Event]) -> Vec<Violation> {
    let (mut claims, mut excused) = (Claims::of(events), Excused::of(events));
    let mut names: BTreeMap<Arc<str>, Holders> = BTreeMap::new();
    let mut found = Vec::new();
    for (position, event) in events.iter().enumerate() {
        claims.see(position, event);
        for claim in excused.see(event) {
            names.values_mut().for_each(|holders| holders.retain(|other, _| *other != claim));
        }
        match event.what {
            EventKind::Granted { told: Some(told), .. } if !excused.is(event.claim) => {
                let told = u64::from(told);
                let holders = names.entry(event.name.clone()).or_default();
                found.extend(judge(&claims, holders, told, position, event));
                holders.insert(event.claim, (told, position));
            }
            EventKind::LetGo | EventKind::Lost => {
                names.entry(event.name.clone()).or_default().remove(&event.claim);
            }
            EventKind::Overlap if event.claim == 0 => names.clear(),
            _ => {}
        }
    }
    found
}

fn judge(claims: &Claims, holders: &Holders, told: u64, to: usize, event: &Event) -> Option<Violation> {
    let claim = claims.get(event.claim)?;
    let (name, who) = (&event.name, &event.who);
    let violation = |sentence: String, claims: Vec<u64>, from: usize| Violation {
        promise: Promise::Sizes,
        sentence,
        name: name.to_string(),
        claims,
        from,
        to,
    };
    if !claims.was_said(claim, told) {
        let sentence =
            format!("{who} was told that {name:?} has {told} permits, a size that no client declared");
        return Some(violation(sentence, vec![event.claim], claim.asked));
    }
    holders.iter().find_map(|(other, (told_before, granted))| {
        let held = claims.get(*other)?;
        let is_excused =
            held.kind != claim.kind || claims.may_have_changed(held) || claims.may_have_changed(claim);
        (told != *told_before && !is_excused).then(|| {
            let sentence = format!(
                "{name:?} is held under two sizes at once: {} was told {told_before}, and {who} {told}",
                held.who
            );
            violation(sentence, vec![*other, event.claim], *granted)
        })
    })
}
