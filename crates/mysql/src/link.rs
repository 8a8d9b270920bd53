//! One connection to the server, made when it is needed, and made again when it was lost.
//!
//! A request is one text of several statements, and one round trip. While it is under way the connection is out of its
//! place, so a request that is dropped half-way takes it along: what is left of its answer can never be taken for the
//! answer to another request.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use sqlx::mysql::{MySqlConnection, MySqlDatabaseError, MySqlRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Either, Row as _};
use tidelock_core::backend::{Clock, Moment, Sleep, boot_clock};
use tokio::sync::Mutex;

use crate::address::Address;
use crate::sql::{SETTINGS, put};
use crate::switchover::Switchover;
use crate::trouble::{Said, ends_the_connection, is_demoted, retries};

/// How long one statement may wait for a row that another transaction has locked, or for a table that a backup has, in
/// seconds. Only a transaction of a server that has stalled is that long; and on MySQL a statement that waits for a table does
/// not notice that its connection has ended.
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
    /// Of all links of a session.
    switchover: Arc<Switchover>,
    connection: Mutex<Option<Idle>>,
    /// The server's clock, turned by a test.
    #[cfg(test)]
    pub(crate) turned: Option<Arc<crate::turned::Turned>>,
}

/// A connection, and when it began to be made.
#[derive(Debug)]
struct Dialed {
    connection: MySqlConnection,
    at: Moment,
}

/// A connection that is not in use, and when it was used last.
#[derive(Debug)]
struct Idle {
    dialed: Dialed,
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
            switchover: Arc::default(),
            connection: Mutex::default(),
            #[cfg(test)]
            turned: None,
        }
    }

    /// The same, as one more of the session that has this other one.
    pub(crate) fn beside(mut self, other: &Self) -> Self {
        self.switchover = other.switchover.clone();
        self
    }

    /// Another server answers here now. All other connections of the session that were made before are made anew. This one
    /// stays: behind an address that leads to several servers by turns, a new one may lead to the server of before.
    pub(crate) fn ends_all_others(&self) {
        let now = self.clock.now();
        if let Some(idle) = self.connection.try_lock().ok().as_mut().and_then(|place| place.as_mut()) {
            idle.dialed.at = now;
        }
        self.switchover.happens(now);
    }

    /// One more with the same settings.
    pub(crate) fn another(&self) -> Self {
        let settings = (self.address.clone(), self.reads, self.idling, self.within, self.connect_within);
        let (address, reads, idling, within, connect_within) = settings;
        Self::new(address, reads, idling, within, connect_within).beside(self)
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
            let dialed = self.connected(self.after(self.connect_within)).await?;
            *place = Some(self.idle(dialed));
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
        if self.clock.now() >= late {
            return Err(Said::NotSent); // and the connection stays
        }
        let (mut dialed, mut answered) = self.first_try(place.take(), text, late).await?;
        let mut pause = PAUSE;
        loop {
            if self.is_over(&dialed, &answered) {
                return answered.map_err(Said::of);
            }
            match answered {
                // Another server has answered meanwhile, and what the one of before has done may not be known there.
                Ok(_) if self.switchover.is_after(dialed.at) => return Err(Said::NoAnswer),
                Ok(answer) => {
                    *place = Some(self.idle(dialed));
                    return Ok(answer);
                }
                Err(sqlx::Error::Database(error)) => {
                    // The statements before the one that failed are not committed.
                    match self.until(late, said(&mut dialed.connection, "ROLLBACK")).await {
                        Some(Ok(_)) => {}
                        _ => return Err(Said::of(sqlx::Error::Database(error))),
                    }
                    let error = Said::of(sqlx::Error::Database(error));
                    if !retries(&error) || self.after(pause) >= late {
                        *place = Some(self.idle(dialed));
                        return Err(error);
                    }
                    Sleep::until(&self.clock, self.after(at_random(pause))).await;
                    if self.clock.now() >= late {
                        *place = Some(self.idle(dialed));
                        return Err(error);
                    }
                    pause = (pause * 2).min(PAUSE * 64);
                }
                Err(error) => return Err(Said::of(error)),
            }
            answered = self.until(late, said(&mut dialed.connection, text)).await.ok_or(Said::NoAnswer)?;
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

    fn idle(&self, dialed: Dialed) -> Idle {
        Idle { dialed, since: self.clock.now() }
    }

    /// Whether it was idle for so long that it may have ended.
    fn is_stale(&self, idle: &Idle) -> bool {
        self.clock.now() >= idle.since + FRESH
    }

    /// Sends the text once, on the idle connection or on a new one.
    async fn first_try(&self, idle: Option<Idle>, text: &str, late: Moment) -> Result<Tried, Said> {
        let (dialed, answered) = match idle.filter(|idle| !self.switchover.is_after(idle.dialed.at)) {
            Some(idle) if self.idling == Idling::Repeats => {
                return self.hedged(idle.dialed, text, late).await;
            }
            Some(idle) => self.sent(self.usable(idle, late).await?, text, late).await?,
            None => return self.on_a_new_one(text, late).await,
        };
        // It has done nothing, and there may be one that does.
        if number(&answered).is_some_and(is_demoted) && self.is_over(&dialed, &answered) {
            drop(dialed); // and with it what it has locked
            return self.on_a_new_one(text, late).await;
        }
        Ok((dialed, answered))
    }

    async fn sent(&self, mut dialed: Dialed, text: &str, late: Moment) -> Result<Tried, Said> {
        // A task that stood still meanwhile must not send it: nobody waits for that any more.
        if self.clock.now() >= late {
            return Err(Said::NotSent);
        }
        let answered = self.until(late, said(&mut dialed.connection, text)).await.ok_or(Said::NoAnswer)?;
        Ok((dialed, answered))
    }

    async fn on_a_new_one(&self, text: &str, late: Moment) -> Result<Tried, Said> {
        let dialed = self.connected(late.min(self.after(self.connect_within))).await?;
        self.sent(dialed, text, late).await
    }

    /// Whether this answer was the end of its connection, and was there before the request; or comes from a server that
    /// may have been the right one only before.
    fn is_over(&self, dialed: &Dialed, answered: &Result<Answer, sqlx::Error>) -> bool {
        let is_noticed = || self.switchover.is_noticed(dialed.at, self.clock.now());
        number(answered)
            .is_some_and(|number| ends_the_connection(number) || is_demoted(number) && is_noticed())
    }

    /// Whether this is an answer of the server to the request, be it an error.
    fn is_answer(&self, dialed: &Dialed, answered: &Result<Answer, sqlx::Error>) -> bool {
        matches!(answered, Ok(_) | Err(sqlx::Error::Database(_))) && !self.is_over(dialed, answered)
    }

    /// Sends the text on a connection that may have ended. If no answer comes for a while, sends it on a new one too, and
    /// takes the answer that comes first: on a slow network the old connection is the quicker one, because a new one
    /// takes several round trips.
    async fn hedged(&self, old: Dialed, text: &str, late: Moment) -> Result<Tried, Said> {
        let mut old = std::pin::pin!(self.sent(old, text, late));
        let soon = late.min(self.after(self.within / 3));
        match self.until(soon, &mut old).await {
            Some(Ok((dialed, answered))) if self.is_answer(&dialed, &answered) => {
                return Ok((dialed, answered));
            }
            Some(tried) => {
                drop(tried); // and with it what it has locked
                return self.on_a_new_one(text, late).await;
            }
            None => {}
        }
        let mut new = std::pin::pin!(self.on_a_new_one(text, late));
        tokio::select! {
            tried = &mut old => match tried {
                Ok((dialed, answered)) if self.is_answer(&dialed, &answered) => Ok((dialed, answered)),
                tried => {
                    drop(tried);
                    new.await
                }
            },
            tried = &mut new => match tried {
                Ok(tried) => Ok(tried),
                Err(_) => old.await,
            },
        }
    }

    async fn connected(&self, late: Moment) -> Result<Dialed, Said> {
        let at = self.clock.now();
        match self.until(late, self.dial()).await {
            Some(Ok(connection)) => Ok(Dialed { connection, at }),
            Some(Err(error)) => Err(Said::of(error)),
            None => Err(Said::NotConnected),
        }
    }

    /// The connection of before, if it surely stands; otherwise a new one. If it does not answer at once, a new one is
    /// made beside it, and the first of the two is used.
    async fn usable(&self, idle: Idle, late: Moment) -> Result<Dialed, Said> {
        if !self.is_stale(&idle) {
            return Ok(idle.dialed);
        }
        let mut dialed = idle.dialed;
        let mut old = std::pin::pin!(async move {
            let stands = self.until(late, dialed.connection.ping()).await;
            matches!(stands, Some(Ok(()))).then_some(dialed)
        });
        let made_by = late.min(self.after(self.connect_within));
        let soon = late.min(self.after(SOON.min(self.within / 6)));
        match self.until(soon, &mut old).await {
            Some(Some(dialed)) => return Ok(dialed),
            Some(None) => return self.connected(made_by).await,
            None => {}
        }
        let mut new = std::pin::pin!(self.connected(made_by));
        tokio::select! {
            stands = &mut old => match stands {
                Some(dialed) => Ok(dialed),
                None => new.await,
            },
            made = &mut new => match made {
                Ok(dialed) => Ok(dialed),
                Err(said) => old.await.ok_or(said),
            },
        }
    }

    async fn dial(&self) -> Result<MySqlConnection, sqlx::Error> {
        let connecting = self.address.to_connect().await?.connect().await;
        let mut connection = connecting.map_err(|error| self.may_come_back(error))?;
        let isolation = match self.reads {
            Reads::Committed => "READ COMMITTED",
            Reads::Uncommitted => "READ UNCOMMITTED",
        };
        let mut text = String::new();
        put(&mut text, SETTINGS, &[("lock_wait", &LOCK_WAIT), ("isolation", &isolation)]);
        said(&mut connection, &text).await?;
        Ok(connection)
    }

    /// A server that is down has no socket. So with a URL of a socket, what is missing may come back.
    fn may_come_back(&self, error: sqlx::Error) -> sqlx::Error {
        match (error, self.address.options().get_socket()) {
            (sqlx::Error::Io(missing), Some(socket)) if missing.kind() == io::ErrorKind::NotFound => {
                let wrong = format!(
                    "{missing}; check that the server is up, and that {} and other files that the URL names are there",
                    socket.display()
                );
                sqlx::Error::Io(io::Error::new(io::ErrorKind::ConnectionRefused, wrong))
            }
            (error, _) => error,
        }
    }

    /// Ends the connection.
    pub(crate) async fn close(&self) {
        if let Some(idle) = self.connection.lock().await.take() {
            let _ = self.until(self.after(self.within), idle.dialed.connection.close()).await; // it ends anyway
        }
    }
}

/// A connection, and what came back on it.
type Tried = (Dialed, Result<Answer, sqlx::Error>);

/// The number of the server's error.
fn number(answered: &Result<Answer, sqlx::Error>) -> Option<u16> {
    match answered {
        Err(sqlx::Error::Database(error)) => {
            error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number)
        }
        _ => None,
    }
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

#[cfg(test)]
#[allow(clippy::unwrap_used)] // all of this is a test
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    fn link(idling: Idling) -> Link {
        let within = Duration::from_secs(20);
        let address = Address::parse(&std::env::var("TIDELOCK_MARIADB_URL").unwrap()).unwrap();
        Link::new(address, Reads::Committed, idling, within, within)
    }

    /// Its socket is not there until it has started again.
    #[tokio::test]
    async fn a_server_with_a_socket_may_be_down() {
        let address = Address::parse("mysql://app@h/shop?socket=/there/is/none").unwrap();
        let within = Duration::from_secs(5);
        let link = Link::new(address, Reads::Committed, Idling::Repeats, within, within);
        let error = crate::trouble::from(&link.connect().await.unwrap_err(), link.place());
        assert_eq!(error.kind(), tidelock_core::ErrorKind::Unavailable, "{error:?}");
        assert!(error.to_string().contains("/there/is/none"), "{error}");
    }

    /// The server refuses each of them, by a trigger, behind a row that it has locked.
    #[tokio::test]
    #[ignore = "needs a server: cargo xtask test runs it"]
    async fn a_new_connection_does_not_wait_for_what_a_refused_one_has_locked() {
        let operator = link(Idling::Pings);
        let tables = "CREATE OR REPLACE TABLE refused (n INT PRIMARY KEY) ENGINE=InnoDB; INSERT INTO refused VALUES (1); \
                      CREATE TRIGGER refused BEFORE INSERT ON refused FOR EACH ROW \
                      SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290";
        operator.ask(tables).await.unwrap();
        for idling in [Idling::Pings, Idling::Repeats] {
            let link = link(idling);
            link.connect().await.unwrap();
            let began = std::time::Instant::now();
            let text =
                "START TRANSACTION; SELECT n FROM refused FOR UPDATE; INSERT INTO refused VALUES (2); COMMIT";
            assert_eq!(link.ask(text).await.unwrap_err().number(), Some(1290));
            assert!(began.elapsed() < Duration::from_secs(LOCK_WAIT), "{idling:?}: {:?}", began.elapsed());
        }
        operator.ask("DROP TABLE refused").await.unwrap();
    }

    /// The task asked whether its connection still stands, and the answer was there long before it was polled again.
    #[tokio::test]
    #[ignore = "needs a server: cargo xtask test runs it"]
    async fn a_task_that_stood_still_for_too_long_sends_nothing() {
        let link = link(Idling::Pings);
        link.ask("CREATE TEMPORARY TABLE sent (n INT)").await.unwrap();
        for _ in 0..10 {
            std::thread::sleep(FRESH);
            let late = link.after(Duration::from_millis(300));
            let mut asking = Box::pin(link.ask_until("INSERT INTO sent VALUES (1)", late));
            if asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
                continue;
            }
            std::thread::sleep(Duration::from_millis(400));
            tokio::time::sleep(Duration::from_millis(1)).await; // the runtime reads from its sockets again
            match asking.await {
                // If this thread stood still before it slept, that question was answered at once.
                Ok(_) => {}
                Err(Said::NotSent) => {
                    link.ask("INSERT INTO sent VALUES (1)").await.unwrap_err(); // that connection is gone
                    return;
                }
                Err(said) => panic!("{said:?}"),
            }
        }
        panic!("each of them was sent");
    }
}
