//! The inventory race in a database: ten ways to sell a stock, how fast each is, and which of them sell too often.
//!
//!     cargo run --release -p tidelock-mysql --example inventory -- mysql://root@127.0.0.1/scratch
//!
//! Each buyer reads the stock, thinks, and writes it back. Three of the ways are wrong, and two of these have a lock.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sqlx::mysql::{MySqlConnection, MySqlPool, MySqlPoolOptions};
use sqlx::{Connection, Row};
use tidelock_mysql::{Locks, OptimisticError, lock_in, optimistic};
use tokio::task::JoinSet;

const STOCK: u32 = 160;
const BUYERS: u32 = 16;
/// How often each buyer wants to buy. Together they want a quarter more than there is.
const WISHES: u32 = 12;
/// How long a buyer thinks between reading and writing.
const THINKS: Duration = Duration::from_micros(500);
/// How long a buyer sleeps between two looks at a lock that is taken.
const POLLS: Duration = Duration::from_millis(5);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    NoLock,
    ReleasedBeforeTheCommit,
    SnapshotBeforeTheLock,
    LockTable,
    GetLock,
    ForUpdate,
    Version,
    OneStatement,
    Tidelock,
    TidelockInside,
}

const WAYS: [(Way, &str, bool); 10] = [
    (Way::NoLock, "no lock", false),
    (Way::ReleasedBeforeTheCommit, "Tidelock, released before the commit", false),
    (Way::SnapshotBeforeTheLock, "Tidelock, snapshot older than the lock", false),
    (Way::LockTable, "`tb_lock`: INSERT, or poll", true),
    (Way::GetLock, "`GET_LOCK`", true),
    (Way::ForUpdate, "SELECT … FOR UPDATE", true),
    (Way::Version, "version column, `optimistic`", true),
    (Way::OneStatement, "UPDATE … WHERE n > 0, no lock", true),
    (Way::Tidelock, "Tidelock, released after the commit", true),
    (Way::TidelockInside, "Tidelock, `lock_in`", true),
];

struct Shop {
    pool: MySqlPool,
    locks: Arc<dyn Locks>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "mysql://root@127.0.0.1/scratch".into());
    let pool = MySqlPoolOptions::new().max_connections(BUYERS).connect(&url).await?;
    for table in [
        "CREATE TABLE IF NOT EXISTS stock (id INT PRIMARY KEY, n INT UNSIGNED NOT NULL, version INT NOT NULL) ENGINE=InnoDB",
        "CREATE TABLE IF NOT EXISTS tb_lock (name VARCHAR(64) PRIMARY KEY) ENGINE=InnoDB",
        "DELETE FROM tb_lock",
    ] {
        sqlx::raw_sql(table).execute(&pool).await?;
    }
    let shop = Arc::new(Shop { pool, locks: tidelock_mysql::connect(&url).await? });
    println!("| {BUYERS} buyers want {}, there are {STOCK} | sold | purchases a second |", BUYERS * WISHES);
    println!("|---|---|---|");
    for (way, called, is_right) in WAYS {
        let (sold, left, took) = sell_out(&shop, way).await?;
        let rate = f64::from(BUYERS * WISHES) / took.as_secs_f64();
        let verdict = if sold == STOCK { "right" } else { "**wrong**" };
        println!("| {called} | {sold}, {verdict} | {rate:.0} |");
        assert!(!is_right || sold == STOCK && left == 0, "{called} sold {sold}, and {left} are left");
        // The wrong ways are wrong nearly always; on a machine that is slow enough they may be lucky.
        assert!(is_right || sold >= STOCK, "{called} sold {sold}");
    }
    shop.locks.close().await?;
    sqlx::raw_sql("DROP TABLE stock; DROP TABLE tb_lock").execute(&shop.pool).await?;
    Ok(())
}

/// How many were sold, how many are left, and how long it took.
async fn sell_out(shop: &Arc<Shop>, way: Way) -> Result<(u32, u32, Duration)> {
    sqlx::query("REPLACE INTO stock VALUES (42, ?, 0)").bind(STOCK).execute(&shop.pool).await?;
    let sold = Arc::new(AtomicU32::new(0));
    let began = Instant::now();
    let mut buyers = JoinSet::new();
    for _ in 0..BUYERS {
        let (shop, sold) = (shop.clone(), sold.clone());
        buyers.spawn(async move {
            for _ in 0..WISHES {
                if buy(&shop, way).await? {
                    sold.fetch_add(1, Ordering::Relaxed);
                }
            }
            Result::Ok(())
        });
    }
    while let Some(done) = buyers.join_next().await {
        done??;
    }
    let took = began.elapsed();
    let left = stock(&mut *shop.pool.acquire().await?).await?;
    Ok((sold.load(Ordering::Relaxed), left, took))
}

/// Whether there was one left.
async fn buy(shop: &Shop, way: Way) -> Result<bool> {
    match way {
        Way::NoLock => take_one(&mut *shop.pool.acquire().await?).await,
        Way::ReleasedBeforeTheCommit => {
            let guard = shop.locks.mutex("stock:42")?.lock().await?;
            let mut transaction = shop.pool.begin().await?;
            let bought = take_one(&mut transaction).await?;
            guard.release().await?; // wrong: nobody else sees the new stock yet
            transaction.commit().await?;
            Ok(bought)
        }
        Way::SnapshotBeforeTheLock => {
            let mut transaction = shop.pool.begin().await?;
            stock(&mut transaction).await?; // wrong: every later read shows the stock of this moment
            let guard = shop.locks.mutex("stock:42")?.lock().await?;
            let bought = take_one(&mut transaction).await?;
            transaction.commit().await?;
            guard.release().await?;
            Ok(bought)
        }
        Way::LockTable => with_lock_table(shop).await,
        Way::GetLock => {
            let mut connection = shop.pool.acquire().await?;
            sqlx::query("DO GET_LOCK('stock:42', 10)").execute(&mut *connection).await?;
            let bought = take_one(&mut connection).await;
            sqlx::query("DO RELEASE_LOCK('stock:42')").execute(&mut *connection).await?;
            bought
        }
        Way::ForUpdate => {
            let mut transaction = shop.pool.begin().await?;
            sqlx::query("SELECT n FROM stock WHERE id = 42 FOR UPDATE").fetch_one(&mut *transaction).await?;
            let bought = take_one(&mut transaction).await?;
            transaction.commit().await?;
            Ok(bought)
        }
        Way::Version => match optimistic(1_000, || take_one_by_version(shop)).await {
            Ok(bought) => Ok(bought),
            Err(OptimisticError::Attempt(error)) => Err(error),
            Err(lost @ OptimisticError::Lost { .. }) => Err(lost.to_string().into()),
        },
        Way::OneStatement => {
            tokio::time::sleep(THINKS).await;
            let update = sqlx::query("UPDATE stock SET n = n - 1 WHERE id = 42 AND n > 0");
            Ok(update.execute(&shop.pool).await?.rows_affected() == 1)
        }
        Way::Tidelock => {
            let guard = shop.locks.mutex("stock:42")?.lock().await?;
            let bought = take_one(&mut *shop.pool.acquire().await?).await?;
            guard.release().await?;
            Ok(bought)
        }
        Way::TidelockInside => {
            let mut transaction = shop.pool.begin().await?;
            lock_in(&*shop.locks, &mut transaction, "stock:42").await?;
            let bought = take_one(&mut transaction).await?;
            transaction.commit().await?;
            Ok(bought)
        }
    }
}

async fn stock(connection: &mut MySqlConnection) -> Result<u32> {
    let row = sqlx::query("SELECT n FROM stock WHERE id = 42").fetch_one(connection).await?;
    Ok(row.try_get(0)?)
}

/// Reads, thinks, writes: right only for whoever is alone.
async fn take_one(connection: &mut MySqlConnection) -> Result<bool> {
    let n = stock(connection).await?;
    tokio::time::sleep(THINKS).await;
    if n == 0 {
        return Ok(false);
    }
    sqlx::query("UPDATE stock SET n = ? WHERE id = 42").bind(n - 1).execute(connection).await?;
    Ok(true)
}

/// `None` if somebody else was faster.
async fn take_one_by_version(shop: &Shop) -> Result<Option<bool>> {
    let mut connection = shop.pool.acquire().await?;
    let row = sqlx::query("SELECT n, version FROM stock WHERE id = 42").fetch_one(&mut *connection).await?;
    let (n, version): (u32, i32) = (row.try_get(0)?, row.try_get(1)?);
    tokio::time::sleep(THINKS).await;
    if n == 0 {
        return Ok(Some(false));
    }
    let update = sqlx::query("UPDATE stock SET n = ?, version = version + 1 WHERE id = 42 AND version = ?");
    let changed = update.bind(n - 1).bind(version).execute(&mut *connection).await?.rows_affected();
    Ok((changed == 1).then_some(true))
}

/// A unique key as a lock: whoever can insert the row has it, and everybody else tries again and again. If its holder
/// dies, it is locked for ever.
async fn with_lock_table(shop: &Shop) -> Result<bool> {
    let mut connection = shop.pool.acquire().await?;
    while sqlx::query("INSERT INTO tb_lock VALUES ('stock:42')").execute(&mut *connection).await.is_err() {
        tokio::time::sleep(POLLS).await;
    }
    let bought = take_one(&mut connection).await;
    while sqlx::query("DELETE FROM tb_lock WHERE name = 'stock:42'").execute(&mut *connection).await.is_err()
    {
        connection.ping().await?; // a deadlock: again
    }
    bought
}
