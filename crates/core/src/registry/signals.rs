//! What the store tells the registry without being asked.

use super::Registry;
use super::loss::Loss;
use super::wake_ups::EarlyRenewal;
use crate::backend::{Grant, Signals};
use crate::{ClaimId, Name};

impl Signals for Registry {
    fn held(&self, id: ClaimId, grant: Grant) {
        if id.session == self.session && !self.is_held(id, grant) {
            self.stray(id);
        }
    }

    fn stray(&self, id: ClaimId) {
        if id.session != self.session {
            return;
        }
        let known = self.table.lock().entries.get(&id.number).cloned();
        if let Some(entry) = known {
            if entry.stage().is_none() {
                self.stands_there(&entry);
            }
            return;
        }
        let line = self.table.lock().departed.line_of(id.number);
        self.strays.add(id, line);
        self.wake_ups.nudge();
    }

    fn gone(&self, id: ClaimId) {
        if id.session == self.session
            && let Some(entry) = self.remove(id.number)
            && !seeded!("a_lost_place_is_not_told")
        {
            entry.lose(Loss::NotInLine);
        }
    }

    fn look(&self, name: &Name) {
        self.hints.add(name);
        let now = self.now();
        self.table.lock().look_now(name, now);
        self.wake_ups.look_by(now);
    }

    fn look_everywhere(&self) {
        self.hints.add_everywhere();
        let now = self.now();
        self.table.lock().look_everywhere(now);
        self.wake_ups.look_by(now);
        self.wake_ups.renew_early(EarlyRenewal::All);
    }

    fn over(&self) {
        self.over.set();
        if !seeded!("a_guard_outlives_its_session") {
            self.lose_all(Loss::SessionOver);
        }
        self.wake_ups.nudge();
    }
}
