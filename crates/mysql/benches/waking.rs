//! Ways to wake a client that waits in a database: how soon it hears, and how much it asks until then.
//!
//!     cargo bench -p tidelock-mysql --bench waking -- mysql://root@127.0.0.1:3306/scratch
//!
//! One connection increments a number in a row and commits. The other one waits for that, in one of these ways: by a
//! statement that sleeps in short steps and reads the row in each, as this crate does; by a statement that sleeps until
//! `KILL QUERY` ends it; by a plain poll. A round begins when the waiting one has waited for a while.

use std::error::Error;
use std::time::{Duration, Instant};

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Row};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const ROUNDS: usize = 200;
const STEPS: &str = "SELECT 1 FROM (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL \
    SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9) steps \
    WHERE IF(SLEEP(0.002 + 0.0004 * steps.n) = 0, (SELECT n FROM bench_bell WHERE id = 1 + 0 * steps.n), {n}) <> {n} \
    LIMIT 1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Listens,
    Killed,
    Polls(Duration),
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().skip(1).find(|word| word.starts_with("mysql")).ok_or("which database?")?;
    let options: MySqlConnectOptions = url.parse()?;
    let options = options.disable_statement_logging();
    let mut rings = options.connect().await?;
    run(
        &mut rings,
        "CREATE TABLE IF NOT EXISTS bench_bell (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE=InnoDB",
    )
    .await?;
    println!("| a waiting client | hears after, p50 | p99 | statements a second while nothing happens |");
    println!("|---|---|---|---|");
    for (way, called) in [
        (Way::Listens, "listens in steps of 2 to 6 ms"),
        (Way::Killed, "sleeps until `KILL QUERY`"),
        (Way::Polls(Duration::from_millis(1)), "polls each millisecond"),
        (Way::Polls(Duration::from_millis(5)), "polls each 5 ms"),
    ] {
        let (mut times, asked, waited) = measure(way, &options, &mut rings).await?;
        times.sort_unstable();
        let at = |part: usize| times[times.len() * part / 100].as_secs_f64() * 1e3;
        let rate = asked as f64 / waited.as_secs_f64();
        println!("| {called} | {:.2} ms | {:.2} ms | {rate:.0} |", at(50), at(99));
    }
    run(&mut rings, "DROP TABLE bench_bell").await
}

async fn run(connection: &mut MySqlConnection, text: &str) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(connection).await?;
    Ok(())
}

/// The delays, how many statements were sent, and in what time.
async fn measure(
    way: Way,
    options: &MySqlConnectOptions,
    rings: &mut MySqlConnection,
) -> Result<(Vec<Duration>, u64, Duration)> {
    run(rings, "REPLACE INTO bench_bell VALUES (1, 0)").await?;
    let mut waits = options.connect().await?;
    run(&mut waits, "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED").await?;
    let id: u64 = sqlx::query("SELECT CONNECTION_ID()").fetch_one(&mut waits).await?.try_get(0)?;
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let waiting = tokio::spawn(async move {
        let (mut asked, began) = (0_u64, Instant::now());
        for n in 0..ROUNDS as i64 {
            asked += wait(way, &mut waits, n).await?;
            if heard.send(Instant::now()).is_err() {
                break;
            }
        }
        Result::Ok((asked, began.elapsed()))
    });
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        tokio::time::sleep(Duration::from_micros(20_000 + 137 * (round as u64 % 50))).await;
        let began = Instant::now();
        run(rings, "UPDATE bench_bell SET n = n + 1 WHERE id = 1").await?;
        if way == Way::Killed {
            run(rings, &format!("KILL QUERY {id}")).await?; // only after the commit, and only here, where ids are known
        }
        times.push(hears.recv().await.ok_or("nobody waits any more")?.duration_since(began));
    }
    let (asked, waited) = waiting.await??;
    Ok((times, asked, waited))
}

/// Waits until the number is greater than `n`. Returns how many statements that took.
async fn wait(way: Way, waits: &mut MySqlConnection, n: i64) -> Result<u64> {
    let mut asked = 0;
    loop {
        asked += 1;
        match way {
            Way::Listens => {
                let text = STEPS.replace("{n}", &n.to_string());
                if !sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(&mut *waits).await?.is_empty() {
                    return Ok(asked);
                }
            }
            Way::Killed => {
                // Looks and sleeps in one statement. Whether it was killed or not, it looks again.
                let text =
                    format!("SELECT IF((SELECT n FROM bench_bell WHERE id = 1) > {n}, 2, SLEEP(10)) AS woke");
                let woke = sqlx::raw_sql(AssertSqlSafe(text)).fetch_one(&mut *waits).await;
                let has_rung = matches!(&woke, Ok(row) if row.try_get_unchecked::<&str, _>(0)? == "2");
                if has_rung {
                    return Ok(asked);
                }
            }
            Way::Polls(every) => {
                let row =
                    sqlx::raw_sql("SELECT n FROM bench_bell WHERE id = 1").fetch_one(&mut *waits).await?;
                if row.try_get_unchecked::<&str, _>(0)?.parse::<i64>()? > n {
                    return Ok(asked);
                }
                tokio::time::sleep(every).await;
            }
        }
    }
}
