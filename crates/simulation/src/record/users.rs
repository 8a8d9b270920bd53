//! What users do, and what they are told.

use tidelock_core::backend::Clock;
use tidelock_core::{ClaimId, Guard, Kind, Result};
use tidelock_history::{EventKind, Want};

use super::{Held, PROMPT, Record};
use crate::time::lock;

impl Record {
    pub(crate) fn ask(&self, client: usize, name: &str, want: Want) -> u64 {
        let mut inner = lock(&self.inner);
        let (kind, weight, capacity) = (want.kind(), want.weight(), want.capacity());
        let claim = inner.number(client, name, kind, weight.into());
        self.push(&mut inner, claim, EventKind::Asked { kind, weight, capacity });
        let name = inner.name_of(claim);
        inner.state(&name).asking.insert(claim);
        self.see_idle(&mut inner, &name);
        claim
    }

    pub(crate) fn granted(&self, claim: u64, guard: &Guard) {
        let mut inner = lock(&self.inner);
        let Some(asked) = inner.asked.get(&claim) else { return };
        let (client, name, kind, weight) = (asked.client, asked.name.clone(), asked.kind, asked.weight);
        self.note_losses(&mut inner, &name);
        let lost = guard.lost();
        let id = guard.claim();
        let standing = inner.standing.get(&id);
        let since = self.time.now();
        let granted = standing.map_or(since, |standing| standing.granted_at).min(since);
        let told = standing.as_ref().and_then(|standing| standing.told);
        let is_excused = standing.as_ref().is_some_and(|standing| standing.is_excused);
        inner.unheard.remove(&id);
        inner.state(&name).asking.remove(&claim);
        self.takes_over(&mut inner, claim, guard);
        if !lost.is_trusted_at(inner.clients[client].clock.now()) {
            self.push(&mut inner, claim, EventKind::Failed); // lost before its user could rely on it
            inner.end(id, since);
            return self.see_idle(&mut inner, &name);
        }
        let token = guard.token().get();
        if is_excused {
            self.push(&mut inner, claim, EventKind::Overlap); // its claim may be that of another user before
        }
        self.push(&mut inner, claim, EventKind::Granted { token, told, id: id.to_string().into() });
        let held = Held { id, lost, since, granted, weight, kind, is_excused, is_lightening: false };
        inner.state(&name).holds.insert(claim, held);
        self.see_idle(&mut inner, &name);
    }

    /// The claim got nothing.
    pub(crate) fn not_granted(&self, claim: u64, what: EventKind) {
        let mut inner = lock(&self.inner);
        let name = inner.name_of(claim);
        inner.state(&name).asking.remove(&claim);
        let answered = self.time.now() - (self.answer + PROMPT);
        if let Some(id) = inner.asked.get(&claim).and_then(|asked| asked.id)
            && !(inner.may_leave_it(claim, id, &what) && inner.is_left_to_next(claim, id, &what, answered))
        {
            inner.unheard.remove(&id); // nobody waits for it any more
            inner.end(id, self.time.now());
        }
        self.push(&mut inner, claim, what);
        self.see_idle(&mut inner, &name);
    }

    /// The user relies on the claim no more. Returns whether it could until now.
    pub(crate) fn let_go(&self, claim: u64) -> bool {
        let mut inner = lock(&self.inner);
        let name = inner.name_of(claim);
        self.note_losses(&mut inner, &name);
        let held = inner.state(&name).holds.remove(&claim);
        let is_held = held.is_some();
        if let Some(held) = held {
            inner.end_unless_shared(&name, held.id, self.time.now());
            self.push(&mut inner, claim, EventKind::LetGo);
        }
        self.see_idle(&mut inner, &name);
        is_held
    }

    /// A release has ended. It fails if the hold was lost before, and only then: not because of its own leave.
    pub(crate) fn released(&self, claim: u64, was_held: bool, outcome: &Result<()>) {
        let mut inner = lock(&self.inner);
        let name = inner.name_of(claim);
        let id = inner.asked.get(&claim).and_then(|asked| asked.id);
        let standing = id.and_then(|id| inner.standing.get(&id));
        let has_left = standing.is_some_and(|standing| standing.has_left && !standing.is_excused);
        match outcome {
            Ok(()) if !was_held => {
                inner.found(
                    "released",
                    format!("on {name:?} claim {claim} was lost, and its release says that it was held"),
                );
            }
            Err(error) if was_held && has_left => {
                let sentence =
                    format!("on {name:?} claim {claim} was given back, and its release says: {error}");
                inner.found("released", sentence);
            }
            _ => {}
        }
    }

    /// A writer is about to become a reader.
    pub(crate) fn lightens(&self, claim: u64) {
        let mut inner = lock(&self.inner);
        let name = inner.name_of(claim);
        self.note_losses(&mut inner, &name);
        if let Some(held) = inner.state(&name).holds.get_mut(&claim) {
            held.weight = 1;
            held.is_lightening = true;
            self.push(&mut inner, claim, EventKind::Lightened { weight: 1 });
        }
    }

    /// It is a reader.
    pub(crate) fn lightened(&self, claim: u64) {
        let mut inner = lock(&self.inner);
        let name = inner.name_of(claim);
        if let Some(held) = inner.state(&name).holds.get_mut(&claim) {
            held.is_lightening = false;
        }
    }

    /// An acquire that may hold the name without showing it begins, or ends.
    pub(crate) fn busy(&self, name: &str, is_busy: bool) {
        let mut inner = lock(&self.inner);
        let name = inner.intern(name);
        let state = inner.state(&name);
        state.busy = if is_busy { state.busy + 1 } else { state.busy - 1 };
        self.see_idle(&mut inner, &name);
    }

    /// A client asks for another size.
    pub(crate) fn resizes(&self, client: usize, name: &str, to: u32) -> u64 {
        let mut inner = lock(&self.inner);
        let claim = inner.number(client, name, Kind::Semaphore, 0);
        self.push(&mut inner, claim, EventKind::Resizing { to });
        claim
    }

    pub(crate) fn evicts(&self, id: ClaimId) {
        let mut inner = lock(&self.inner);
        self.excuse(&mut inner, |other| other == id);
        let id = id.to_string().into();
        self.push(&mut inner, 0, EventKind::Evicted { id });
        self.push(&mut inner, 0, EventKind::Fault { act: "a claim is evicted".into() });
        self.push(&mut inner, 0, EventKind::Healed);
    }
}
