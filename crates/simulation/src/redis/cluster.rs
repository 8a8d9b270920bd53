//! The slots of a cluster: which master has which, and what the others reply.
//!
//! While a shard's slots are being moved, a name's keys are on the old master, then on both, then on the new one. Each slot
//! has its own moment for that, by its number.

use std::time::Duration;

use super::Servers;
use super::resp::Reply;
use crate::plan::Fault;
use crate::time::lock;

const SLOTS: u16 = 16_384;
/// Into how many parts the time of a move is split: in each, some slots change hands.
const PARTS: u16 = 8;

/// The slot of a name's keys (CRC-16/XMODEM).
pub(super) fn slot(name: &str) -> u16 {
    let add = |sum: u16, byte: u8| {
        (0..8).fold(sum ^ (u16::from(byte) << 8), |sum, _| {
            (sum << 1) ^ if sum & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    };
    name.bytes().fold(0, add) % SLOTS
}

/// Whether a move takes that slot: only a part of them, because a master without slots would be none. Of the names of a
/// plan each shard loses some.
const fn is_moved(slot: u16) -> bool {
    !(slot / 64).is_multiple_of(3)
}

impl Servers {
    fn shards(&self) -> usize {
        lock(&self.state).masters.len()
    }

    /// The shard that has a slot.
    pub(super) fn shard_of(&self, slot: u16) -> usize {
        let shards = self.shards();
        let first = usize::from(slot) * shards / usize::from(SLOTS);
        lock(&self.state).moved.get(&slot).copied().unwrap_or(first)
    }

    /// What a node replies to a command on that name instead of carrying it out.
    pub(super) fn redirection(&self, node: usize, is_asking: bool, name: &str) -> Option<Reply> {
        let slot = slot(name);
        let shard = self.shard_of(slot);
        let master = lock(&self.state).masters[shard];
        if self.cluster_state(node) != "ok" {
            return Some(Reply::Error("CLUSTERDOWN The cluster is down".into()));
        }
        let to = |word: &str, node: usize| {
            let Some((host, port)) =
                lock(&self.state).nodes.get(node).map(|node| (node.host.clone(), node.port))
            else {
                return Reply::None;
            };
            Reply::Error(format!("{word} {slot} {host}:{port}"))
        };
        let Some((target, progress)) = self.moving(shard, slot).filter(|_| is_moved(slot)) else {
            return (node != master).then(|| to("MOVED", master));
        };
        match (node == master, node == target && is_asking) {
            (true, _) if progress == Progress::Here => None,
            (_, true) if progress == Progress::There => None,
            (true, _) if progress == Progress::There => Some(to("ASK", target)),
            (true, _) | (_, true) => {
                self.record.touch_name(name, self.time.now());
                Some(Reply::Error("TRYAGAIN Multiple keys request during rehashing of slot".into()))
            }
            _ => Some(to("MOVED", master)),
        }
    }

    /// Where a slot of that shard is being moved to, and how far that has come.
    fn moving(&self, shard: usize, slot: u16) -> Option<(usize, Progress)> {
        let now = self.time.now();
        let (lasts, ends) = {
            let sky = lock(&self.sky);
            sky.faults.iter().find_map(|(number, fault)| match fault {
                Fault::Move { shard: of, lasts } if *of as usize == shard => {
                    Some((Duration::from_millis(*lasts), *sky.ends.get(number)?))
                }
                _ => None,
            })?
        };
        let state = lock(&self.state);
        let target = state.masters[(shard + 1) % state.masters.len()];
        let part = lasts / u32::from(PARTS);
        // A slot changes hands at the end of its part, and lies on both sides for half of that.
        let hands = part * u32::from(PARTS - 1 - slot % PARTS);
        let rest = ends.since(now);
        let progress = match rest {
            rest if rest > hands + part / 2 => Progress::Here,
            rest if rest > hands => Progress::Between,
            _ => Progress::There,
        };
        Some((target, progress))
    }

    /// A move is over: the slots are the next shard's.
    pub(super) fn hand_over(&self, shard: usize) {
        let slots: Vec<u16> =
            (0..SLOTS).filter(|slot| is_moved(*slot) && self.shard_of(*slot) == shard).collect();
        let to = (shard + 1) % self.shards();
        lock(&self.state).moved.extend(slots.into_iter().map(|slot| (slot, to)));
    }

    pub(super) fn cluster_state(&self, node: usize) -> &'static str {
        let shard = node / 2;
        let is_down = self.ends(|fault| matches!(fault, Fault::Down { shard: of } if *of as usize == shard));
        if is_down.is_some() { "fail" } else { "ok" }
    }

    /// The reply to CLUSTER SLOTS: ranges with their masters.
    pub(super) fn slots(&self) -> Reply {
        let mut ranges: Vec<(u16, u16, usize)> = Vec::new();
        let shards = self.shards();
        let state = lock(&self.state);
        for slot in 0..SLOTS {
            let first = usize::from(slot) * shards / usize::from(SLOTS);
            let shard = state.moved.get(&slot).copied().unwrap_or(first);
            match ranges.last_mut() {
                Some((_, last, of)) if *of == shard => *last = slot,
                _ => ranges.push((slot, slot, shard)),
            }
        }
        let range = |(first, last, shard): (u16, u16, usize)| {
            let node = &state.nodes[state.masters[shard]];
            let master = [
                Reply::text(node.host.clone()),
                Reply::Int(node.port.into()),
                Reply::text(format!("n{shard}")),
            ];
            Reply::Array(vec![Reply::Int(first.into()), Reply::Int(last.into()), Reply::Array(master.into())])
        };
        Reply::Array(ranges.into_iter().map(range).collect())
    }
}

/// How far a slot has been moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Here,
    Between,
    There,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_that_of_redis() {
        assert_eq!(slot("123456789"), 0x31c3);
        assert_eq!(slot("foo"), 12_182);
    }
}
