//! One kind of server, as far as the benchmark needs it: how clients reach it, and its bare commands.

use std::fmt;
use std::sync::Arc;

use tidelock_core::{Locks, Options};

use crate::Result;
use crate::bare_hand_off::{BareHandOff, Signaller};
use crate::count::Counts;
use crate::exclusion::Exclusion;
use crate::subject::{Load, Stock, Twin};

/// A server of one kind, as an operator reaches it. Its bare commands do not queue: a task never waits for another.
#[allow(async_fn_in_trait)] // only this workspace's programs implement it
pub trait Site: fmt::Debug + Sized + Send + Sync + 'static {
    /// The backend's name, as on the command line.
    const NAME: &'static str;
    /// The bare commands in a few words, for a table's head.
    const TWIN: &'static str;
    /// What a URL of such a server looks like.
    const LIKE: &'static str;
    /// What a reader must know about these figures and counts, one sentence each.
    const REMARKS: &'static [&'static str];

    /// The store's bare commands.
    type Bare: Exclusion;
    /// Its barest signal.
    type Signal: Signaller;
    /// A number in the same store.
    type Stock: Stock;
    /// What counts the traffic of a server.
    type Meter: Send + Sync;

    /// The server at this URL. The names of the bare commands begin with `namespace`.
    async fn open(url: &str, namespace: &str) -> Result<Self>;

    /// A client of Tidelock at this URL.
    async fn client(url: &str, options: Options) -> Result<Arc<dyn Locks>>;

    /// Pairs of bare commands for this many tasks, each with its own name.
    async fn bare(&self, tasks: usize) -> Result<Vec<Self::Bare>>;

    /// Other common ways to do without Tidelock, for this many tasks, each with its own name.
    async fn others(&self, tasks: usize) -> Result<Vec<Twin<Self::Bare>>>;

    /// The two sides of a bare hand-off. No other one has the same `number`.
    async fn hand_off(&self, number: usize) -> Result<[BareHandOff<Self::Signal>; 2]>;

    /// A fresh number in the store.
    async fn stock(&self, number: u32) -> Result<Self::Stock>;

    /// Begins to count the traffic.
    async fn meter(&self) -> Result<Self::Meter>;

    /// The traffic so far, by this meter.
    async fn counts(&self, meter: &Self::Meter) -> Result<Counts>;

    /// The server's own report of its load, at little cost; `None` if it has none.
    async fn load(&self) -> Result<Option<Load>>;

    /// Deletes everything that clients and bare commands have left under this namespace, and nothing else.
    async fn clean(&self, namespace: &str) -> Result<()>;
}
