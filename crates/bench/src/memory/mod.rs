//! Memory, beside `tokio::sync`: the cost of a line, a lease and a token where there is no network.

mod counted;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidelock_bench::{Counts, Load, Result, Stock, Subject, TokioMutex, Twin};
use tidelock_core::backend::{Layered, attach};
use tidelock_core::{Locks, Options};
use tidelock_memory::Store;
use tokio::task::yield_now;

use self::counted::Tally;

/// A store in this process.
#[derive(Debug)]
pub(crate) struct Memory {
    store: Store,
    /// `None` if nothing is counted: then core talks to the store directly.
    tally: Option<Arc<Tally>>,
}

/// A number in this process.
#[derive(Clone, Debug)]
pub(crate) struct Number(Arc<AtomicU32>);

impl Memory {
    pub(crate) fn new() -> Self {
        Self { store: Store::new(), tally: None }
    }
}

impl Subject for Memory {
    type Bare = TokioMutex;
    type BareHandOff = TokioMutex;
    type Stock = Number;

    fn name(&self) -> &'static str {
        "memory"
    }

    fn twin(&self) -> &'static str {
        "tokio::sync"
    }

    fn remarks(&self) -> Vec<String> {
        let remarks = [
            "The twin is tokio::sync::Mutex behind an Arc. It has one client, no lease and no token, and signals no \
             client.",
            "A command is a request of core to the store, an event is a signal of the store.",
            "This store writes to no disk and sends no bytes.",
        ];
        remarks.map(str::to_owned).to_vec()
    }

    fn flags(&self) -> Result<Vec<String>, &'static str> {
        Err("this store is inside one process, and no other process can reach it")
    }

    async fn client(&self, options: Options) -> Result<Arc<dyn Locks>> {
        Ok(match &self.tally {
            None => self.store.attach(options)?,
            Some(tally) => {
                let counted = Layered::new(Arc::new(self.store.clone()), tally.clone());
                attach(Arc::new(counted), options)?
            }
        })
    }

    async fn bare_own(&self, tasks: usize) -> Result<Vec<Twin<TokioMutex>>> {
        let tasks = (0..tasks).map(|_| TokioMutex::default()).collect();
        Ok(vec![Twin { called: self.twin(), tasks }])
    }

    async fn bare_hot(&self, tasks: usize) -> Result<Vec<TokioMutex>> {
        Ok(vec![TokioMutex::default(); tasks])
    }

    async fn bare_handoff(&self) -> Result<[TokioMutex; 2]> {
        let bare = TokioMutex::default();
        Ok([bare.clone(), bare])
    }

    async fn bare_lock(&self) -> Result<Option<TokioMutex>> {
        Ok(Some(TokioMutex::default()))
    }

    async fn stock(&self, number: u32) -> Result<Number> {
        Ok(Number(Arc::new(AtomicU32::new(number))))
    }

    async fn counted(&self) -> Result<Self> {
        Ok(Self { store: Store::new(), tally: Some(Arc::default()) })
    }

    async fn counts(&self) -> Result<Counts> {
        Ok(self.tally.as_ref().map_or_else(Counts::default, |tally| tally.counts()))
    }

    async fn load(&self) -> Result<Option<Load>> {
        Ok(None)
    }

    async fn clean(&self) -> Result<()> {
        Ok(()) // the store ends with its scenario, and holds nothing once every client has left
    }
}

impl Stock for Number {
    async fn read(&self) -> Result<u32> {
        let number = self.0.load(Ordering::SeqCst);
        yield_now().await; // the way back from a store, where the race would happen
        Ok(number)
    }

    async fn write(&self, number: u32) -> Result<()> {
        self.0.store(number, Ordering::SeqCst);
        Ok(())
    }

    async fn take_one(&self) -> Result<bool> {
        let less = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |number| number.checked_sub(1));
        Ok(less.is_ok())
    }
}
