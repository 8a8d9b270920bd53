//! A semaphore that limits how many calls reach a slow service at once, across all processes.
//!
//! A call that needs more of the service takes more permits, and is not overtaken by calls that need fewer. The
//! number of permits can be changed while the semaphore is in use.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidelock_memory::{Locks, Options, Semaphore, Store};
use tokio::task::JoinSet;
use tokio::time::sleep;

const NAME: &str = "calls:reports";
const CALLS: usize = 24;

/// The service, which counts its concurrent load.
#[derive(Debug, Default)]
struct Service {
    now: AtomicU32,
    most: AtomicU32,
}

impl Service {
    async fn serve(&self, load: u32) {
        let now = self.now.fetch_add(load, Ordering::SeqCst) + load;
        self.most.fetch_max(now, Ordering::SeqCst);
        sleep(Duration::from_millis(5)).await;
        self.now.fetch_sub(load, Ordering::SeqCst);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = Store::new();
    let workers = [
        store.connect(Options::new().label("worker 0")).await?,
        store.connect(Options::new().label("worker 1")).await?,
        store.connect(Options::new().label("worker 2")).await?,
    ];

    let most = call_all(&workers, 3).await?;
    println!("3 permits, {CALLS} calls from 3 workers: at most {most} at once");
    assert!(most <= 3);

    // The service has got another machine. Waiting calls profit at once.
    let calls = workers[0].semaphore(NAME, 3)?;
    let busy = calls.acquire(3).await?;
    let next = workers[1].semaphore(NAME, 3)?;
    assert!(next.try_acquire(2).await?.is_none());
    calls.resize(6).await?;
    let served = next.try_acquire(2).await?;
    println!("resized from 3 to {}: two more permits are given at once", next.size().await?);
    assert!(served.is_some());
    busy.release().await?;
    drop(served);

    let most = call_all(&workers, 6).await?;
    println!("6 permits, {CALLS} calls from 3 workers: at most {most} at once");
    assert!(most <= 6);

    for worker in workers {
        worker.close().await?;
    }
    Ok(())
}

/// The greatest load on the service at any one time.
async fn call_all(workers: &[Arc<dyn Locks>], permits: u32) -> Result<u32, Box<dyn Error>> {
    let service = Arc::new(Service::default());
    let mut calls = JoinSet::new();
    for call in 0..CALLS {
        let semaphore = workers[call % workers.len()].semaphore(NAME, permits)?;
        let heavy = call % 6 == 0;
        calls.spawn(ask(service.clone(), semaphore, if heavy { 2 } else { 1 }));
    }
    while let Some(asked) = calls.join_next().await {
        asked??;
    }
    Ok(service.most.load(Ordering::SeqCst))
}

async fn ask(service: Arc<Service>, calls: Arc<dyn Semaphore>, load: u32) -> tidelock_memory::Result<()> {
    let permits = calls.acquire(load).await?;
    service.serve(load).await;
    permits.release().await?;
    Ok(())
}
