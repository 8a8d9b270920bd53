//! Tasks that ask for a lock and stand in a local line.

use std::sync::Arc;
use std::time::Duration;

use tidelock_core::prelude::*;
use tidelock_core::{ErrorKind, Options, WriteGuard};
use tokio::task::JoinHandle;

pub(super) type Done = tidelock_core::Result<()>;

pub(super) const LINGER: Duration = Duration::from_millis(10);
pub(super) const TTL: Duration = Duration::from_secs(15);

pub(super) fn options() -> Options {
    Options::new().ttl(TTL).linger(LINGER)
}

/// Asks for a mutex, and has its place in the local line when this returns.
pub(super) async fn asks(locks: &Arc<dyn Locks>, name: &str) -> JoinHandle<tidelock_core::Result<Guard>> {
    let mutex = locks.mutex(name).expect("a good name");
    let asking = tokio::spawn(async move { mutex.lock().await });
    tokio::task::yield_now().await;
    asking
}

pub(super) async fn granted(asking: JoinHandle<tidelock_core::Result<Guard>>) -> Guard {
    asking.await.expect("no panic").expect("a grant")
}

/// Who is very impatient may go before the store has answered to the one that leads.
pub(super) fn or_none<T>(taken: tidelock_core::Result<Option<T>>) -> tidelock_core::Result<Option<T>> {
    match taken {
        Err(error) if error.kind() == ErrorKind::Timeout => Ok(None),
        taken => taken,
    }
}

pub(super) async fn claims(locks: &Arc<dyn Locks>, name: &str) -> usize {
    locks.inspect(name).await.map_or(0, |line| line.claims.len())
}

/// Asks to read, and has its place in the local line when this returns.
pub(super) async fn asks_to_read(
    locks: &Arc<dyn Locks>,
    name: &str,
) -> JoinHandle<tidelock_core::Result<Guard>> {
    let lock = locks.rwlock(name).expect("a good name");
    let asking = tokio::spawn(async move { lock.read().await });
    tokio::task::yield_now().await;
    asking
}

pub(super) async fn asks_to_write(
    locks: &Arc<dyn Locks>,
    name: &str,
) -> JoinHandle<tidelock_core::Result<WriteGuard>> {
    let lock = locks.rwlock(name).expect("a good name");
    let asking = tokio::spawn(async move { lock.write().await });
    tokio::task::yield_now().await;
    asking
}

/// Polls it once.
pub(super) async fn once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    std::future::poll_fn(|cx| match std::pin::Pin::new(&mut future).poll(cx) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}
