//! What goes wrong with the connections and the servers, and whom it touches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidelock_core::backend::Moment;
use tidelock_core::{ClaimId, SessionId};

use super::lines::{Lines, TICKS};
use super::sitting::Sitting;
use super::wire::To;
use super::{Servers, cluster};
use crate::plan::{Fault, Stores, name_of};
use crate::time::lock;

/// How long it takes until a client that sends something notices a dead connection, and has another.
const NOTICED: Duration = Duration::from_secs(1);

impl Servers {
    pub(super) fn begin_fault(self: &Arc<Self>, number: usize, fault: &Fault, until: Moment) {
        let now = self.time.now();
        match fault {
            Fault::Rain { client, .. } | Fault::Slow { client, .. } | Fault::Cut { client, .. } => {
                self.record.cut_off(*client, until);
            }
            Fault::Deaf { client } => {
                self.silence(*client);
                self.touch_until_noticed(*client);
            }
            Fault::Refuse { client } => {
                self.record.cut_off(*client, until);
                self.break_all(*client, true);
            }
            Fault::Suspend { client } => {
                self.record.touch(*client, until);
                self.clocks[*client].suspend(until);
            }
            // With most sentinels behind, the master before is the one to ask.
            Fault::StallShard { .. } | Fault::Down { .. } | Fault::Behind { count: 2.., .. } => {
                self.cut_all_off(until);
            }
            Fault::EndSession { client, .. } => self.lose_of(*client),
            Fault::Forget { .. } => self.lose_where(|_, _| true),
            Fault::ForgetHolders { name } => {
                let (name, holders) = (name_of(*name), self.holders_of(&name_of(*name)));
                self.lose_where(|of, id| of == name && holders.contains(&id));
            }
            Fault::HalfOpen { client } => {
                self.forget_of(*client, self.wires_where(|wire| wire.client == *client));
            }
            Fault::Idle { client } => self.forget_of(*client, self.most_idle(*client)),
            Fault::Reconnect { client } => self.break_all(*client, true),
            // A move touches the names that are between two masters, and full servers those whom they turn away. Which
            // sentinel is behind and whose pushes are lost is asked when it matters. The others need another store.
            Fault::Move { .. }
            | Fault::Full { .. }
            | Fault::Behind { .. }
            | Fault::Revive { .. }
            | Fault::StallName { .. }
            | Fault::LosePushes { .. } => {}
            Fault::ForgetScripts { shard } => {
                for node in [0, 1].map(|which| *shard as usize * 2 + which) {
                    if let Some(node) = lock(&self.state).nodes.get_mut(node) {
                        node.scripts.clear();
                    }
                }
            }
            Fault::Failover { shard, is_lost, is_alive } => {
                let shard = self.shard(*shard);
                if *is_lost {
                    let kept = self.lines_of(shard);
                    lock(&self.state).replicas.insert(number, kept);
                }
                if !is_alive {
                    self.go_down(shard);
                    self.cut_all_off(until);
                }
            }
        }
        if let Fault::Cut { client, are_pushes_lost: true } = fault {
            self.break_all(*client, false);
        }
        let mut sky = lock(&self.sky);
        sky.faults.insert(number, fault.clone());
        sky.ends.insert(number, until.max(now));
    }

    pub(super) fn end_fault(self: &Arc<Self>, number: usize) {
        let ended = {
            let mut sky = lock(&self.sky);
            sky.ends.remove(&number);
            sky.faults.remove(&number)
        };
        match ended {
            Some(Fault::Move { shard, .. }) if self.stores == Stores::RedisCluster => {
                self.hand_over(self.shard(shard));
                self.touch_all(self.time.now());
            }
            Some(Fault::Failover { shard, is_alive, .. }) => {
                self.fail_over(number, self.shard(shard), is_alive);
            }
            _ => {}
        }
    }

    /// The master of a shard stops, and nobody has its place yet.
    fn go_down(self: &Arc<Self>, shard: usize) {
        let master = {
            let mut state = lock(&self.state);
            let master = state.masters[shard];
            state.nodes[master].is_down = true;
            master
        };
        for wire in self.wires_where(|wire| wire.node == master) {
            self.break_off(wire, true);
        }
    }

    /// A shard gets another master, which has what the replica was told; or the only server starts again, with what is on
    /// its disk.
    fn fail_over(self: &Arc<Self>, number: usize, shard: usize, is_alive: bool) {
        let now = self.time.now();
        self.touch_all(now);
        let old = {
            let mut state = lock(&self.state);
            let old = state.masters[shard];
            if self.stores == Stores::Redis {
                state.nodes[old].scripts.clear();
                state.nodes[old].is_down = false;
            } else {
                state.masters[shard] = old ^ 1;
                state.epoch += 1;
                state.nodes[old].is_down = !is_alive;
                state.nodes[old ^ 1].is_down = false;
            }
            old
        };
        if !is_alive || self.stores == Stores::Redis {
            for wire in self.wires_where(|wire| wire.node == old) {
                self.break_off(wire, true);
            }
        }
        let Some(kept) = lock(&self.state).replicas.remove(&number) else { return };
        let lost = self.lines_of(shard);
        for (name, lines) in lost.iter().chain(&kept) {
            self.record.touch_name(name, now + self.ttl);
            for (_, id, _) in lines.everyone() {
                if !self.is_kept(id, lost.get(name), kept.get(name), name) {
                    self.record.overlap_of(id);
                }
            }
        }
        self.touch_all(now + self.ttl);
        let mut state = lock(&self.state);
        for name in lost.into_keys() {
            state.lines.remove(&name);
        }
        state.lines.extend(kept);
    }

    /// Whether a claim stands as it stood before something was lost, and lives by what was not lost until it can be renewed.
    fn is_kept(&self, id: ClaimId, lost: Option<&Lines>, kept: Option<&Lines>, name: &str) -> bool {
        let soon = self.ticks() + TICKS * u64::try_from(self.ttl.as_millis()).unwrap_or(0) * 2 / 3;
        let of = |lines: Option<&Lines>| {
            lines.and_then(|lines| Some((lines.token(name, id), lines.life(name, id)?.ends)))
        };
        match (of(lost), of(kept)) {
            (Some((before, ended)), Some((token, ends))) => before == token && (ended == ends || ends > soon),
            _ => false,
        }
    }

    fn shard(&self, shard: u32) -> usize {
        shard as usize % lock(&self.state).masters.len()
    }

    /// A copy of a shard's lines.
    fn lines_of(&self, shard: usize) -> BTreeMap<String, Lines> {
        let is_single = self.stores != Stores::RedisCluster;
        let names: Vec<String> = lock(&self.state).lines.keys().cloned().collect();
        let of_shard = |name: &String| is_single || self.shard_of(cluster::slot(name)) == shard;
        let names: Vec<String> = names.into_iter().filter(of_shard).collect();
        let state = lock(&self.state);
        names.into_iter().filter_map(|name| Some((name.clone(), state.lines.get(&name)?.clone()))).collect()
    }

    /// Claims are lost in the servers, and nobody is told.
    fn lose_where(&self, is_meant: impl Fn(&str, ClaimId) -> bool) {
        let (now, ticks) = (self.time.now(), self.ticks());
        let all: Vec<_> = lock(&self.state).lines.values().flat_map(Lines::everyone).collect();
        for (name, id, _) in all.iter().filter(|(name, id, _)| is_meant(name, *id)) {
            self.record.touch_name(name, now + self.ttl);
            self.record.overlap_of(*id);
            self.record.store_ends(id.session);
        }
        for lines in lock(&self.state).lines.values_mut() {
            lines.lose(ticks, &is_meant);
        }
        self.touch_all(now);
    }

    fn lose_of(&self, client: usize) {
        let sessions = self.sessions_of(client);
        self.lose_where(|_, id| sessions.contains(&id.session));
    }

    fn sessions_of(&self, client: usize) -> Vec<SessionId> {
        let sessions = lock(&self.sessions);
        let is_its = |sitting: &&Sitting| sitting.client == client && sitting.lasts();
        sessions.iter().filter(is_its).map(|sitting| sitting.id).collect()
    }

    fn holders_of(&self, name: &str) -> Vec<ClaimId> {
        let state = lock(&self.state);
        let all = state.lines.get(name).map(Lines::everyone).unwrap_or_default();
        all.into_iter().filter(|(_, _, is_held)| *is_held).map(|(_, id, _)| id).collect()
    }

    fn break_all(self: &Arc<Self>, client: usize, is_told: bool) {
        for wire in self.wires_where(|wire| wire.client == client) {
            self.break_off(wire, is_told);
        }
    }

    /// These connections of a client carry nothing any more, and nobody says so. It costs the client no hold, because it
    /// notices.
    fn forget_of(&self, client: usize, wires: impl IntoIterator<Item = u64>) {
        for wire in wires {
            self.let_die(wire);
        }
        self.touch_until_noticed(client);
    }

    /// A client has connections that are dead, and finds that out.
    fn touch_until_noticed(&self, client: usize) {
        let noticed = self.ttl / 3 + NOTICED + self.delay * 20;
        let touched = self.time.now() + noticed.min(self.ttl);
        self.record.touch(client, touched - self.ttl);
    }

    fn cut_all_off(&self, until: Moment) {
        (0..self.clocks.len()).for_each(|client| self.record.cut_off(client, until));
    }

    fn touch_all(&self, until: Moment) {
        (0..self.clocks.len()).for_each(|client| self.record.touch(client, until));
    }

    /// Which requests and replies of a client break their connection, of a hundred; and whether it is told.
    pub(super) fn rain(&self, client: usize) -> Option<(u64, u64, bool)> {
        lock(&self.sky).faults.values().find_map(|fault| match fault {
            Fault::Rain { client: of, requests, replies, are_told } if *of == client => {
                Some((*requests, *replies, *are_told))
            }
            _ => None,
        })
    }

    /// Until when what goes that way between a client and a node is held up.
    pub(super) fn held_until(&self, client: usize, node: usize, to: To) -> Option<Moment> {
        let is_in_the_way = |fault: &Fault| match fault {
            Fault::Cut { client: of, .. } => *of == client,
            Fault::StallShard { shard } => to == To::Server && *shard as usize == node / 2,
            _ => false,
        };
        let suspended = self.clocks[client].suspended_until();
        self.ends(is_in_the_way)
            .into_iter()
            .chain([suspended])
            .max()
            .filter(|until| until.since(self.time.now()) > Duration::ZERO)
    }
}
