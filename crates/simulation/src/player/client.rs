//! A client of the world.

use std::sync::{Arc, Mutex};

use tidelock_core::{Locks, Options, Result, backend};

use crate::medium::Medium;
use crate::plan::{Plan, ms};
use crate::time::{ClientClock, lock};

/// A client of the world. When it is closed, another one takes its place, as when a process is started again.
pub(crate) struct Client {
    number: usize,
    locks: Mutex<Option<Arc<dyn Locks>>>,
    pub(crate) clock: Arc<ClientClock>,
}

impl Client {
    pub(crate) fn new(number: usize, clock: Arc<ClientClock>) -> Self {
        Self { number, locks: Mutex::default(), clock }
    }

    pub(super) fn locks(&self, plan: &Plan, medium: &Arc<dyn Medium>) -> Result<Arc<dyn Locks>> {
        let mut locks = lock(&self.locks);
        if let Some(locks) = &*locks {
            return Ok(locks.clone());
        }
        let part = &plan.clients[self.number];
        let mut options = Options::new()
            .ttl(plan.ttl())
            .label(&format!("client {}", self.number))
            .command_deadline(ms(part.command_deadline))
            .connect_deadline(ms(part.command_deadline.min(plan.ttl)))
            .back_off(ms(part.first_pause), ms(part.longest_pause));
        (options.max_hold, options.linger) = (part.max_hold.map(ms), ms(part.linger));
        Ok(locks.insert(backend::attach(medium.clone().backend(self.number), options)?).clone())
    }

    /// Its locks are closed, or are being closed: whoever needs some takes others.
    pub(super) fn replace(&self, closed: &Arc<dyn Locks>) {
        let mut locks = lock(&self.locks);
        if locks.as_ref().is_some_and(|locks| Arc::ptr_eq(locks, closed)) {
            drop(locks.take());
        }
    }

    /// Its locks, which nobody gets from now on.
    pub(crate) fn take(&self) -> Option<Arc<dyn Locks>> {
        lock(&self.locks).take()
    }
}
