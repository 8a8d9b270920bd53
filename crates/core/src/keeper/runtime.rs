//! The keeper's own thread and tokio runtime, one for the process.
//!
//! Renewals must not depend on a runtime of the user: that one may be busy for longer than a ttl, end while guards
//! are still held, or never have existed where a guard is dropped.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;

use tokio::runtime::{Builder, Handle};

use crate::{Error, ErrorKind, Result};

/// The keeper's runtime, started at first use.
pub(crate) fn handle() -> Result<Handle> {
    static HANDLE: Mutex<Option<Handle>> = Mutex::new(None);
    let mut running = HANDLE.lock().unwrap_or_else(PoisonError::into_inner);
    match &*running {
        Some(handle) => Ok(handle.clone()),
        None => Ok(running.insert(start()?).clone()),
    }
}

fn start() -> Result<Handle> {
    let refused = |error| {
        Error::new(ErrorKind::Unavailable, "this process gets no thread for the keeper").because(error)
    };
    let runtime = Builder::new_current_thread().enable_all().build().map_err(refused)?;
    let handle = runtime.handle().clone();
    let body = move || runtime.block_on(std::future::pending::<()>());
    thread::Builder::new().name("tidelock-keeper".into()).spawn(body).map_err(refused)?;
    Ok(handle)
}
