//! What a backend has to bring to be measured: its clients, and its store's bare commands as the twin.

use std::sync::Arc;

use tidelock::Locks;

use crate::Result;
use crate::count::Counts;
use crate::exclusion::Exclusion;

/// A backend, with the bare commands that its figures are set beside.
#[allow(async_fn_in_trait)] // only this workspace's programs implement it
pub trait Subject: Sized + Send + Sync + 'static {
    /// The store's bare commands.
    type Bare: Exclusion;
    /// The barest way to wake one who waits.
    type Baton: Exclusion;
    /// A number in the same store.
    type Stock: Stock;

    /// The backend's name, as on the command line.
    fn name(&self) -> &'static str;

    /// What the bare commands are, in a few words for a table's head.
    fn twin(&self) -> &'static str;

    /// What a reader must know of these figures and counts, a sentence each.
    fn remarks(&self) -> Vec<String>;

    /// The flags by which another process of this program reaches the same store, or why none can.
    fn flags(&self) -> Result<Vec<String>, &'static str>;

    /// One more client, as good as a process of its own.
    async fn client(&self) -> Result<Arc<dyn Locks>>;

    /// The twin of so many tasks, each with a name of its own; then whatever else people do instead.
    async fn bare_own(&self, tasks: usize) -> Result<Vec<Twin<Self::Bare>>>;

    /// The twin of so many tasks on one name. A store whose bare commands do not queue gives one task's pairs: no
    /// line can be quicker than nobody waiting.
    async fn bare_hot(&self, tasks: usize) -> Result<Vec<Self::Bare>>;

    /// The two sides of a bare hand-off: what one gives back, one who waits on the other takes.
    async fn bare_handoff(&self) -> Result<[Self::Baton; 2]>;

    /// A twin that excludes, so that a sale may be held under it; `None` where bare commands do not.
    async fn bare_lock(&self) -> Result<Option<Self::Bare>>;

    /// A fresh number in the store.
    async fn stock(&self, number: u32) -> Result<Self::Stock>;

    /// The same, but counted. Nothing is timed on it.
    async fn counted(&self) -> Result<Self>;

    /// What the store was asked and told so far, by every client of a subject that is counted.
    async fn counts(&self) -> Result<Counts>;

    /// What a server says of itself, at little cost; `None` where there is no server.
    async fn load(&self) -> Result<Option<Load>>;

    /// Takes away what a scenario has left in the store, and nothing that is not this run's own.
    async fn clean(&self) -> Result<()>;
}

/// One way to do without Tidelock, as each task has it.
#[derive(Debug)]
pub struct Twin<B> {
    /// What it does, in a few words.
    pub called: &'static str,
    /// One for each task.
    pub tasks: Vec<B>,
}

/// What a server says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Bytes that its data takes.
    pub memory: f64,
    /// Everything that it has done so far, the asking for this included. Only that it grows means something.
    pub done: f64,
    /// Seconds of processor that it has used so far.
    pub cpu: f64,
}

/// A number in a store: what a sale takes from.
pub trait Stock: Clone + Send + Sync + 'static {
    /// One bare read.
    fn read(&self) -> impl Future<Output = Result<u32>> + Send;

    /// One bare write.
    fn write(&self, number: u32) -> impl Future<Output = Result<()>> + Send;

    /// The store's own atomic decrement, not below zero. Says whether there was one to take.
    fn take_one(&self) -> impl Future<Output = Result<bool>> + Send;
}
