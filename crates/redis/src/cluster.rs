//! The masters of a cluster, and which of them has which slot.
//!
//! The map is read from the first node that answers and is in touch with most other nodes. It is patched when a node
//! says that a slot has moved. It is read again then, whenever a node cannot be connected to or does not serve, and
//! every half second while a connection is being made. Concurrent requests for the map share one read. So a client
//! waits for a hanging master only until that master has been replaced. When names have moved, core looks at all of
//! them: nothing was subscribed yet on their new master.
//!
//! Each master in use has its own connections and its own subscription. A grant is published on the node that has the
//! name, so trouble on another node does not silence it. A grant that arrives from several nodes does no harm.
//!
//! While a slot is being moved, the cluster refuses a script whose keys are partly on the old node and partly on the
//! new one. That becomes the error "unavailable", and core asks again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use redis::{Cmd, ConnectionAddr, RedisError, RedisResult, Value};
use tidelock_core::backend::{Reply, Shard, unharmed};
use tidelock_core::{Error, ErrorKind, Name, Result};
use tokio::task::JoinSet;

use crate::dial::{self, Dial, Dialed, Target};
use crate::fleet::Fleet;
use crate::link::{Settings, WhenDropped};
use crate::reply::{parts, text};
use crate::server::Server;
use crate::{check, keys, script, trouble};

const SLOTS: u16 = 16_384;
/// How many redirections a command follows.
const REDIRECTIONS: usize = 5;
/// The shortest time between two reads of the map; also how long a read waits for slow nodes after one has answered.
const READ_EVERY: Duration = Duration::from_millis(500);
/// How often a connection attempt looks at the map.
const GLANCE: Duration = Duration::from_millis(100);

/// The cluster: routes each name to its master.
#[derive(Clone, Debug)]
pub(crate) struct Cluster(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    seeds: Vec<Target>,
    settings: Settings,
    map: Mutex<Map>,
    /// Whether the map is being read, and whether it has to be read once more.
    is_reading: AtomicBool,
    is_wanted: AtomicBool,
}

#[derive(Debug, Default)]
struct Map {
    servers: BTreeMap<Shard, Master>,
    by_address: BTreeMap<(String, u16), Shard>,
    /// The shard of each slot.
    slots: Vec<Shard>,
    /// How many servers there have been.
    count: u32,
    /// Whether a slot has moved to another server since all names were looked at.
    has_moved: bool,
}

/// A server, and the cluster's name for its host.
#[derive(Clone, Debug)]
struct Master {
    server: Arc<Server>,
    host: Arc<str>,
}

/// What a node says about the cluster.
struct NodeReport {
    node: Target,
    slots: Value,
    /// Whether it is in touch with most masters.
    is_in_touch: bool,
}

/// A redirection: where the cluster says that a slot is.
#[derive(Debug)]
enum Redirection {
    /// The slot is there from now on.
    Moved { slot: u16, host: String, port: u16 },
    /// The slot is there for this one command.
    Ask { host: String, port: u16 },
}

impl Cluster {
    /// Reads the map from the first seed that answers.
    pub(crate) async fn open(seeds: Vec<Target>, settings: Settings) -> Result<Self> {
        let (map, is_reading, is_wanted) = Default::default();
        let settings = Settings { has_slots: true, ..settings };
        let shared = Arc::new(Shared { seeds, settings, map, is_reading, is_wanted });
        shared.read_map().await?;
        Ok(Self(shared))
    }

    fn master(&self, name: &Name) -> Master {
        let map = self.0.map();
        map.servers[&map.slots[usize::from(keys::slot(name) % SLOTS)]].clone()
    }

    /// The reply to a command: the first one, or after a redirection that of the server that the cluster names. A
    /// server that redirects has done nothing. After an unknown outcome no other server is asked.
    async fn follow(
        self,
        name: Name,
        command: Cmd,
        when_dropped: WhenDropped,
        first: Master,
        reply: Result<Value>,
    ) -> Result<Value> {
        let (mut asked, mut reply) = (first, reply);
        for _ in 0..REDIRECTIONS {
            // After an error the server's slots may have another master by now.
            let value = reply.inspect_err(|_| self.0.read_again())?;
            (asked, reply) = match Redirection::of(&value, &asked.host) {
                None => {
                    let checked = trouble::checked(value, asked.server.commands.place());
                    if checked.as_ref().is_err_and(|error| error.kind() == ErrorKind::Unavailable) {
                        self.0.read_again(); // the node may be cut off from the others, or no longer master
                    }
                    return checked;
                }
                Some(Redirection::Moved { slot, host, port }) => {
                    let there = self.0.moved(slot, host, port);
                    self.0.read_again();
                    let reply = there.server.ask(&name, command.clone(), when_dropped).await;
                    (there, reply)
                }
                Some(Redirection::Ask { host, port }) => {
                    let there = self.0.at(host, port);
                    let reply = there.ask_once(&command).await;
                    (there, reply)
                }
            };
        }
        let moving = "the cluster redirected the request too often: it is moving its slots";
        Err(Error::new(ErrorKind::Unavailable, moving))
    }
}

impl Master {
    /// Sends a command to this master although it does not have the slot yet.
    async fn ask_once(&self, command: &Cmd) -> Result<Value> {
        let link = &self.server.commands;
        // The script goes as text: if the server did not know its hash, the repetition would need another ASKING.
        let by_text = script::by_text(command).unwrap_or_else(|| command.clone());
        let asking = if seeded!("nobody_says_asking") { redis::cmd("PING") } else { redis::cmd("ASKING") };
        let mut replies = link.ask_all(vec![asking, by_text]).await?.into_iter();
        trouble::checked(replies.next().unwrap_or_default(), link.place())?;
        Ok(replies.next().unwrap_or_default())
    }
}

#[async_trait]
impl Fleet for Cluster {
    fn shard(&self, name: &Name) -> Shard {
        self.master(name).server.shard
    }

    fn of_shard(&self, shard: Shard) -> Option<Arc<Server>> {
        self.0.map().servers.get(&shard).map(|master| master.server.clone())
    }

    fn doubt(&self) {
        self.0.read_again();
    }

    fn beat(&self) {
        self.0.map().servers.values().for_each(|master| master.server.commands.beat());
    }

    async fn all(&self) -> Vec<Arc<Server>> {
        // A client that only lists names would otherwise never learn that a slot has moved.
        if let Err(error) = self.0.read_map().await {
            unharmed(|| tracing::debug!(%error, "cannot read the slot map from any node of the cluster"));
        }
        self.0.map().servers.values().map(|master| master.server.clone()).collect()
    }

    fn ask(&self, name: &Name, command: Cmd, when_dropped: WhenDropped) -> Reply<Value> {
        let (cluster, name, first) = (self.clone(), name.clone(), self.master(name));
        let reply = first.server.ask(&name, command.clone(), when_dropped);
        Box::pin(async move { cluster.follow(name, command, when_dropped, first, reply.await).await })
    }
}

impl Shared {
    /// Reads the map again in the background: now, or soon if it was read just now.
    fn read_again(self: &Arc<Self>) {
        if seeded!("the_slots_are_read_once") {
            return;
        }
        self.is_wanted.store(true, Ordering::SeqCst);
        if !self.is_reading.swap(true, Ordering::SeqCst) {
            self.settings.runtime.spawn(self.clone().read_while_wanted());
        }
    }

    async fn read_while_wanted(self: Arc<Self>) {
        while self.is_wanted.swap(false, Ordering::SeqCst) {
            if let Err(error) = self.read_map().await {
                unharmed(|| tracing::debug!(%error, "cannot read the slot map from any node of the cluster"));
            }
            dial::pause(READ_EVERY).await;
        }
        self.is_reading.store(false, Ordering::SeqCst);
        if self.is_wanted.load(Ordering::SeqCst) {
            self.read_again(); // a request came in between
        }
    }

    /// Asks all nodes at once, so that one that is paused delays nobody.
    async fn read_map(self: &Arc<Self>) -> Result<()> {
        let mut asking = JoinSet::new();
        for node in self.nodes() {
            asking.spawn(ask_for_slots(node, self.settings.timeouts.answer));
        }
        let (mut cut_off, mut trouble) = (None, None);
        let longest = self.settings.timeouts.answer;
        let mut late = Box::pin(dial::pause(longest));
        loop {
            let asked = tokio::select! {
                asked = asking.join_next() => asked,
                () = &mut late => None,
            };
            match asked {
                None => break,
                Some(Ok(Ok(told))) if told.is_in_touch => return self.take_over(&told),
                Some(Ok(Ok(told))) => {
                    // Do not wait long for a hanging node when no node serves: that is normal during a failover.
                    if cut_off.replace(told).is_none() {
                        late = Box::pin(dial::pause(READ_EVERY.min(longest)));
                    }
                }
                Some(Ok(Err(error))) => trouble = Some(error),
                Some(Err(_)) => {}
            }
        }
        match cut_off {
            Some(told) => self.take_over(&told),
            None => Err(trouble
                .unwrap_or_else(|| Error::new(ErrorKind::Unavailable, "no node of the cluster answered"))),
        }
    }

    /// The nodes that are known, and those that the URL names.
    fn nodes(&self) -> Vec<Target> {
        let known: Vec<_> = self.map().by_address.keys().cloned().collect();
        let mut nodes = self.seeds.clone();
        for (host, port) in known {
            let node = self.node(host, port);
            if nodes.iter().all(|seed| seed.addr() != node.addr()) {
                nodes.push(node);
            }
        }
        nodes
    }

    fn take_over(self: &Arc<Self>, said: &NodeReport) -> Result<()> {
        let mut map = self.map();
        let mut owners = vec![None; usize::from(SLOTS)];
        for range in parts(&said.slots) {
            let [Value::Int(first), Value::Int(last), master, ..] = parts(range) else { continue };
            let [host, Value::Int(port), ..] = parts(master) else { continue };
            let host =
                text(host).filter(|host| !host.is_empty()).map_or_else(|| host_of(&said.node), str::to_owned);
            let shard = map.shard(host, u16::try_from(*port).unwrap_or(0), self);
            let (first, last) = (usize::try_from(*first).unwrap_or(0), usize::try_from(*last).unwrap_or(0));
            owners.iter_mut().take(last + 1).skip(first).for_each(|owner| *owner = Some(shard));
        }
        let Some(any) = owners.iter().flatten().next().copied() else {
            let wrong = "the cluster is not ready: none of its masters has any slots";
            return Err(Error::new(ErrorKind::Unavailable, wrong));
        };
        if map.settle(owners, any) {
            drop(map);
            self.settings.news.missed();
        }
        Ok(())
    }

    fn moved(self: &Arc<Self>, slot: u16, host: String, port: u16) -> Master {
        let mut map = self.map();
        let shard = map.shard(host, port, self);
        if let Some(owner) = map.slots.get_mut(usize::from(slot)) {
            *owner = shard;
            map.has_moved = true;
        }
        map.servers[&shard].clone()
    }

    fn at(self: &Arc<Self>, host: String, port: u16) -> Master {
        let mut map = self.map();
        let shard = map.shard(host, port, self);
        map.servers[&shard].clone()
    }

    fn node(&self, host: String, port: u16) -> Target {
        // There is at least one seed: without one the map could not have been read.
        self.seeds[0].at(host, port)
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Map {
    /// The shard of the server at that address. Adds the server if it is new.
    fn shard(&mut self, host: String, port: u16, shared: &Arc<Shared>) -> Shard {
        if let Some(shard) = self.by_address.get(&(host.clone(), port)) {
            return *shard;
        }
        let shard = Shard(self.count);
        self.count += 1;
        let target = shared.node(host.clone(), port);
        let node = Node { target, shard, cluster: Arc::downgrade(shared) };
        let server = Arc::new(Server::lazy(shard, Arc::new(node), shared.settings.clone()));
        self.servers.insert(shard, Master { server, host: host.as_str().into() });
        self.by_address.insert((host, port), shard);
        shard
    }

    /// Sets the owners of the slots, and forgets servers without any. A slot without a master keeps its last known one,
    /// or gets any server, which will redirect the request. Returns whether names have moved.
    fn settle(&mut self, owners: Vec<Option<Shard>>, any: Shard) -> bool {
        let before = std::mem::take(&mut self.slots);
        let known = |slot: usize| before.get(slot).copied().unwrap_or(any);
        self.slots =
            owners.into_iter().enumerate().map(|(slot, owner)| owner.unwrap_or(known(slot))).collect();
        let used: BTreeSet<Shard> = self.slots.iter().copied().collect();
        self.servers.retain(|shard, _| used.contains(shard));
        self.by_address.retain(|_, shard| used.contains(shard));
        std::mem::take(&mut self.has_moved) || (!before.is_empty() && before != self.slots)
    }
}

/// A master, as links connect to it. A client that only waits on a dead master sends nothing; its link notices.
#[derive(Debug)]
struct Node {
    target: Target,
    shard: Shard,
    cluster: Weak<Shared>,
}

impl Node {
    /// Waits until the cluster says that this node is no longer a master. Meanwhile reads the map again and again.
    async fn is_replaced(&self) -> RedisError {
        loop {
            dial::pause(GLANCE).await;
            let Some(cluster) = self.cluster.upgrade() else { continue };
            if !cluster.map().servers.contains_key(&self.shard) {
                let wrong = "it is no longer a master of the cluster";
                return io::Error::new(io::ErrorKind::ConnectionRefused, wrong).into();
            }
            cluster.read_again();
        }
    }
}

#[async_trait]
impl Dial for Node {
    async fn dial(&self, within: Duration) -> RedisResult<Dialed> {
        let dialed = tokio::select! {
            biased;
            dialed = self.target.dial(within) => dialed,
            replaced = self.is_replaced() => return Err(replaced),
        };
        if dialed.is_err()
            && let Some(cluster) = self.cluster.upgrade()
        {
            cluster.read_again();
        }
        dialed
    }

    fn place(&self) -> String {
        self.target.place()
    }
}

async fn ask_for_slots(node: Target, within: Duration) -> Result<NodeReport> {
    let place = format!("Redis at {}", node.addr());
    let mut asks = redis::pipe();
    asks.cmd("INFO").cmd("CLUSTER").arg("INFO").cmd("CLUSTER").arg("SLOTS");
    let asking = async {
        let mut connection = node.briefly(within).await?;
        connection.send_packed_commands(&asks, 0, asks.len()).await
    };
    let said = dial::within(within, asking).await.map_err(|error| trouble::from(error, &place))?;
    let Ok([info, state, slots]) = <[Value; 3]>::try_from(said) else {
        return Err(Error::new(ErrorKind::Protocol, format!("{place} does not answer like a Redis server")));
    };
    check::cluster_node(info, &place)?;
    // A node that refuses CLUSTER INFO is trusted.
    let is_in_touch = text(&state).is_none_or(|state| state.contains("cluster_state:ok"));
    Ok(NodeReport { slots: trouble::checked(slots, &place)?, node, is_in_touch })
}

impl Redirection {
    /// A node that does not know its own address names no host; then it means the host that was asked.
    fn of(value: &Value, asked: &str) -> Option<Self> {
        let Value::ServerError(error) = value else { return None };
        let (slot, address) = error.details()?.split_once(' ')?;
        let (host, port) = address.rsplit_once(':')?;
        let host = if host.is_empty() { asked } else { host };
        let (host, port) = (host.to_owned(), port.parse().ok()?);
        match error.code() {
            "MOVED" => Some(Self::Moved { slot: slot.parse().ok()?, host, port }),
            "ASK" => Some(Self::Ask { host, port }),
            _ => None,
        }
    }
}

fn host_of(node: &Target) -> String {
    match node.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
        _ => "127.0.0.1".to_owned(),
    }
}
