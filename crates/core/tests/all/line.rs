//! The line of a name as a test sees it: a task that stands in it, and how many wait there.

use std::sync::Arc;

use tidelock_core::{Guard, Line, Locks, Result};
use tokio::task::JoinHandle;

use crate::condition::until;

/// Locks `name` in a task of its own.
pub(crate) fn waiter(locks: &Arc<dyn Locks>, name: &str) -> JoinHandle<Result<Guard>> {
    let mutex = locks.mutex(name).expect("a good name");
    tokio::spawn(async move { mutex.lock().await })
}

/// Waits until so many claims wait in the line of `name`.
pub(crate) async fn until_waiting(locks: &Arc<dyn Locks>, name: &str, number: usize) {
    until_line(locks, name, &format!("{number} wait for {name}"), |line| line.waiters().count() == number)
        .await;
}

/// Waits until nobody stands in the line of `name`.
pub(crate) async fn until_empty(locks: &Arc<dyn Locks>, name: &str) {
    until_line(locks, name, &format!("the line of {name} is empty"), |line| line.claims.is_empty()).await;
}

async fn until_line(locks: &Arc<dyn Locks>, name: &str, what: &str, is_so: impl Fn(&Line) -> bool) {
    until(what, async || locks.inspect(name).await.is_ok_and(|line| is_so(&line))).await;
}
