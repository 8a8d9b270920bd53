//! Exclusion: claims held together are of one kind and fit the capacity.
//!
//! At each grant the weights of all sure holders are summed. The holder that the store granted last was granted while
//! all of them held. So the sum fitted at that moment, whatever the capacity was then. It must therefore fit the
//! largest capacity that any of them was told. Where grants do not tell it, it must fit the largest that the line may
//! have had since any of them asked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidelock_model::Kind;

use crate::conflicts::Claims;
use crate::excused::Excused;
use crate::{Event, EventKind, Promise, Violation};

/// The holders of one name.
#[derive(Debug, Default)]
struct Holders {
    /// By the position of their grant.
    by_grant: BTreeMap<usize, Holder>,
    grants: BTreeMap<u64, usize>,
    sum: u64,
    /// How many holders asked under each capacity.
    capacities: BTreeMap<u64, usize>,
    /// The grants of each kind.
    kinds: BTreeMap<Kind, BTreeSet<usize>>,
}

#[derive(Clone, Debug)]
struct Holder {
    claim: u64,
    who: Arc<str>,
    kind: Kind,
    weight: u64,
    capacity: u64,
}

pub(crate) fn check(events: &[Event]) -> Vec<Violation> {
    let mut claims = Claims::of(events);
    let mut excused = Excused::of(events);
    let mut names: BTreeMap<Arc<str>, Holders> = BTreeMap::new();
    let mut found = Vec::new();
    for (position, event) in events.iter().enumerate() {
        claims.see(position, event);
        for claim in excused.see(event) {
            names.values_mut().for_each(|holders| holders.remove(claim));
        }
        match event.what {
            EventKind::Granted { .. } if !excused.is(event.claim) => {
                let Some(claim) = claims.get(event.claim) else { continue };
                let (kind, weight, capacity) = (claim.kind, claim.weight, claims.told_room(claim));
                let holder = Holder { claim: event.claim, who: event.who.clone(), kind, weight, capacity };
                let holders = names.entry(event.name.clone()).or_default();
                holders.enter(position, holder);
                let kinds = holders.judge_kinds(position, &event.name);
                found.extend(kinds.or_else(|| holders.judge(position, &event.name)));
            }
            EventKind::LetGo | EventKind::Lost => {
                names.entry(event.name.clone()).or_default().remove(event.claim);
            }
            EventKind::Lightened { weight } => {
                names.entry(event.name.clone()).or_default().lighten(event.claim, u64::from(weight));
            }
            EventKind::Overlap if event.claim == 0 => names.clear(),
            _ => {}
        }
    }
    found
}

impl Holders {
    fn enter(&mut self, position: usize, holder: Holder) {
        self.sum += holder.weight;
        *self.capacities.entry(holder.capacity).or_default() += 1;
        self.kinds.entry(holder.kind).or_default().insert(position);
        self.grants.insert(holder.claim, position);
        self.by_grant.insert(position, holder);
    }

    fn remove(&mut self, claim: u64) {
        let Some(grant) = self.grants.remove(&claim) else { return };
        let Some(holder) = self.by_grant.remove(&grant) else { return };
        self.sum -= holder.weight;
        if let Some(grants) = self.kinds.get_mut(&holder.kind) {
            grants.remove(&grant);
            if grants.is_empty() {
                self.kinds.remove(&holder.kind);
            }
        }
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

    /// Every other holder must be of the same kind as this grant.
    fn judge_kinds(&self, position: usize, name: &Arc<str>) -> Option<Violation> {
        let granted = self.by_grant.get(&position)?;
        let others = self.kinds.iter().filter(|(kind, _)| **kind != granted.kind);
        let other = others.filter_map(|(_, grants)| grants.last()).max()?;
        let holder = self.by_grant.get(other)?;
        let as_kind = |holder: &Holder| format!("{} as a {}", holder.who, holder.kind);
        Some(Violation {
            promise: Promise::Exclusion,
            sentence: format!(
                "{name:?} is held as two kinds of lock at once: by {} and by {}",
                as_kind(holder),
                as_kind(granted)
            ),
            name: name.to_string(),
            claims: vec![holder.claim, granted.claim],
            from: *other,
            to: position,
        })
    }

    fn judge(&self, position: usize, name: &Arc<str>) -> Option<Violation> {
        let capacity = self.capacities.keys().next_back().copied().unwrap_or(0);
        if self.sum <= capacity {
            return None;
        }
        // The shortest window: as few of the latest holders as are enough to exceed the capacity.
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
            sentence: format!("on {name:?} these hold together but exceed the capacity: {}", who.join(", ")),
            name: name.to_string(),
            claims: involved.iter().rev().map(|(_, holder)| holder.claim).collect(),
            from: involved.last().map_or(position, |(grant, _)| *grant),
            to: position,
        })
    }
}
