//! What a backend needs to be measured: its clients, and its store's bare commands as the twin.

use std::sync::Arc;

use tidelock_core::{Locks, Options};

use crate::Result;
use crate::count::Counts;
use crate::exclusion::Exclusion;

/// A backend, with the bare commands that its figures are compared with.
#[allow(async_fn_in_trait)] // only this workspace's programs implement it
pub trait Subject: Sized + Send + Sync + 'static {
    /// The store's bare commands.
    type Bare: Exclusion;
    /// The barest way to wake a waiter.
    type BareHandOff: Exclusion;
    /// A number in the same store.
    type Stock: Stock;

    /// The backend's name, as on the command line.
    fn name(&self) -> &'static str;

    /// The bare commands in a few words, for a table's head.
    fn twin(&self) -> &'static str;

    /// What a reader must know about these figures and counts, one sentence each.
    fn remarks(&self) -> Vec<String>;

    /// The flags with which another process of this program reaches the same store, or why none can.
    fn flags(&self) -> Result<Vec<String>, &'static str>;

    /// One more client, equivalent to a process of its own. The namespace is the subject's, whatever these options say.
    async fn client(&self, options: Options) -> Result<Arc<dyn Locks>>;

    /// Twins for this many tasks, each with its own name; then other common ways to do without Tidelock.
    async fn bare_own(&self, tasks: usize) -> Result<Vec<Twin<Self::Bare>>>;

    /// The twins of this many tasks on one name. If a store's bare commands do not queue, this is the pairs of one
    /// task: no line can be faster than a task that never waits.
    async fn bare_hot(&self, tasks: usize) -> Result<Vec<Self::Bare>>;

    /// The two sides of a bare hand-off: a waiter on one side takes what the other side gives back.
    async fn bare_handoff(&self) -> Result<[Self::BareHandOff; 2]>;

    /// A twin that excludes, so that a sale can run under it; `None` if bare commands do not exclude.
    async fn bare_lock(&self) -> Result<Option<Self::Bare>>;

    /// A fresh number in the store.
    async fn stock(&self, number: u32) -> Result<Self::Stock>;

    /// The same subject with counting. Nothing is timed on it.
    async fn counted(&self) -> Result<Self>;

    /// The traffic of the store so far, for all clients of a counted subject.
    async fn counts(&self) -> Result<Counts>;

    /// The server's own report of its load, at little cost; `None` if there is no server.
    async fn load(&self) -> Result<Option<Load>>;

    /// Deletes everything that a scenario has left in the store, and nothing else.
    async fn clean(&self) -> Result<()>;
}

/// One way to do without Tidelock, for each task.
#[derive(Debug)]
pub struct Twin<B> {
    /// What it does, in a few words.
    pub called: &'static str,
    /// One for each task.
    pub tasks: Vec<B>,
}

/// A server's report of its load.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The bytes of its data.
    pub memory: f64,
    /// All work so far, including this request. Only its growth has a meaning.
    pub done: f64,
    /// Seconds of processor time so far.
    pub cpu: f64,
}

/// A number in a store, which a sale decrements.
pub trait Stock: Clone + Send + Sync + 'static {
    /// One bare read.
    fn read(&self) -> impl Future<Output = Result<u32>> + Send;

    /// One bare write.
    fn write(&self, number: u32) -> impl Future<Output = Result<()>> + Send;

    /// The store's own atomic decrement, not below zero. Returns whether there was one to take.
    fn take_one(&self) -> impl Future<Output = Result<bool>> + Send;
}
