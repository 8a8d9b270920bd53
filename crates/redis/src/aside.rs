//! Users' own code that a connection is made with: it may take its time, block its thread, or panic. Where connections
//! are made sessions are renewed, so it has a thread of its own; and while it hangs, no more than a few.

use std::io;
use std::sync::Arc;
use std::thread;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

/// How many threads may be inside of one piece of users' code.
const THREADS: usize = 8;

/// A place aside, for one piece of users' code.
#[derive(Clone)]
pub(crate) struct Aside(Arc<Semaphore>);

impl Default for Aside {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(THREADS)))
    }
}

impl Aside {
    /// What comes of `work`, done on another thread and in this runtime. It is dropped when nobody waits for it any more.
    pub(crate) async fn run<T, F>(&self, work: impl FnOnce() -> F + Send + 'static) -> io::Result<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let place = self.0.clone().acquire_owned().await.map_err(io::Error::other)?;
        let (mut tell, told) = oneshot::channel();
        let runtime = Handle::current();
        let body = move || {
            let _place = place;
            let done = runtime.block_on(async {
                let work = async move { work().await };
                tokio::select! {
                    biased;
                    done = work => Some(done),
                    () = tell.closed() => None,
                }
            });
            done.map(|done| tell.send(done))
        };
        thread::Builder::new().name("tidelock-aside".into()).spawn(body)?;
        told.await.map_err(|_| io::Error::other("what the user's code was to say was not said: it panicked"))
    }
}
