//! One connection to the server, made when it is needed, and made again when it was lost.
//!
//! A request is one text of several statements, and one round trip. While it is under way the connection is out of its
//! place, so a request that is dropped half-way takes it along: what is left of its answer can never be taken for the
//! answer to another request.

use std::sync::Arc;
use std::time::Duration;

use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Either, Row as _};
use tidelock_core::backend::{Clock, Moment, Sleep, boot_clock};
use tokio::sync::Mutex;

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

/// What to do with a connection that may have ended, for instance because the server was restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idling {
    /// If it was idle for a while, ask whether it still stands: a request on it would have an unknown outcome.
    Pings,
    /// Send the request, and send it again on a new connection if no answer comes: that is harmless.
    Repeats,
}

/// It works on a runtime without timers too.
#[derive(Debug)]
pub(crate) struct Link {
    address: Address,
    clock: Arc<dyn Clock>,
    reads: Reads,
    idling: Idling,
    /// How long one request may take.
    within: Duration,
    pub(crate) connect_within: Duration,
    connection: Mutex<Option<Idle>>,
    /// The server's clock, turned by a test.
    #[cfg(test)]
    pub(crate) turned: Option<Arc<crate::turned::Turned>>,
}

/// A connection that is not in use, and when it was used last.
#[derive(Debug)]
struct Idle {
    connection: MySqlConnection,
    since: Moment,
}

/// What the server answered to the statements of one request.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) rows: Vec<Row>,
    /// How many rows each statement found or changed.
    pub(crate) affected: Vec<u64>,
    /// The number that the last statement set with `LAST_INSERT_ID`.
    pub(crate) number: u64,
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

    pub(crate) fn of(row: &MySqlRow) -> Self {
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
            clock: boot_clock(),
            reads,
            idling,
            within,
            connect_within,
            connection: Mutex::default(),
            #[cfg(test)]
            turned: None,
        }
    }

    /// One with the same settings.
    pub(crate) fn another(&self) -> Self {
        Self::new(self.address.clone(), self.reads, self.idling, self.within, self.connect_within)
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
            let connection = self.connected(self.after(self.connect_within)).await?;
            *place = Some(self.idle(connection));
        }
        Ok(())
    }

    /// Sends statements, and reads all answers. Statements that another transaction stopped before they could commit
    /// are sent again, after a random pause.
    pub(crate) async fn ask(&self, text: &str) -> Result<Answer, Said> {
        let late = self.after(self.within);
        self.ask_until(text, late).await
    }

    /// The same, with a time limit of its own.
    pub(crate) async fn ask_until(&self, text: &str, late: Moment) -> Result<Answer, Said> {
        #[cfg(test)]
        let text = &self.turned.as_ref().map_or_else(|| text.to_owned(), |turned| turned.text(text));
        let mut place = self.until(late, self.connection.lock()).await.ok_or(Said::NotSent)?;
        // A task that stood still meanwhile must not send it: nobody waits for that any more.
        if self.clock.now() >= late {
            return Err(Said::NotSent);
        }
        let (mut connection, mut answered) = self.first_try(place.take(), text, late).await?;
        let mut pause = PAUSE;
        loop {
            match answered {
                Ok(answer) => {
                    *place = Some(self.idle(connection));
                    return Ok(answer);
                }
                Err(sqlx::Error::Database(error)) => {
                    // The statements before the one that failed are not committed.
                    match self.until(late, said(&mut connection, "ROLLBACK")).await {
                        Some(Ok(_)) => {}
                        _ => return Err(Said::of(sqlx::Error::Database(error))),
                    }
                    let error = Said::of(sqlx::Error::Database(error));
                    if !retries(&error) || self.after(pause) >= late {
                        *place = Some(self.idle(connection));
                        return Err(error);
                    }
                    Sleep::until(&self.clock, self.after(at_random(pause))).await;
                    if self.clock.now() >= late {
                        *place = Some(self.idle(connection));
                        return Err(error);
                    }
                    pause = (pause * 2).min(PAUSE * 64);
                }
                Err(error) => return Err(Said::of(error)),
            }
            answered = self.until(late, said(&mut connection, text)).await.ok_or(Said::NoAnswer)?;
        }
    }

    /// The outcome of this, or `None` when it is late.
    async fn until<T>(&self, late: Moment, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = Sleep::until(&self.clock, late) => None,
        }
    }

    fn after(&self, time: Duration) -> Moment {
        self.clock.now() + time
    }

    fn idle(&self, connection: MySqlConnection) -> Idle {
        Idle { connection, since: self.clock.now() }
    }

    /// Whether it was idle for so long that it may have ended.
    fn is_stale(&self, idle: &Idle) -> bool {
        self.clock.now() >= idle.since + FRESH
    }

    /// Sends the text once, on the idle connection or on a new one.
    async fn first_try(&self, idle: Option<Idle>, text: &str, late: Moment) -> Result<Tried, Said> {
        match idle {
            Some(idle) if self.idling == Idling::Repeats => self.hedged(idle.connection, text, late).await,
            Some(idle) => self.sent(self.usable(idle, late).await?, text, late).await,
            None => self.on_a_new_one(text, late).await,
        }
    }

    async fn sent(&self, mut connection: MySqlConnection, text: &str, late: Moment) -> Result<Tried, Said> {
        let answered = self.until(late, said(&mut connection, text)).await.ok_or(Said::NoAnswer)?;
        Ok((connection, answered))
    }

    async fn on_a_new_one(&self, text: &str, late: Moment) -> Result<Tried, Said> {
        let connection = self.connected(late.min(self.after(self.connect_within))).await?;
        self.sent(connection, text, late).await
    }

    /// Sends the text on a connection that may have ended. If no answer comes for a while, sends it on a new one too, and
    /// takes the answer that comes first: on a slow network the old connection is the quicker one, because a new one
    /// takes several round trips.
    async fn hedged(&self, old: MySqlConnection, text: &str, late: Moment) -> Result<Tried, Said> {
        let mut old = std::pin::pin!(self.sent(old, text, late));
        let soon = late.min(self.after(self.within / 3));
        match self.until(soon, &mut old).await {
            Some(Ok((connection, answered))) if is_answer(&answered) => return Ok((connection, answered)),
            Some(_) => return self.on_a_new_one(text, late).await,
            None => {}
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

    async fn connected(&self, late: Moment) -> Result<MySqlConnection, Said> {
        match self.until(late, self.dial()).await {
            Some(Ok(connection)) => Ok(connection),
            Some(Err(error)) => Err(Said::of(error)),
            None => Err(Said::NotConnected),
        }
    }

    /// The connection of before, if it surely stands; otherwise a new one. If it does not answer at once, a new one is
    /// made beside it, and the first of the two is used.
    async fn usable(&self, idle: Idle, late: Moment) -> Result<MySqlConnection, Said> {
        if !self.is_stale(&idle) {
            return Ok(idle.connection);
        }
        let mut connection = idle.connection;
        let mut old = std::pin::pin!(async move {
            let stands = self.until(late, connection.ping()).await;
            matches!(stands, Some(Ok(()))).then_some(connection)
        });
        let made_by = late.min(self.after(self.connect_within));
        let soon = late.min(self.after(SOON.min(self.within / 6)));
        match self.until(soon, &mut old).await {
            Some(Some(connection)) => return Ok(connection),
            Some(None) => return self.connected(made_by).await,
            None => {}
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
        let mut connection = self.address.to_connect().await?.connect().await?;
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
            let _ = self.until(self.after(self.within), idle.connection.close()).await; // it ends anyway
        }
    }
}

/// A connection, and what came back on it.
type Tried = (MySqlConnection, Result<Answer, sqlx::Error>);

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
            Either::Left(done) => {
                answer.affected.push(done.rows_affected());
                answer.number = done.last_insert_id();
            }
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
