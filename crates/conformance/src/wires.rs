//! The wires of one stage: one between each client and the store, found by the client's label.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidelock::{Backend, Clock, Result, SessionId};

use crate::history::Witness;
use crate::stage::WATCHER;
use crate::wire::{Trouble, Wire};
use crate::{Act, Counts, Layered, Whom};

/// All of them, those of clients that are gone too.
#[derive(Debug, Default)]
pub(crate) struct Wires(Mutex<Laid>);

#[derive(Debug, Default)]
struct Laid {
    wires: Vec<Arc<Wire>>,
    /// What is wrong for everyone, and so for whoever comes next.
    for_everyone: Trouble,
    /// Who hears what is told to whoever comes next.
    witness: Option<Arc<Witness>>,
}

impl Wires {
    /// One more client's.
    pub(crate) fn add(&self, label: &str, clock: Arc<dyn Clock>) -> Arc<Wire> {
        let mut laid = self.laid();
        let wire = Arc::new(Wire::new(label, clock, laid.for_everyone.clone()));
        laid.wires.push(wire.clone());
        wire
    }

    /// From now on, that witness hears what new clients are told.
    pub(crate) fn listen(&self, witness: Arc<Witness>) {
        self.laid().witness = Some(witness);
    }

    /// A new client's backend, and whoever is to hear what it tells.
    pub(crate) fn overheard(&self, backend: Arc<dyn Backend>) -> Arc<dyn Backend> {
        match self.laid().witness.clone() {
            Some(witness) => Arc::new(Layered::new(backend, witness)),
            None => backend,
        }
    }

    /// Does what is done on wires. Whatever is not is given back.
    pub(crate) async fn act(&self, act: Act) -> Result<Option<Act>> {
        match act {
            Act::Refuse(whom) => self.change(&whom, |trouble| trouble.refuses = true),
            Act::LoseReplies(whom, count) => self.change(&whom, |trouble| trouble.lose_replies = count),
            Act::Delay(whom, delay) => self.change(&whom, |trouble| trouble.delay = delay),
            Act::HoldRequests(whom) => self.change(&whom, |trouble| trouble.holds_requests = true),
            Act::HoldReplies(whom) => self.change(&whom, |trouble| trouble.holds_replies = true),
            Act::StallName(name) => {
                self.change(&Whom::Everyone, |trouble| trouble.stalled = Some(name.clone()));
            }
            Act::DropSignals(whom) => self.change(&whom, |trouble| trouble.drops_signals = true),
            Act::Kill(whom) => self.change(&whom, |trouble| trouble.is_dead = true),
            Act::EndSession(whom) => self.end_sessions(&whom).await?,
            other => return Ok(Some(other)),
        }
        Ok(None)
    }

    /// Everything gets through again; the dead stay dead.
    pub(crate) async fn heal(&self) {
        self.laid().for_everyone = Trouble::default();
        for wire in self.all() {
            wire.heal().await;
        }
    }

    /// Ends the sessions of these clients. All are told before anyone's place is given away.
    pub(crate) async fn end_sessions(&self, whom: &Whom) -> Result<()> {
        let sessions: Vec<_> = self.of(whom).iter().flat_map(|wire| wire.give_up_sessions()).collect();
        for session in sessions {
            session.close().await?;
        }
        Ok(())
    }

    /// What the clients have sent and were told. Whoever looks on does not count.
    pub(crate) fn counts(&self) -> Counts {
        self.clients().iter().fold(Counts::default(), |sum, wire| sum + wire.counts())
    }

    /// The clients that still have a session, a line each.
    pub(crate) fn open_sessions(&self) -> Vec<String> {
        let open = |wire: &Arc<Wire>| match wire.open_sessions() {
            0 => None,
            open => Some(format!("{} still has {open} session(s), kept by a task or a guard", wire.label)),
        };
        self.clients().iter().filter_map(open).collect()
    }

    /// The sessions that somebody still has, those of whoever looks on too.
    pub(crate) fn open_ids(&self) -> Vec<SessionId> {
        self.all().iter().flat_map(|wire| wire.open_ids()).collect()
    }

    /// Changes what is wrong with the wires of these clients.
    pub(crate) fn change(&self, whom: &Whom, change: impl Fn(&mut Trouble)) {
        if *whom == Whom::Everyone {
            change(&mut self.laid().for_everyone);
        }
        self.of(whom).iter().for_each(|wire| wire.change(&change));
    }

    fn of(&self, whom: &Whom) -> Vec<Arc<Wire>> {
        let mut wires = self.all();
        wires.retain(|wire| whom.is(&wire.label));
        wires
    }

    fn clients(&self) -> Vec<Arc<Wire>> {
        let mut wires = self.all();
        wires.retain(|wire| wire.label != WATCHER);
        wires
    }

    fn all(&self) -> Vec<Arc<Wire>> {
        self.laid().wires.clone()
    }

    fn laid(&self) -> MutexGuard<'_, Laid> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
