//! Redis without a Redis: the real backend, whose connections are streams in memory to servers of ours.
//!
//! A server speaks RESP3 and answers each script by the model ([`script`]); that the Lua does the same is compared
//! elsewhere. Bytes are on their way as events of the world ([`carrying`]), so that a connection can be slow, stalled, cut or
//! half open, and a reply may stay behind. What the servers are to each other is here: a single one, a master and its
//! replica under sentinels, or the masters of a cluster.

mod carrying;
mod cluster;
mod faults;
mod heard;
mod lines;
mod medium;
mod node;
mod resp;
mod script;
mod serving;
mod sitting;
mod stream;
mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidelock_core::backend::Moment;
use tidelock_model::Dice;

use self::lines::Lines;
use self::node::Node;
use self::sitting::Sitting;
use self::wire::Wire;
use crate::network::Sky;
use crate::plan::{Fault, Plan, Stores, ms};
use crate::record::Record;
use crate::time::{ClientClock, Time, lock};

/// How many sentinels there are.
const SENTINELS: usize = 3;

/// The servers of a world, and the connections to them.
pub(crate) struct Servers {
    time: Arc<Time>,
    record: Arc<Record>,
    stores: Stores,
    ttl: Duration,
    delay: Duration,
    lost_pushes: u64,
    clocks: Vec<Arc<ClientClock>>,
    /// The choices about each client's messages.
    dice: Vec<Mutex<Dice>>,
    sky: Mutex<Sky>,
    state: Mutex<State>,
    wires: Mutex<Wires>,
    sessions: Mutex<Vec<Sitting>>,
}

/// What the servers know.
struct State {
    /// Each name by itself, because a slot can move, and a part of the names can be lost.
    lines: BTreeMap<String, Lines>,
    /// Two for each shard, and the sentinels behind them.
    nodes: Vec<Node>,
    /// The node that is master of each shard.
    masters: Vec<usize>,
    /// The number of the last election.
    epoch: u64,
    /// Slots that have left the shard where they were in the beginning.
    moved: BTreeMap<u16, usize>,
    /// What a replica still has while it is not told of anything, for each fault.
    replicas: BTreeMap<usize, BTreeMap<String, Lines>>,
}

#[derive(Default)]
struct Wires {
    all: BTreeMap<u64, Wire>,
    last: u64,
    /// For each client, the second of its last connection, and how many it made in that second.
    dials: BTreeMap<usize, (u64, u32)>,
}

impl Servers {
    pub(crate) fn new(
        plan: &Plan,
        time: &Arc<Time>,
        record: &Arc<Record>,
        clocks: Vec<Arc<ClientClock>>,
    ) -> Arc<Self> {
        let shards = if plan.stores == Stores::RedisCluster { plan.shards.max(1) as usize } else { 1 };
        let servers = (0..shards * 2).map(|number| Node::new(format!("10.0.0.{number}"), 6379));
        let sentinels = (0..SENTINELS).map(|number| Node::new(format!("10.0.1.{number}"), 26379));
        let state = State {
            lines: BTreeMap::new(),
            nodes: servers.chain(sentinels).collect(),
            masters: (0..shards).map(|shard| shard * 2).collect(),
            epoch: 1,
            moved: BTreeMap::new(),
            replicas: BTreeMap::new(),
        };
        let dice = |client| Mutex::new(Dice::new(plan.seed, &format!("wires of {client}")));
        Arc::new(Self {
            time: time.clone(),
            record: record.clone(),
            stores: plan.stores,
            ttl: plan.ttl(),
            delay: ms(plan.delay),
            lost_pushes: plan.lost_pushes,
            dice: (0..plan.clients.len()).map(dice).collect(),
            clocks,
            sky: Mutex::default(),
            state: Mutex::new(state),
            wires: Mutex::default(),
            sessions: Mutex::default(),
        })
    }

    /// The URL that clients are given.
    fn url(&self) -> String {
        let all = |range: std::ops::Range<usize>| {
            let state = lock(&self.state);
            let places = range.map(|node| format!("{}:{}", state.nodes[node].host, state.nodes[node].port));
            places.collect::<Vec<_>>().join(",")
        };
        let servers = lock(&self.state).masters.len() * 2;
        match self.stores {
            Stores::RedisSentinels => format!("redis-sentinel://{}#main", all(servers..servers + SENTINELS)),
            Stores::RedisCluster => format!("redis-cluster://{}", all(0..servers)),
            _ => format!("redis://{}", all(0..1)),
        }
    }

    fn ends(&self, is_meant: impl Fn(&Fault) -> bool) -> Option<Moment> {
        lock(&self.sky).until_end_of(is_meant)
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Servers({:?})", self.stores)
    }
}
