//! What a lock inside a transaction costs, beside the bare transaction with `SELECT … FOR UPDATE`, in one run.
//!
//!     cargo bench -p tidelock-mysql --bench inside -- mysql://root@127.0.0.1:3306/scratch
//!
//! Each task has a row and a name of its own. The two sides take turns, slice by slice; a figure is the median.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::AssertSqlSafe;
use sqlx::mysql::{MySqlPool, MySqlPoolOptions};
use tidelock_mysql::{Locks, lock_in};
use tokio::task::JoinSet;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const SLICES: usize = 5;
const SLICE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy)]
enum Side {
    ForUpdate,
    LockIn,
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().skip(1).find(|word| word.starts_with("mysql")).ok_or("which database?")?;
    let pool = MySqlPoolOptions::new().max_connections(64).test_before_acquire(false).connect(&url).await?;
    run(
        &pool,
        "CREATE TABLE IF NOT EXISTS bench_inside (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE=InnoDB",
    )
    .await?;
    for id in 0..64 {
        run(&pool, &format!("REPLACE INTO bench_inside VALUES ({id}, 0)")).await?;
    }
    let locks = tidelock_mysql::connect(&url).await?;
    println!("| transactions a second | FOR UPDATE | `lock_in` | ratio |");
    println!("|---|---|---|---|");
    for (writes, what) in [(false, "nothing written"), (true, "its row written")] {
        for tasks in [1, 16, 64] {
            let mut rates = [Vec::new(), Vec::new()];
            for _ in 0..SLICES {
                for (side, rates) in [Side::ForUpdate, Side::LockIn].into_iter().zip(&mut rates) {
                    rates.push(slice(side, &pool, &locks, tasks, writes).await?);
                }
            }
            let [bare, ours] = rates.map(|mut rates| {
                rates.sort_by(f64::total_cmp);
                rates[SLICES / 2]
            });
            println!("| {what}, {tasks} tasks | {bare:.0} | {ours:.0} | {:.2} |", ours / bare);
        }
    }
    locks.close().await?;
    run(&pool, "DROP TABLE bench_inside").await
}

async fn run(pool: &MySqlPool, text: &str) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(pool).await?;
    Ok(())
}

async fn slice(
    side: Side,
    pool: &MySqlPool,
    locks: &Arc<dyn Locks>,
    tasks: u32,
    writes: bool,
) -> Result<f64> {
    let began = Instant::now();
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let (pool, locks) = (pool.clone(), locks.clone());
        running.spawn(async move {
            let mut done = 0_u32;
            let name = format!("row {task}");
            while began.elapsed() < SLICE {
                let mut transaction = pool.begin().await?;
                match side {
                    Side::ForUpdate => {
                        let read =
                            sqlx::query("SELECT n FROM bench_inside WHERE id = ? FOR UPDATE").bind(task);
                        read.fetch_one(&mut *transaction).await?;
                    }
                    Side::LockIn => drop(lock_in(&*locks, &mut transaction, &name).await?),
                }
                if writes {
                    let write = sqlx::query("UPDATE bench_inside SET n = n + 1 WHERE id = ?").bind(task);
                    write.execute(&mut *transaction).await?;
                }
                transaction.commit().await?;
                done += 1;
            }
            Result::Ok(done)
        });
    }
    let mut total = 0;
    while let Some(done) = running.join_next().await {
        total += done??;
    }
    Ok(f64::from(total) / began.elapsed().as_secs_f64())
}
