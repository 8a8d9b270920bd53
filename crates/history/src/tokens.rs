//! Tokens: of two conflicting grants the later has the greater token.
//!
//! A grant is surely earlier if it was recorded before the later one was asked for, or if its hold ended before the
//! later grant. For each name, the newest token of both sorts is kept for each kind and weight.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidelock_model::Kind;

use crate::conflicts::{Claim, Claims};
use crate::excused::Excused;
use crate::{Event, EventKind, Promise, Violation};

/// A grant: its token, its claim, and its position.
type Grant = (u64, u64, usize);

/// The kind and the weight of a claim.
type Burden = (Kind, u64);

/// One name's grants.
#[derive(Debug, Default)]
struct Tokens {
    /// The newest grant of each burden.
    granted: BTreeMap<Burden, Grant>,
    /// The newest grant that has ended, of each burden.
    ended: BTreeMap<Burden, Grant>,
    /// Grants that have not ended, with their burden.
    held: BTreeMap<u64, (Burden, Grant)>,
    /// For each claim that was asked for, the newest conflicting grant before it.
    floors: BTreeMap<u64, Grant>,
}

pub(crate) fn check(events: &[Event]) -> Vec<Violation> {
    let (mut claims, mut excused) = (Claims::of(events), Excused::of(events));
    let mut names: BTreeMap<Arc<str>, Tokens> = BTreeMap::new();
    let mut found = Vec::new();
    for (position, event) in events.iter().enumerate() {
        claims.see(position, event);
        let _ = excused.see(event); // used below
        let Some(claim) = claims.get(event.claim) else { continue };
        let tokens = names.entry(event.name.clone()).or_default();
        match event.what {
            EventKind::Asked { .. } => tokens.ask(event.claim, claim, claims.capacity(claim)),
            EventKind::Granted { token, .. } => {
                let grant = (token, event.claim, position);
                let older = tokens.not_below(grant, claim, claims.capacity(claim));
                // A client that was granted before others, but learns of it only after them, is excused.
                if let Some(older) = older.filter(|_| !excused.is(event.claim)) {
                    found.push(violation(event, token, older, position));
                }
                tokens.grant(grant, (claim.kind, claim.weight));
            }
            EventKind::LetGo | EventKind::Lost => tokens.end(event.claim),
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

    /// A conflicting grant that surely came before, with a token that is not smaller.
    fn not_below(&mut self, grant: Grant, claim: &Claim, capacity: u64) -> Option<Grant> {
        let before = self.floors.remove(&grant.1).max(newest(&self.ended, claim, capacity));
        before.filter(|older| older.0 >= grant.0)
    }

    fn grant(&mut self, grant: Grant, burden: Burden) {
        keep_newest(&mut self.granted, burden, grant);
        self.held.insert(grant.1, (burden, grant));
    }

    fn end(&mut self, claim: u64) {
        if let Some((burden, grant)) = self.held.remove(&claim) {
            keep_newest(&mut self.ended, burden, grant);
        }
    }
}

/// The newest of those that conflict with `claim`.
fn newest(grants: &BTreeMap<Burden, Grant>, claim: &Claim, capacity: u64) -> Option<Grant> {
    let fits_beside = capacity.saturating_sub(claim.weight);
    let conflicts = |(kind, weight): &Burden| *kind != claim.kind || *weight > fits_beside;
    grants.iter().filter(|(burden, _)| conflicts(burden)).map(|(_, grant)| *grant).max()
}

fn keep_newest(grants: &mut BTreeMap<Burden, Grant>, burden: Burden, grant: Grant) {
    let newest = grants.entry(burden).or_insert(grant);
    *newest = (*newest).max(grant);
}
