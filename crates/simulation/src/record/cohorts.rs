//! Claims that several tasks of a client use, one after the other or together.
//!
//! Inside a client, first come first served. Between clients, a claim is passed on for at most `linger`, and not at all
//! where that is zero. Who gives up leaves a claim that waits to the next of its client.

use std::sync::Arc;
use std::time::Duration;

use tidelock_core::backend::{Clock, Moment};
use tidelock_core::{ClaimId, Guard, Kind};
use tidelock_history::EventKind;

use super::{Asked, Inner, LocalPlace, Record, Standing};
use crate::time::lock;

impl Record {
    /// The one of these claims of the history that has this name has come to a local line of this client, perhaps anew.
    pub(crate) fn comes(&self, claims: &[u64], name: &str, (of, is_polled, is_plain): (usize, bool, bool)) {
        let mut inner = lock(&self.inner);
        inner.arrivals += 1;
        let (number, is_one_of_several) = (inner.arrivals, claims.len() > 1);
        for claim in claims {
            if let Some(asked) = inner.asked.get_mut(claim).filter(|asked| &*asked.name == name) {
                asked.place = Some(LocalPlace { of, number, is_polled, is_plain, is_one_of_several });
            }
        }
    }

    /// The user has the hold of this guard, of its own claim or of one that others of its client had before.
    pub(super) fn takes_over(&self, inner: &mut Inner, claim: u64, guard: &Guard) {
        let id = guard.claim();
        inner.leaving.remove(&id);
        if let Some(asked) = inner.asked.get_mut(&claim) {
            asked.id = Some(id);
        }
        inner.judge_turn(claim);
        self.judge_linger(inner, claim, guard);
        inner.judge_hold(claim, guard);
    }

    /// Whether the hold was passed on, and for too long.
    fn judge_linger(&self, inner: &mut Inner, claim: u64, guard: &Guard) {
        let now = self.time.now();
        let Some(standing) = inner.standing.get_mut(&guard.claim()) else { return };
        let since = *standing.used_since.get_or_insert(now);
        let is_shown = |asked: &&Asked| asked.place.is_some_and(|place| place.is_shown());
        let Some(asked) = inner.asked.get(&claim).filter(is_shown) else { return };
        let linger = inner.clients[asked.client].linger;
        let longest = linger + linger / 400 + Duration::from_millis(1); // its clock may be slow
        if is_passed_on(guard) && since + longest < now {
            let sentence = format!(
                "on {:?} a hold is passed on to claim {claim} for {:?} after it was granted, and may be for {linger:?}",
                asked.name,
                now.since(since)
            );
            inner.found("order", sentence);
        }
    }
}

impl Inner {
    /// Whether somebody of the same client came before and still waits.
    fn judge_turn(&mut self, claim: u64) {
        let Some(asked) = self.asked.get(&claim) else { return };
        let Some(place) = asked.place.filter(LocalPlace::is_shown) else { return };
        let conflicts = |other: &Asked| asked.kind == Kind::Mutex || asked.weight.max(other.weight) > 1;
        let is_passed = |(_, before, other): &(u64, LocalPlace, &Asked)| {
            before.is_shown()
                && before.number < place.number
                && conflicts(other)
                && !self.is_without_place(other)
        };
        let name = asked.name.clone();
        let passed = self.beside(asked, place.of).find(is_passed).map(|(passed, ..)| passed);
        if let Some(passed) = passed {
            let sentence = format!(
                "on {name:?} claim {claim} is granted before claim {passed}, which came before it in the same client"
            );
            self.found("order", sentence);
        }
    }

    /// Whether it leads and, as far as its client has heard, its claim does not stand in line: after a while the next one
    /// leads then.
    fn is_without_place(&self, asked: &Asked) -> bool {
        let standing = asked.id.and_then(|id| self.standing.get(&id));
        standing.is_some_and(|standing| standing.heard.is_none() || standing.is_gone)
    }

    /// Whether what was passed on is a hold.
    fn judge_hold(&mut self, claim: u64, guard: &Guard) {
        let Some(asked) = self.asked.get(&claim) else { return };
        let is_at_once = asked.place.is_some_and(|place| place.is_at_once());
        let now = self.clients[asked.client].clock.now();
        if is_at_once && is_passed_on(guard) && !guard.lost().is_trusted_at(now) {
            let sentence =
                format!("on {:?} claim {claim} is granted a hold that was lost before", asked.name);
            self.found("told", sentence);
        }
    }

    /// The others that are asked for in the same local line, with their places there.
    fn beside<'a>(
        &'a self,
        of: &'a Asked,
        client: usize,
    ) -> impl Iterator<Item = (u64, LocalPlace, &'a Asked)> {
        let asking = self.names.get(&of.name).into_iter().flat_map(|name| name.asking.iter());
        asking.filter_map(move |claim| {
            let other = self.asked.get(claim).filter(|other| other.kind == of.kind)?;
            let place = other.place.filter(|place| place.of == client)?;
            Some((*claim, place, other))
        })
    }

    /// What has become of this claim's acquire leaves a claim that waits to the next: not an error of its own. An error may
    /// have been that its patience ended before its join was answered.
    pub(super) fn may_leave_it(&self, claim: u64, id: ClaimId, what: &EventKind) -> bool {
        let place = self.asked.get(&claim).and_then(|asked| asked.place);
        let is_heard_of = self.standing.get(&id).is_none_or(|standing| standing.heard.is_some());
        *what != EventKind::Failed || !is_heard_of || place.is_some_and(|place| place.is_one_of_several)
    }

    /// Who gives up while its claim waits, or before its join is answered, leaves that to the next in its local line, if
    /// that one wants the same. Joins that were sent before `answered` have an answer by now.
    pub(super) fn is_left_to_next(
        &mut self,
        claim: u64,
        id: ClaimId,
        what: &EventKind,
        answered: Moment,
    ) -> bool {
        let Some(asked) = self.asked.get(&claim) else { return false };
        let Some(place) = asked.place else { return false };
        let waits = |standing: &&Standing| {
            let may_hold = standing.granted_at < Moment::NEVER && !place.is_shown();
            (standing.waits || standing.heard.is_none()) && !standing.is_gone && !may_hold
        };
        let Some(standing) = self.standing.get(&id).filter(waits) else { return false };
        // Its own error may have been another one. And an answer that nobody has looked at may be of no use any more: the
        // time that it gives the claim may be over, or another one lead.
        let may_be_dropped =
            standing.heard.is_none() && (*what == EventKind::Failed || standing.joined < answered);
        let mut beside: Vec<_> = self.beside(asked, place.of).collect();
        beside.sort_unstable_by_key(|(_, place, _)| place.number);
        // One that is not polled may have been told long ago that it leads, and be in the local line no more: then nobody
        // knows whether it is the next one.
        let first =
            beside.iter().position(|(_, place, _)| place.is_polled).map_or(beside.len(), |first| first + 1);
        let wants_the_same = |(.., other): &&(u64, LocalPlace, &Asked)| other.weight == asked.weight;
        let Some(&(next, ..)) = beside[..first].iter().find(wants_the_same) else { return false };
        let is_sure = first == 1 && !may_be_dropped;
        if let Some(next) = self.asked.get_mut(&next).filter(|_| is_sure) {
            next.id = Some(id);
        }
        if let Some(standing) = self.standing.get_mut(&id) {
            (standing.claim, standing.is_anyones) = (next, !is_sure);
        }
        true
    }

    /// A claim that leaves may have been passed on to somebody who does not look yet.
    pub(super) fn note_unseen_passes(&mut self, now: Moment) {
        let Self { leaving, standing, asked, clients, names, .. } = self;
        for (id, since) in leaving.iter_mut() {
            let Some(standing) = standing.get(id) else { continue };
            let is_busy = names.get(&standing.name).is_some_and(|name| name.busy > 0);
            let client = asked.get(&standing.claim).map(|asked| &clients[asked.client]);
            if is_busy && client.is_some_and(|client| !client.linger.is_zero()) {
                *since = now;
            }
        }
    }

    /// A user has no use for its claim any more, and perhaps nobody has.
    pub(super) fn end_unless_shared(&mut self, name: &Arc<str>, id: ClaimId, now: Moment) {
        let is_shared =
            self.names.get(name).is_some_and(|name| name.holds.values().any(|held| held.id == id));
        if !is_shared {
            self.end(id, now);
        }
    }
}

/// Whether others had the hold before.
fn is_passed_on(guard: &Guard) -> bool {
    !guard.token().get().is_multiple_of(32)
}
