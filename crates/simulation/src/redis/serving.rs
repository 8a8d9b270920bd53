//! What a server replies to a command.

use std::sync::Arc;

use tidelock_core::SessionId;

use super::resp::Reply;
use super::script::{Call, script_of};
use super::{SENTINELS, Servers};
use crate::plan::{Fault, Stores};
use crate::time::lock;

/// The server's time when the world begins, in ticks: it has as many digits as ours has.
const BEGINNING: u64 = 170_000_000_000_000;

impl Servers {
    /// The time of the servers, in ticks.
    pub(super) fn ticks(&self) -> u64 {
        BEGINNING + self.time.now().as_nanos() / 10_000
    }

    pub(super) fn node_at(&self, host: &str, port: u16) -> Option<usize> {
        lock(&self.state).nodes.iter().position(|node| node.host == host && node.port == port)
    }

    /// What the server of a connection replies to a command.
    pub(super) fn execute(self: &Arc<Self>, number: u64, words: &[String]) -> Reply {
        let (node, is_asking) = {
            let mut wires = lock(&self.wires);
            let Some(wire) = wires.all.get_mut(&number) else { return Reply::None };
            (wire.node, std::mem::take(&mut wire.is_asking))
        };
        let word = |at: usize| words.get(at).map(|word| word.to_uppercase()).unwrap_or_default();
        match (word(0).as_str(), word(1).as_str()) {
            ("HELLO", _) => Reply::Map(vec![("server", Reply::text("redis")), ("proto", Reply::Int(3))]),
            ("AUTH" | "SELECT" | "CLIENT", _) => Reply::Word("OK"),
            ("PING", _) => Reply::Word("PONG"),
            ("INFO", _) => Reply::Text(self.info(node)),
            ("ROLE", _) => self.role(node),
            ("SUBSCRIBE" | "SSUBSCRIBE", _) => {
                self.subscribe(number, words.get(1).cloned().unwrap_or_default())
            }
            ("SENTINEL", "MASTER") => self.sentinel(node),
            ("CLUSTER", "INFO") => Reply::Text(format!("cluster_state:{}\r\n", self.cluster_state(node))),
            ("CLUSTER", "SLOTS") => self.slots(),
            ("ASKING", _) => {
                if let Some(wire) = lock(&self.wires).all.get_mut(&number) {
                    wire.is_asking = true;
                }
                Reply::Word("OK")
            }
            ("EVAL" | "EVALSHA", _) => self.eval(node, is_asking, words),
            ("SCRIPT", "LOAD") => {
                let hash = self.learn(node, words.get(2).map_or("", String::as_str));
                hash.map_or_else(|| Reply::Error("ERR no script of ours".into()), Reply::Text)
            }
            ("SCAN", _) => Reply::Array(vec![Reply::text("0"), Reply::Array(Vec::new())]),
            ("WAIT", _) => Reply::Int(0),
            _ => {
                Reply::Error(format!("ERR unknown command '{}', with args beginning with: ", words.concat()))
            }
        }
    }

    fn info(&self, node: usize) -> String {
        let role = if self.is_master(node) { "master" } else { "slave" };
        let cluster = u8::from(self.stores == Stores::RedisCluster);
        let readonly = "slave_read_only:1\r\nmaster_host:10.0.0.0\r\nmaster_port:6379";
        format!("redis_version:7.4.0\r\nrole:{role}\r\ncluster_enabled:{cluster}\r\n{readonly}\r\n")
    }

    fn role(&self, node: usize) -> Reply {
        let role = if self.is_master(node) { "master" } else { "slave" };
        Reply::Array(vec![Reply::text(role), Reply::Int(0), Reply::Array(Vec::new())])
    }

    pub(super) fn is_master(&self, node: usize) -> bool {
        lock(&self.state).masters.contains(&node)
    }

    fn subscribe(&self, number: u64, channel: String) -> Reply {
        if let Some(wire) = lock(&self.wires).all.get_mut(&number) {
            wire.channels.insert(channel.clone());
        }
        Reply::Push(vec![Reply::text("subscribe"), Reply::Text(channel), Reply::Int(1)])
    }

    /// What a sentinel says of the master. One that is behind still names the one before.
    fn sentinel(&self, node: usize) -> Reply {
        let state = lock(&self.state);
        let Some(number) = node.checked_sub(state.masters.len() * 2) else {
            return Reply::Error("ERR unknown command 'SENTINEL'".into());
        };
        let are_behind = |fault: &Fault| match fault {
            Fault::Behind { sentinel, count } => (number + SENTINELS - sentinel) % SENTINELS < *count,
            _ => false,
        };
        let is_behind = self.ends(are_behind).is_some();
        let master = state.masters[0];
        let (master, epoch) =
            if is_behind && state.epoch > 1 { (master ^ 1, state.epoch - 1) } else { (master, state.epoch) };
        let Some(named) = state.nodes.get(master) else { return Reply::None };
        Reply::Map(vec![
            ("name", Reply::text("main")),
            ("ip", Reply::text(named.host.clone())),
            ("port", Reply::text(named.port.to_string())),
            ("config-epoch", Reply::text(epoch.to_string())),
        ])
    }

    /// Learns a script by its text; returns its hash.
    fn learn(&self, node: usize, text: &str) -> Option<String> {
        let script = script_of(text)?;
        let hash = ::redis::Script::new(text).get_hash().to_owned();
        lock(&self.state).nodes[node].scripts.insert(hash.clone(), script);
        Some(hash)
    }

    fn eval(self: &Arc<Self>, node: usize, is_asking: bool, words: &[String]) -> Reply {
        let nonsense = || Reply::Error("ERR wrong number of arguments".into());
        let [command, script, count, rest @ ..] = words else { return nonsense() };
        let Some((keys, arguments)) = count.parse().ok().and_then(|count| rest.split_at_checked(count))
        else {
            return nonsense();
        };
        let Some(key) = keys.first() else { return Reply::Int(1) }; // a script that does nothing
        let Some((base, name)) = parts_of(key) else { return nonsense() };
        if let Some(refusal) = self.refusal(node, is_asking, name) {
            return refusal;
        }
        let known = match command.to_uppercase().as_str() {
            "EVAL" => self.learn(node, script).and_then(|hash| self.known(node, &hash)),
            _ => self.known(node, script),
        };
        let Some(known) = known else {
            return Reply::Error("NOSCRIPT No matching script. Please use EVAL.".into());
        };
        let (reply, told) = {
            let now = self.ticks();
            let lines = &mut lock(&self.state).lines;
            let lines = lines.entry(name.to_owned()).or_default();
            Call { lines, record: &self.record, now, name, words: arguments }.answer(known)
        };
        for (session, words) in told {
            self.publish(node, session, base, &words);
        }
        reply
    }

    fn known(&self, node: usize, hash: &str) -> Option<&'static str> {
        lock(&self.state).nodes[node].scripts.get(hash).copied()
    }

    /// Why a server does not run a script on that name.
    fn refusal(&self, node: usize, is_asking: bool, name: &str) -> Option<Reply> {
        if self.stores == Stores::RedisCluster {
            return self.redirection(node, is_asking, name);
        }
        let read_only = "READONLY You can't write against a read only replica.";
        (!self.is_master(node)).then(|| Reply::Error(read_only.into()))
    }

    /// Tells a session on its channel, on every connection that listens there: in a cluster, each node passes it on.
    fn publish(self: &Arc<Self>, node: usize, session: SessionId, base: &str, words: &str) {
        let channel = format!("{base}{session}");
        let is_cluster = self.stores == Stores::RedisCluster;
        let listeners: Vec<(u64, usize)> = lock(&self.wires)
            .all
            .iter()
            .filter(|(_, wire)| (wire.node == node || is_cluster) && wire.channels.contains(&channel))
            .map(|(number, wire)| (*number, wire.client))
            .collect();
        for (number, client) in listeners {
            let are_lost = |fault: &Fault| matches!(fault, Fault::LosePushes { client: of } if *of == client);
            if self.ends(are_lost).is_some() || lock(&self.dice[client]).below(100) < self.lost_pushes {
                continue;
            }
            let message = [Reply::text("message"), Reply::text(channel.clone()), Reply::text(words)];
            self.reply(number, &Reply::Push(message.into()));
        }
    }

    /// Whether a server accepts no more connections.
    pub(super) fn is_full(&self, node: usize) -> bool {
        let shard = node / 2;
        self.ends(|fault| matches!(fault, Fault::Full { shard: of } if *of as usize == shard)).is_some()
    }
}

/// The prefix of channels, and the name, of a key such as `tidelock:{name}:held`.
fn parts_of(key: &str) -> Option<(&str, &str)> {
    let (base, rest) = key.split_once('{')?;
    Some((base, rest.split_once('}')?.0))
}
