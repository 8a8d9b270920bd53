//! A flash sale: 10 in stock, 100 000 buyers in four shops, and exactly 10 are sold.
//!
//! The lock makes the sale correct. A check before joining the line makes it fast: once the item is sold out, no
//! buyer needs the lock to find that out.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tidelock_memory::{Mutex, Options, Store};
use tokio::task::{JoinSet, yield_now};

const STOCK: u32 = 10;
const BUYERS: usize = 100_000;
const SHOPS: usize = 4;

#[derive(Debug, Default)]
struct Sale {
    stock: AtomicU32,
    /// Set once and never reset, so it can be read without the lock.
    sold_out: AtomicBool,
    sold: AtomicU32,
    stood_in_line: AtomicUsize,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = Store::new();
    let sale = Arc::new(Sale { stock: AtomicU32::new(STOCK), ..Sale::default() });
    let shops = (0..SHOPS)
        .map(|shop| store.attach(Options::new().label(&format!("shop {shop}"))))
        .collect::<Result<Vec<_>, _>>()?;

    let began = Instant::now();
    let mut buyers = JoinSet::new();
    for buyer in 0..BUYERS {
        buyers.spawn(buy(sale.clone(), shops[buyer % SHOPS].mutex("sale:42")?));
    }
    while let Some(bought) = buyers.join_next().await {
        bought??;
    }

    let (sold, in_line) = (sale.sold.load(Ordering::SeqCst), sale.stood_in_line.load(Ordering::SeqCst));
    println!("{BUYERS} buyers, {STOCK} in stock: {sold} sold, in {:?}", began.elapsed());
    println!("{in_line} stood in line; the others saw that it was sold out");
    assert_eq!(sold, STOCK);
    assert_eq!(sale.stock.load(Ordering::SeqCst), 0);

    for shop in shops {
        shop.close().await?;
    }
    Ok(())
}

async fn buy(sale: Arc<Sale>, mutex: Arc<dyn Mutex>) -> tidelock_memory::Result<()> {
    if sale.sold_out.load(Ordering::SeqCst) {
        return Ok(());
    }
    sale.stood_in_line.fetch_add(1, Ordering::SeqCst);
    // A buyer does not wait for ever.
    let Some(guard) = mutex.lock_within(Duration::from_secs(30)).await? else {
        return Ok(());
    };
    let left = sale.stock.load(Ordering::SeqCst);
    yield_now().await; // the round trip in which the race would happen
    if left == 0 {
        sale.sold_out.store(true, Ordering::SeqCst);
    } else {
        sale.stock.store(left - 1, Ordering::SeqCst);
        sale.sold.fetch_add(1, Ordering::SeqCst);
    }
    guard.release().await?;
    Ok(())
}
