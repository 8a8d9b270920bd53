//! The twins: a row that is inserted and deleted, `GET_LOCK`, and a number in a row.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Row};
use tidelock_bench::{BareHandOff, Exclusion, Result, Signaller};
use tokio::sync::{Mutex, Notify};

/// The server as an operator sees it.
pub(super) struct Server {
    options: MySqlConnectOptions,
    connection: Mutex<MySqlConnection>,
}

impl Server {
    pub(super) async fn at(url: &str, _: &str) -> Result<Self> {
        let options = MySqlConnectOptions::from_str(url)?.disable_statement_logging();
        let mut connection = options.connect().await?;
        let tables = "CREATE TABLE IF NOT EXISTS bench_pair (name VARCHAR(64) NOT NULL PRIMARY KEY) ENGINE=InnoDB; \
                      CREATE TABLE IF NOT EXISTS bench_stock (id INT NOT NULL PRIMARY KEY, n INT NOT NULL) ENGINE=InnoDB";
        run(&mut connection, tables).await?;
        Ok(Self { options, connection: Mutex::new(connection) })
    }

    pub(super) async fn pairs(&self, tasks: usize, is_get_lock: bool) -> Result<Vec<Pair>> {
        let mut pairs = Vec::new();
        for number in 0..tasks {
            let connection = Arc::new(Mutex::new(self.options.connect().await?));
            let [take, give_back] = match is_get_lock {
                true => [format!("DO GET_LOCK('p{number}', 0)"), format!("DO RELEASE_LOCK('p{number}')")],
                false => [
                    format!("INSERT INTO bench_pair VALUES ('p{number}')"),
                    format!("DELETE FROM bench_pair WHERE name = 'p{number}'"),
                ],
            };
            pairs.push(Pair { connection, take: take.into(), give_back: give_back.into() });
        }
        Ok(pairs)
    }

    pub(super) async fn hand_offs(&self) -> Result<[BareHandOff<Signal>; 2]> {
        let bells: Arc<[Notify; 2]> = Arc::default();
        BareHandOff::sides(async |own, other, waiters| {
            let pair = self.pairs(own + 1, false).await?.swap_remove(own);
            let bell = bells.clone();
            tokio::spawn(async move {
                loop {
                    bell[own].notified().await;
                    waiters.wake_first();
                }
            });
            Ok(Signal { pair, bells: bells.clone(), other })
        })
        .await
    }

    pub(super) async fn stock(&self, number: u32) -> Result<Stock> {
        let mut connection = self.options.connect().await?;
        run(&mut connection, &format!("REPLACE INTO bench_stock VALUES (1, {number})")).await?;
        Ok(Stock { connection: Arc::new(Mutex::new(connection)) })
    }

    pub(super) async fn statements(&self) -> Result<f64> {
        let mut connection = self.connection.lock().await;
        let row = sqlx::raw_sql("SHOW GLOBAL STATUS LIKE 'Questions'").fetch_one(&mut *connection).await?;
        let text: &str = row.try_get_unchecked(1)?;
        Ok(text.parse()?)
    }

    pub(super) async fn clean(&self, namespace: &str) -> Result<()> {
        let hex: String = namespace.bytes().map(|byte| format!("{byte:02x}")).collect();
        let text = format!(
            "DELETE FROM bench_pair; DELETE FROM tidelock_line WHERE name >= x'{hex}00' AND name < x'{hex}01'"
        );
        run(&mut *self.connection.lock().await, &text).await
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({}:{})", self.options.get_host(), self.options.get_port())
    }
}

async fn run(connection: &mut MySqlConnection, text: &str) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(connection).await?;
    Ok(())
}

/// One take and one give-back: two statements, each committed by itself.
#[derive(Clone)]
pub(crate) struct Pair {
    connection: Arc<Mutex<MySqlConnection>>,
    take: Arc<str>,
    give_back: Arc<str>,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.take)
    }
}

impl Exclusion for Pair {
    type Held = ();

    async fn take(&self) -> Result<()> {
        run(&mut *self.connection.lock().await, &self.take).await
    }

    async fn give_back(&self, (): ()) -> Result<()> {
        run(&mut *self.connection.lock().await, &self.give_back).await
    }

    async fn stand(&self, _: usize) -> Result<()> {
        Ok(()) // nobody waits: taking succeeds at once or fails
    }
}

/// The barest signal: the statements of a pair, and a wake within the process.
#[derive(Clone, Debug)]
pub(crate) struct Signal {
    pair: Pair,
    bells: Arc<[Notify; 2]>,
    other: usize,
}

impl Signaller for Signal {
    async fn tell(&self) -> Result<()> {
        self.pair.take().await?;
        self.pair.give_back(()).await?;
        self.bells[self.other].notify_one();
        Ok(())
    }
}

/// A number in a row.
#[derive(Clone)]
pub(crate) struct Stock {
    connection: Arc<Mutex<MySqlConnection>>,
}

impl fmt::Debug for Stock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stock")
    }
}

impl tidelock_bench::Stock for Stock {
    async fn read(&self) -> Result<u32> {
        let mut connection = self.connection.lock().await;
        let row = sqlx::raw_sql("SELECT n FROM bench_stock WHERE id = 1").fetch_one(&mut *connection).await?;
        Ok(row.try_get_unchecked::<&str, _>(0)?.parse()?)
    }

    async fn write(&self, number: u32) -> Result<()> {
        let text = format!("UPDATE bench_stock SET n = {number} WHERE id = 1");
        run(&mut *self.connection.lock().await, &text).await
    }

    async fn take_one(&self) -> Result<bool> {
        let mut connection = self.connection.lock().await;
        let taken = sqlx::raw_sql("UPDATE bench_stock SET n = n - 1 WHERE id = 1 AND n > 0");
        Ok(taken.execute(&mut *connection).await?.rows_affected() == 1)
    }
}
