//! Requests to the server, on the current connection.
//!
//! The library sends a request when its future is *created*, in order. So every request here is under way when the
//! function returns, and may be awaited anywhere. Several requests made together take one round trip. While there is no
//! connection, requests queue, and are sent in the same order on the next one.

use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::{oneshot, watch};
use zookeeper_client::{
    Acls, Client, CreateMode, Error as Said, MultiReadResult, MultiWriteError, MultiWriteResult, Stat,
};

use crate::connection::{Connection, Watcher, Wire};
use crate::missing::MissingReply;

/// A reply under way.
pub(crate) type Asked<T, E = Said> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// For each requested node its data. None: there is no such node.
pub(crate) type Read = Vec<Option<(Vec<u8>, Stat)>>;

/// One part of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Creates a line's node. The server deletes it by itself after it has had children and has none any more.
    Line(String),
    /// Creates a claim's node: the beginning of its path, and the client's label.
    Node(String, Arc<str>),
    /// Deletes a node.
    Delete(String),
    /// Checks that a node exists.
    Check(String),
    /// Checks that a node's data have this version.
    Unwritten(String, i32),
    /// Writes these data to a node of this version.
    Write(String, String, i32),
}

/// Nodes that were made together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Made {
    /// The paths of the nodes that belong to claims.
    pub(crate) paths: Vec<String>,
    /// The transaction that made them.
    pub(crate) order: i64,
    /// The time of that transaction by the server's clock, in milliseconds.
    pub(crate) at: i64,
    /// The line's state at the end, if it was written to after them.
    pub(crate) line: Option<Stat>,
}

pub(crate) struct Link {
    way: Mutex<Way>,
    over: watch::Sender<bool>,
    acls: Acls<'static>,
    pub(crate) place: Arc<str>,
}

/// Where requests go.
enum Way {
    Open(Connection),
    /// There is no connection now.
    Lost(Vec<Queued>),
    /// The session is being closed: new requests are refused. The close itself is a missing answer too, if there is a
    /// connection.
    Closing(Arc<Wire>, Option<MissingReply>),
    Over,
}

/// A request that waits for a connection. It gets None if none will come.
type Queued = Box<dyn FnOnce(Option<Connection>) + Send>;

impl Link {
    pub(crate) fn new(connection: Connection, acls: Acls<'static>, place: Arc<str>) -> Self {
        Self { way: Mutex::new(Way::Open(connection)), over: watch::Sender::default(), acls, place }
    }

    /// The connection has ended: later requests wait for the next one. False: no next one is wanted, because the
    /// session is over.
    pub(crate) fn lose(&self) -> bool {
        let mut way = self.way();
        let lost = match &*way {
            Way::Open(_) => std::mem::replace(&mut *way, Way::Lost(Vec::new())),
            Way::Lost(_) | Way::Closing(..) => return true,
            Way::Over => return false,
        };
        drop(way);
        drop(lost);
        true
    }

    /// There is a connection again: sends the queued requests on it.
    pub(crate) fn attach(&self, connection: Connection) {
        loop {
            let mut way = self.way();
            let queued = match &mut *way {
                Way::Lost(queue) if !queue.is_empty() => std::mem::take(queue),
                Way::Lost(_) | Way::Open(_) => {
                    *way = Way::Open(connection);
                    return;
                }
                Way::Closing(wire, missing) => {
                    *missing = Some(connection.wire.missing.ask());
                    *wire = connection.wire.clone();
                    return; // dropping its last client ends the session
                }
                Way::Over => return,
            };
            drop(way);
            queued.into_iter().for_each(|ask| ask(Some(connection.clone())));
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(&*self.way(), Way::Open(connection) if !connection.wire.has_ended())
    }

    /// Closes the session once the last request under way is answered.
    pub(crate) fn close(&self) {
        let mut way = self.way();
        let before = match &*way {
            Way::Open(connection) => {
                let wire = connection.wire.clone();
                let missing = wire.missing.ask();
                std::mem::replace(&mut *way, Way::Closing(wire, Some(missing)))
            }
            Way::Lost(_) => std::mem::replace(&mut *way, Way::Closing(Arc::default(), None)),
            Way::Closing(..) | Way::Over => return,
        };
        drop(way);
        before.end();
    }

    /// Stops sending and reconnecting: either would keep the session alive.
    pub(crate) fn cut(&self) {
        let before = std::mem::replace(&mut *self.way(), Way::Over);
        if let Way::Open(Connection { wire, .. }) | Way::Closing(wire, _) = &before {
            wire.cut();
        }
        before.end();
        self.over.send_replace(true);
    }

    /// Waits until `cut` was called.
    pub(crate) async fn over(&self) {
        let _ = self.over.subscribe().wait_for(|over| *over).await; // the link holds the sender
    }

    fn way(&self) -> MutexGuard<'_, Way> {
        self.way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the node of a namespace, unless it exists.
    pub(crate) fn make_root(&self, path: &str) -> Asked<()> {
        let (path, acls) = (path.to_owned(), self.acls);
        self.begin(move |client| async move {
            match client.create(&path, b"", &CreateMode::Persistent.with_acls(acls)).await {
                Ok(_) | Err(Said::NodeExists) => Ok(()),
                // A user without the permission to create it may still use it.
                Err(Said::NoAuth) if client.check_stat(&path).await?.is_some() => Ok(()),
                Err(error) => Err(error),
            }
        })
    }

    /// Makes all of these changes or none.
    pub(crate) fn transact(&self, changes: Vec<Change>) -> Asked<Vec<MultiWriteResult>, MultiWriteError> {
        let acls = self.acls;
        self.begin(move |client| transact(client, acls, changes))
    }

    /// Creates one node of a claim.
    fn make_one(&self, path: String, label: Arc<str>) -> Asked<Made, MultiWriteError> {
        let acls = self.acls;
        self.begin(move |client| async move {
            let mode = CreateMode::EphemeralSequential.with_acls(acls);
            let (stat, sequence) = client.create(&path, label.as_bytes(), &mode).await?;
            let paths = vec![format!("{path}{sequence}")];
            Ok(Made { paths, order: stat.czxid, at: stat.ctime, line: None })
        })
    }

    /// The changes of one join or leave, all or nothing.
    pub(crate) fn make(&self, changes: &[Change], stamped: &str) -> Asked<Made, MultiWriteError> {
        if let [Change::Node(path, label)] = changes {
            return self.make_one(path.clone(), label.clone());
        }
        let making = self.make_all(&[changes], stamped);
        Box::pin(async move { Ok(making.await?.pop().unwrap_or_default()) })
    }

    /// The changes of several joins and leaves, all or nothing. Returns what each has made. Servers before 3.9 do not
    /// report which transaction created a node within a transaction, but they do report which one wrote to a node. So
    /// if a node is created and nothing is written, an empty text is written to `stamped`, which nobody watches.
    pub(crate) fn make_all(&self, parts: &[&[Change]], stamped: &str) -> Asked<Vec<Made>, MultiWriteError> {
        let mut changes = parts.concat();
        let has = |wanted: fn(&Change) -> bool| changes.iter().any(wanted);
        if has(|change| matches!(change, Change::Node(..)))
            && !has(|change| matches!(change, Change::Write(..)))
        {
            changes.push(Change::Write(stamped.to_owned(), String::new(), -1));
        }
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        let making = self.transact(changes);
        Box::pin(async move {
            let results = making.await?;
            let stamp = results.iter().find_map(written);
            let (order, at) = stamp.map_or((-1, -1), |stat| (stat.mzxid, stat.mtime)); // else nothing was made
            let mut rest = results.as_slice();
            let made = lengths.into_iter().map(|length| {
                let (part, others) = rest.split_at(length.min(rest.len()));
                rest = others;
                let paths = part.iter().filter_map(path).collect();
                Made { paths, order, at, line: part.iter().rev().find_map(written) }
            });
            Ok(made.collect())
        })
    }

    /// The children of a node.
    pub(crate) fn list(&self, path: &str) -> Asked<(Vec<String>, Stat)> {
        let path = path.to_owned();
        self.begin(move |client| async move { client.get_children(&path).await })
    }

    pub(crate) fn read(&self, path: &str) -> Asked<(Vec<u8>, Stat)> {
        let path = path.to_owned();
        self.begin(move |client| async move { client.get_data(&path).await })
    }

    pub(crate) fn stat(&self, path: &str) -> Asked<Option<Stat>> {
        let path = path.to_owned();
        self.begin(move |client| async move { client.check_stat(&path).await })
    }

    /// A node's state, and a watch for a change of its data or its deletion.
    pub(crate) fn watch_node(&self, path: &str) -> Asked<(Stat, Watcher)> {
        let path = path.to_owned();
        self.begin_on(move |Connection { client, wire, .. }| async move {
            let (_, stat, watcher) = client.get_and_watch_data(&path).await?;
            Ok((stat, Watcher::new(watcher, wire)))
        })
    }

    /// A node's state, and a watch for a change of its children or its deletion.
    pub(crate) fn watch_children(&self, path: &str) -> Asked<(Stat, Watcher)> {
        let path = path.to_owned();
        self.begin_on(move |Connection { client, wire, .. }| async move {
            let (_, stat, watcher) = client.get_and_watch_children(&path).await?;
            Ok((stat, Watcher::new(watcher, wire)))
        })
    }

    /// Writes to a node of any version. The request is sent even if the future is dropped.
    pub(crate) fn write(&self, path: String, data: Arc<str>) -> Asked<Stat> {
        self.begin(move |client| async move { client.set_data(&path, data.as_bytes(), None).await })
    }

    /// The data of several nodes.
    pub(crate) fn read_all(&self, paths: Vec<String>) -> Asked<Read> {
        self.begin(move |client| async move {
            let mut reader = client.new_multi_reader();
            for path in &paths {
                reader.add_get_data(path)?;
            }
            let some = |result| match result {
                MultiReadResult::Data { data, stat } => Ok(Some((data, stat))),
                // Only this error means that the node is gone. A node that this user must not read, for instance, still
                // exists.
                MultiReadResult::Error { err: Said::NoNode } => Ok(None),
                MultiReadResult::Error { err } => Err(err),
                other => Err(Said::UnexpectedError(format!("expected data, got {other:?}"))),
            };
            reader.commit().await?.into_iter().map(some).collect()
        })
    }

    /// The children of a node, after our server has caught up with the leader.
    pub(crate) fn list_latest(&self, path: &str) -> Asked<(Vec<String>, Stat)> {
        let (synced, listed) = (self.sync(path), self.list(path));
        Box::pin(async move {
            synced.await?;
            listed.await
        })
    }

    fn sync(&self, path: &str) -> Asked<()> {
        let path = path.to_owned();
        self.begin(move |client| async move { client.sync(&path).await })
    }

    /// The paths of all nodes of this session below a path.
    pub(crate) fn own(&self, path: &str) -> Asked<Vec<String>> {
        let path = path.to_owned();
        self.begin(move |client| async move { client.list_ephemerals(&path).await })
    }

    fn begin<T, E, F>(&self, ask: impl FnOnce(Arc<Client>) -> F + Send + 'static) -> Asked<T, E>
    where
        T: Send + 'static,
        E: From<Said> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        self.begin_on(move |Connection { client, .. }| ask(client))
    }

    fn begin_on<T, E, F>(&self, ask: impl FnOnce(Connection) -> F + Send + 'static) -> Asked<T, E>
    where
        T: Send + 'static,
        E: From<Said> + Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let mut way = self.way();
        if let Way::Open(connection) = &*way {
            let connection = connection.clone();
            if !connection.wire.has_ended() {
                drop(way);
                return begin(connection, ask);
            }
            *way = Way::Lost(Vec::new());
        }
        let Way::Lost(queue) = &mut *way else {
            return Box::pin(ready(Err(Said::ClientClosed.into())));
        };
        let (sent, asking) = oneshot::channel::<Asked<T, E>>();
        queue.push(Box::new(move |connection| {
            let asked = match connection {
                Some(connection) => begin(connection, ask),
                None => Box::pin(ready(Err(Said::ClientClosed.into()))),
            };
            drop(sent.send(asked)); // it is sent even if nothing waits for the reply
        }));
        Box::pin(async move {
            match asking.await {
                Ok(asked) => asked.await,
                Err(_) => Err(Said::ClientClosed.into()),
            }
        })
    }
}

impl Way {
    /// Fails the queued requests: no connection follows.
    fn end(self) {
        if let Self::Lost(queue) = self {
            queue.into_iter().for_each(|ask| ask(None));
        }
    }
}

/// A transaction that changes nothing. Only a leader with a majority answers it.
pub(crate) fn confirm(connection: &Connection, path: &str) -> Asked<Vec<MultiWriteResult>, MultiWriteError> {
    let check = vec![Change::Check(path.to_owned())];
    begin(connection.clone(), |Connection { client, .. }| transact(client, Acls::anyone_all(), check))
}

async fn transact(
    client: Arc<Client>,
    acls: Acls<'static>,
    changes: Vec<Change>,
) -> Result<Vec<MultiWriteResult>, MultiWriteError> {
    let mut writer = client.new_multi_writer();
    for change in &changes {
        match change {
            Change::Line(path) => {
                writer.add_create(path, b"", &CreateMode::Container.with_acls(acls))?;
            }
            Change::Node(path, label) => {
                let mode = CreateMode::EphemeralSequential.with_acls(acls);
                writer.add_create(path, label.as_bytes(), &mode)?;
            }
            Change::Delete(path) => writer.add_delete(path, None)?,
            Change::Check(path) => writer.add_check_version(path, -1)?,
            Change::Unwritten(path, version) => writer.add_check_version(path, *version)?,
            Change::Write(path, data, version) => {
                writer.add_set_data(path, data.as_bytes(), Some(*version))?;
            }
        }
    }
    writer.commit().await
}

/// The path of a created node.
fn path(result: &MultiWriteResult) -> Option<String> {
    match result {
        MultiWriteResult::Create { path, .. } => Some(path.clone()),
        _ => None,
    }
}

/// The state of a node that was written to.
fn written(result: &MultiWriteResult) -> Option<Stat> {
    match result {
        MultiWriteResult::SetData { stat } => Some(*stat),
        _ => None,
    }
}

/// Sends a request. The future waits as long as a reply can come.
fn begin<T, E, F>(connection: Connection, ask: impl FnOnce(Connection) -> F) -> Asked<T, E>
where
    T: Send + 'static,
    E: From<Said> + Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    let wire = connection.wire.clone();
    begun(wire.hear(ask(connection)))
}

/// Polls the future once, which sends the request. The caller polls it again for the reply.
fn begun<T: Send + 'static>(
    asking: impl Future<Output = T> + Send + 'static,
) -> Pin<Box<dyn Future<Output = T> + Send>> {
    let mut asking = Box::pin(asking);
    match asking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Box::pin(ready(answer)),
        Poll::Pending => asking,
    }
}

impl fmt::Debug for Link {
    /// Without the session's password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Link({})", self.place)
    }
}
