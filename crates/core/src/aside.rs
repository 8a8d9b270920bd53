//! Runs the program's own code (credentials, connectors) while a connection is made. That code may be slow, block its
//! thread, or panic. The thread that makes connections also renews sessions, so such code runs on a thread of its own.
//! While it hangs, it gets no more than a few threads.

use std::io;
use std::sync::Arc;
use std::thread;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

/// How many threads may be inside one piece of the program's code.
const THREADS: usize = 8;

/// Runs one piece of the program's code on threads of its own.
#[derive(Clone, Debug)]
pub struct Aside(Arc<Semaphore>);

impl Default for Aside {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(THREADS)))
    }
}

impl Aside {
    /// Runs `work` on another thread and in this runtime. Drops it when nobody waits for it any more.
    ///
    /// # Errors
    /// If no thread is available, or the work panicked.
    pub async fn run<T, F>(&self, work: impl FnOnce() -> F + Send + 'static) -> io::Result<T>
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
        told.await.map_err(|_| io::Error::other("the program's own credentials or connector code panicked"))
    }
}
