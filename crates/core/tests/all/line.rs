//! The line of a name as a test sees it: a task that stands in it, and how many wait there.

use std::sync::Arc;
use std::task::{Context, Waker};

use tidelock_core::{Guard, Line, Locks, Result};
use tokio::task::JoinHandle;

use crate::condition::until;

/// Locks `name` in a task of its own.
pub(crate) fn waiter(locks: &Arc<dyn Locks>, name: &str) -> JoinHandle<Result<Guard>> {
    let mutex = locks.mutex(name).expect("a good name");
    tokio::spawn(async move { mutex.lock().await })
}

/// Locks `name` in a task of its own, and waits until so many claims stand in its line.
pub(crate) async fn waits(locks: &Arc<dyn Locks>, name: &str, number: usize) -> JoinHandle<Result<Guard>> {
    let waits = waiter(locks, name);
    until_standing(locks, name, number).await;
    waits
}

/// Stands in line once and leaves.
pub(crate) async fn stands_once(locks: &Arc<dyn Locks>, name: &str) {
    tokio::task::yield_now().await; // a task may do only so much at a time
    let mutex = locks.mutex(name).expect("a good name");
    let mut lock = mutex.lock();
    assert!(lock.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

/// Waits until so many claims stand in the line of `name`, holding or waiting.
pub(crate) async fn until_standing(locks: &Arc<dyn Locks>, name: &str, number: usize) {
    until_line(locks, name, &format!("{number} stand in the line of {name}"), |line| {
        line.claims.len() == number
    })
    .await;
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
