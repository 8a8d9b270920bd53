//! The store of a world, and what is between it and the clients.
//!
//! A request is a message that arrives later, whatever becomes of its caller, and its reply is another one. Each may be
//! lost, slow, late or overtaken, and so may what the store pushes. Behind it is the memory backend: one store, or one for
//! each shard.

mod answer;
mod faults;
mod left;
mod medium;
mod message;
mod pushes;
mod sessions;
mod sky;
mod wired;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tidelock_core::backend::{Claim, Moment};
use tidelock_core::{Name, SessionId};
use tidelock_memory::Store;
use tidelock_model::Dice;

use self::sessions::Sessions;
pub(crate) use self::sky::Sky;
use crate::plan::{Plan, ms};
use crate::record::Record;
use crate::time::{ClientClock, Time, lock};

/// How many claims that have joined are remembered for each client.
const REMEMBERED: usize = 64;

/// Everything between the clients and the store.
pub(crate) struct Network {
    time: Arc<Time>,
    record: Arc<Record>,
    stores: Vec<Store>,
    ttl: Duration,
    is_ordered: bool,
    is_hinting: bool,
    delay: Duration,
    lost_pushes: u64,
    doubled_pushes: u64,
    links: Vec<Mutex<Link>>,
    clocks: Vec<Arc<ClientClock>>,
    sky: Mutex<Sky>,
    /// Whether the store tells nobody of anything at the moment.
    is_mute: AtomicBool,
}

/// The way of one client to the store.
struct Link {
    dice: Dice,
    /// When the last message arrived or will arrive, there and back.
    last: [Moment; 2],
    sessions: Vec<Weak<Sessions>>,
    /// The claims that have joined last.
    joined: Vec<(Claim, Weak<Sessions>)>,
}

impl Network {
    pub(crate) fn new(
        plan: &Plan,
        time: &Arc<Time>,
        record: &Arc<Record>,
        clocks: Vec<Arc<ClientClock>>,
    ) -> Arc<Self> {
        let link = |client: usize| {
            Mutex::new(Link {
                dice: Dice::new(plan.seed, &format!("link {client}")),
                last: [Moment::START; 2],
                sessions: Vec::new(),
                joined: Vec::new(),
            })
        };
        Arc::new(Self {
            time: time.clone(),
            record: record.clone(),
            stores: (0..plan.shards.max(1)).map(|_| time.store()).collect(),
            ttl: plan.ttl(),
            is_ordered: plan.is_ordered,
            is_hinting: plan.is_hinting,
            delay: ms(plan.delay),
            lost_pushes: plan.lost_pushes,
            doubled_pushes: plan.doubled_pushes,
            links: (0..plan.clients.len()).map(link).collect(),
            clocks,
            sky: Mutex::default(),
            is_mute: AtomicBool::new(false),
        })
    }

    /// Whether any client still has a session.
    pub(crate) fn has_sessions(&self) -> bool {
        self.links.iter().any(|link| lock(link).sessions.iter().any(|sessions| sessions.strong_count() > 0))
    }

    /// Whether that client has that session.
    fn has_session(&self, client: usize, session: SessionId) -> bool {
        let link = lock(&self.links[client]);
        link.sessions.iter().filter_map(Weak::upgrade).any(|sessions| sessions.id == session)
    }

    fn shard(&self, name: &Name) -> u32 {
        let sum: usize = name.as_bytes().iter().map(|byte| usize::from(*byte)).sum();
        u32::try_from(sum % self.stores.len()).unwrap_or(0)
    }

    fn is_sharded(&self) -> bool {
        self.stores.len() > 1
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Network({} clients)", self.links.len())
    }
}
