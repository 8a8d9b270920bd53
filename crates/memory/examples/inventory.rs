//! The inventory race: read the stock, think, write it back. Without a lock updates are lost; with one they are not.
//!
//! In production the race happens sometimes. Here everyone reads before anyone writes, so it happens every time.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tidelock_memory::{Mutex, Options, Store};
use tokio::sync::Barrier;
use tokio::task::{JoinSet, yield_now};

const STOCK: u32 = 100;
const BUYERS: u32 = 20;

/// A counter in some database: a read is one round trip, a write another.
#[derive(Debug)]
struct Stock(AtomicU32);

impl Stock {
    async fn read(&self) -> u32 {
        yield_now().await;
        self.0.load(Ordering::SeqCst)
    }

    async fn write(&self, n: u32) {
        yield_now().await;
        self.0.store(n, Ordering::SeqCst);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let left = without_a_lock().await?;
    println!("without a lock: {BUYERS} bought, and the stock went from {STOCK} to {left}");
    assert_eq!(left, STOCK - 1, "all buyers wrote the same value");

    let left = with_a_lock().await?;
    println!("with a lock:    {BUYERS} bought, and the stock went from {STOCK} to {left}");
    assert_eq!(left, STOCK - BUYERS);

    let left = with_one_statement();
    println!("in one statement, with no lock at all:      from {STOCK} to {left}");
    assert_eq!(left, STOCK - BUYERS);
    Ok(())
}

async fn without_a_lock() -> Result<u32, Box<dyn Error>> {
    let stock = Arc::new(Stock(AtomicU32::new(STOCK)));
    let all_have_read = Arc::new(Barrier::new(BUYERS as usize));
    let mut buyers = JoinSet::new();
    for _ in 0..BUYERS {
        let (stock, all_have_read) = (stock.clone(), all_have_read.clone());
        buyers.spawn(async move {
            let n = stock.read().await;
            all_have_read.wait().await;
            stock.write(n - 1).await;
        });
    }
    buyers.join_all().await;
    Ok(stock.read().await)
}

async fn with_a_lock() -> Result<u32, Box<dyn Error>> {
    let stock = Arc::new(Stock(AtomicU32::new(STOCK)));
    let store = Store::new();
    // Two shops, each a process of its own.
    let shops = [store.connect(Options::new()).await?, store.connect(Options::new()).await?];
    let mut buyers = JoinSet::new();
    for buyer in 0..BUYERS as usize {
        buyers.spawn(buy(stock.clone(), shops[buyer % 2].mutex("stock:42")?));
    }
    while let Some(bought) = buyers.join_next().await {
        bought??;
    }
    for shop in shops {
        shop.close().await?;
    }
    Ok(stock.read().await)
}

async fn buy(stock: Arc<Stock>, mutex: Arc<dyn Mutex>) -> tidelock_memory::Result<()> {
    let guard = mutex.lock().await?;
    let n = stock.read().await;
    stock.write(n - 1).await;
    guard.release().await?;
    Ok(())
}

/// Ask first whether a lock is needed: a decrement that the store can do by itself needs none.
fn with_one_statement() -> u32 {
    let stock = AtomicU32::new(STOCK);
    for _ in 0..BUYERS {
        stock.fetch_sub(1, Ordering::SeqCst);
    }
    stock.load(Ordering::SeqCst)
}
