//! Users' own code that a connection is made with: it may take its time, block its thread, or panic. Where connections
//! are made sessions are renewed, so it has a thread of its own.

use std::io;
use std::thread;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// What comes of `work`, done on another thread and in this runtime. It is dropped when nobody waits for it any more.
pub(crate) async fn aside<T, F>(work: impl FnOnce() -> F + Send + 'static) -> io::Result<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let (mut tell, told) = oneshot::channel();
    let runtime = Handle::current();
    let body = move || {
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
