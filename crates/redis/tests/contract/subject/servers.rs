//! The servers behind a URL: a single one, the master that sentinels name with its replicas, or the nodes of a
//! cluster.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, FromRedisValue, IntoConnectionInfo,
    cmd,
};
use tidelock_core::{Error, ErrorKind, Result};

/// How long servers may take to be in step again. By default a sentinel waits eight seconds before it makes a returned
/// master a replica, and tries no second failover within six minutes.
const IN_STEP: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(50);
/// How long one answer may take: a node that gives a slot away may first wait for its replicas.
const ANSWER: Duration = Duration::from_secs(3);

/// How the servers of one kind of Redis are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Alone,
    /// With the name of the master.
    Sentinels(String),
    Cluster,
}

type Fields = HashMap<String, String>;

#[derive(Debug)]
pub(super) struct Servers {
    pub(super) shape: Shape,
    /// The servers that the URL names: servers with data, or sentinels.
    seeds: Vec<Client>,
    /// The connection options for servers with data, except the address.
    like: ConnectionInfo,
}

/// One server with data.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) is_master: bool,
    /// Its id in the cluster, and its slots.
    pub(super) id: String,
    pub(super) slots: Vec<RangeInclusive<u16>>,
    client: Client,
}

impl Servers {
    /// The servers of a URL that tidelock-redis accepts.
    pub(super) fn of(url: &str) -> Result<Self> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("redis", url));
        let (rest, name) = rest.split_once('#').unwrap_or((rest, ""));
        let (scheme, shape) = match scheme.split_once('-') {
            Some((scheme, "sentinel")) => (scheme, Shape::Sentinels(name.to_owned())),
            Some((scheme, "cluster")) => (scheme, Shape::Cluster),
            _ => {
                let like = url.into_connection_info().map_err(trouble)?;
                let seeds = vec![Client::open(like.clone()).map_err(trouble)?];
                return Ok(Self { shape: Shape::Alone, seeds, like });
            }
        };
        let (who, rest) =
            rest.rsplit_once('@').map_or((String::new(), rest), |(who, rest)| (format!("{who}@"), rest));
        let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
        let at = |who: &str, host: &str| format!("{scheme}://{who}{host}/{database}");
        // Sentinels are asked without a user.
        let whom = if shape == Shape::Cluster { who.as_str() } else { "" };
        let seeds = hosts.split(',').map(|host| Client::open(at(whom, host)));
        let seeds = seeds.collect::<redis::RedisResult<_>>().map_err(trouble)?;
        let first = hosts.split(',').next().unwrap_or_default();
        Ok(Self { shape, seeds, like: at(&who, first).into_connection_info().map_err(trouble)? })
    }

    /// All servers with data, whether or not they are up.
    pub(super) async fn all(&self) -> Result<Vec<Node>> {
        let mut why = Error::new(ErrorKind::Unavailable, "the URL names no server");
        for seed in &self.seeds {
            match self.all_as_known_to(seed).await {
                Ok(nodes) => return Ok(nodes),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// The servers that have names.
    pub(super) async fn masters(&self) -> Result<Vec<Node>> {
        Ok(self.all().await?.into_iter().filter(|node| node.is_master).collect())
    }

    /// The masters as each server of the URL knows them, if it answers.
    pub(super) async fn masters_as_known_to_each(&self) -> Vec<Vec<Node>> {
        let mut views = Vec::new();
        for seed in &self.seeds {
            let known = self.all_as_known_to(seed).await;
            views.extend(known.map(|nodes| nodes.into_iter().filter(|node| node.is_master).collect()));
        }
        views
    }

    /// Waits until all servers know the same masters, and every replica has all its master's data.
    pub(super) async fn settle(&self) -> Result<()> {
        let last = Mutex::new(None); // the reason at the last check
        let are_in_step = async || {
            let found = self.are_in_step().await;
            let is_so = found.is_ok();
            *last.lock().unwrap_or_else(PoisonError::into_inner) = found.err();
            Ok(is_so)
        };
        in_time("the servers are in step", are_in_step).await.map_err(|late| {
            match last.lock().unwrap_or_else(PoisonError::into_inner).take() {
                Some(why) => Error::new(late.kind(), format!("{late}: {why}")),
                None => late,
            }
        })
    }

    /// The reason why they are not in step, if so.
    async fn are_in_step(&self) -> Result<()> {
        let not_yet = |why: String| Err(Error::new(ErrorKind::Unavailable, why));
        let mut known: Option<Vec<(u16, bool)>> = None;
        for seed in &self.seeds {
            if let Some(wrong) = what_is_wrong(seed, &self.shape).await? {
                return not_yet(wrong);
            }
            let mut nodes: Vec<_> =
                self.all_as_known_to(seed).await?.iter().map(|node| (node.port, node.is_master)).collect();
            nodes.sort_unstable();
            let first = known.get_or_insert_with(|| nodes.clone());
            if first != &nodes {
                return not_yet(format!("one server knows {first:?}, another knows {nodes:?}"));
            }
        }
        for node in self.all().await? {
            if !node.is_in_step().await? {
                return not_yet(format!("{}:{} is not in step", node.host, node.port));
            }
        }
        Ok(())
    }

    async fn all_as_known_to(&self, seed: &Client) -> Result<Vec<Node>> {
        match &self.shape {
            Shape::Alone => Ok(vec![Node::of(String::new(), 0, true, seed.clone())]),
            Shape::Sentinels(name) => {
                let (master, replicas) = ask_sentinel(seed, name).await?;
                let master = self.node(&master["ip"], &master["port"], true);
                let replicas =
                    replicas.iter().map(|replica| self.node(&replica["ip"], &replica["port"], false));
                std::iter::once(master).chain(replicas).collect()
            }
            Shape::Cluster => {
                let nodes: String = ask(&mut connect(seed).await?, cmd("CLUSTER").arg("NODES")).await?;
                nodes.lines().map(|line| self.line(line)).collect()
            }
        }
    }

    /// `ID HOST:PORT@BUS[,NAME] FLAGS MASTER PING PONG EPOCH LINK [SLOTS…]`
    fn line(&self, line: &str) -> Result<Node> {
        let words: Vec<&str> = line.split(' ').collect();
        let strange =
            || Error::new(ErrorKind::Unsupported, format!("cannot read this line of CLUSTER NODES: {line}"));
        let [id, address, flags, _, _, _, _, _, slots @ ..] = words.as_slice() else { return Err(strange()) };
        let (host, port) =
            address.split('@').next().and_then(|place| place.rsplit_once(':')).ok_or_else(strange)?;
        let is_failed = flags.split(',').any(|flag| flag == "fail");
        let is_master = flags.contains("master") && !is_failed && !slots.is_empty();
        let mut node = self.node(host, port, is_master)?;
        node.id = (*id).to_owned();
        node.slots = slots.iter().filter_map(|slots| range(slots)).collect();
        Ok(node)
    }

    fn node(&self, host: &str, port: &str, is_master: bool) -> Result<Node> {
        let strange =
            || Error::new(ErrorKind::Unsupported, format!("cannot read the port of a node: {port:?}"));
        let port = port.parse().map_err(|_| strange())?;
        let host = host.to_owned();
        let addr = match self.like.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host: host.clone(), port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host.clone(), port),
        };
        let client = Client::open(self.like.clone().set_addr(addr)).map_err(trouble)?;
        Ok(Node::of(host, port, is_master, client))
    }
}

impl Node {
    fn of(host: String, port: u16, is_master: bool, client: Client) -> Self {
        Self { host, port, is_master, id: String::new(), slots: Vec::new(), client }
    }

    /// A connection for a few commands: each trial has its own runtime, and connections do not outlive it.
    pub(super) async fn connect(&self) -> Result<MultiplexedConnection> {
        connect(&self.client).await
    }

    pub(super) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T> {
        ask(&mut self.connect().await?, command).await
    }

    /// Whether it has the role that it is known for, and, as a replica, whether it hears its master.
    pub(super) async fn is_in_step(&self) -> Result<bool> {
        let info: String = self.ask(cmd("INFO").arg("replication")).await?;
        Ok(match self.is_master {
            true => info.contains("role:master"),
            false => info.contains("role:slave") && info.contains("master_link_status:up"),
        })
    }
}

/// Waits for something that servers do by themselves. A server that does not answer has not done it yet.
pub(super) async fn in_time<F>(what: &str, mut is_done: impl FnMut() -> F + Send) -> Result<()>
where
    F: Future<Output = Result<bool>> + Send,
{
    let waiting = async {
        while !is_done().await.unwrap_or(false) {
            tokio::time::sleep(GLANCE).await;
        }
    };
    let late =
        |_| Error::new(ErrorKind::Unavailable, format!("this did not happen within {IN_STEP:?}: {what}"));
    tokio::time::timeout(IN_STEP, waiting).await.map_err(late)
}

/// `FIRST-LAST`, or a single slot. `None` for a slot that is being moved: `[SLOT->-ID]`.
fn range(slots: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = slots.split_once('-').unwrap_or((slots, slots));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

/// What is wrong with the other servers, as one server of the URL sees it.
async fn what_is_wrong(seed: &Client, shape: &Shape) -> Result<Option<String>> {
    match shape {
        Shape::Alone => Ok(None),
        Shape::Sentinels(name) => {
            let (master, replicas) = ask_sentinel(seed, name).await?;
            let is_well =
                master["flags"] == "master" && replicas.iter().all(|replica| replica["flags"] == "slave");
            Ok((!is_well)
                .then(|| format!("a sentinel knows the master {master:?} and the replicas {replicas:?}")))
        }
        Shape::Cluster => {
            let mut connection = connect(seed).await?;
            let info: String = ask(&mut connection, cmd("CLUSTER").arg("INFO")).await?;
            let nodes: String = ask(&mut connection, cmd("CLUSTER").arg("NODES")).await?;
            let is_whole =
                ["cluster_state:ok", "cluster_slots_ok:16384"].iter().all(|line| info.contains(line));
            let is_well = is_whole && !nodes.contains("fail");
            Ok((!is_well).then(|| format!("a node reports: {info}{nodes}")))
        }
    }
}

/// What a sentinel knows about a master and each of its replicas.
async fn ask_sentinel(seed: &Client, name: &str) -> Result<(Fields, Vec<Fields>)> {
    let mut sentinel = connect(seed).await?;
    let ask_for = |what: &str| cmd("SENTINEL").arg(what).arg(name).to_owned();
    let master = ask(&mut sentinel, &ask_for("MASTER")).await?;
    Ok((master, ask(&mut sentinel, &ask_for("REPLICAS")).await?))
}

async fn connect(client: &Client) -> Result<MultiplexedConnection> {
    let config =
        AsyncConnectionConfig::new().set_connection_timeout(Some(ANSWER)).set_response_timeout(Some(ANSWER));
    client.get_multiplexed_async_connection_with_config(&config).await.map_err(trouble)
}

pub(super) async fn ask<T: FromRedisValue>(
    connection: &mut MultiplexedConnection,
    command: &Cmd,
) -> Result<T> {
    command.query_async(connection).await.map_err(trouble)
}

fn trouble(error: redis::RedisError) -> Error {
    Error::new(ErrorKind::Unavailable, "the suite's own connection to Redis failed").because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_say_what_kind_of_redis_it_is() {
        let shape = |url: &str| Servers::of(url).unwrap().shape;
        assert_eq!(shape("redis://127.0.0.1:1"), Shape::Alone);
        assert_eq!(shape("redis-sentinel://a:b@h:1,i:2/0#main"), Shape::Sentinels("main".to_owned()));
        assert_eq!(shape("redis-cluster://h:1,i:2"), Shape::Cluster);
        assert_eq!(Servers::of("redis-cluster://h:1,i:2").unwrap().seeds.len(), 2);
    }

    #[test]
    fn a_master_that_has_failed_is_none() {
        let servers = Servers::of("redis-cluster://h:1").unwrap();
        let is_master = |line: &str| servers.line(line).unwrap().is_master;
        assert!(is_master("a1 127.0.0.1:7@17 myself,master - 0 0 1 connected 0-5460"));
        assert!(!is_master("a2 127.0.0.1:8@18,host master,fail - 0 0 2 disconnected"));
        assert!(!is_master("a3 127.0.0.1:9@19 slave a1 0 0 1 connected"));
        assert_eq!(servers.line("a3 127.0.0.1:9@19 slave a1 0 0 1 connected").unwrap().port, 9);
        assert!(servers.line("nonsense").is_err());
    }

    #[test]
    fn a_master_has_its_slots_and_none_that_is_on_its_way() {
        let servers = Servers::of("redis-cluster://h:1").unwrap();
        let line = "a1 127.0.0.1:7@17 myself,master - 0 0 1 connected 0-5460 7000 [93->-b2]";
        let node = servers.line(line).unwrap();
        assert_eq!((node.id.as_str(), node.slots), ("a1", vec![0..=5_460, 7_000..=7_000]));
    }
}
