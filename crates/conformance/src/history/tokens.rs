//! Tokens: of two conflicting grants the later has the greater one.
//!
//! Surely earlier is a grant that was written down before the later one was even asked for, and one whose hold ended
//! before the later one was granted. For each name, the newest token of either is kept for each weight.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::conflicts::{Claim, Claims};
use super::{Event, Promise, Violation, What};

/// A grant: its token, its claim, and the position where it was given.
type Grant = (u64, u64, usize);

/// One name's grants.
#[derive(Debug, Default)]
struct Tokens {
    /// The newest grant of each weight.
    granted: BTreeMap<u64, Grant>,
    /// The newest that has ended.
    ended: BTreeMap<u64, Grant>,
    /// Those that have not ended: weight and grant.
    held: BTreeMap<u64, (u64, Grant)>,
    /// For those who ask, the newest conflicting grant that came before.
    floors: BTreeMap<u64, Grant>,
}

pub(super) fn check(events: &[Event]) -> Vec<Violation> {
    let mut claims = Claims::default();
    let mut names: BTreeMap<Arc<str>, Tokens> = BTreeMap::new();
    let mut found = Vec::new();
    for (position, event) in events.iter().enumerate() {
        claims.see(position, event);
        let Some(claim) = claims.get(event.claim) else { continue };
        let tokens = names.entry(event.name.clone()).or_default();
        match event.what {
            What::Asked { .. } => tokens.ask(event.claim, claim, claims.capacity(claim)),
            What::Granted { token } => {
                let grant = (token, event.claim, position);
                if let Some(older) = tokens.not_below(grant, claim, claims.capacity(claim)) {
                    found.push(violation(event, token, older, position));
                }
                tokens.grant(grant, claim.weight);
            }
            What::LetGo | What::Lost => tokens.end(event.claim),
            _ => {}
        }
    }
    found
}

fn violation(event: &Event, token: u64, older: Grant, position: usize) -> Violation {
    let (name, who) = (&event.name, &event.who);
    Violation {
        promise: Promise::Tokens,
        sentence: format!("on {name:?} {who} is granted token {token} after token {} was granted", older.0),
        name: name.to_string(),
        claims: vec![older.1, event.claim],
        from: older.2,
        to: position,
    }
}

impl Tokens {
    fn ask(&mut self, id: u64, claim: &Claim, capacity: u64) {
        if let Some(newest) = newest(&self.granted, claim, capacity) {
            self.floors.insert(id, newest);
        }
    }

    /// A conflicting grant that surely came before, under a token that is not smaller.
    fn not_below(&mut self, grant: Grant, claim: &Claim, capacity: u64) -> Option<Grant> {
        let before = self.floors.remove(&grant.1).max(newest(&self.ended, claim, capacity));
        before.filter(|older| older.0 >= grant.0)
    }

    fn grant(&mut self, grant: Grant, weight: u64) {
        keep_newest(&mut self.granted, weight, grant);
        self.held.insert(grant.1, (weight, grant));
    }

    fn end(&mut self, claim: u64) {
        if let Some((weight, grant)) = self.held.remove(&claim) {
            keep_newest(&mut self.ended, weight, grant);
        }
    }
}

/// The newest of those that cannot be held together with `claim`.
fn newest(grants: &BTreeMap<u64, Grant>, claim: &Claim, capacity: u64) -> Option<Grant> {
    let fits_beside = capacity.saturating_sub(claim.weight);
    grants.range(fits_beside + 1..).map(|(_, grant)| *grant).max()
}

fn keep_newest(grants: &mut BTreeMap<u64, Grant>, weight: u64, grant: Grant) {
    let newest = grants.entry(weight).or_insert(grant);
    *newest = (*newest).max(grant);
}
