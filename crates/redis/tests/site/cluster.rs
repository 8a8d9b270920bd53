//! The cluster, for one test at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::{Client, Connection, FromRedisValue, RedisResult};
use tokio::sync::{Mutex, MutexGuard};

use super::{command, until};

pub(crate) fn url() -> String {
    std::env::var("TIDELOCK_REDIS_CLUSTER_URL")
        .expect("TIDELOCK_REDIS_CLUSTER_URL has the nodes; cargo xtask test sets it")
}

static ONE: Mutex<()> = Mutex::const_new(());

/// As long as this lives, no other test of this program has the cluster. It is healthy when a test gets it.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<String>,
    _turn: MutexGuard<'static, ()>,
}

impl Cluster {
    pub(crate) async fn new() -> Self {
        let turn = ONE.lock().await;
        let url = url();
        let nodes = url.split_once("://").unwrap().1.split(',').map(str::to_owned).collect();
        let cluster = Self { nodes, _turn: turn };
        cluster.is_whole().await;
        cluster
    }

    /// Every node knows, too, who has which slots.
    pub(crate) async fn is_whole(&self) {
        until("every master has a replica that is in step", async || {
            let (mut masters, mut owners) = (0, BTreeSet::new());
            for node in &self.nodes {
                let mut node = connect(node);
                let state: String = ask(&mut node, "CLUSTER INFO");
                let nodes: String = ask(&mut node, "CLUSTER NODES");
                let role: String = ask(&mut node, "INFO replication");
                let is_master = role.contains("role:master");
                let is_well = match is_master {
                    true => role.contains("state=online"),
                    false => role.contains("master_link_status:up"),
                };
                if !is_well || !state.contains("cluster_state:ok") || nodes.contains("fail") {
                    return None;
                }
                masters += u32::from(is_master);
                owners.insert(owners_of_slots(&nodes));
            }
            (masters == 3 && owners.len() == 1).then_some(())
        })
        .await;
    }
}

/// Who has which slots, from a node's view of the others.
fn owners_of_slots(nodes: &str) -> BTreeSet<Vec<String>> {
    let of_node = |line: &str| {
        let is_told = |(at, field): &(usize, &str)| *at == 0 || *at > 7 && !field.starts_with('['); // not in a move
        line.split_whitespace().enumerate().filter(is_told).map(|(_, field)| field.to_owned()).collect()
    };
    nodes.lines().map(of_node).collect()
}

pub(crate) fn connect(address: &str) -> Connection {
    try_connect(address).unwrap()
}

pub(crate) fn try_connect(address: &str) -> RedisResult<Connection> {
    let limit = Duration::from_secs(5);
    Client::open(format!("redis://{address}")).unwrap().get_connection_with_timeout(limit)
}

pub(crate) fn ask<T: FromRedisValue>(node: &mut Connection, words: &str) -> T {
    command(words).query(node).unwrap_or_else(|error| panic!("{words}: {error}"))
}
