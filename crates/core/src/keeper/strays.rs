//! Claims that have left and stand in line all the same: the keeper seeks them and gives them back.

use std::sync::Arc;

use super::{Done, Keeper, renewal_deadline, ttl_of};
use crate::backend::{Leave, Moment, Shard};
use crate::deadline;
use crate::registry::{ClaimsByShard, Entry};
use crate::{ClaimId, Name};

impl Keeper {
    /// Adds the lines that claims have left lately, in the shards where strays are still sought.
    pub(super) fn add_departed_lines(&self, to: &mut ClaimsByShard) {
        let is_sought = |shard: &Shard| self.sought.get(shard).copied().unwrap_or(0) < self.seeks;
        if self.seeks > 0 {
            self.registry.add_departed_lines(to, |name| {
                Some(self.session.shard(name)).filter(|shard| is_sought(shard))
            });
        }
    }

    /// Claims were granted that have left lines which are not remembered.
    pub(super) fn seek_unknown_strays(&mut self, now: Moment) {
        let unknown = self.registry.strays.take_unknown();
        if unknown.is_empty() {
            return;
        }
        self.seeks += 1;
        // A renewal asks about all claims, so there is a pause between two for the sake of strays. Meanwhile a guess is
        // made: they left their lines together, so perhaps they left the same one. A wrong leave does nothing.
        let renew_at = self.renewed_at + ttl_of(&*self.session) / 192;
        self.renew_at = self.renew_at.min(renew_at).max(now);
        if let Some(line) = self.strayed_last.clone().filter(|_| now < renew_at) {
            unknown.into_iter().for_each(|id| self.guess(line.clone(), id));
        }
    }

    /// A leave that is sent once: it must not stand in the way of the right one.
    fn guess(&mut self, line: Name, id: ClaimId) {
        let (session, clock) = (self.session.clone(), self.clock.clone());
        let within = renewal_deadline(&self.options, &*session);
        self.start(async move {
            let _ = deadline::answer_within(&clock, within, session.leave(&line, id, Leave::Done)).await;
            Done::Logged
        });
    }

    /// Gives back claims that were granted although they have left. One whose leave is under way is given back once
    /// more after that: the grant may be another server's.
    pub(super) fn give_back_granted(&mut self) {
        let mut granted = self.registry.strays.take();
        granted.retain(|(_, id)| match self.leaving.get(id) {
            Some(entry) => {
                entry.granted_late();
                false
            }
            None => true,
        });
        self.give_back(granted);
    }

    /// Gives back claims of this session that the store has and this client does not know, or knows to be gone.
    pub(super) fn give_back(&mut self, strays: Vec<(Name, ClaimId)>) {
        for (name, id) in strays {
            let known = Some(id).filter(|id| self.registry.knows(*id));
            if let Some(entry) = self.leaving.get(&id) {
                entry.granted_late();
            } else if let Some(entry) = self.registry.find(known.iter()).pop() {
                self.leaves_again(&entry);
            } else if !seeded!("a_stray_is_kept") {
                self.see_through(Arc::new(Entry::stray(id, name)), None);
            }
        }
    }

    /// Its leave may be confirmed already, and nobody has heard the answer yet: then this is another server's claim.
    fn leaves_again(&self, entry: &Entry) {
        if entry.stage().is_none() {
            self.registry.stands_there(entry);
        }
    }
}
