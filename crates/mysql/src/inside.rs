//! Locking inside the caller's own transaction: the lock is free when the transaction has ended, whichever way.
//!
//! First a claim stands in line like any other, and holds: that is committed at once, on Tidelock's own connection.
//! The claim has a slot, a row of another table, and has noted the stamp there. Then the caller's transaction stamps the
//! slot anew. Until it ends, everybody else still sees the old stamp and cannot lock the slot, so the lock is held, whatever
//! becomes of the session. From the commit on the stamp is another one, and the claim does not count any more; after a
//! rollback it is as before, and this client gives it back. Nobody is told of a commit, so this client reads every few
//! milliseconds whether the transaction has ended, and then lets the next claim in.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use sqlx::mysql::{MySqlConnection, MySqlPool};
use sqlx::{AssertSqlSafe, Connection as _, Either, MySql, Transaction};
use tidelock_core::backend::{Leave, Moment, Sleep, Tied, alone, tie};
use tidelock_core::{ClaimId, Error, ErrorKind, Kind, Locks, Name, Result, SessionId, Token};

use crate::answers::{Busy, Slot};
use crate::link::{Row, at_random};
use crate::open_session::OpenSession;
use crate::request::Action;
use crate::sql::{self, id, list, put};
use crate::trouble::{self, Said};

/// How often a transaction is run again that the server has rolled back.
const TRIES: u32 = 20;
/// The pauses between two reads of whether a transaction has ended.
const FIRST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(50);
/// For how long a claim that nobody waits for stays after its transaction was committed, and how many of them.
const STAYS: Duration = Duration::from_millis(50);
const MANY: usize = 100;
/// How long a rollback is waited for. The server goes on with a longer one when the connection has ended.
const ROLLS_BACK: Duration = Duration::from_secs(1);
/// How many slots are tried for one claim. Nearly always the first one is free.
const SLOTS_TRIED: usize = 20;
/// How many transactions one request asks for.
const MOST: usize = 1_000;

/// The open sessions of this process: who holds a claim knows only its id.
static SESSIONS: LazyLock<Mutex<HashMap<SessionId, Weak<OpenSession>>>> = LazyLock::new(Mutex::default);

tokio::task_local! {
    /// Set while a lock is taken for a transaction: core polls a join in the task of its caller.
    static FOR_A_TRANSACTION: ();
    /// Set while the guard of a claim is let go that is inside a transaction: core leaves at once.
    static WITH_A_TRANSACTION: ();
}

/// Whether the join that is polled now is of a lock for a transaction.
pub(crate) fn is_for_a_transaction() -> bool {
    FOR_A_TRANSACTION.try_with(|()| ()).is_ok()
}

/// Whether the leave that is asked now is of a guard that was let go because a transaction has its claim.
pub(crate) fn is_left_to_a_transaction() -> bool {
    WITH_A_TRANSACTION.try_with(|()| ()).is_ok()
}

/// Its claim has a slot, which another transaction may stamp: no ordinary lock may get it.
fn for_a_transaction<F: Future>(acquire: F) -> impl Future<Output = F::Output> {
    FOR_A_TRANSACTION.scope((), alone(acquire))
}

pub(crate) fn enter(session: &Arc<OpenSession>) {
    sessions().insert(session.id, Arc::downgrade(session));
}

pub(crate) fn forget(session: SessionId) {
    sessions().remove(&session);
}

fn sessions() -> std::sync::MutexGuard<'static, HashMap<SessionId, Weak<OpenSession>>> {
    SESSIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks `name` until `transaction` is committed or rolled back, and waits for its turn. `locks` is a client of this
/// crate on the same database; it need not hold anything else.
///
/// It excludes, and is excluded by, an ordinary mutex of that name. Lock *before* the first read: in a `REPEATABLE READ`
/// transaction, which is the default, every later read shows the rows as they were at the first one.
///
/// ```no_run
/// # async fn sell(pool: sqlx::MySqlPool, locks: std::sync::Arc<dyn tidelock_mysql::Locks>) -> Result<(), Box<dyn std::error::Error>> {
/// let mut transaction = pool.begin().await?;
/// let token = tidelock_mysql::lock_in(&*locks, &mut transaction, "stock:42").await?;
/// sqlx::query("UPDATE stock SET n = n - 1, token = ? WHERE id = 42").bind(token.as_i64()).execute(&mut *transaction).await?;
/// transaction.commit().await?; // gives the lock back
/// # Ok(()) }
/// ```
///
/// # Errors
/// [`ErrorKind::Conflict`]: the server has rolled the transaction back because of a deadlock, or it has ended before, also
/// with its connection; start it over from its beginning. [`ErrorKind::Lost`]: the claim was lost before the transaction had it.
/// [`ErrorKind::InvalidOption`]: the transaction is on another server than `locks`. [`ErrorKind::Timeout`], too: its turn had
/// come, and the transaction's connection did not answer within [`Options::command_deadline`](tidelock_core::Options);
/// drop the transaction, for a rollback would wait for that connection. Otherwise as of
/// [`Mutex::lock`](tidelock_core::Mutex::lock).
///
/// # What ends it early
/// The lock is a change inside the transaction. What undoes or commits that change gives the lock back, although the
/// transaction seems to go on: `ROLLBACK TO` a savepoint from before the lock, and each statement that commits by itself,
/// such as `CREATE TABLE`. A nested transaction that begins after the lock (sqlx makes a savepoint) may be rolled back.
///
/// # Cancel safety
/// Dropping the future gives the claim back. If the transaction has its slot by then, the lock is held until the
/// transaction ends: roll it back.
pub async fn lock_in(
    locks: &dyn Locks,
    transaction: &mut Transaction<'_, MySql>,
    name: &str,
) -> Result<Token> {
    loop {
        let held = for_a_transaction(locks.mutex(name)?.lock()).await?;
        if let Some(token) = moved_inside(tie(held), transaction).await? {
            return Ok(token);
        }
    }
}

/// As [`lock_in`], without waiting: `None` if the lock is not free.
///
/// # Errors
/// As of [`lock_in`].
///
/// # Cancel safety
/// As of [`lock_in`].
pub async fn try_lock_in(
    locks: &dyn Locks,
    transaction: &mut Transaction<'_, MySql>,
    name: &str,
) -> Result<Option<Token>> {
    loop {
        let Some(held) = for_a_transaction(locks.mutex(name)?.try_lock()).await? else {
            return Ok(None);
        };
        if let Some(token) = moved_inside(tie(held), transaction).await? {
            return Ok(Some(token));
        }
    }
}

/// As [`lock_in`], but waits for its turn for at most `patience`; `None` if that is over.
///
/// # Errors
/// As of [`lock_in`].
///
/// # Cancel safety
/// As of [`lock_in`].
pub async fn lock_in_within(
    locks: &dyn Locks,
    transaction: &mut Transaction<'_, MySql>,
    name: &str,
    patience: Duration,
) -> Result<Option<Token>> {
    let late = Instant::now().checked_add(patience); // None: never
    loop {
        let left = late.map_or(patience, |late| late.saturating_duration_since(Instant::now()));
        let Some(held) = for_a_transaction(locks.mutex(name)?.lock_within(left)).await? else {
            return Ok(None);
        };
        if let Some(token) = moved_inside(tie(held), transaction).await? {
            return Ok(Some(token));
        }
    }
}

/// As [`lock_in`], for several names: in the order of their bytes, so that two transactions never wait for each other's
/// locks. Returns the tokens in the order of `names`. Lock everything that a transaction needs with one call. A first read
/// behind it shows what was committed until it had the last of them.
///
/// # Errors
/// As of [`lock_in`].
///
/// # Cancel safety
/// As of [`lock_in`].
pub async fn lock_all_in(
    locks: &dyn Locks,
    transaction: &mut Transaction<'_, MySql>,
    names: &[&str],
) -> Result<Vec<Token>> {
    let mut sorted: Vec<&str> = names.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut tokens = HashMap::new();
    for name in sorted {
        tokens.insert(name, lock_in(locks, transaction, name).await?);
    }
    Ok(names.iter().filter_map(|name| tokens.get(name).copied()).collect())
}

/// Why a transaction under locks did not succeed.
#[derive(Debug)]
pub enum TransactionError<E> {
    /// A lock could not be taken.
    Lock(Error),
    /// The database refused something; not a deadlock, unless it rolled the transaction back too often.
    Database(sqlx::Error),
    /// The work itself ended with this error, and was rolled back.
    Work(E),
}

impl<E> From<sqlx::Error> for TransactionError<E> {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl<E: fmt::Display> fmt::Display for TransactionError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(error) => error.fmt(f),
            Self::Database(error) => error.fmt(f),
            Self::Work(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for TransactionError<E> {}

/// The work inside a transaction, on its way.
pub type Work<'t, T, E> = Pin<Box<dyn Future<Output = Result<T, TransactionError<E>>> + Send + 't>>;

/// Runs `work` in a transaction that holds these locks, and commits. If the server rolls the transaction back because of
/// a deadlock, everything is run again from the beginning, so `work` must do nothing that a rollback does not undo.
///
/// ```no_run
/// # async fn sell(pool: sqlx::MySqlPool, locks: std::sync::Arc<dyn tidelock_mysql::Locks>) -> Result<(), Box<dyn std::error::Error>> {
/// use tidelock_mysql::{TransactionError, in_transaction};
/// in_transaction(&*locks, &pool, &["stock:42"], |connection, _tokens| Box::pin(async move {
///     sqlx::query("UPDATE stock SET n = n - 1 WHERE id = 42").execute(connection).await?;
///     Ok::<_, TransactionError<std::convert::Infallible>>(())
/// })).await?;
/// # Ok(()) }
/// ```
///
/// # Errors
/// What the locks, the database or the work itself refused.
///
/// # Cancel safety
/// Dropping the future rolls back, and gives the locks back; during the commit, that may have taken effect. The commit has
/// no time limit of its own, because whoever gives it up does not know whether it took effect.
pub async fn in_transaction<T, E>(
    locks: &dyn Locks,
    pool: &MySqlPool,
    names: &[&str],
    mut work: impl for<'t> FnMut(&'t mut MySqlConnection, Vec<Token>) -> Work<'t, T, E> + Send,
) -> Result<T, TransactionError<E>> {
    let mut pause = FIRST;
    for left in (0..TRIES).rev() {
        let mut connection = pool.acquire().await?;
        let mut transaction = connection.begin().await?;
        let outcome = match lock_all_in(locks, &mut transaction, names).await {
            Ok(tokens) => work(&mut transaction, tokens).await,
            Err(error) => Err(TransactionError::Lock(error)),
        };
        let error = match outcome {
            Ok(done) => match transaction.commit().await {
                Ok(()) => return Ok(done),
                Err(error) => TransactionError::Database(error),
            },
            Err(error) if is_silent(&error) => {
                drop(transaction); // a rollback would wait for the same connection
                connection.close_on_drop();
                error
            }
            // The whole server may be away, or this connection be silent. Then the server rolls back when it notices.
            Err(error) => {
                if tokio::time::timeout(ROLLS_BACK, transaction.rollback()).await.is_err() {
                    connection.close_on_drop();
                }
                error
            }
        };
        if left == 0 || !was_rolled_back(&error) {
            return Err(error);
        }
        tokio::time::sleep(at_random(pause)).await;
        pause = (pause * 2).min(LONGEST);
    }
    Err(TransactionError::Lock(start_over()))
}

/// What tells a [`Timeout`](ErrorKind::Timeout) of the transaction's connection from one of Tidelock's own.
#[derive(Debug)]
struct Silence;

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no answer on the transaction's connection")
    }
}

impl std::error::Error for Silence {}

/// Whether the transaction's connection may not answer any more.
fn is_silent<E>(error: &TransactionError<E>) -> bool {
    let TransactionError::Lock(error) = error else { return false };
    std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<Silence>)
}

fn was_rolled_back<E>(error: &TransactionError<E>) -> bool {
    match error {
        TransactionError::Lock(error) => error.kind() == ErrorKind::Conflict,
        TransactionError::Database(sqlx::Error::Database(error)) => error
            .try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>()
            .is_some_and(|said| trouble::rolls_back(said.number())),
        _ => false,
    }
}

fn start_over() -> Error {
    let wrong = "this transaction has ended: the server has rolled it back (a deadlock, or rows that changed since its snapshot), or has \
                 ended its connection (perhaps its wait_timeout is shorter than the wait for the lock), or a statement has committed \
                 it; start it over from its beginning";
    Error::new(ErrorKind::Conflict, wrong)
}

fn silent(name: &Name) -> Error {
    let wrong = "the transaction's connection did not answer in time; drop the transaction, and start it over on another connection";
    Error::new(ErrorKind::Timeout, wrong).because(Silence).during("lock").on(name)
}

fn lost(name: &Name) -> Error {
    let wrong = "the claim was lost before the transaction had it; start the transaction over";
    Error::new(ErrorKind::Lost, wrong).during("lock").on(name)
}

/// A held claim on its way into a transaction. If it may be inside when this is dropped, it is free when the transaction has
/// ended, however core lets its guard go: as void, if an answer to its join was lost.
struct Moving {
    session: Arc<OpenSession>,
    held: Option<Tied>,
    claim: ClaimId,
    name: Name,
}

impl Drop for Moving {
    fn drop(&mut self) {
        if !self.session.own_claims.is_inside(self.claim.number) {
            return;
        }
        self.session.ends_with_its_transaction(&self.name, self.claim);
        WITH_A_TRANSACTION.sync_scope((), || drop(self.held.take()));
    }
}

/// Moves a held claim into the transaction, and gives the hold back: the lock is free when the transaction has ended. The
/// token, or `None` if the claim was lost before; nothing holds it then, and another one can be made.
async fn moved_inside(held: Tied, transaction: &mut Transaction<'_, MySql>) -> Result<Option<Token>> {
    let (claim, name) = (held.claim(), held.name().clone());
    let session = sessions().get(&claim.session).and_then(Weak::upgrade).ok_or_else(|| {
        let wrong = "these locks are of another store; lock_in needs a client of tidelock-mysql";
        Error::new(ErrorKind::InvalidOption, wrong).on(&name)
    })?;
    let (left, token) = (held.remaining(), held.token());
    let late = session.clock.now() + left;
    // In this order: a leave that came before has taken the slot away.
    if !session.own_claims.goes_inside(claim.number) {
        return Ok(None);
    }
    if left.is_zero() {
        session.own_claims.is_not_inside(claim.number);
        return Err(lost(&name));
    }
    let moving = Moving { session, held: Some(held), claim, name };
    let (session, name) = (&moving.session, &moving.name);
    match session.clone().go_inside(claim, name, late, transaction).await {
        Ok(Entry::Inside) => {}
        Ok(Entry::Unknown) => return Err(silent(name)),
        Ok(Entry::HasLeft) => {
            session.own_claims.is_not_inside(claim.number);
            return Ok(None);
        }
        Err(error) => {
            session.own_claims.is_not_inside(claim.number);
            return Err(error);
        }
    }
    // Who finds the session dead from here on finds the slot locked, too. What was lost until now may have left before.
    if session.clock.now() >= late || moving.held.as_ref().is_none_or(|held| held.remaining().is_zero()) {
        return Err(lost(name));
    }
    Ok(Some(token))
}

/// How a claim's way into a transaction ended.
enum Entry {
    Inside,
    /// The transaction's connection did not answer.
    Unknown,
    /// The claim has left before.
    HasLeft,
}

impl OpenSession {
    /// Finds a slot that the transaction can stamp, as long as it is not late.
    async fn go_inside(
        self: Arc<Self>,
        claim: ClaimId,
        name: &Name,
        late: Moment,
        transaction: &mut Transaction<'_, MySql>,
    ) -> Result<Entry> {
        let mut known = self.own_claims.slot(claim.number);
        let mut from = 0;
        for _ in 0..SLOTS_TRIED {
            let slot = match known.take() {
                Some(slot) => slot,
                None => match self.clone().next_slot(claim, name, from).await? {
                    Some(slot) => slot,
                    None => return Ok(Entry::HasLeft),
                },
            };
            from = slot.slot;
            if self.clock.now() >= late {
                return Err(lost(name));
            }
            match self.answered(late, self.stamp(claim, slot, transaction)).await {
                None => return Ok(Entry::Unknown),
                Some(Ok(true)) => return Ok(Entry::Inside),
                Some(Ok(false)) => {} // another claim has that slot, or this is another store
                Some(Err(said)) => return Err(self.refused(&said).on(name)),
            }
            let asked = self.answered(late, self.is_store_of(slot, transaction)).await;
            asked.ok_or_else(|| silent(name))??;
        }
        let wrong = format!(
            "no free slot was found for the transaction; check how many are open under locks of this database: {} can be",
            sql::SLOTS
        );
        Err(Error::new(ErrorKind::Unavailable, wrong).during("lock").on(name))
    }

    /// The answer on a transaction's connection, or `None` if it is late. The connection may carry nothing any more, as when a
    /// firewall has forgotten it while the claim waited. Its claim must not keep others out for as long as TCP tries.
    async fn answered<T>(&self, late: Moment, asking: impl Future<Output = T>) -> Option<T> {
        let late = late.min(self.clock.now() + self.within);
        tokio::select! {
            biased;
            answer = asking => Some(answer),
            () = Sleep::until(&self.clock, late) => None,
        }
    }

    /// Locks and stamps the slot in the user's transaction. False: another transaction has it locked, or has stamped it.
    async fn stamp(
        &self,
        claim: ClaimId,
        slot: Slot,
        transaction: &mut Transaction<'_, MySql>,
    ) -> Result<bool, Said> {
        let mut text = String::new();
        put(
            &mut text,
            sql::INSIDE,
            &[
                ("database", &self.database()),
                ("version", &sql::VERSION),
                ("store", &self.caller.store),
                ("slot", &slot.slot),
                ("mark", &slot.mark),
                ("server", &slot.server),
                ("session", &id(claim.session)),
                ("number", &claim.number),
            ],
        );
        let mut parts = sqlx::raw_sql(AssertSqlSafe(text)).fetch_many(&mut **transaction);
        let mut last = 0;
        while let Some(part) = parts.next().await {
            if let Either::Left(done) = part.map_err(Said::of)? {
                last = done.rows_affected();
            }
        }
        Ok(last == 1)
    }

    /// # Errors
    /// If the transaction is one of another server, where these claims are not.
    async fn is_store_of(&self, slot: Slot, transaction: &mut Transaction<'_, MySql>) -> Result<()> {
        let mut text = String::new();
        put(&mut text, sql::WHICH_STORE, &[("database", &self.database()), ("version", &sql::VERSION)]);
        let asked = sqlx::raw_sql(AssertSqlSafe(text)).fetch_optional(&mut **transaction).await;
        let found = asked.map_err(|error| self.refused(&Said::of(error)))?;
        let found = found.as_ref().map(Row::of).map(|row| (row.number(0), row.number(1)));
        if found == Some((self.caller.store, slot.server)) {
            return Ok(());
        }
        let wrong = format!(
            "this transaction is not on the server of these locks, {}; use a client that is connected to its server",
            self.looks.place()
        );
        Err(Error::new(ErrorKind::InvalidOption, wrong).during("lock"))
    }

    /// A statement inside the user's transaction has failed. Without its connection that has been rolled back, and no
    /// repetition of the statement could help.
    fn refused(&self, said: &Said) -> Error {
        let error = if trouble::ends_a_transaction(said) { start_over() } else { self.trouble(said) };
        error.during("lock")
    }

    /// The database of the tables, between backquotes.
    fn database(&self) -> String {
        self.looks.database().replace('`', "``")
    }

    /// A slot for a claim that has none, or not a free one. None: the claim has left, which a transaction that has had the
    /// same slot may have done to it.
    async fn next_slot(self: Arc<Self>, claim: ClaimId, name: &Name, from: u64) -> Result<Option<Slot>> {
        let (session, name) = (self.clone(), name.clone());
        let choosing = async move {
            if let Some(slot) = session.set_slot(claim, &name, from).await? {
                return Ok(Some(slot));
            }
            session.gather(&name, Action::Bury(Vec::new())).await?; // it gets a row of its own
            session.set_slot(claim, &name, from).await
        };
        self.at_the_keepers(choosing).await.map_err(|error| error.during("lock"))
    }

    /// `from`: the slot that it has, or 0.
    pub(crate) async fn set_slot(&self, claim: ClaimId, name: &Name, from: u64) -> Result<Option<Slot>> {
        let key = self.caller.key(name);
        let mut text = "START TRANSACTION;\n".to_owned();
        put(&mut text, sql::BEGIN, &[("name", &key)]);
        put(
            &mut text,
            sql::SLOT,
            &[
                ("name", &key),
                ("slot", &self.caller.any_slot()),
                ("from", &from),
                ("me", &id(claim.session)),
                ("number", &claim.number),
            ],
        );
        text.push_str("COMMIT;\n");
        let found = self.looks.ask(&text).await.map_err(|said| self.trouble(&said))?;
        let row = found.rows.iter().find(|row| row.tag() == b'x');
        Ok(row.map(|row| Slot { slot: row.number(1), mark: row.number(2), server: row.number(3) }))
    }

    /// A guard of a claim that is inside a transaction was let go: it is free when that transaction has ended.
    pub(crate) fn ends_with_its_transaction(self: &Arc<Self>, name: &Name, claim: ClaimId) {
        if self.own_claims.ends_with_its_transaction(claim.number, name) {
            self.runtime.spawn(self.clone().watch_transactions());
        } else {
            self.ending.notify_one();
        }
    }

    /// Reads, in growing pauses, which transactions have ended, and lets the next claims in. Ends when none is left.
    async fn watch_transactions(self: Arc<Self>) {
        let (mut pause, mut committed) = (FIRST, HashMap::new());
        loop {
            let is_new = tokio::time::timeout(pause, self.ending.notified()).await.is_ok();
            if is_new {
                tokio::time::sleep(FIRST).await; // no transaction ends where it begins
            }
            if self.own_claims.watches_no_more() {
                return;
            }
            // The next round tries again.
            let ending = self.own_claims.ending();
            let have_ended = self.look_after(&ending, &mut committed).await.unwrap_or_default();
            pause = if is_new || have_ended { FIRST } else { (pause * 3 / 2).min(LONGEST) };
        }
    }

    /// Whether any of them has ended that could not wait. `committed`: those of before that could, and since when they do.
    async fn look_after(
        self: &Arc<Self>,
        ending: &[(u64, Name)],
        committed: &mut HashMap<u64, Instant>,
    ) -> Result<bool> {
        let [mut leaving, calm] = self.ended(ending).await?;
        let has_urgent = !leaving.is_empty();
        committed.retain(|number, _| calm.iter().any(|(other, _)| other == number));
        for (number, _) in &calm {
            committed.entry(*number).or_insert_with(Instant::now);
        }
        if has_urgent || calm.len() >= MANY || committed.values().any(|since| since.elapsed() >= STAYS) {
            leaving.extend(calm);
            committed.clear();
        }
        self.let_go(leaving).await?;
        Ok(has_urgent)
    }

    /// The session is closed: what has ended leaves, and the rest stays until others find it.
    pub(crate) async fn leave_transactions(self: &Arc<Self>) -> Result<()> {
        let ending = self.own_claims.ending();
        let [mut leaving, calm] = self.ended(&ending).await?;
        leaving.extend(calm);
        self.let_go(leaving).await
    }

    /// Those whose transactions have ended: first those that keep others out or were rolled back, then those that were
    /// committed and for which nobody waits. These keep nobody out, so that many of them can leave together.
    async fn ended<'e>(&self, ending: &'e [(u64, Name)]) -> Result<[Vec<&'e (u64, Name)>; 2]> {
        let [mut urgent, mut calm] = [Vec::new(), Vec::new()];
        for some in ending.chunks(MOST) {
            let [more_urgent, more_calm] = self.ended_among(some).await?;
            urgent.extend(more_urgent);
            calm.extend(more_calm);
        }
        Ok([urgent, calm])
    }

    async fn ended_among<'e>(&self, ending: &'e [(u64, Name)]) -> Result<[Vec<&'e (u64, Name)>; 2]> {
        let keys = list(ending.iter().map(|(_, name)| self.caller.key(name)));
        let numbers = list(ending.iter().map(|(number, _)| number));
        let mut text = String::new();
        put(&mut text, sql::HAS_ENDED, &[("me", &id(self.id)), ("numbers", &numbers), ("names", &keys)]);
        let answer = self.looks.ask(&text).await.map_err(|said| self.trouble(&said))?;
        let tagged = |tag: u8| answer.rows.iter().filter(move |row| row.tag() == tag);
        let stamped: HashSet<u64> = tagged(b'o').map(|row| row.number(1)).collect();
        let counts: HashMap<u64, bool> = tagged(b'v').map(|row| (row.number(1), row.is(2))).collect();
        let waited: HashSet<Name> =
            tagged(b'w').filter_map(|row| self.caller.namespace.name(row.bytes(1))).collect();
        let is_open = |number: &u64| stamped.contains(number) && counts.get(number) == Some(&true);
        let ended = ending.iter().filter(|(number, _)| !is_open(number));
        let is_calm =
            |(number, name): &&(u64, Name)| counts.get(number) == Some(&false) && !waited.contains(name);
        let (calm, urgent) = ended.partition(is_calm);
        Ok([urgent, calm])
    }

    /// These transactions have ended, committed or not: their claims leave, all in one transaction, and the next ones are
    /// let in.
    async fn let_go(self: &Arc<Self>, leaving: Vec<&(u64, Name)>) -> Result<()> {
        let left = leaving.into_iter().map(|(number, name)| async move {
            self.own_claims.set_busy(name, Some(Busy::InRows(Kind::Mutex))); // so that the first statements fit
            let id = ClaimId { session: self.id, number: *number };
            // Its guard may have gone as void, and nothing was sent then.
            let how = match self.own_claims.cannot_join_late(*number) {
                true => Leave::Done,
                false => {
                    self.own_claims.make_void(*number, self.clock.now() + self.ttl * 2);
                    Leave::Void
                }
            };
            self.gather(name, Action::Leave { id, how }).await?;
            self.own_claims.is_outside(*number);
            Ok(())
        });
        // All are awaited: one that is in the queue must not be in it a second time.
        join_all(left).await.into_iter().collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // all of this is a test
mod tests {
    use std::convert::Infallible;

    use sqlx::mysql::MySqlPoolOptions;
    use tidelock_core::Options;

    use super::*;
    use crate::store::Store;

    const WITHIN: Duration = Duration::from_secs(1);

    /// The client's connection for looks is busy for longer than a command may take. There it asks for the slot of a claim
    /// that has waited, so the lock fails. The transaction's connection has answered all the time.
    #[tokio::test]
    #[ignore = "needs a server: cargo xtask test runs it"]
    async fn a_busy_client_blames_no_connection_of_a_transaction() {
        let url = std::env::var("TIDELOCK_MARIADB_URL").unwrap();
        let pool = MySqlPoolOptions::new().max_connections(1).connect(&url).await.unwrap();
        let id = async || {
            let row = sqlx::raw_sql("SELECT CONNECTION_ID()").fetch_one(&pool).await.unwrap();
            Row::of(&row).number(0)
        };
        let namespace = format!("busy {:x}", getrandom::u64().unwrap());
        let options = Options::new().namespace(&namespace).command_deadline(WITHIN);
        let store = Store::open(&url).unwrap();
        let (locks, other) =
            (store.connect(options.clone()).await.unwrap(), store.connect(options).await.unwrap());
        let before = id().await;
        let held = other.mutex("stock").unwrap().lock().await.unwrap();
        let work = in_transaction(&*locks, &pool, &["stock"], |_, _| {
            Box::pin(async { Ok::<_, TransactionError<Infallible>>(()) })
        });
        let handing_over = async {
            let claim = loop {
                if let Some(waiting) = other.inspect("stock").await.unwrap().waiters().next() {
                    break waiting.id;
                }
            };
            let session = sessions().get(&claim.session).and_then(Weak::upgrade).unwrap();
            let late = session.clock.now() + WITHIN * 10;
            let (busy, released) = tokio::join!(session.looks.ask_until("DO SLEEP(3)", late), held.release());
            busy.unwrap();
            released.unwrap().confirmed().unwrap();
        };
        let (done, ()) = tokio::join!(work, handing_over);
        let Err(TransactionError::Lock(error)) = done else { panic!("{done:?}") };
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert_eq!(id().await, before, "it closed the connection of the pool");
        locks.close().await.unwrap();
        other.close().await.unwrap();
    }
}
