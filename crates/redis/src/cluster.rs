//! The masters of a cluster, and which of them has which slot.
//!
//! The map is read from any node, patched when a node says that a slot has moved, and read again then and whenever a
//! node cannot be reached. Each master in use has connections of its own and is subscribed to: a grant is published
//! where the name lies, so what another node suffers does not silence it. That it arrives from every node is no harm.
//!
//! While a slot is being moved, a script that finds some of its keys here and some there is put off by the cluster;
//! that is told as "unavailable", and core asks again.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::{Client, Cmd, ConnectionAddr, ConnectionInfo, Value};
use tidelock::{Error, ErrorKind, Name, Reply, Result, Shard};

use crate::fleet::Fleet;
use crate::link::{Reach, WhenDropped};
use crate::reply::{parts, text};
use crate::server::Server;
use crate::{address, check, dial, keys, script, trouble};

const SLOTS: u16 = 16_384;
/// How often a command is sent on to where the cluster says that its slot is.
const REDIRECTIONS: usize = 5;

/// The masters that have a name each.
#[derive(Clone, Debug)]
pub(crate) struct Cluster(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    seeds: Vec<ConnectionInfo>,
    reach: Reach,
    map: Mutex<Map>,
    is_reading: AtomicBool,
}

#[derive(Debug, Default)]
struct Map {
    /// Every master that there was; its index is its shard.
    servers: Vec<Arc<Server>>,
    by_address: HashMap<(String, u16), usize>,
    /// The server of each slot.
    slots: Vec<usize>,
}

/// Where the cluster says that a slot is.
#[derive(Debug)]
enum Elsewhere {
    /// There from now on.
    Moved { slot: u16, host: String, port: u16 },
    /// There for this command.
    Ask { host: String, port: u16 },
}

impl Cluster {
    /// Reads the map from the first seed that answers.
    pub(crate) async fn open(seeds: Vec<ConnectionInfo>, reach: Reach) -> Result<Self> {
        let shared =
            Shared { seeds, reach, map: Mutex::new(Map::default()), is_reading: AtomicBool::new(false) };
        shared.read_map().await?;
        Ok(Self(Arc::new(shared)))
    }

    fn server(&self, name: &Name) -> Arc<Server> {
        let map = self.0.map();
        map.servers[map.slots[usize::from(keys::slot(name) % SLOTS)]].clone()
    }

    /// What comes of a command: the first reply, or that of the server that the cluster names instead.
    async fn follow(self, command: Cmd, first: Arc<Server>, reply: Result<Value>) -> Result<Value> {
        let (mut server, mut reply) = (first, reply);
        for _ in 0..REDIRECTIONS {
            let value = match reply {
                Ok(value) => value,
                Err(error) => {
                    self.read_again(); // its slots may have another master by now
                    return Err(error);
                }
            };
            (server, reply) = match Elsewhere::of(&value) {
                None => return trouble::checked(value, server.commands.place()),
                Some(Elsewhere::Moved { slot, host, port }) => {
                    let there = self.0.moved(slot, host, port)?;
                    self.read_again();
                    let reply = there.ask(command.clone(), WhenDropped::Send).await;
                    (there, reply)
                }
                Some(Elsewhere::Ask { host, port }) => {
                    let there = self.0.at(host, port)?;
                    // By its text: a script that is not known there would have to be sent after another ASKING.
                    let by_text = script::by_text(&command).unwrap_or_else(|| command.clone());
                    let asked = there.commands.ask_all(vec![redis::cmd("ASKING"), by_text]).await?;
                    let mut replies = asked.into_iter();
                    trouble::checked(replies.next().unwrap_or_default(), there.commands.place())?;
                    (there, Ok(replies.next().unwrap_or_default()))
                }
            };
        }
        Err(Error::new(ErrorKind::Unavailable, "the cluster is moving its slots"))
    }

    /// Reads the map again, in the background, unless that is under way.
    fn read_again(&self) {
        if !self.0.is_reading.swap(true, Ordering::AcqRel) {
            let shared = self.0.clone();
            self.0.reach.runtime.spawn(async move {
                if let Err(error) = shared.read_map().await {
                    tracing::debug!(%error, "no node tells which master has which slots");
                }
                shared.is_reading.store(false, Ordering::Release);
            });
        }
    }
}

impl Fleet for Cluster {
    fn shard(&self, name: &Name) -> Shard {
        self.server(name).shard
    }

    fn of_shard(&self, shard: Shard) -> Option<Arc<Server>> {
        self.0.map().servers.get(shard.0 as usize).cloned()
    }

    fn all(&self) -> Vec<Arc<Server>> {
        let map = self.0.map();
        let used: BTreeSet<usize> = map.slots.iter().copied().collect();
        used.into_iter().map(|index| map.servers[index].clone()).collect()
    }

    fn ask(&self, name: &Name, command: Cmd, when_dropped: WhenDropped) -> Reply<Value> {
        let (cluster, first) = (self.clone(), self.server(name));
        let reply = first.ask(command.clone(), when_dropped);
        Box::pin(async move { cluster.follow(command, first, reply.await).await })
    }
}

impl Shared {
    /// Asks one node after the other, those that are known first.
    async fn read_map(&self) -> Result<()> {
        let known = self.map().addresses();
        let known = known.into_iter().map(|(host, port)| self.info(host, port));
        let mut trouble = Error::new(ErrorKind::InvalidOption, "a cluster's URL names at least one node");
        for node in known.chain(self.seeds.iter().cloned()) {
            match self.ask_for_slots(&node).await {
                Ok(slots) => return self.take_over(&slots, &node),
                Err(error) => trouble = error,
            }
        }
        Err(trouble)
    }

    async fn ask_for_slots(&self, node: &ConnectionInfo) -> Result<Value> {
        let place = format!("Redis at {}", node.addr());
        let within = self.reach.patience.answer;
        let asking = async {
            let client = Client::open(node.clone())?;
            let mut connection = dial::briefly(&client, within).await?;
            let info: Value = redis::cmd("INFO").query_async(&mut connection).await?;
            Ok((connection, info))
        };
        let (mut connection, info) = asking.await.map_err(|error| trouble::from(error, &place))?;
        check::cluster_node(&info, &place)?;
        let mut slots = redis::cmd("CLUSTER");
        slots.arg("SLOTS").query_async(&mut connection).await.map_err(|error| trouble::from(error, &place))
    }

    fn take_over(&self, slots: &Value, node: &ConnectionInfo) -> Result<()> {
        let mut map = self.map();
        let mut owners = vec![None; usize::from(SLOTS)];
        for range in parts(slots) {
            let [Value::Int(first), Value::Int(last), master, ..] = parts(range) else { continue };
            let [host, Value::Int(port), ..] = parts(master) else { continue };
            let host =
                text(host).filter(|host| !host.is_empty()).map_or_else(|| host_of(node), str::to_owned);
            let index = map.index(host, u16::try_from(*port).unwrap_or(0), self)?;
            let (first, last) = (usize::try_from(*first).unwrap_or(0), usize::try_from(*last).unwrap_or(0));
            owners.iter_mut().take(last + 1).skip(first).for_each(|owner| *owner = Some(index));
        }
        if owners.iter().all(Option::is_none) {
            let wrong = "the cluster has no slots yet: no master has been given any";
            return Err(Error::new(ErrorKind::Unavailable, wrong));
        }
        // A slot without a master has the last one that was known, or whoever comes first: it will say where it is.
        let before = std::mem::take(&mut map.slots);
        let known = |slot: usize| before.get(slot).copied().unwrap_or(0);
        map.slots =
            owners.into_iter().enumerate().map(|(slot, owner)| owner.unwrap_or(known(slot))).collect();
        Ok(())
    }

    fn moved(&self, slot: u16, host: String, port: u16) -> Result<Arc<Server>> {
        let mut map = self.map();
        let index = map.index(host, port, self)?;
        if let Some(owner) = map.slots.get_mut(usize::from(slot)) {
            *owner = index;
        }
        Ok(map.servers[index].clone())
    }

    fn at(&self, host: String, port: u16) -> Result<Arc<Server>> {
        let mut map = self.map();
        let index = map.index(host, port, self)?;
        Ok(map.servers[index].clone())
    }

    fn info(&self, host: String, port: u16) -> ConnectionInfo {
        // There is a seed, or the map could not have been read.
        address::at(&self.seeds[0], host, port)
    }

    fn map(&self) -> MutexGuard<'_, Map> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Map {
    fn addresses(&self) -> Vec<(String, u16)> {
        self.by_address.keys().cloned().collect()
    }

    /// The server at that address, which is new perhaps.
    fn index(&mut self, host: String, port: u16, shared: &Shared) -> Result<usize> {
        if let Some(index) = self.by_address.get(&(host.clone(), port)) {
            return Ok(*index);
        }
        let unusable =
            |error| Error::new(ErrorKind::Unavailable, "a node cannot be connected to").because(error);
        let client = Client::open(shared.info(host.clone(), port)).map_err(unusable)?;
        let index = self.servers.len();
        let shard = Shard(u32::try_from(index).unwrap_or(u32::MAX));
        self.servers.push(Arc::new(Server::lazy(shard, Arc::new(client), shared.reach.clone())));
        self.by_address.insert((host, port), index);
        Ok(index)
    }
}

impl Elsewhere {
    fn of(value: &Value) -> Option<Self> {
        let Value::ServerError(error) = value else { return None };
        let (slot, address) = error.details()?.split_once(' ')?;
        let (host, port) = address.rsplit_once(':')?;
        let (host, port) = (host.to_owned(), port.parse().ok()?);
        match error.code() {
            "MOVED" => Some(Self::Moved { slot: slot.parse().ok()?, host, port }),
            "ASK" => Some(Self::Ask { host, port }),
            _ => None,
        }
    }
}

fn host_of(node: &ConnectionInfo) -> String {
    match node.addr() {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => host.clone(),
        _ => "127.0.0.1".to_owned(),
    }
}
