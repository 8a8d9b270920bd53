//! The keeper's own thread and tokio runtime, one for the process.
//!
//! Renewals must not depend on a runtime of the user. That runtime may be busy for longer than a ttl, it may end
//! while guards are held, and a guard may be dropped where there never was one.

use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use tokio::runtime::{Builder, Handle};

use crate::{Error, ErrorKind, Result, boot_clock};

/// The keeper's runtime, started at first use.
pub(crate) fn handle() -> Result<Handle> {
    static HANDLE: Mutex<Option<Handle>> = Mutex::new(None);
    let mut running = HANDLE.lock().unwrap_or_else(PoisonError::into_inner);
    match &*running {
        Some(handle) => Ok(handle.clone()),
        None => Ok(running.insert(start()?).clone()),
    }
}

/// Builds the runtime on its own thread: if there is no thread, no runtime has to be dropped inside the user's
/// runtime.
fn start() -> Result<Handle> {
    boot_clock::drive().map_err(|error| no_thread("clock").because(error))?;
    let (tell, told) = mpsc::sync_channel(1);
    let body = move || {
        let made = Builder::new_current_thread().enable_all().build();
        let handle = made.as_ref().map(|runtime| runtime.handle().clone());
        // The function that started this thread listens until it hears.
        let _ = tell.send(handle.map_err(|error| no_thread("keeper").because(error.to_string())));
        made.map(|runtime| runtime.block_on(std::future::pending::<()>()))
    };
    let spawned = thread::Builder::new().name("tidelock-keeper".into()).spawn(body);
    spawned.map_err(|error| no_thread("keeper").because(error))?;
    told.recv().unwrap_or_else(|_| Err(no_thread("keeper")))
}

fn no_thread(whose: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("the operating system refused the thread of the {whose}"))
}
