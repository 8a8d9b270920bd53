//! A read-write lock over a cache: readers share it, one writer fills it, and the service is asked for the price once.
//!
//! A reader that misses takes the write lock, looks again (another may have filled the cache meanwhile), fills it,
//! and becomes a reader again without letting another writer in between.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidelock_memory::{Options, RwLock, Store};
use tokio::sync::Barrier;
use tokio::task::{JoinSet, yield_now};

const PRICE: u32 = 499;
const READERS: usize = 20;

/// A cache that several processes share, and the slow service behind it. Zero stands for "not there".
#[derive(Debug, Default)]
struct Prices {
    cached: AtomicU32,
    asked: AtomicU32,
}

impl Prices {
    async fn cached(&self) -> Option<u32> {
        yield_now().await;
        Some(self.cached.load(Ordering::SeqCst)).filter(|price| *price > 0)
    }

    async fn ask_the_service(&self) -> u32 {
        self.asked.fetch_add(1, Ordering::SeqCst);
        yield_now().await;
        PRICE
    }

    fn keep(&self, price: u32) {
        self.cached.store(price, Ordering::SeqCst);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = Store::new();
    let prices = Arc::new(Prices::default());
    let servers = [store.connect(Options::new()).await?, store.connect(Options::new()).await?];

    let mut requests = JoinSet::new();
    for request in 0..READERS {
        let lock = servers[request % 2].rwlock("price:42")?;
        requests.spawn(price(prices.clone(), lock));
    }
    while let Some(answer) = requests.join_next().await {
        assert_eq!(answer??, PRICE);
    }
    let asked = prices.asked.load(Ordering::SeqCst);
    println!("{READERS} requests in two servers met an empty cache; the service was asked {asked} time(s)");
    assert_eq!(asked, 1);

    // Readers hold the lock together: each waits inside until all of them are there.
    let all_inside = Arc::new(Barrier::new(READERS));
    let mut readers = JoinSet::new();
    for reader in 0..READERS {
        let (lock, all_inside) = (servers[reader % 2].rwlock("price:42")?, all_inside.clone());
        readers.spawn(async move {
            let reading = lock.read().await?;
            all_inside.wait().await;
            reading.release().await
        });
    }
    while let Some(read) = readers.join_next().await {
        read??;
    }
    println!("{READERS} readers held the lock at the same time");

    for server in servers {
        server.close().await?;
    }
    Ok(())
}

async fn price(prices: Arc<Prices>, lock: Arc<dyn RwLock>) -> tidelock_memory::Result<u32> {
    let reading = lock.read().await?;
    if let Some(price) = prices.cached().await {
        reading.release().await?;
        return Ok(price);
    }
    reading.release().await?; // a reader cannot become a writer: two of them would wait for each other

    let writing = lock.write().await?;
    if prices.cached().await.is_none() {
        let price = prices.ask_the_service().await;
        prices.keep(price);
    }
    let reading = writing.downgrade().await?; // from here on others can read, and nobody writes
    let price = prices.cached().await.expect("it was filled, and no writer came between");
    reading.release().await?;
    Ok(price)
}
