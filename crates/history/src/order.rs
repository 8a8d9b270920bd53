//! Order: no claim overtakes one that was known to wait before it was asked for.
//!
//! A claim is known to wait from when the store's line showed it until its grant is recorded. That may be recorded
//! late, when the claim already holds. So a later claim's grant is a violation only if the waiting claim surely did
//! not hold: because the two conflict, or because the waiting one does not fit beside the claims held since before the
//! later one was asked for.
//!
//! A client that may linger has a line of its own: what it passes on goes past the tasks of others, for a while (see
//! `passes` and `turns`). So the claims of one client and one kind alone are compared there, except permits, which are not passed on.
//! Who leads there and gets no answer for long may find that others have led meanwhile: so a claim is known to wait by its
//! own wires only if nothing was wrong from its request until it stood in line.
//!
//! If two servers may both be in charge for a while, as the subject has declared, there are two lines, and no claim in
//! one waits for the other. Claims of that time are not judged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tidelock_model::Kind;

use crate::conflicts::{Claim, Claims, LocalLine};
use crate::excused::Excused;
use crate::sums::Sums;
use crate::{Event, EventKind, Promise, Violation};

/// The claims that keep one order: those of a name, or of a local line there.
type Place = (Arc<str>, Option<LocalLine>);

/// One line.
#[derive(Debug)]
struct Line {
    /// Claims known to wait, by weight: the position since when, and the claim.
    waiting: BTreeMap<u64, BTreeSet<(usize, u64)>>,
    since: BTreeMap<u64, usize>,
    /// The weights of the holders, at the positions of their grants.
    held: Sums,
    holders: BTreeMap<u64, (usize, u64)>,
}

pub(crate) fn check(events: &[Event], linger: Duration) -> Vec<Violation> {
    let (mut claims, mut excused) = (Claims::of(events), Excused::of(events));
    let mut lines: BTreeMap<Place, Line> = BTreeMap::new();
    let mut calm = Calm::default();
    let mut found = Vec::new();
    for (position, event) in events.iter().enumerate() {
        claims.see(position, event);
        calm.see(position, event);
        for claim in excused.see(event) {
            let weight = claims.get(claim).map_or(0, |claim| claim.weight);
            for line in lines.values_mut() {
                line.let_go(claim); // no claim has to wait for it any more
                line.leave(claim, weight);
            }
        }
        if matches!(event.what, EventKind::Fault { .. }) {
            lines.values_mut().for_each(Line::forget_waiting); // their places may be gone
            continue;
        }
        let Some(claim) = claims.get(event.claim).filter(|_| !excused.is(event.claim)) else { continue };
        let place = place(claim, linger);
        let is_local = place.1.is_some();
        let line = lines.entry(place).or_insert_with(|| Line::new(events.len()));
        match event.what {
            EventKind::StandsUntilGranted if is_local && !calm.stood(event.claim, claim.asked) => {}
            EventKind::Stands | EventKind::StandsBehind | EventKind::StandsUntilGranted => {
                line.stand(position, event.claim, claim.weight);
            }
            EventKind::Refused | EventKind::Failed | EventKind::Cancelled => {
                line.leave(event.claim, claim.weight);
            }
            EventKind::Granted { .. } => {
                line.leave(event.claim, claim.weight);
                let capacity = claims.capacity(claim);
                if let Some((since, passed)) = line.passed_by(claim.asked, claim.weight, capacity) {
                    let by = claims.get(passed).map_or_else(String::new, |passed| passed.who.to_string());
                    let (who, name) = (&event.who, &event.name);
                    found.push(Violation {
                        promise: Promise::Order,
                        sentence: format!(
                            "on {name:?} {who} passed {by}, which was known to wait before {who} asked"
                        ),
                        name: name.to_string(),
                        claims: vec![passed, event.claim],
                        from: since,
                        to: position,
                    });
                }
                line.hold(position, event.claim, claim.weight);
            }
            EventKind::LetGo | EventKind::Lost => line.let_go(event.claim),
            EventKind::Lightened { weight } => line.lighten(event.claim, u64::from(weight)),
            _ => {}
        }
    }
    found
}

/// Since when nothing has been wrong.
#[derive(Debug, Default)]
struct Calm {
    is_over: bool,
    since: usize,
    /// Claims that came to stand in line in a calm.
    stood: BTreeSet<u64>,
}

impl Calm {
    fn see(&mut self, position: usize, event: &Event) {
        match event.what {
            EventKind::Fault { .. } => self.is_over = true,
            EventKind::Healed => (self.is_over, self.since) = (false, position),
            _ => {}
        }
    }

    /// A claim that was asked for then stands in line. Returns whether all was well until it first did.
    fn stood(&mut self, claim: u64, asked: usize) -> bool {
        if !self.is_over && asked >= self.since {
            self.stood.insert(claim);
        }
        self.stood.contains(&claim)
    }
}

fn place(claim: &Claim, linger: Duration) -> Place {
    let has_own = !linger.is_zero() && claim.kind != Kind::Semaphore;
    (claim.name.clone(), has_own.then(|| claim.local_line()))
}

impl Line {
    fn new(positions: usize) -> Self {
        Self {
            waiting: BTreeMap::new(),
            since: BTreeMap::new(),
            held: Sums::new(positions),
            holders: BTreeMap::new(),
        }
    }

    fn forget_waiting(&mut self) {
        self.waiting.clear();
        self.since.clear();
    }

    fn stand(&mut self, position: usize, claim: u64, weight: u64) {
        if !self.holders.contains_key(&claim) {
            self.waiting.entry(weight).or_default().insert((position, claim));
            self.since.insert(claim, position);
        }
    }

    fn leave(&mut self, claim: u64, weight: u64) {
        if let Some(since) = self.since.remove(&claim)
            && let Some(waiting) = self.waiting.get_mut(&weight)
        {
            waiting.remove(&(since, claim));
            if waiting.is_empty() {
                self.waiting.remove(&weight);
            }
        }
    }

    /// The claim that surely still waits although it waited before `asked`; if several, the latest.
    fn passed_by(&self, asked: usize, weight: u64, capacity: u64) -> Option<(usize, u64)> {
        let steady = u64::try_from(self.held.before(asked)).unwrap_or(0);
        let fits_beside = capacity.saturating_sub(weight.max(steady));
        let heavier = self.waiting.range(fits_beside + 1..);
        heavier.filter_map(|(_, waiting)| waiting.range(..(asked, 0)).next_back().copied()).max()
    }

    fn hold(&mut self, position: usize, claim: u64, weight: u64) {
        self.held.add(position, signed(weight));
        self.holders.insert(claim, (position, weight));
    }

    fn let_go(&mut self, claim: u64) {
        if let Some((position, weight)) = self.holders.remove(&claim) {
            self.held.add(position, -signed(weight));
        }
    }

    fn lighten(&mut self, claim: u64, to: u64) {
        if let Some((position, weight)) = self.holders.get_mut(&claim) {
            let (position, less) = (*position, signed(*weight - to));
            *weight = to;
            self.held.add(position, -less);
        }
    }
}

fn signed(weight: u64) -> i64 {
    i64::try_from(weight).unwrap_or(i64::MAX)
}
