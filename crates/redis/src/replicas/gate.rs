//! The state of each claim's grant: not granted, replicas are being asked about it, it counts, or it is leaving.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidelock_core::backend::{Grant, Signals};
use tidelock_core::{ClaimId, Error, Name, Result, SessionId, Token};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

/// Stands between the server's news and core. A grant passes only when it counts.
#[derive(Debug)]
pub(crate) struct Gate {
    session: SessionId,
    core: Arc<dyn Signals>,
    /// The claims, from before their joins are sent until they have left.
    known: Mutex<HashMap<u64, Known>>,
    asks: UnboundedSender<Ask>,
}

/// A grant to ask replicas about.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(super) id: ClaimId,
    pub(super) name: Name,
    pub(super) grant: Grant,
    /// How often asking about it has failed.
    pub(super) failures: u32,
}

#[derive(Debug)]
struct Known {
    name: Name,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    NotGranted,
    /// Replicas are being asked. A join without patience waits for the outcome.
    Asked(Grant, Option<Joiner>),
    Counts(Grant),
    /// Too few replicas had the grant, and the claim's leave is not confirmed yet.
    Leaving,
}

type Joiner = oneshot::Sender<Result<()>>;

/// What a grant is worth now.
pub(super) enum Worth {
    /// It counts.
    All,
    /// The outcome comes later: to core, or here to a join without patience.
    Later(oneshot::Receiver<Result<()>>),
    /// Its claim is leaving.
    Nothing,
    /// Its claim has left.
    Unknown,
}

impl Gate {
    /// A gate in front of `core`, and the queue of grants to ask replicas about.
    pub(crate) fn new(session: SessionId, core: Arc<dyn Signals>) -> (Arc<Self>, UnboundedReceiver<Ask>) {
        let (asks, to_ask) = unbounded_channel();
        (Arc::new(Self { session, core, known: Mutex::default(), asks }), to_ask)
    }

    /// Notes that a join of this claim is about to be sent. False when it must not be sent, because an earlier leave
    /// could arrive after it.
    pub(super) fn enter(&self, id: ClaimId, name: &Name) -> bool {
        let mut known = self.known();
        let known =
            known.entry(id.number).or_insert_with(|| Known { name: name.clone(), stage: Stage::NotGranted });
        !matches!(known.stage, Stage::Leaving)
    }

    /// Notes that a claim of ours is over.
    pub(super) fn forget(&self, id: ClaimId) {
        if id.session == self.session {
            self.known().remove(&id.number);
        }
    }

    /// Notes that the server has granted a claim. A join without patience gets the outcome from the returned channel.
    pub(super) fn granted(&self, id: ClaimId, grant: Grant, has_patience: bool) -> Worth {
        let (joiner, outcome) = oneshot::channel();
        let joiner = (!has_patience).then_some(joiner);
        let mut known = self.known();
        let Some(known) = known.get_mut(&id.number).filter(|_| id.session == self.session) else {
            return Worth::Unknown;
        };
        match &mut known.stage {
            Stage::Counts(counts) if counts.token == grant.token => return Worth::All,
            Stage::Leaving => return Worth::Nothing,
            Stage::Asked(asked, first) if asked.token == grant.token => *first = joiner.or(first.take()),
            Stage::Asked(_, first) => {
                let joiner = joiner.or(first.take());
                self.ask(id, known, grant, joiner);
            }
            Stage::NotGranted | Stage::Counts(_) => self.ask(id, known, grant, joiner),
        }
        Worth::Later(outcome)
    }

    fn ask(&self, id: ClaimId, known: &mut Known, grant: Grant, joiner: Option<Joiner>) {
        known.stage = Stage::Asked(grant, joiner);
        let ask = Ask { id, name: known.name.clone(), grant, failures: 0 };
        let _ = self.asks.send(ask); // unless the session is closed
    }

    /// Whether the outcome is still wanted.
    pub(super) fn is_wanted(&self, ask: &Ask) -> bool {
        matches!(self.known().get(&ask.id.number), Some(known) if known.is_asked(ask.grant.token))
    }

    /// Notes that enough replicas have the grant.
    pub(super) fn counts(&self, ask: &Ask) {
        let joiner = {
            let mut known = self.known();
            match known.get_mut(&ask.id.number).filter(|known| known.is_asked(ask.grant.token)) {
                Some(known) => known.settle(Stage::Counts(ask.grant)),
                None => return, // it has left meanwhile
            }
        };
        if joiner.is_none_or(|joiner| joiner.send(Ok(())).is_err()) {
            self.core.held(ask.id, ask.grant);
        }
    }

    /// Notes that the server no longer has the grant.
    pub(super) fn is_gone(&self, ask: &Ask) {
        let is_ours = {
            let mut known = self.known();
            let is_ours = known.get(&ask.id.number).is_some_and(|known| known.is_asked(ask.grant.token));
            is_ours && known.remove(&ask.id.number).is_some() // drops the join's channel, so the join ends as gone
        };
        if is_ours {
            self.core.gone(ask.id);
        }
    }

    /// Notes that too few replicas have the grant, so its claim is about to leave. `None` when it has left already.
    pub(super) fn begin_leaving(&self, ask: &Ask) -> Option<Refused<'_>> {
        let mut known = self.known();
        let known = known.get_mut(&ask.id.number).filter(|known| known.is_asked(ask.grant.token))?;
        let joiner = known.settle(Stage::Leaving);
        Some(Refused { gate: self, id: ask.id, joiner })
    }

    fn known(&self) -> MutexGuard<'_, HashMap<u64, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn is_asked(&self, token: Token) -> bool {
        matches!(&self.stage, Stage::Asked(grant, _) if grant.token == token)
    }

    /// Sets the stage, and returns the channel of the join that waits for the outcome.
    fn settle(&mut self, stage: Stage) -> Option<Joiner> {
        match std::mem::replace(&mut self.stage, stage) {
            Stage::Asked(_, joiner) => joiner,
            _ => None,
        }
    }
}

/// A claim that has to leave, because its grant does not count.
pub(super) struct Refused<'a> {
    gate: &'a Gate,
    id: ClaimId,
    joiner: Option<Joiner>,
}

impl Refused<'_> {
    /// Whether it joined with patience. Then it stands in line again.
    pub(super) fn has_patience(&self) -> bool {
        self.joiner.is_none()
    }

    /// Notes that it has left, or that its lifetime is over.
    pub(super) fn forget(&self) {
        self.gate.forget(self.id);
    }

    /// Tells the waiting join why the grant does not count.
    pub(super) fn tell(&mut self, why: Error) {
        match self.joiner.take() {
            Some(joiner) => drop(joiner.send(Err(why))), // unless nobody waits any more
            None => self.gate.core.gone(self.id),        // core joins the line again
        }
    }
}

impl Signals for Gate {
    fn held(&self, id: ClaimId, grant: Grant) {
        match self.granted(id, grant, true) {
            Worth::All => self.core.held(id, grant),
            Worth::Unknown => self.core.stray(id),
            Worth::Later(_) | Worth::Nothing => {}
        }
    }

    fn stray(&self, id: ClaimId) {
        self.core.stray(id);
    }

    fn gone(&self, id: ClaimId) {
        self.forget(id);
        self.core.gone(id);
    }

    fn look(&self, name: &Name) {
        self.core.look(name);
    }

    fn look_everywhere(&self) {
        self.core.look_everywhere();
    }

    fn over(&self) {
        self.core.over();
    }
}

#[cfg(test)]
mod tests {
    use tidelock_core::Weight;

    use super::*;

    #[derive(Debug, Default)]
    struct Heard {
        held: Mutex<Vec<ClaimId>>,
        strays: Mutex<Vec<ClaimId>>,
    }

    impl Signals for Heard {
        fn held(&self, id: ClaimId, _: Grant) {
            self.held.lock().expect("no panic").push(id);
        }

        fn stray(&self, id: ClaimId) {
            self.strays.lock().expect("no panic").push(id);
        }

        fn gone(&self, _: ClaimId) {}
        fn look(&self, _: &Name) {}
        fn look_everywhere(&self) {}
        fn over(&self) {}
    }

    #[test]
    fn a_grant_to_a_claim_that_has_left_is_no_hold_but_a_stray() {
        let (core, session) = (Arc::new(Heard::default()), SessionId::from_bits(7));
        let (gate, _asks) = Gate::new(session, core.clone());
        let id = ClaimId { session, number: 1 };
        let grant = Grant { token: Token::from_u64(32).expect("a token"), capacity: Weight::ONE };
        let strays = || core.strays.lock().expect("no panic").len();
        gate.enter(id, &Name::new("stock").expect("a name"));
        gate.held(id, grant);
        assert_eq!(strays(), 0, "replicas are asked about it");
        gate.forget(id);
        gate.held(id, grant);
        assert_eq!(strays(), 1);
        assert!(core.held.lock().expect("no panic").is_empty(), "no replica has it");
    }
}
