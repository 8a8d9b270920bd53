//! What goes wrong between the clients and the store, and whom it touches.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tidelock_core::Name;
use tidelock_core::backend::{Leave, Moment, Patience};

use super::Network;
use super::answer::at_once;
use super::message::About;
use crate::plan::{Fault, name_of};
use crate::time::lock;

impl Network {
    /// A fault begins, and lasts until then.
    pub(crate) fn begin(self: &Arc<Self>, number: usize, fault: &Fault, until: Moment) {
        let all = 0..self.links.len();
        match fault {
            Fault::Rain { client, .. }
            | Fault::Slow { client, .. }
            | Fault::Refuse { client }
            | Fault::Cut { client, .. }
            | Fault::Deaf { client } => self.record.touch(*client, until),
            Fault::StallShard { .. } => all.for_each(|client| self.record.touch(client, until)),
            Fault::StallName { name } => self.record.touch_name(&name_of(*name), until),
            Fault::Suspend { client } => {
                self.record.touch(*client, until);
                self.clocks[*client].suspend(until);
            }
            Fault::EndSession { client, is_told } => self.end_sessions(Some(*client), *is_told),
            Fault::Forget { are_told } => self.end_sessions(None, *are_told),
            Fault::ForgetHolders { name } => self.forget_holders(&name_of(*name)),
            Fault::Revive { client, count } => self.revive(*client, *count),
            Fault::LosePushes { .. }
            | Fault::HalfOpen { .. }
            | Fault::Idle { .. }
            | Fault::ForgetScripts { .. }
            | Fault::Full { .. }
            | Fault::Failover { .. }
            | Fault::Behind { .. }
            | Fault::Down { .. }
            | Fault::Move { .. } => {}
            Fault::Reconnect { client } => self.reconnect(*client),
        }
        let mut sky = lock(&self.sky);
        sky.faults.insert(number, fault.clone());
        sky.ends.insert(number, until);
    }

    /// A fault is over.
    pub(crate) fn end(self: &Arc<Self>, number: usize) {
        let ended = {
            let mut sky = lock(&self.sky);
            sky.ends.remove(&number);
            sky.faults.remove(&number)
        };
        if let Some(Fault::Cut { client, are_pushes_lost: true }) = ended {
            self.reconnect(client);
        }
    }

    pub(super) fn end_sessions(&self, client: Option<usize>, are_told: bool) {
        let now = self.time.now();
        for of in (0..self.links.len()).filter(|of| client.is_none_or(|client| client == *of)) {
            self.record.touch(of, now);
            let sessions: Vec<_> = lock(&self.links[of]).sessions.iter().filter_map(Weak::upgrade).collect();
            self.record.overlap(&sessions.iter().map(|sessions| sessions.id).collect::<Vec<_>>());
            for sessions in sessions {
                let label = &*sessions.options.label;
                self.is_mute.store(!are_told, Ordering::Relaxed);
                for store in &self.stores {
                    store.faults().lose_sessions_of(label);
                }
                self.is_mute.store(false, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn forget_holders(&self, name: &str) {
        let Ok(name) = Name::new(name) else { return };
        self.record.touch_name(name.as_str(), self.time.now());
        let shard = self.shard(&name);
        for link in &self.links {
            let all: Vec<_> = lock(link).sessions.iter().filter_map(Weak::upgrade).collect();
            for sessions in all {
                let Some(session) = sessions.in_shard(shard) else { continue };
                let Ok(line) = at_once(session.line(&name)) else { continue };
                let of_session = line.holders().filter(|claim| claim.id.session == sessions.id);
                for id in of_session.map(|claim| claim.id).collect::<Vec<_>>() {
                    self.record.overlap_of(id);
                    let _ = at_once(session.leave(&name, id, Leave::Done));
                }
            }
        }
    }

    /// Claims stand in line again, as on a server that has not heard of their leaves.
    pub(super) fn revive(self: &Arc<Self>, client: usize, count: usize) {
        let joined: Vec<_> = lock(&self.links[client]).joined.iter().rev().take(count).cloned().collect();
        for (claim, sessions) in joined {
            let shard = self.shard(&claim.name);
            let Some(sessions) = sessions.upgrade() else { continue };
            if let Some(session) = sessions.in_shard(shard)
                && lock(&sessions.in_shards[shard as usize]).left.contains(&claim.id)
            {
                self.record.touch_name(claim.name.as_str(), self.time.now() + self.ttl);
                let _ = at_once(session.join(&claim, Patience::Wait));
            }
        }
        self.reconnect(client); // another server answers from now on
    }

    pub(super) fn reconnect(self: &Arc<Self>, client: usize) {
        let all: Vec<_> = lock(&self.links[client]).sessions.iter().filter_map(Weak::upgrade).collect();
        for sessions in all {
            self.deliver(client, false, move || sessions.signals.look_everywhere());
        }
    }

    /// Until when requests like this one are held up.
    pub(super) fn stopped_until(&self, about: &About) -> Option<Moment> {
        let now = self.time.now();
        let is_in_the_way = |fault: &Fault| match fault {
            Fault::Cut { client, .. } => *client == about.client,
            Fault::StallShard { shard } => *shard == about.shard,
            Fault::StallName { name } => about.name.as_ref().is_some_and(|of| of.as_str() == name_of(*name)),
            _ => false,
        };
        lock(&self.sky).until_end_of(is_in_the_way).filter(|until| *until > now)
    }

    pub(super) fn cut_until(&self, client: usize) -> Moment {
        let cut = lock(&self.sky)
            .until_end_of(|fault| matches!(fault, Fault::Cut { client: of, .. } if *of == client));
        cut.unwrap_or(Moment::START)
    }

    pub(super) fn is_deaf(&self, client: usize) -> bool {
        lock(&self.sky)
            .until_end_of(|fault| matches!(fault, Fault::Deaf { client: of } if *of == client))
            .is_some()
    }

    pub(super) fn is_name_stalled(&self, name: &Name) -> bool {
        let is_it =
            |fault: &Fault| matches!(fault, Fault::StallName { name: of } if name.as_str() == name_of(*of));
        lock(&self.sky).until_end_of(is_it).is_some()
    }

    /// A message that takes long may cost a client its holds.
    pub(super) fn note_late(&self, client: usize, at: Moment) {
        if at.since(self.time.now()) > self.ttl / 20 {
            self.record.touch(client, at);
        }
    }

    pub(super) fn note_touched(&self, about: &About, until: Moment) {
        match &about.name {
            Some(name) if self.is_name_stalled(name) => self.record.touch_name(name.as_str(), until),
            _ => self.record.touch(about.client, until),
        }
    }
}
