//! The connection, and what is asked on it.
//!
//! The library sends a request when its future is *made*, in order. So whatever is asked here is under way when the
//! function returns, and may be waited for anywhere; several that are asked together take one round trip.

use std::fmt;
use std::future::{Future, poll_fn, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task::{Context, Poll, Waker};

use tokio::task::AbortHandle;
use zookeeper_client::{
    Acls, Client, CreateMode, Error as Said, MultiReadResult, MultiWriteError, MultiWriteResult, Stat,
};

/// An answer under way.
pub(crate) type Asked<T, E = Said> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// Of each node asked for its data, or None: it is not there.
pub(crate) type Read = Vec<Option<(Vec<u8>, Stat)>>;

/// One part of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// A node that is a line; it goes by itself when it has had children, and has none any more.
    Line(String),
    /// A node of a claim: what its path begins with, and whose it is.
    Node(String, Arc<str>),
    /// A node is deleted.
    Delete(String),
    /// A node exists.
    Check(String),
    /// A node of this version gets these data.
    Write(String, String, i32),
}

/// Nodes that were made together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Made {
    /// The paths of those that belong to claims.
    pub(crate) paths: Vec<String>,
    /// The transaction that made them.
    pub(crate) order: i64,
    /// When that was by the server's clock, in milliseconds.
    pub(crate) at: i64,
    /// The line, if it was written to behind them.
    pub(crate) line: Option<Stat>,
}

pub(crate) struct Link {
    /// None: it is closed.
    client: RwLock<Option<Arc<Client>>>,
    serving: Serving,
    acls: Acls<'static>,
    pub(crate) place: Arc<str>,
}

impl Link {
    pub(crate) fn new((client, serving): (Client, Serving), acls: Acls<'static>, place: Arc<str>) -> Self {
        Self { client: RwLock::new(Some(Arc::new(client))), serving, acls, place }
    }

    /// Nothing is sent any more, and no connection made again: each would keep the session alive.
    pub(crate) fn cut(&self) {
        drop(self.close());
        self.serving.end();
    }

    pub(crate) fn client(&self) -> Result<Arc<Client>, Said> {
        self.client.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(Said::ClientClosed)
    }

    /// The connection ends, and the session with it, when the last request under way is answered.
    pub(crate) fn close(&self) -> Option<Arc<Client>> {
        self.client.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Makes the node of a namespace, unless it is there.
    pub(crate) async fn make_root(&self, path: &str) -> Result<(), Said> {
        let client = self.client()?;
        match client.create(path, b"", &CreateMode::Persistent.with_acls(self.acls)).await {
            Ok(_) | Err(Said::NodeExists) => Ok(()),
            // Whoever may not make it may use it all the same.
            Err(Said::NoAuth) if client.check_stat(path).await?.is_some() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// All of it or nothing.
    pub(crate) fn transact(&self, changes: Vec<Change>) -> Asked<Vec<MultiWriteResult>, MultiWriteError> {
        let acls = self.acls;
        match self.client() {
            Ok(client) => begun(async move {
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
                        Change::Write(path, data, version) => {
                            writer.add_set_data(path, data.as_bytes(), Some(*version))?;
                        }
                    }
                }
                writer.commit().await
            }),
            Err(closed) => Box::pin(ready(Err(closed.into()))),
        }
    }

    /// One node of a claim.
    fn make_one(&self, path: String, label: Arc<str>) -> Asked<Made, MultiWriteError> {
        let acls = self.acls;
        match self.client() {
            Ok(client) => begun(async move {
                let mode = CreateMode::EphemeralSequential.with_acls(acls);
                let (stat, sequence) = client.create(&path, label.as_bytes(), &mode).await?;
                Ok(Made {
                    paths: vec![format!("{path}{sequence}")],
                    order: stat.czxid,
                    at: stat.ctime,
                    line: None,
                })
            }),
            Err(closed) => Box::pin(ready(Err(closed.into()))),
        }
    }

    /// What one join or leave changes, all or nothing.
    pub(crate) fn make(&self, changes: &[Change], stamped: &str) -> Asked<Made, MultiWriteError> {
        if let [Change::Node(path, label)] = changes {
            return self.make_one(path.clone(), label.clone());
        }
        let making = self.make_all(&[changes], stamped);
        Box::pin(async move { Ok(making.await?.pop().unwrap_or_default()) })
    }

    /// What several joins and leaves change, all or nothing; what each has made. Servers before 3.9 do not say which
    /// transaction made a node among others; but they do say which one wrote to a node. So if any is made and none is
    /// written to, nothing is written to `stamped`, which nobody watches.
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
            let (order, at) = stamp.map_or((-1, -1), |stat| (stat.mzxid, stat.mtime)); // nothing was made
            let mut rest = results.as_slice();
            let made = lengths.into_iter().map(|length| {
                let (part, others) = rest.split_at(length.min(rest.len()));
                rest = others;
                let paths = part.iter().filter_map(path).collect();
                Made { paths, order, at, line: part.iter().find_map(written) }
            });
            Ok(made.collect())
        })
    }

    /// The children of a node.
    pub(crate) fn list(&self, path: &str) -> Asked<(Vec<String>, Stat)> {
        self.ask(|client| client.get_children(path))
    }

    pub(crate) fn read(&self, path: &str) -> Asked<(Vec<u8>, Stat)> {
        self.ask(|client| client.get_data(path))
    }

    pub(crate) fn stat(&self, path: &str) -> Asked<Option<Stat>> {
        self.ask(|client| client.check_stat(path))
    }

    /// The data of several nodes.
    pub(crate) fn read_all(&self, paths: Vec<String>) -> Asked<Read> {
        self.begin(move |client| async move {
            let mut reader = client.new_multi_reader();
            for path in &paths {
                reader.add_get_data(path)?;
            }
            let some = |result| match result {
                MultiReadResult::Data { data, stat } => Some((data, stat)),
                _ => None,
            };
            Ok(reader.commit().await?.into_iter().map(some).collect())
        })
    }

    /// The children of a node, when the server that we are connected to has caught up with the leader.
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

    fn ask<T, F>(&self, ask: impl FnOnce(&Client) -> F) -> Asked<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Said>> + Send + 'static,
    {
        match self.client() {
            Ok(client) => Box::pin(ask(&client)),
            Err(closed) => Box::pin(ready(Err(closed))),
        }
    }

    fn begin<T, F>(&self, ask: impl FnOnce(Arc<Client>) -> F) -> Asked<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Said>> + Send + 'static,
    {
        match self.client() {
            Ok(client) => begun(ask(client)),
            Err(closed) => Box::pin(ready(Err(closed))),
        }
    }
}

/// The task by which the library serves one session.
#[derive(Debug, Default)]
pub(crate) struct Serving(Mutex<Option<AbortHandle>>);

impl Serving {
    /// Connects, and keeps what is spawned for it.
    pub(crate) async fn connect<F>(connecting: F) -> Result<(Client, Self), Said>
    where
        F: Future<Output = Result<Client, Said>>,
    {
        let serving = Self::default();
        let mut connecting = std::pin::pin!(connecting);
        let client = poll_fn(|cx| {
            let _scope = spawns_core::enter(&serving);
            connecting.as_mut().poll(cx)
        })
        .await?;
        Ok((client, serving))
    }

    fn end(&self) {
        if let Some(task) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            task.abort();
        }
    }
}

impl spawns_core::Spawn for Serving {
    fn spawn(&self, task: spawns_core::Task) {
        let spawned = tokio::spawn(Box::into_pin(task.future)).abort_handle();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(spawned);
    }
}

/// Of a node that was made.
fn path(result: &MultiWriteResult) -> Option<String> {
    match result {
        MultiWriteResult::Create { path, .. } => Some(path.clone()),
        _ => None,
    }
}

/// Of a node that was written to.
fn written(result: &MultiWriteResult) -> Option<Stat> {
    match result {
        MultiWriteResult::SetData { stat } => Some(*stat),
        _ => None,
    }
}

/// The same, after its first poll, which sends. Whoever waits polls it again.
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
