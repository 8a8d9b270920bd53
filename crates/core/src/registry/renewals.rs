//! What a renewal asks about, and what its answer changes.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Registry;
use super::entry::{Entry, Stage};
use crate::backend::{Moment, Renewal, Shard, Signals};
use crate::{ClaimId, Name, Token};

/// The claims that stand in line, by shard and by name.
pub(crate) type ClaimsByShard = BTreeMap<Shard, Vec<(Name, Vec<ClaimId>)>>;

/// In a simulation the order of a map shows, so it is the same each time.
#[cfg(tidelock_simulation)]
type Hashing = std::hash::BuildHasherDefault<std::hash::DefaultHasher>;
#[cfg(not(tidelock_simulation))]
type Hashing = std::hash::RandomState;

/// The names of claims that stand.
pub(crate) struct Standing<'a> {
    pub(crate) held: Vec<&'a Name>,
    pub(crate) waiting: Vec<&'a Name>,
}

impl Registry {
    /// A round of renewals is about to be sent. Returns its number.
    pub(crate) fn begin_round(&self) -> u64 {
        self.rounds.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// All claims that are known to stand in the store, by the shard that each name is in at the moment. The claims
    /// whose time ends first come first. A store that cannot renew all of them in time leaves the rest for the next
    /// round, and by then a name that it fails at each time has come to the front.
    pub(crate) fn claims_by_shard(&self, shard_of: impl Fn(&Name) -> Shard) -> ClaimsByShard {
        let mut by_name: HashMap<Name, (Moment, Vec<ClaimId>), Hashing> = HashMap::default();
        for entry in self.table.lock().entries.values() {
            // Claims with a join under way are left out: the store may not know them yet, and must not report them
            // gone.
            let is_left_out = entry.stage() == Some(Stage::Waiting) && seeded!("waiters_are_not_renewed");
            if matches!(entry.stage(), Some(Stage::Waiting | Stage::Held)) && !is_left_out {
                let (first, ids) =
                    by_name.entry(entry.claim.name.clone()).or_insert((Moment::NEVER, Vec::new()));
                *first = (*first).min(entry.kept_until());
                ids.push(entry.claim.id);
            }
        }
        let mut by_end: Vec<_> = by_name.into_iter().collect();
        by_end.sort_unstable_by_key(|(_, (first, _))| *first);
        let mut by_shard = ClaimsByShard::new();
        for (name, (_, ids)) in by_end {
            by_shard.entry(shard_of(&name)).or_default().push((name, ids));
        }
        by_shard
    }

    /// Adds the lines that claims have left lately, where strays may stand, and in which no claim is known to stand.
    /// `shard_of` gives none for those that are not of interest.
    pub(crate) fn add_departed_lines(
        &self,
        to: &mut ClaimsByShard,
        shard_of: impl Fn(&Name) -> Option<Shard>,
    ) {
        let lines = self.left_lines();
        let known: HashSet<Name> = to.values().flatten().map(|(name, _)| name.clone()).collect();
        for name in lines.into_iter().filter(|name| !known.contains(name)) {
            if let Some(shard) = shard_of(&name) {
                to.entry(shard).or_default().push((name, Vec::new()));
            }
        }
    }

    /// The lines that claims have left lately, or are leaving: perhaps nobody has heard yet that a leave is confirmed.
    fn left_lines(&self) -> BTreeSet<Name> {
        let table = self.table.lock();
        let mut lines = table.departed.lines();
        let leaving = table.entries.values().filter(|entry| entry.stage().is_none());
        lines.extend(leaving.map(|entry| entry.claim.name.clone()));
        lines
    }

    /// Takes in the answer to a renewal of these claims.
    pub(crate) fn renewed(&self, shard: Shard, asked: &[(Name, Vec<ClaimId>)], renewal: &Renewal) {
        if renewal.keeps_anything(asked) {
            self.kept_until.lock().insert(shard, renewal.until);
        }
        let until = renewal.until - self.ttl.margin();
        let gone: BTreeSet<ClaimId> = renewal.gone.iter().copied().collect();
        let unsure: BTreeSet<ClaimId> = renewal.unsure.iter().copied().collect();
        for entry in self.find_all(asked) {
            if gone.contains(&entry.claim.id) {
                self.gone(entry.claim.id);
            } else if unsure.contains(&entry.claim.id) {
                entry.shorten(until);
                entry.set_jeopardy(true);
            } else if entry.may_stand_anew(self.now()) {
                // The store may have renewed another stand of the claim than the one that its user was told of.
                entry.set_jeopardy(true);
            } else {
                entry.renew(until);
                entry.set_jeopardy(false);
            }
        }
        if !asked.is_empty() {
            // A store may grant a shorter ttl than before, so some deadline may be nearer now.
            self.wake_ups.next_check(until);
        }
        self.renewed.notify_waiters();
    }

    /// Those of these claims, which wait in the store, that were known to hold before the renewals of this round were
    /// sent. The others may have been granted after the store answered.
    pub(crate) fn held_before(&self, round: u64, waiting: &[ClaimId]) -> Vec<ClaimId> {
        let held = self.find(waiting.iter()).into_iter().filter(|entry| entry.held_before(round));
        held.map(|entry| entry.claim.id).collect()
    }

    /// Until when the last renewal of this shard keeps the claims in it.
    pub(crate) fn kept_until(&self, shard: Shard) -> Moment {
        self.kept_until.lock().get(&shard).copied().unwrap_or(Moment::START)
    }

    /// When the last lease ends that a renewal has extended, with a margin for clock drift.
    pub(crate) fn last_end(&self) -> Moment {
        let last = self.kept_until.lock().values().copied().max().unwrap_or(Moment::START);
        last + self.ttl.margin()
    }

    /// When the first of these claims ends that still stand; if none does, when the session ends.
    pub(crate) fn first_end(&self, shard: Shard, asked: &[(Name, Vec<ClaimId>)]) -> Moment {
        let entry = self.find_all(asked).into_iter().filter(|entry| entry.stage().is_some());
        entry.map(|entry| entry.kept_until()).min().unwrap_or_else(|| self.kept_until(shard))
    }

    /// A renewal of these claims failed.
    pub(crate) fn in_jeopardy(&self, asked: &[(Name, Vec<ClaimId>)]) {
        for entry in self.find_all(asked) {
            entry.set_jeopardy(true);
        }
        self.renewed.notify_waiters();
    }

    /// The names of these claims that still stand: where one of them holds, and where they only wait.
    pub(crate) fn standing<'a>(&self, asked: &'a [(Name, Vec<ClaimId>)]) -> Standing<'a> {
        let stages = |ids: &[ClaimId]| -> Vec<_> {
            self.find(ids.iter()).iter().filter_map(|entry| entry.stage()).collect()
        };
        let (mut held, mut waiting) = (Vec::new(), Vec::new());
        for (name, ids) in asked {
            let stages = stages(ids);
            if stages.contains(&Stage::Held) {
                held.push(name);
            } else if !stages.is_empty() {
                waiting.push(name);
            }
        }
        Standing { held, waiting }
    }

    /// Whether the last renewal of any of these claims failed or left it too little time.
    pub(crate) fn is_any_in_need(&self, asked: &[(Name, Vec<ClaimId>)]) -> bool {
        self.find_all(asked).iter().any(|entry| entry.is_in_jeopardy() || self.is_too_short(entry))
    }

    /// Another server may answer from now on. A renewal may compare no more than the count of the claims that hold on a
    /// name, and the sum of their numbers: with one claim that is exact.
    pub(crate) fn doubt_all(&self) {
        let table = self.table.lock();
        let mut by_name: HashMap<&Name, Vec<&Entry>> = HashMap::new();
        // Each stage is read once: a claim can be granted or lost meanwhile.
        for entry in table.entries.values().filter(|entry| entry.stage() == Some(Stage::Held)) {
            by_name.entry(&entry.claim.name).or_default().push(entry);
        }
        for holding in by_name.values() {
            holding.iter().for_each(|entry| entry.doubt(holding.len() > 1));
        }
    }

    /// Those of the claims that hold and were made lighter of which a server may not know that.
    pub(crate) fn perhaps_heavy(&self) -> Vec<Arc<Entry>> {
        let table = self.table.lock();
        table.entries.values().filter(|entry| entry.is_perhaps_heavy()).cloned().collect()
    }

    /// Those of these claims that hold, with their tokens, if the store has to be asked whether they do.
    pub(crate) fn doubtful(&self, asked: &[(Name, Vec<ClaimId>)]) -> BTreeMap<Name, Vec<(ClaimId, Token)>> {
        let mut by_name: BTreeMap<Name, Vec<(ClaimId, Token)>> = BTreeMap::new();
        for entry in self.find_all(asked) {
            if let Some(token) = entry.doubtful() {
                by_name.entry(entry.claim.name.clone()).or_default().push((entry.claim.id, token));
            }
        }
        by_name
    }

    fn find_all(&self, asked: &[(Name, Vec<ClaimId>)]) -> Vec<Arc<Entry>> {
        self.find(asked.iter().flat_map(|(_, ids)| ids))
    }
}
