//! What can only be judged while it happens.

use std::sync::Arc;
use std::time::Duration;

use tidelock_core::ClaimId;
use tidelock_core::backend::{Clock, Moment};
use tidelock_history::EventKind;

use super::{CURRENT, ClientState, Held, Inner, PROMPT, Record, Standing};
use crate::time::lock;

impl Record {
    /// Looks at everything that goes on.
    pub(crate) fn look(&self) {
        let mut inner = lock(&self.inner);
        let names: Vec<Arc<str>> = inner.names.keys().cloned().collect();
        for name in &names {
            self.note_losses(&mut inner, name);
            self.see_idle(&mut inner, name);
        }
        self.judge_news(&mut inner);
        self.judge_requests(&mut inner);
        self.judge_leaves(&mut inner);
    }

    /// Records a loss for each hold that cannot be trusted any more.
    pub(super) fn note_losses(&self, inner: &mut Inner, name: &Arc<str>) {
        let Inner { names, clients, asked, .. } = &mut *inner;
        let Some(state) = names.get(name) else { return };
        let mut lost = Vec::new();
        for (claim, held) in &state.holds {
            let Some(client) = asked.get(claim).and_then(|asked| clients.get(asked.client)) else { continue };
            let now = client.clock.now();
            let is_too_long = client
                .max_hold
                .is_some_and(|longest| self.time.now().since(held.since) > longest + longest / 400 + PROMPT);
            if is_too_long || !held.lost.is_trusted_at(now) {
                let late = now.since(held.lost.until());
                let slept = client.clock.suspended_until() + PROMPT > self.time.now();
                let is_over = is_too_long || late > PROMPT;
                lost.push((*claim, !held.lost.is_told() && is_over && !slept));
            }
        }
        for (claim, is_untold) in lost {
            if is_untold {
                let sentence =
                    format!("on {name:?} claim {claim} is over by its client's clock, and nobody is told");
                inner.found("told", sentence);
            }
            let Some(held) = inner.state(name).holds.remove(&claim) else { continue };
            inner.end_unless_shared(name, held.id, self.time.now());
            self.push(inner, claim, EventKind::Lost);
            self.judge_loss(inner, name, claim, &held);
        }
    }

    pub(super) fn judge_loss(&self, inner: &mut Inner, name: &Arc<str>, claim: u64, held: &Held) {
        let Some(client) = inner.asked.get(&claim).map(|asked| asked.client) else { return };
        let Some(state) = inner.clients.get(client) else { return };
        let now = self.time.now();
        let touched = state.touched().max(inner.names.get(name).map_or(Moment::START, |name| name.touched));
        let is_too_long = state.max_hold.is_some_and(|longest| now.since(held.granted) + PROMPT >= longest);
        let answer = if held.is_lightening { state.command_deadline } else { Duration::ZERO };
        if held.is_excused || is_too_long {
            return;
        }
        if touched + self.longest_ttl.max(answer) < now {
            let sentence = format!("on {name:?} {} lost claim {claim} although all was well", state.who);
            return inner.found("kept", sentence);
        }
        // Its time has run out, although enough was left of it when all was well again.
        let (until, healed) = (held.lost.until(), state.clock.shown_at(touched.max(held.since)));
        if until <= state.clock.now() && !held.is_lightening && healed + self.time_to_renew(state) < until {
            let sentence = format!(
                "on {name:?} {} lost claim {claim}, for whose renewal there were {:?} in which all was well",
                state.who,
                until.since(healed)
            );
            inner.found("kept", sentence);
        }
    }

    /// How long a client may take for a renewal after a trouble: the one that was under way has its time, and there is a
    /// pause before the next.
    pub(super) fn time_to_renew(&self, client: &ClientState) -> Duration {
        let was_well = client.touched() + self.longest_ttl < self.time.now(); // only the name was in trouble
        let under_way =
            if was_well { Duration::ZERO } else { client.command_deadline.min(self.longest_ttl / 3) };
        under_way + client.longest_pause.min(self.longest_ttl / 10) + self.answer + PROMPT
    }

    /// Each waiter hears of its turn within a third of the ttl and the time of an answer, also if no push comes.
    pub(super) fn judge_news(&self, inner: &mut Inner) {
        let now = self.time.now();
        let bound = self.news_bound;
        let mut late = Vec::new();
        for id in &inner.unheard {
            let is_late = |standing: &&Standing| standing.granted_at + bound < now && !standing.is_anyones;
            let Some(standing) = inner.standing.get(id).filter(is_late) else { continue };
            let client = inner.asked.get(&standing.claim).and_then(|asked| inner.clients.get(asked.client));
            let of_name =
                inner.names.get(&standing.name).filter(|name| name.busy == 0).map(|name| name.touched);
            if of_name.is_none() {
                continue; // its waiter may be one that is not polled
            }
            let touched = client.map(ClientState::touched).max(of_name).unwrap_or(Moment::START);
            // After a trouble, a grant may wait for a renewal, or for the answer to a join that was lost.
            if touched + self.longest_ttl + bound < standing.granted_at {
                late.push((*id, standing.claim, standing.name.clone(), now.since(standing.granted_at)));
            }
        }
        for (id, claim, name, waited) in late {
            inner.unheard.remove(&id);
            let sentence = format!(
                "on {name:?} claim {claim} has its turn, and its waiter does not hear of it for {waited:?}"
            );
            inner.found("news", sentence);
        }
    }

    /// Notes since when claims wait while nobody holds, and whether that is too long.
    pub(super) fn see_idle(&self, inner: &mut Inner, name: &Arc<str>) {
        let now = self.time.now();
        let bound = self.longest_ttl * 11 / 10 + self.longest_pause + PROMPT;
        let healed = self.healed;
        let Some(state) = inner.names.get_mut(name) else { return };
        let is_idle = !state.asking.is_empty() && state.holds.is_empty() && state.busy == 0;
        let since = state.idle_since;
        state.idle_since = is_idle.then(|| since.unwrap_or(now));
        let from = since.map(|since| since.max(healed));
        if let Some(from) = from.filter(|from| *from + bound < now) {
            state.idle_since = is_idle.then_some(now);
            let waiting: Vec<u64> = state.asking.iter().take(4).copied().collect();
            let sentence =
                format!("on {name:?} claims {waiting:?} wait for {:?} while nobody holds", now.since(from));
            inner.found("bounded", sentence);
        }
    }

    /// A waiter stands in line anew. It had a place there, and lost it.
    pub(super) fn judge_place(&self, inner: &mut Inner, claim: u64, before: ClaimId) {
        let Some(had) = inner.standing.get(&before).filter(|had| !had.is_excused) else { return };
        let Some(client) = inner.asked.get(&claim).and_then(|asked| inner.clients.get(asked.client)) else {
            return;
        };
        if CURRENT.with_borrow(|claims| claims.len() > 1) {
            return; // several, which may leave lines that they stand in
        }
        let Some(name) = inner.names.get(&had.name).filter(|name| name.busy == 0) else {
            return; // nobody may have looked at the answer
        };
        let touched = client.touched().max(name.touched);
        let was_well = had.stands && touched + self.longest_ttl < self.time.now();
        let was_neglected = had.heard.is_some_and(|heard| self.is_neglected(client, touched, heard));
        if was_well || was_neglected {
            let (who, name) = (&client.who, &had.name);
            let sentence = format!("on {name:?} {who} lost the place of claim {claim} although all was well");
            inner.found("place", sentence);
        }
    }

    /// Whether a claim is lost now because the time that its join gave it is over, although that was enough to renew it.
    fn is_neglected(&self, client: &ClientState, touched: Moment, (heard, until): (Moment, Moment)) -> bool {
        let now = client.clock.now();
        let is_over_now = until.since(now) < self.longest_ttl / 100 && now < until + PROMPT * 2;
        let well_from = client.clock.shown_at(touched.max(heard));
        is_over_now && client.max_hold.is_none() && well_from + self.time_to_renew(client) < until
    }
}
