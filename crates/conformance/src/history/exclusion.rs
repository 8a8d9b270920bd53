//! Exclusion: what is held together fits the capacity.
//!
//! At each grant the weights of all who surely hold are summed. The last of them that the store granted was granted
//! while all of them held, so the sum fitted then, whatever capacity the line had at that moment: it must fit the
//! most that the line may have had while any of them was asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::conflicts::Claims;
use super::{Event, Promise, Violation, What};

/// Who holds one name.
#[derive(Debug, Default)]
struct Holders {
    /// By the position of their grant.
    by_grant: BTreeMap<usize, Holder>,
    grants: BTreeMap<u64, usize>,
    sum: u64,
    /// How many holders were asked under each capacity.
    capacities: BTreeMap<u64, usize>,
}

#[derive(Clone, Debug)]
struct Holder {
    claim: u64,
    who: Arc<str>,
    weight: u64,
    capacity: u64,
}

pub(super) fn check(events: &[Event]) -> Vec<Violation> {
    let mut claims = Claims::default();
    let mut names: BTreeMap<Arc<str>, Holders> = BTreeMap::new();
    let mut found = Vec::new();
    for (position, event) in events.iter().enumerate() {
        claims.see(position, event);
        match event.what {
            What::Granted { .. } => {
                let Some(claim) = claims.get(event.claim) else { continue };
                let capacity = claims.capacity(claim);
                let holder =
                    Holder { claim: event.claim, who: event.who.clone(), weight: claim.weight, capacity };
                let holders = names.entry(event.name.clone()).or_default();
                holders.enter(position, holder);
                found.extend(holders.judge(position, &event.name));
            }
            What::LetGo | What::Lost => names.entry(event.name.clone()).or_default().remove(event.claim),
            What::Lightened { weight } => {
                names.entry(event.name.clone()).or_default().lighten(event.claim, u64::from(weight));
            }
            What::Overlap => names.clear(),
            _ => {}
        }
    }
    found
}

impl Holders {
    fn enter(&mut self, position: usize, holder: Holder) {
        self.sum += holder.weight;
        *self.capacities.entry(holder.capacity).or_default() += 1;
        self.grants.insert(holder.claim, position);
        self.by_grant.insert(position, holder);
    }

    fn remove(&mut self, claim: u64) {
        let Some(holder) = self.grants.remove(&claim).and_then(|grant| self.by_grant.remove(&grant)) else {
            return;
        };
        self.sum -= holder.weight;
        if let Some(count) = self.capacities.get_mut(&holder.capacity) {
            *count -= 1;
            if *count == 0 {
                self.capacities.remove(&holder.capacity);
            }
        }
    }

    fn lighten(&mut self, claim: u64, weight: u64) {
        if let Some(holder) = self.grants.get(&claim).and_then(|grant| self.by_grant.get_mut(grant)) {
            self.sum -= holder.weight - weight;
            holder.weight = weight;
        }
    }

    fn judge(&self, position: usize, name: &Arc<str>) -> Option<Violation> {
        let capacity = self.capacities.keys().next_back().copied().unwrap_or(0);
        if self.sum <= capacity {
            return None;
        }
        // The shortest window: as many of the latest as it takes not to fit.
        let (mut sum, mut involved) = (0, Vec::new());
        for (grant, holder) in self.by_grant.iter().rev() {
            sum += holder.weight;
            involved.push((*grant, holder));
            if sum > capacity {
                break;
            }
        }
        let who: Vec<&str> = involved.iter().rev().map(|(_, holder)| &*holder.who).collect();
        Some(Violation {
            promise: Promise::Exclusion,
            sentence: format!("on {name:?} these hold together, and they do not fit: {}", who.join(", ")),
            name: name.to_string(),
            claims: involved.iter().rev().map(|(_, holder)| holder.claim).collect(),
            from: involved.last().map_or(position, |(grant, _)| *grant),
            to: position,
        })
    }
}
