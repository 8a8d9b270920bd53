//! Carries out a batch: one transaction, and a second one for the requests that turn out to need more statements.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tidelock_core::backend::{Batchable as _, Grant, Moment, Place};
use tidelock_core::{ClaimId, Name, Result};

use crate::answers::{Fate, Fates, Reader};
use crate::lane::Lane;
use crate::open_session::{OpenSession, given_up};
use crate::packet::Hint;
use crate::request::{Action, Outcome, Request};
use crate::trouble::{DUPLICATE, Said};

/// How often requests are made again without an answer to any of them: as long as the line changes between two
/// transactions.
const ROUNDS: usize = 4;

impl OpenSession {
    /// `since`: when the requests were taken to be sent. A runtime that stood still must not send them later than others
    /// count with.
    pub(crate) async fn carry_out(self: &Arc<Self>, lane: &Lane, requests: Vec<Request>, since: Moment) {
        let late = since + self.within;
        if let Err((said, open)) = self.in_rounds(lane, requests, late).await {
            // One of them may be at fault, and the others are not.
            match open.len() > 1 && said.number().is_some() {
                true => self.one_by_one(lane, open, late).await,
                false => self.fail(&said, open),
            }
        }
    }

    async fn one_by_one(self: &Arc<Self>, lane: &Lane, requests: Vec<Request>, late: Moment) {
        for request in requests {
            // Those that nobody wants go no further: they must not be sent with new time.
            let late = late.max(self.clock.now() + self.within / 2);
            if let Err((said, open)) = self.in_rounds(lane, vec![request], late).await {
                self.fail(&said, open);
            }
        }
    }

    fn fail(&self, said: &Said, open: Vec<Request>) {
        let error = self.trouble(said);
        // Then none of them is carried out later. Core sends no leave if it hears that nothing was done.
        if matches!(said, Said::Server { .. } | Said::NotSent | Said::NotConnected) {
            let joins = open.iter().filter(|request| request.is_join());
            joins.for_each(|join| self.own_claims.is_answered(join.claim().number));
        }
        open.into_iter().for_each(|request| request.fail(&error));
    }

    /// Sends the requests until each has an answer. Gives back those that have none, and why.
    async fn in_rounds(
        self: &Arc<Self>,
        lane: &Lane,
        requests: Vec<Request>,
        late: Moment,
    ) -> Result<(), (Said, Vec<Request>)> {
        let (mut open, mut round, mut left) = (self.wanted(requests), 0, ROUNDS);
        while !open.is_empty() {
            if left == 0 {
                return Err((Said::NotSent, open));
            }
            let asked = open.len();
            open = match self.send(lane, &open, round, late).await {
                Ok(fates) => self.settle(lane, open, fates, left == 1).await,
                Err(said) => return Err((said, open)),
            };
            open = self.wanted(open);
            round += 1;
            left = if open.len() < asked { ROUNDS } else { left - 1 };
        }
        Ok(())
    }

    /// Joins whose caller is gone are not sent, or not again: a void leave of it may be over already. So they cannot arrive
    /// late either.
    fn wanted(&self, requests: Vec<Request>) -> Vec<Request> {
        let (wanted, others): (Vec<Request>, Vec<Request>) =
            requests.into_iter().partition(Request::is_wanted);
        others.iter().for_each(|join| self.own_claims.is_answered(join.claim().number));
        wanted
    }

    /// Sends these requests as one transaction. In the last rounds they are all sections.
    async fn send(
        &self,
        lane: &Lane,
        requests: &[Request],
        round: usize,
        late: Moment,
    ) -> Result<Fates, Said> {
        let asked: Vec<(Name, Action)> =
            requests.iter().map(|request| (request.name.clone(), request.action.clone())).collect();
        let hint = |name: &Name| match round {
            0 => self.own_claims.hint(name),
            1 => Hint::LeftUndone,
            _ => Hint::Section,
        };
        let waits = |number| self.own_claims.may_wait(number);
        let packet = self.caller.packet(&asked, hint, waits, self.mark());
        // A session that was renewed meanwhile lives longer, so this is what surely holds.
        let until = self.until();
        let answer = match lane.ask_until(&packet.text, late).await {
            // A claim of this id came in between, by a request that was given up: look at it again.
            Err(said) if said.number() == Some(DUPLICATE) => lane.ask_until(&packet.text, late).await?,
            answered => answered?,
        };
        let reader = Reader { session: self.id, namespace: &self.caller.namespace, ttl: self.ttl, until };
        Ok(reader.read(&packet, &asked, &answer))
    }

    /// Answers the requests. Returns those that have to be sent again.
    async fn settle(
        self: &Arc<Self>,
        lane: &Lane,
        requests: Vec<Request>,
        mut fates: Fates,
        is_last: bool,
    ) -> Vec<Request> {
        for end in &fates.ends {
            self.own_claims.set_busy(&end.name, end.busy);
        }
        for (at, number, slot) in &fates.slots {
            self.own_claims.set_slot(*number, *slot);
            self.own_claims.set_free_later(&requests[*at].name);
        }
        for at in &fates.freed {
            self.own_claims.set_free(&requests[*at].name);
        }
        // Who looks after a line looks again by itself.
        let is_looked_after = requests.iter().all(|request| matches!(request.action, Action::Bury(_)));
        let mut again = Vec::new();
        for (at, request) in requests.into_iter().enumerate() {
            match fates.fates.remove(&at) {
                Some(Fate::Over(outcome)) => self.answer(request, outcome, fates.rung),
                Some(Fate::Stands) => self.answer_where_it_stands(request).await,
                // A transaction of a user still has the rows of the dead.
                Some(Fate::MeetsDead(refusal)) if is_last => self.answer(request, refusal, fates.rung),
                Some(Fate::MeetsDead(_)) => {
                    self.bury_for(lane, &request.name).await;
                    again.push(request);
                }
                Some(Fate::NeedsSection) | None => {
                    self.own_claims.set_unknown(&request.name);
                    again.push(request);
                }
            }
        }
        self.tell_all_but_inside(fates.granted);
        let untidy = fates.ends.into_iter().filter(|end| end.has_more || end.needs_look && !is_looked_after);
        let untidy: HashSet<Name> = untidy.map(|end| end.name).collect();
        untidy.into_iter().for_each(|name| self.tidy(name));
        again
    }

    /// `rung`: how often the bell had rung when the outcome was read, or less.
    fn answer(&self, request: Request, outcome: Result<Outcome>, rung: u64) {
        if let Action::Join { claim, .. } = &request.action {
            self.own_claims.is_answered(claim.id.number);
        }
        match (&request.action, &outcome) {
            (Action::Join { claim, .. }, Ok(Outcome::Joined(Place::Waiting { .. }))) => {
                if self.own_claims.waits(claim.id.number, &request.name, rung) {
                    self.signals.look(&request.name);
                }
                self.waits.notify_one();
            }
            (Action::Join { claim, .. }, Ok(Outcome::Joined(Place::Refused))) => {
                self.own_claims.is_refused(claim.id.number);
            }
            (Action::Leave { id, .. }, Ok(_)) => {
                self.own_claims.has_left(*id);
            }
            _ => {}
        }
        request.reply(outcome);
    }

    /// A repeated join, or one whose answer was lost.
    async fn answer_where_it_stands(self: &Arc<Self>, request: Request) {
        let Action::Join { claim, .. } = &request.action else { return };
        let (session, name, number) = (self.clone(), request.name.clone(), claim.id.number);
        let rung = self.own_claims.heard();
        let looking = async move {
            let line = session.read(&name).await?;
            line.place_of(number, session.until(), session.ttl).map(Outcome::Joined)
        };
        let outcome = self.at_the_keepers(looking).await;
        self.answer(request, outcome, rung);
    }

    /// Takes the dead out of a line, from within a lane: this is the task that carries out its requests.
    async fn bury_for(self: &Arc<Self>, lane: &Lane, name: &Name) {
        let (session, named) = (self.clone(), name.clone());
        let looking = async move {
            let line = session.read(&named).await?;
            session.dead_in(&named, &line).await
        };
        let Ok(dead) = self.at_the_keepers(looking).await else { return };
        let (answer, _) = tokio::sync::oneshot::channel();
        let request = Request { name: name.clone(), action: Action::Bury(dead), answer };
        let late = self.clock.now() + self.within.min(Duration::from_secs(2));
        if let Ok(fates) = self.send(lane, std::slice::from_ref(&request), ROUNDS, late).await {
            self.tell_all_but_inside(fates.granted);
        }
    }

    /// Whoever passes a mutex on is told who of its own claims holds it, however long ago that was granted. What is inside a
    /// transaction core has let go.
    fn tell_all_but_inside(&self, granted: Vec<(ClaimId, Grant)>) {
        for (id, grant) in granted {
            if !self.own_claims.is_inside(id.number) {
                self.tell(id, grant);
            }
        }
    }

    /// Runs this on the keeper's runtime, where the connections for looks are: the caller may be on none, or on one that
    /// ends.
    pub(crate) async fn at_the_keepers<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.runtime.spawn(work).await.unwrap_or_else(|_| Err(given_up()))
    }
}
