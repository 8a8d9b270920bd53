//! Carries out a batch: one transaction, and a second one for the requests that turn out to need more statements.

use std::sync::Arc;
use std::time::Duration;

use tidelock_core::backend::Place;
use tidelock_core::{Name, Result};
use tokio::time::Instant;

use crate::answers::{Fate, Fates, Reader};
use crate::open_session::OpenSession;
use crate::packet::Hint;
use crate::request::{Action, Outcome, Request};
use crate::trouble::{DUPLICATE, Said};

/// How often a request is made again, as long as the line changes between two transactions.
const ROUNDS: usize = 4;

impl OpenSession {
    pub(crate) async fn carry_out(self: &Arc<Self>, requests: Vec<Request>) {
        let late = Instant::now() + self.within;
        let mut open: Vec<Request> = requests;
        for round in 0..ROUNDS {
            if open.is_empty() {
                return;
            }
            open = match self.send(&open, round, late).await {
                Ok(fates) => self.settle(open, fates, round + 1 == ROUNDS).await,
                // One of them may be at fault, and the others are not.
                Err(said) if open.len() > 1 && said.number().is_some() => {
                    return self.one_by_one(open, late).await;
                }
                Err(said) => {
                    let error = self.trouble(&said);
                    return open.into_iter().for_each(|request| request.fail(&error));
                }
            };
        }
        let error = self.trouble(&Said::NotSent);
        open.into_iter().for_each(|request| request.fail(&error));
    }

    async fn one_by_one(self: &Arc<Self>, requests: Vec<Request>, late: Instant) {
        for request in requests {
            let mut open = vec![request];
            for round in 0..ROUNDS {
                if open.is_empty() {
                    break;
                }
                open = match self.send(&open, round, late.max(Instant::now() + self.within / 2)).await {
                    Ok(fates) => self.settle(open, fates, round + 1 == ROUNDS).await,
                    Err(said) => {
                        let error = self.trouble(&said);
                        open.into_iter().for_each(|request| request.fail(&error));
                        Vec::new()
                    }
                };
            }
        }
    }

    /// Sends these requests as one transaction. In the last rounds they are all sections.
    async fn send(&self, requests: &[Request], round: usize, late: Instant) -> Result<Fates, Said> {
        let asked: Vec<(Name, Action)> =
            requests.iter().map(|request| (request.name.clone(), request.action.clone())).collect();
        let hint = |name: &Name| match round {
            0 => self.own_claims.hint(name),
            1 => Hint::LeftUndone,
            _ => Hint::Section,
        };
        let packet = self.caller.packet(&asked, hint, self.mark());
        // A session that was renewed meanwhile lives longer, so this is what surely holds.
        let until = self.until();
        let answer = match self.lane.ask_until(&packet.text, late).await {
            // A claim of this id came in between, by a request that was given up: look at it again.
            Err(said) if said.number() == Some(DUPLICATE) => self.lane.ask_until(&packet.text, late).await?,
            answered => answered?,
        };
        let reader = Reader { session: self.id, namespace: &self.caller.namespace, ttl: self.ttl, until };
        Ok(reader.read(&packet, &asked, &answer))
    }

    /// Answers the requests. Returns those that have to be sent again.
    async fn settle(
        self: &Arc<Self>,
        requests: Vec<Request>,
        mut fates: Fates,
        is_last: bool,
    ) -> Vec<Request> {
        for end in &fates.ends {
            self.own_claims.set_busy(&end.name, end.busy);
        }
        for (number, place) in &fates.places {
            self.own_claims.stands_at(*number, *place);
        }
        for at in &fates.freed {
            self.own_claims.set_free(&requests[*at].name);
        }
        let mut again = Vec::new();
        for (at, request) in requests.into_iter().enumerate() {
            match fates.fates.remove(&at) {
                Some(Fate::Over(outcome)) => self.answer(request, outcome),
                Some(Fate::Stands) => self.answer_where_it_stands(request).await,
                Some(Fate::MeetsDead) if is_last => {
                    self.answer(request, Ok(Outcome::Joined(Place::Refused)));
                }
                Some(Fate::MeetsDead) => {
                    self.bury_for(&request.name).await;
                    again.push(request);
                }
                Some(Fate::NeedsSection) | None => {
                    self.own_claims.set_unknown(&request.name);
                    again.push(request);
                }
            }
        }
        for (id, grant) in fates.granted {
            self.tell(id, grant);
        }
        for end in fates.ends.into_iter().filter(|end| end.needs_look) {
            let session = self.clone();
            self.runtime.spawn(async move {
                let _ = session.tidied(&end.name).await; // otherwise the next look does it
            });
        }
        again
    }

    fn answer(&self, request: Request, outcome: Result<Outcome>) {
        match (&request.action, &outcome) {
            (Action::Join { claim, .. }, Ok(Outcome::Joined(Place::Waiting { .. }))) => {
                self.own_claims.waits(claim.id.number, &request.name);
                self.waits.notify_one();
            }
            (Action::Leave { id, .. }, Ok(_)) => {
                self.own_claims.has_left(*id);
            }
            _ => {}
        }
        request.reply(outcome);
    }

    /// A repeated join, or one whose answer was lost.
    async fn answer_where_it_stands(&self, request: Request) {
        let Action::Join { claim, .. } = &request.action else { return };
        let number = claim.id.number;
        let outcome = match self.read(&request.name).await {
            Ok(line) => line.place_of(number, self.until(), self.ttl).map(Outcome::Joined),
            Err(error) => Err(error),
        };
        self.answer(request, outcome);
    }

    /// Takes the dead out of a line, from within the lane: this is the task that carries out its requests.
    async fn bury_for(self: &Arc<Self>, name: &Name) {
        let Ok(line) = self.read(name).await else { return };
        let Ok(dead) = self.dead_in(name, &line).await else { return };
        let (answer, _) = tokio::sync::oneshot::channel();
        let request = Request { name: name.clone(), action: Action::Bury(dead), answer };
        let late = Instant::now() + self.within.min(Duration::from_secs(2));
        if let Ok(fates) = self.send(std::slice::from_ref(&request), ROUNDS, late).await {
            for (id, grant) in fates.granted {
                self.tell(id, grant);
            }
        }
    }
}
