//! A clean shutdown on SIGTERM: stop taking work, finish the item at hand, close. The next process has the lock at
//! once, not a ttl later.
//!
//! The example sends the signal to itself; where there is no SIGTERM it goes on as if one had come.

use std::error::Error;
use std::time::{Duration, Instant};

use tidelock_memory::{Options, Store};
use tokio::sync::{oneshot, watch};

const TTL: Duration = Duration::from_secs(15);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = Store::new();
    let locks = store.connect(Options::new().ttl(TTL).label("old process")).await?;
    let terminated = terminated()?;
    let (stop, stopping) = watch::channel(false);

    // The worker holds its lock for as long as it runs.
    let (ready, worker_is_ready) = oneshot::channel();
    let shard = locks.mutex("shard:1")?;
    let worker = tokio::spawn(async move {
        let guard = shard.lock().await?;
        let _ = ready.send(());
        guard.run(work(stopping)).await?;
        println!("worker: finished the item at hand");
        guard.release().await
    });
    // A forgotten guard: closing releases that too.
    let forgotten = locks.mutex("shard:2")?.lock().await?;

    worker_is_ready.await?;
    send_sigterm()?;
    terminated.await;
    println!("main:   SIGTERM");

    stop.send(true)?;
    worker.await??;
    locks.close_within(Duration::from_secs(10)).await?;
    println!("main:   closed; a guard that was left says {:?}", forgotten.state());
    assert_eq!(forgotten.state(), tidelock_memory::State::Lost);

    // The next process.
    let began = Instant::now();
    let next = store.connect(Options::new().label("new process")).await?;
    let both = next.lock_all(&["shard:1", "shard:2"]).await?;
    println!("next:   has both locks after {:?}; the ttl is {TTL:?}", began.elapsed());
    assert!(began.elapsed() < TTL / 3);
    both.release().await?;
    next.close().await?;
    Ok(())
}

/// One item after the other, until it is told to stop.
async fn work(mut stopping: watch::Receiver<bool>) {
    while !*stopping.borrow_and_update() {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(1)) => {} // an item
            changed = stopping.changed() => if changed.is_err() { return },
        }
    }
}

/// Ready when the process is asked to end. It listens from the call on, not only from its first poll.
#[cfg(unix)]
fn terminated() -> std::io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut signals = signal(SignalKind::terminate())?;
    Ok(async move {
        signals.recv().await;
    })
}

#[cfg(unix)]
fn send_sigterm() -> Result<(), Box<dyn Error>> {
    let kill =
        std::process::Command::new("kill").arg("-TERM").arg(std::process::id().to_string()).status()?;
    if kill.success() { Ok(()) } else { Err("kill failed".into()) }
}

#[cfg(not(unix))]
fn terminated() -> std::io::Result<impl Future<Output = ()>> {
    Ok(std::future::ready(()))
}

#[cfg(not(unix))]
fn send_sigterm() -> Result<(), Box<dyn Error>> {
    Ok(())
}
