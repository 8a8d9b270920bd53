//! One connection to the server, made when it is needed, and made again when it was lost.
//!
//! A request is one text of several statements, and one round trip. While it is under way the connection is out of its
//! place, so a request that is dropped half-way takes it along: what is left of its answer can never be taken for the
//! answer to another request.

use std::time::Duration;

use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Either, Row as _};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::address::Address;
use crate::sql::{SETTINGS, put};
use crate::trouble::{Said, retries};

/// How long one statement may wait for a row that another transaction has locked, in seconds. Only a transaction of a
/// server that has stalled is that long.
const LOCK_WAIT: u64 = 1;
/// How long a connection is used without asking whether it still stands.
const FRESH: Duration = Duration::from_millis(100);
/// How long a connection has to say that it still stands until a new one is made beside it.
const SOON: Duration = Duration::from_millis(250);
/// The first pause before a transaction is tried again that another one has stopped.
const PAUSE: Duration = Duration::from_millis(1);

/// What the connection reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    Committed,
    /// Also what is not committed yet, which may never be: for hints alone.
    Uncommitted,
}

/// What to do with a connection that was idle for a while: it may have ended, for instance because the server was
/// restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idling {
    /// Ask whether it still stands, because a request on it would have an unknown outcome.
    Pings,
    /// Send the request, and send it again on a new connection if no answer comes: that is harmless.
    Repeats,
}

#[derive(Debug)]
pub(crate) struct Link {
    address: Address,
    reads: Reads,
    idling: Idling,
    /// How long one request may take.
    within: Duration,
    pub(crate) connect_within: Duration,
    connection: Mutex<Option<Idle>>,
    /// The server's clock, turned by a test.
    #[cfg(test)]
    pub(crate) turned: Option<std::sync::Arc<std::sync::atomic::AtomicU64>>,
}

/// A connection that is not in use, and when it was used last.
#[derive(Debug)]
struct Idle {
    connection: MySqlConnection,
    since: Instant,
}

/// What the server answered to the statements of one request.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) rows: Vec<Row>,
    /// How many rows each statement found or changed.
    pub(crate) affected: Vec<u64>,
}

/// One row. Every value is a text.
#[derive(Clone, Debug)]
pub(crate) struct Row(pub(crate) Vec<Option<Vec<u8>>>);

impl Row {
    /// The first value, a letter that tells what the row is.
    pub(crate) fn tag(&self) -> u8 {
        self.bytes(0).first().copied().unwrap_or_default()
    }

    /// Zero for NULL.
    pub(crate) fn number(&self, at: usize) -> u64 {
        let text = std::str::from_utf8(self.bytes(at)).unwrap_or_default();
        // A sum is a DECIMAL, and a user variable may be one too: `12.0`.
        text.split('.').next().and_then(|whole| whole.parse().ok()).unwrap_or(0)
    }

    pub(crate) fn is(&self, at: usize) -> bool {
        self.number(at) != 0
    }

    pub(crate) fn is_null(&self, at: usize) -> bool {
        self.0.get(at).is_none_or(Option::is_none)
    }

    pub(crate) fn bytes(&self, at: usize) -> &[u8] {
        self.0.get(at).and_then(|value| value.as_deref()).unwrap_or_default()
    }

    fn of(row: &MySqlRow) -> Self {
        let value = |at| row.try_get_unchecked::<Option<&[u8]>, _>(at).ok().flatten().map(<[u8]>::to_vec);
        Self((0..row.len()).map(value).collect())
    }
}

impl Link {
    pub(crate) fn new(
        address: Address,
        reads: Reads,
        idling: Idling,
        within: Duration,
        connect_within: Duration,
    ) -> Self {
        Self {
            address,
            reads,
            idling,
            within,
            connect_within,
            connection: Mutex::default(),
            #[cfg(test)]
            turned: None,
        }
    }

    pub(crate) fn place(&self) -> &str {
        self.address.name()
    }

    /// The database of the tables.
    pub(crate) fn database(&self) -> &str {
        self.address.options().get_database().unwrap_or_default()
    }

    /// Connects now, if there is no connection.
    pub(crate) async fn connect(&self) -> Result<(), Said> {
        let mut place = self.connection.lock().await;
        if place.is_none() {
            let connection = self.connected(Instant::now() + self.connect_within).await?;
            *place = Some(Idle { connection, since: Instant::now() });
        }
        Ok(())
    }

    /// Sends statements, and reads all answers. Statements that another transaction stopped before they could commit
    /// are sent again, after a random pause.
    pub(crate) async fn ask(&self, text: &str) -> Result<Answer, Said> {
        let late = Instant::now() + self.within;
        self.ask_until(text, late).await
    }

    /// The same, with a time limit of its own.
    pub(crate) async fn ask_until(&self, text: &str, late: Instant) -> Result<Answer, Said> {
        #[cfg(test)]
        let text = &self.turned.as_ref().map_or_else(
            || text.to_owned(),
            |now| text.replace(crate::sql::NOW, &now.load(std::sync::atomic::Ordering::Relaxed).to_string()),
        );
        let mut place = timeout_at(late, self.connection.lock()).await.map_err(|_| Said::NotSent)?;
        let (mut connection, mut answered) = self.first_try(place.take(), text, late).await?;
        let mut pause = PAUSE;
        loop {
            match answered {
                Ok(answer) => {
                    *place = Some(Idle { connection, since: Instant::now() });
                    return Ok(answer);
                }
                Err(sqlx::Error::Database(error)) => {
                    // The statements before the one that failed are not committed.
                    match timeout_at(late, said(&mut connection, "ROLLBACK")).await {
                        Ok(Ok(_)) => {}
                        _ => return Err(Said::of(sqlx::Error::Database(error))),
                    }
                    let error = Said::of(sqlx::Error::Database(error));
                    if !retries(&error) || Instant::now() + pause >= late {
                        *place = Some(Idle { connection, since: Instant::now() });
                        return Err(error);
                    }
                    tokio::time::sleep(at_random(pause)).await;
                    pause = (pause * 2).min(PAUSE * 64);
                }
                Err(error) => return Err(Said::of(error)),
            }
            answered = timeout_at(late, said(&mut connection, text)).await.map_err(|_| Said::NoAnswer)?;
        }
    }

    /// Sends the text once, on the idle connection or on a new one.
    async fn first_try(&self, idle: Option<Idle>, text: &str, late: Instant) -> Result<Tried, Said> {
        let is_stale = idle.as_ref().is_some_and(|idle| idle.since.elapsed() >= FRESH);
        match idle {
            Some(idle) if is_stale && self.idling == Idling::Repeats => {
                self.hedged(idle.connection, text, late).await
            }
            Some(idle) => sent(self.usable(idle, late).await?, text, late).await,
            None => self.on_a_new_one(text, late).await,
        }
    }

    async fn on_a_new_one(&self, text: &str, late: Instant) -> Result<Tried, Said> {
        let connection = self.connected(late.min(Instant::now() + self.connect_within)).await?;
        sent(connection, text, late).await
    }

    /// Sends the text on a connection that may have ended. If no answer comes for a while, sends it on a new one too, and
    /// takes the answer that comes first: on a slow network the old connection is the quicker one, because a new one
    /// takes several round trips.
    async fn hedged(&self, old: MySqlConnection, text: &str, late: Instant) -> Result<Tried, Said> {
        let mut old = std::pin::pin!(sent(old, text, late));
        let soon = late.min(Instant::now() + self.within / 3);
        match timeout_at(soon, &mut old).await {
            Ok(Ok((connection, answered))) if is_answer(&answered) => return Ok((connection, answered)),
            Ok(_) => return self.on_a_new_one(text, late).await,
            Err(_) => {}
        }
        let mut new = std::pin::pin!(self.on_a_new_one(text, late));
        tokio::select! {
            tried = &mut old => match tried {
                Ok((connection, answered)) if is_answer(&answered) => Ok((connection, answered)),
                _ => new.await,
            },
            tried = &mut new => match tried {
                Ok(tried) => Ok(tried),
                Err(_) => old.await,
            },
        }
    }

    async fn connected(&self, late: Instant) -> Result<MySqlConnection, Said> {
        match timeout_at(late, self.dial()).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(Said::of(error)),
            Err(_) => Err(Said::NotConnected),
        }
    }

    /// The connection of before, if it surely stands; otherwise a new one. If it does not answer at once, a new one is
    /// made beside it, and the first of the two is used.
    async fn usable(&self, idle: Idle, late: Instant) -> Result<MySqlConnection, Said> {
        if idle.since.elapsed() < FRESH || self.idling == Idling::Repeats {
            return Ok(idle.connection);
        }
        let mut connection = idle.connection;
        let mut old = std::pin::pin!(async move {
            let stands = timeout_at(late, connection.ping()).await;
            matches!(stands, Ok(Ok(()))).then_some(connection)
        });
        let made_by = late.min(Instant::now() + self.connect_within);
        match timeout_at(late.min(Instant::now() + SOON.min(self.within / 6)), &mut old).await {
            Ok(Some(connection)) => return Ok(connection),
            Ok(None) => return self.connected(made_by).await,
            Err(_) => {}
        }
        let mut new = std::pin::pin!(self.connected(made_by));
        tokio::select! {
            stands = &mut old => match stands {
                Some(connection) => Ok(connection),
                None => new.await,
            },
            made = &mut new => match made {
                Ok(connection) => Ok(connection),
                Err(said) => old.await.ok_or(said),
            },
        }
    }

    async fn dial(&self) -> Result<MySqlConnection, sqlx::Error> {
        let mut connection = self.address.options().connect().await?;
        let isolation = match self.reads {
            Reads::Committed => "READ COMMITTED",
            Reads::Uncommitted => "READ UNCOMMITTED",
        };
        let mut text = String::new();
        put(&mut text, SETTINGS, &[("lock_wait", &LOCK_WAIT), ("isolation", &isolation)]);
        said(&mut connection, &text).await?;
        Ok(connection)
    }

    /// Ends the connection.
    pub(crate) async fn close(&self) {
        if let Some(idle) = self.connection.lock().await.take() {
            let _ = tokio::time::timeout(self.within, idle.connection.close()).await; // it ends anyway
        }
    }
}

/// A connection, and what came back on it.
type Tried = (MySqlConnection, Result<Answer, sqlx::Error>);

async fn sent(mut connection: MySqlConnection, text: &str, late: Instant) -> Result<Tried, Said> {
    let answered = timeout_at(late, said(&mut connection, text)).await.map_err(|_| Said::NoAnswer)?;
    Ok((connection, answered))
}

/// Whether the server has answered, be it with an error.
fn is_answer(answered: &Result<Answer, sqlx::Error>) -> bool {
    matches!(answered, Ok(_) | Err(sqlx::Error::Database(_)))
}

async fn said(connection: &mut MySqlConnection, text: &str) -> Result<Answer, sqlx::Error> {
    use futures_util::StreamExt as _;
    let mut answer = Answer::default();
    let mut parts = sqlx::raw_sql(AssertSqlSafe(text.to_owned())).fetch_many(connection);
    while let Some(part) = parts.next().await {
        match part? {
            Either::Left(done) => answer.affected.push(done.rows_affected()),
            Either::Right(row) => answer.rows.push(Row::of(&row)),
        }
    }
    Ok(answer)
}

/// A duration between half of this and this.
pub(crate) fn at_random(longest: Duration) -> Duration {
    let part = getrandom::u32().unwrap_or(u32::MAX);
    longest.mul_f64(0.5 + 0.5 * f64::from(part) / f64::from(u32::MAX))
}
