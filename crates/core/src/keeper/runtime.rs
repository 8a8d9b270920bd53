//! The keeper's own thread and tokio runtime, one for the process.
//!
//! Renewals must not depend on a runtime of the user. That runtime may be busy for longer than a ttl, it may end
//! while guards are held, and a guard may be dropped where there never was one.

use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};

use crate::{Error, ErrorKind, Result, boot_clock};

static HANDLE: Mutex<Option<Handle>> = Mutex::new(None);

/// How often a task that asks whether the keepers have caught up lets others go first.
const TURNS: usize = 4;

/// The keeper's runtime, started at first use.
pub(crate) fn handle() -> Result<Handle> {
    let mut running = HANDLE.lock().unwrap_or_else(PoisonError::into_inner);
    match &*running {
        Some(handle) => Ok(handle.clone()),
        None => Ok(running.insert(start()?).clone()),
    }
}

/// Blocks until the keepers of this process have done what they were woken for so far, for `longest` at most. Returns
/// whether they have. All of them share one thread, so a crowd that leaves one store can keep the others waiting. A clock
/// that is turned by hand asks before it moves on. Do not call it on the keepers' own thread.
#[must_use]
pub fn keepers_caught_up(longest: Duration) -> bool {
    let running = HANDLE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(running) = running else { return true };
    let (tell, told) = mpsc::sync_channel(1);
    running.spawn(async move {
        for _ in 0..TURNS {
            tokio::task::yield_now().await; // behind those that were woken meanwhile
        }
        let _ = tell.send(()); // nobody listens any more if it came too late
    });
    told.recv_timeout(longest).is_ok()
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
