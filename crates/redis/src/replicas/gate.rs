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
    /// The last grant that counted. Core knows the claim to hold, also while replicas are asked about a newer grant.
    counted: Option<Grant>,
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
    /// It is older than the one that counts or that replicas are asked about: a master that is no more granted it.
    Older,
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
        let known = known.entry(id.number).or_insert_with(|| Known::new(name));
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
            Stage::Leaving => return Worth::Nothing,
            // Also while replicas are asked about a newer grant: that may be of a master that is no more.
            _ if known.counted.is_some_and(|counts| counts.token == grant.token) => return Worth::All,
            Stage::Asked(asked, first) if asked.token == grant.token => *first = joiner.or(first.take()),
            Stage::Asked(newer, _) | Stage::Counts(newer) if newer.token > grant.token => {
                return Worth::Older;
            }
            Stage::Asked(_, first) => {
                let joiner = joiner.or(first.take());
                self.ask(id, known, grant, (joiner, 0));
            }
            Stage::NotGranted | Stage::Counts(_) => self.ask(id, known, grant, (joiner, 0)),
        }
        Worth::Later(outcome)
    }

    fn ask(&self, id: ClaimId, known: &mut Known, grant: Grant, (joiner, failures): (Option<Joiner>, u32)) {
        known.stage = Stage::Asked(grant, joiner);
        let ask = Ask { id, name: known.name.clone(), grant, failures };
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
                Some(known) => {
                    known.counted = Some(ask.grant);
                    known.settle(Stage::Counts(ask.grant))
                }
                None => return, // it has left meanwhile
            }
        };
        if joiner.is_none_or(|joiner| joiner.send(Ok(())).is_err()) {
            self.core.held(ask.id, ask.grant);
        }
    }

    /// Notes that the server has the claim in line without this grant: it holds by the given one, or waits. The grant
    /// was that of a master that is no more. Returns whether the claim has to leave.
    pub(super) fn stands(&self, ask: &Ask, instead: Option<Grant>) -> bool {
        let mut all = self.known();
        let known = all.get_mut(&ask.id.number).filter(|known| known.is_asked(ask.grant.token));
        let Some(known) = known else { return false };
        match instead {
            // Its join, which has no patience, brought a grant that is none.
            _ if known.has_joiner() => return true,
            Some(grant) if known.counted.is_some_and(|counted| counted.token == grant.token) => {
                known.stage = Stage::Counts(grant);
            }
            Some(grant) => self.ask(ask.id, known, grant, (None, ask.failures + 1)),
            None if known.counted.is_some() => return true, // its user believes to hold
            None => {
                known.stage = Stage::NotGranted;
                drop(all);
                self.core.look(&ask.name); // its grant may have come meanwhile, and passed for an older one
            }
        }
        false
    }

    /// Notes that the server no longer has the claim.
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
    fn new(name: &Name) -> Self {
        Self { name: name.clone(), stage: Stage::NotGranted, counted: None }
    }

    fn has_joiner(&self) -> bool {
        matches!(self.stage, Stage::Asked(_, Some(_)))
    }

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
            Worth::Later(_) | Worth::Older | Worth::Nothing => {}
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
        gone: Mutex<Vec<ClaimId>>,
        looks: Mutex<Vec<Name>>,
    }

    impl Signals for Heard {
        fn held(&self, id: ClaimId, _: Grant) {
            self.held.lock().expect("no panic").push(id);
        }

        fn stray(&self, id: ClaimId) {
            self.strays.lock().expect("no panic").push(id);
        }

        fn gone(&self, id: ClaimId) {
            self.gone.lock().expect("no panic").push(id);
        }

        fn look(&self, name: &Name) {
            self.looks.lock().expect("no panic").push(name.clone());
        }

        fn look_everywhere(&self) {}
        fn over(&self) {}
    }

    fn gate() -> (Arc<Gate>, UnboundedReceiver<Ask>, Arc<Heard>, ClaimId) {
        let (core, session) = (Arc::new(Heard::default()), SessionId::from_bits(7));
        let (gate, asks) = Gate::new(session, core.clone());
        let id = ClaimId { session, number: 1 };
        gate.enter(id, &Name::new("stock").expect("a name"));
        (gate, asks, core, id)
    }

    fn grant(token: u64) -> Grant {
        Grant { token: Token::from_u64(token).expect("a token"), capacity: Weight::ONE }
    }

    #[test]
    fn a_grant_to_a_claim_that_has_left_is_no_hold_but_a_stray() {
        let (gate, _asks, core, id) = gate();
        let strays = || core.strays.lock().expect("no panic").len();
        gate.held(id, grant(32));
        assert_eq!(strays(), 0, "replicas are asked about it");
        gate.forget(id);
        gate.held(id, grant(32));
        assert_eq!(strays(), 1);
        assert!(core.held.lock().expect("no panic").is_empty(), "no replica has it");
    }

    /// A failover: what the old master sent is read after the new master's grant.
    #[test]
    fn an_older_grant_changes_nothing_about_a_newer_one() {
        for counts in [true, false] {
            let (gate, mut asks, core, id) = gate();
            gate.held(id, grant(64));
            let ask = asks.try_recv().expect("replicas are asked");
            if counts {
                gate.counts(&ask);
            }
            gate.held(id, grant(32));
            assert!(matches!(gate.granted(id, grant(32), true), Worth::Older));
            assert!(asks.try_recv().is_err(), "nobody is asked about the older one");
            gate.counts(&ask);
            assert_eq!(*core.held.lock().expect("no panic"), [id]);
            assert!(matches!(gate.granted(id, grant(64), true), Worth::All));
        }
    }

    #[test]
    fn a_newer_grant_that_the_server_does_not_have_takes_no_hold_away() {
        let (gate, mut asks, core, id) = gate();
        gate.held(id, grant(64));
        gate.counts(&asks.try_recv().expect("replicas are asked"));
        gate.held(id, grant(96));
        let ask = asks.try_recv().expect("replicas are asked");
        assert!(!gate.stands(&ask, Some(grant(64))), "it holds as before");
        assert!(matches!(gate.granted(id, grant(64), true), Worth::All));
        assert!(core.gone.lock().expect("no panic").is_empty());
    }

    #[test]
    fn a_claim_that_waits_in_spite_of_its_grant_keeps_its_place() {
        let (gate, mut asks, core, id) = gate();
        gate.held(id, grant(96));
        let ask = asks.try_recv().expect("replicas are asked");
        gate.held(id, grant(64)); // the true one, but of an earlier time
        assert!(!gate.stands(&ask, None));
        assert!(core.gone.lock().expect("no panic").is_empty());
        assert_eq!(core.looks.lock().expect("no panic").len(), 1, "the true grant may have come meanwhile");
        gate.held(id, grant(64));
        gate.counts(&asks.try_recv().expect("replicas are asked"));
        assert_eq!(*core.held.lock().expect("no panic"), [id]);
    }

    #[test]
    fn the_grant_that_the_server_has_instead_is_asked_about() {
        let (gate, mut asks, core, id) = gate();
        gate.held(id, grant(96));
        let ask = asks.try_recv().expect("replicas are asked");
        assert!(!gate.stands(&ask, Some(grant(64))));
        let instead = asks.try_recv().expect("replicas are asked");
        assert_eq!((instead.grant.token, instead.failures), (grant(64).token, 1));
        gate.counts(&instead);
        assert_eq!(*core.held.lock().expect("no panic"), [id]);
    }

    #[test]
    fn a_claim_that_waits_while_its_user_holds_has_to_leave() {
        let (gate, mut asks, _, id) = gate();
        gate.held(id, grant(32));
        gate.counts(&asks.try_recv().expect("replicas are asked"));
        gate.held(id, grant(64));
        assert!(gate.stands(&asks.try_recv().expect("replicas are asked"), None));
    }

    #[test]
    fn a_join_without_patience_is_told_that_its_grant_is_none() {
        let (gate, mut asks, _, id) = gate();
        let Worth::Later(mut outcome) = gate.granted(id, grant(32), false) else { panic!("too early") };
        let ask = asks.try_recv().expect("replicas are asked");
        assert!(gate.stands(&ask, None));
        let mut refused = gate.begin_leaving(&ask).expect("it has not left");
        assert!(!refused.has_patience());
        refused.tell(Error::new(tidelock_core::ErrorKind::Unavailable, "none"));
        assert!(outcome.try_recv().expect("it is told").is_err());
    }

    /// Core asks by a look whether a hold is still held. What a look does not show as held, core takes for lost.
    #[test]
    fn a_look_shows_a_hold_that_counts_while_replicas_are_asked_about_another_masters_grant() {
        let (gate, mut asks, _core, id) = gate();
        gate.held(id, grant(64));
        gate.counts(&asks.try_recv().expect("replicas are asked"));
        gate.held(id, grant(96)); // of a master that is no more, read late
        assert!(
            matches!(gate.granted(id, grant(64), true), Worth::All),
            "the server has the grant that counts"
        );
    }
}
