//! Retry an update by its version, or take a lock? Buyers who want the same row lose tries, and each lost try has done
//! its work for nothing. This measures from how many buyers on a lock is the cheaper way.
//!
//!     cargo run --release -p tidelock-mysql --example retry_or_lock -- mysql://root@127.0.0.1/scratch

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use sqlx::Row;
use sqlx::mysql::{MySqlPool, MySqlPoolOptions};
use tidelock_mysql::{Locks, OptimisticError, lock_in, optimistic};
use tokio::task::JoinSet;

/// How long the work between reading and writing takes.
const WORK: Duration = Duration::from_millis(5);
const BUYERS: [u32; 5] = [1, 2, 4, 8, 16];
/// For how long each is measured.
const LASTS: Duration = Duration::from_millis(1_500);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

struct Shop {
    pool: MySqlPool,
    locks: Arc<dyn Locks>,
    /// How often the work was done.
    works: AtomicU32,
}

#[derive(Clone, Copy)]
enum Way {
    Retries,
    Lock,
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "mysql://root@127.0.0.1/scratch".into());
    let pool = MySqlPoolOptions::new().max_connections(16).connect(&url).await?;
    let table = "CREATE TABLE IF NOT EXISTS counted (id INT PRIMARY KEY, n INT NOT NULL, version INT NOT NULL) ENGINE=InnoDB; \
                 REPLACE INTO counted VALUES (1, 0, 0)";
    sqlx::raw_sql(table).execute(&pool).await?;
    let locks = tidelock_mysql::connect(&url).await?;
    let shop = Arc::new(Shop { pool, locks, works: AtomicU32::new(0) });
    println!(
        "| buyers of one row, {WORK:?} of work | retried by version: updates/s, works for one | under `lock_in`: updates/s, works for one |"
    );
    println!("|---|---|---|");
    let mut total = 0;
    for buyers in BUYERS {
        let mut cells = Vec::new();
        for way in [Way::Retries, Way::Lock] {
            let (done, works, took) = measure(&shop, way, buyers).await?;
            total += done;
            let rate = f64::from(done) / took.as_secs_f64();
            cells.push(format!("{rate:.0}, {:.1}", f64::from(works) / f64::from(done.max(1))));
        }
        println!("| {buyers} | {} |", cells.join(" | "));
    }
    let row = sqlx::query("SELECT n FROM counted").fetch_one(&shop.pool).await?;
    assert_eq!(row.try_get::<i32, _>(0)?, i32::try_from(total)?, "no update is lost, whichever way");
    shop.locks.close().await?;
    sqlx::raw_sql("DROP TABLE counted").execute(&shop.pool).await?;
    Ok(())
}

/// How many updates were made, how often the work was done for them, and how long it took.
async fn measure(shop: &Arc<Shop>, way: Way, buyers: u32) -> Result<(u32, u32, Duration)> {
    shop.works.store(0, Ordering::Relaxed);
    let began = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..buyers {
        let shop = shop.clone();
        tasks.spawn(async move {
            let mut done = 0;
            while began.elapsed() < LASTS {
                match way {
                    Way::Retries => match optimistic(10_000, || by_version(&shop)).await {
                        Ok(()) => {}
                        Err(OptimisticError::Attempt(error)) => return Err(error),
                        Err(lost @ OptimisticError::Lost { .. }) => return Err(lost.to_string().into()),
                    },
                    Way::Lock => under_a_lock(&shop).await?,
                }
                done += 1;
            }
            Result::Ok(done)
        });
    }
    let mut done = 0;
    while let Some(buyer) = tasks.join_next().await {
        done += buyer??;
    }
    Ok((done, shop.works.load(Ordering::Relaxed), began.elapsed()))
}

async fn work(shop: &Shop) {
    shop.works.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(WORK).await;
}

async fn by_version(shop: &Shop) -> Result<Option<()>> {
    let mut connection = shop.pool.acquire().await?;
    let row = sqlx::query("SELECT n, version FROM counted WHERE id = 1").fetch_one(&mut *connection).await?;
    let (n, version): (i32, i32) = (row.try_get(0)?, row.try_get(1)?);
    work(shop).await;
    let update = sqlx::query("UPDATE counted SET n = ?, version = ? WHERE id = 1 AND version = ?");
    let changed = update.bind(n + 1).bind(version + 1).bind(version).execute(&mut *connection).await?;
    Ok((changed.rows_affected() == 1).then_some(()))
}

async fn under_a_lock(shop: &Shop) -> Result<()> {
    let mut transaction = shop.pool.begin().await?;
    lock_in(&*shop.locks, &mut transaction, "counted").await?;
    let row = sqlx::query("SELECT n FROM counted WHERE id = 1").fetch_one(&mut *transaction).await?;
    let n: i32 = row.try_get(0)?;
    work(shop).await;
    let update = sqlx::query("UPDATE counted SET n = ?, version = version + 1 WHERE id = 1").bind(n + 1);
    update.execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(())
}
