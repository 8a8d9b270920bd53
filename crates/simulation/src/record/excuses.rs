//! Whom a trouble may cost something, and which claims may overlap.

use std::time::Duration;

use tidelock_core::backend::Moment;
use tidelock_core::{ClaimId, SessionId};
use tidelock_history::EventKind;

use super::{Inner, Record};
use crate::time::lock;

impl Record {
    /// Something goes wrong for a client until then.
    pub(crate) fn touch(&self, client: usize, until: Moment) {
        let touched = &mut lock(&self.inner).clients[client].touched;
        *touched = (*touched).max(until);
    }

    /// What a client asks may not reach the store until then.
    pub(crate) fn cut_off(&self, client: usize, until: Moment) {
        self.touch(client, until);
        let cut_off = &mut lock(&self.inner).clients[client].cut_off;
        *cut_off = (*cut_off).max(until);
    }

    /// A client ends what it has, until then at most: its holds are lost by this.
    pub(crate) fn ends(&self, client: usize, by: Moment) {
        lock(&self.inner).clients[client].ending.push(by);
    }

    /// That end is over. Nothing of it excuses what is lost from now on.
    pub(crate) fn has_ended(&self, client: usize, by: Moment) {
        self.touch(client, self.time.now());
        let ending = &mut lock(&self.inner).clients[client].ending;
        if let Some(at) = ending.iter().position(|known| *known == by) {
            ending.remove(at);
        }
    }

    /// A client has ended, and was told that the store did not confirm it.
    pub(crate) fn ends_unconfirmed(&self, client: usize) {
        let mut inner = lock(&self.inner);
        if inner.clients[client].cut_off < self.time.now() {
            return;
        }
        let Inner { standing, asked, .. } = &mut *inner;
        let is_its = |claim: &u64| asked.get(claim).is_some_and(|asked| asked.client == client);
        standing
            .values_mut()
            .filter(|standing| is_its(&standing.claim))
            .for_each(|standing| standing.is_abandoned = true);
    }

    /// Something goes wrong with a name until then.
    pub(crate) fn touch_name(&self, name: &str, until: Moment) {
        let mut inner = lock(&self.inner);
        let name = inner.intern(name);
        let touched = &mut inner.state(&name).touched;
        *touched = (*touched).max(until);
    }

    /// Whether nothing has gone wrong for a client, or with any name, in the time before now.
    pub(crate) fn is_well(&self, client: usize, before: Duration) -> bool {
        let inner = lock(&self.inner);
        let of_names = inner.names.values().map(|name| name.touched).max();
        inner.clients[client].touched().max(of_names.unwrap_or(Moment::START)) + before < self.time.now()
    }

    /// The claims of these sessions may be somebody else's from now on, and their clients cannot know.
    pub(crate) fn overlap(&self, sessions: &[SessionId]) {
        let mut inner = lock(&self.inner);
        self.excuse(&mut inner, |id| sessions.contains(&id.session));
    }

    /// The same for one claim.
    pub(crate) fn overlap_of(&self, id: ClaimId) {
        self.excuse(&mut lock(&self.inner), |other| other == id);
    }

    pub(super) fn excuse(&self, inner: &mut Inner, is_meant: impl Fn(ClaimId) -> bool) {
        for (id, standing) in &mut inner.standing {
            standing.is_excused |= is_meant(*id);
        }
        let mut excused = Vec::new();
        for standing in inner.standing.iter().filter(|(id, _)| is_meant(**id)).map(|(_, standing)| standing) {
            if inner.names.get(&standing.name).is_some_and(|name| name.asking.contains(&standing.claim)) {
                excused.push(standing.claim);
            }
        }
        for state in inner.names.values_mut() {
            for (claim, held) in state.holds.iter_mut().filter(|(_, held)| is_meant(held.id)) {
                held.is_excused = true;
                excused.push(*claim);
            }
        }
        for claim in excused {
            self.push(inner, claim, EventKind::Overlap);
        }
    }
}
