//! Stock in the same etcd as its lock. The lock is a condition of each write, so a holder that has lost it changes
//! nothing, whatever it believes.
//!
//!     cargo xtask servers start etcd
//!     cargo run -p tidelock-etcd --example fenced_stock -- etcd://127.0.0.1:PORT

use std::error::Error;

use tidelock_etcd::etcd_client::{Client, Compare, Txn, TxnOp};
use tidelock_etcd::{Guard, Options, Store};

const LOCK: &str = "stock:42";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "etcd://127.0.0.1:2379".into());
    let (store, options) = (Store::open(&url)?, Options::new());
    let member = url.trim_start_matches("etcd://").split(',').next().unwrap_or_default();
    let shop = Shop { etcd: Client::connect([member], None).await?, key: "example/stock/42" };
    shop.etcd.kv_client().put(shop.key, "10", None).await?;

    let (slow, quick) = (store.connect(options.clone()).await?, store.connect(options.clone()).await?);
    let fence = |guard: &Guard| store.fence(&options, LOCK, guard.claim(), guard.token());

    let old = slow.mutex(LOCK)?.lock().await?;
    let seen = shop.stock().await?;
    println!("the slow client holds {LOCK} with token {} and sees {seen} in stock", old.token());

    // An operator takes the slow client, which seems to hang, out of the line. It does not know that yet.
    quick.evict(LOCK, old.claim()).await?;
    let new = quick.mutex(LOCK)?.lock().await?;
    let sold = shop.write(fence(&new)?, shop.stock().await? - 3).await?;
    println!("the quick client, with token {}, sells 3: {}", new.token(), outcome(sold));

    let sold_too = shop.write(fence(&old)?, seen - 1).await?;
    println!("the slow client sells 1 of what it saw: {}", outcome(sold_too));
    assert!(sold && !sold_too, "the fence let the wrong one through");
    assert_eq!(shop.stock().await?, 7);

    new.release().await?;
    drop(old);
    shop.etcd.kv_client().delete(shop.key, None).await?;
    slow.close().await?;
    quick.close().await?;
    Ok(())
}

struct Shop {
    etcd: Client,
    key: &'static str,
}

impl Shop {
    async fn stock(&self) -> Result<u32, Box<dyn Error>> {
        let found = self.etcd.kv_client().get(self.key, None).await?;
        Ok(found.kvs().first().ok_or("the stock is gone")?.value_str()?.parse()?)
    }

    /// Writes, if the fence says that the lock is still held. Returns whether it was written.
    async fn write(&self, fence: Compare, stock: u32) -> Result<bool, Box<dyn Error>> {
        let write = Txn::new().when([fence]).and_then([TxnOp::put(self.key, stock.to_string(), None)]);
        Ok(self.etcd.kv_client().txn(write).await?.succeeded())
    }
}

fn outcome(written: bool) -> &'static str {
    if written { "written" } else { "refused, nothing written" }
}
