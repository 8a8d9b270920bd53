//! The wires of one stage: one between each client and the store, found by the client's label.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidelock_core::backend::{Backend, Clock, Layered};
use tidelock_core::{Result, SessionId};

use crate::history::Witness;
use crate::stage::WATCHER;
use crate::wire::{Trouble, Wire};
use crate::{Act, Counts, Whom};

/// All wires, also those of clients that are gone.
#[derive(Debug, Default)]
pub(crate) struct Wires(Mutex<Laid>);

#[derive(Debug, Default)]
struct Laid {
    wires: Vec<Arc<Wire>>,
    /// The faults that apply to all clients, and so to new ones.
    for_everyone: Trouble,
    /// The witness that receives what new clients are told.
    witness: Option<Arc<Witness>>,
}

impl Wires {
    /// Adds the wire of one more client.
    pub(crate) fn add(&self, label: &str, clock: Arc<dyn Clock>) -> Arc<Wire> {
        let mut laid = self.laid();
        let wire = Arc::new(Wire::new(label, clock, laid.for_everyone.clone()));
        laid.wires.push(wire.clone());
        wire
    }

    /// From now on, that witness receives what new clients are told.
    pub(crate) fn listen(&self, witness: Arc<Witness>) {
        self.laid().witness = Some(witness);
    }

    /// A new client's backend, with the witness in front of it, if there is one.
    pub(crate) fn overheard(&self, backend: Arc<dyn Backend>) -> Arc<dyn Backend> {
        match self.laid().witness.clone() {
            Some(witness) => Arc::new(Layered::new(backend, witness)),
            None => backend,
        }
    }

    /// Carries out an act on the wires. Any other act is returned.
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

    /// Lets everything through again; dead clients stay dead.
    pub(crate) async fn heal(&self) {
        self.laid().for_everyone = Trouble::default();
        for wire in self.all() {
            wire.heal().await;
        }
    }

    /// Ends the sessions of these clients. All clients are told before any place is given away.
    pub(crate) async fn end_sessions(&self, whom: &Whom) -> Result<()> {
        let sessions: Vec<_> = self.of(whom).iter().flat_map(|wire| wire.give_up_sessions()).collect();
        for session in sessions {
            session.close().await?;
        }
        Ok(())
    }

    /// The commands and signals of the clients, without the watcher.
    pub(crate) fn counts(&self) -> Counts {
        self.clients().iter().fold(Counts::default(), |sum, wire| sum + wire.counts())
    }

    /// The clients that still have a session, one line each.
    pub(crate) fn open_sessions(&self) -> Vec<String> {
        let open = |wire: &Arc<Wire>| match wire.open_sessions() {
            0 => None,
            open => Some(format!("{} still has {open} session(s), kept by a task or a guard", wire.label)),
        };
        self.clients().iter().filter_map(open).collect()
    }

    /// The ids of the sessions still in use, those of the watcher too.
    pub(crate) fn open_ids(&self) -> Vec<SessionId> {
        self.all().iter().flat_map(|wire| wire.open_ids()).collect()
    }

    /// Changes the faults on the wires of these clients.
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
