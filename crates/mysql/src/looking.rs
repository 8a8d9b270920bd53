//! Looking at a line, and looking after it.
//!
//! A look only reads, and locks nothing. If it finds that a holder or one of the first waiters is dead, or that a waiter
//! could hold, it sends a request that takes the dead out and grants the next ones. Whether a client is dead is decided
//! there, under the lock of its row: a look may be wrong, that request cannot be.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tidelock_core::backend::{Grant, Moment, Place, Sight};
use tidelock_core::{ClaimId, Error, Name, Result, SessionId, Token};

use crate::answers::look_in;
use crate::link::Row;
use crate::open_session::OpenSession;
use crate::packet::{MOST, weight};
use crate::request::Action;
use crate::sql::{self, Key, id, list, put};
use crate::trouble::Said;
use crate::waiters;

/// How often a line is looked after in one look. Others may do the same meanwhile.
const TIMES: usize = 3;
/// How often a line is read whose dead holder is inside a user's transaction.
const ENDING: Duration = Duration::from_millis(50);
/// A lifetime that ends later than a ttl from now, and this much, began before the clock was set back.
const SLACK: u64 = 1_000_000;

/// A line as a look has read it. Times are the server's.
#[derive(Debug, Default)]
pub(crate) struct Read {
    now: u64,
    capacity: u64,
    /// The only holder, if the claims are not in rows: its id and its token, and until when its client lives.
    only: Option<(ClaimId, u64, u64)>,
    only_lasts_too_long: bool,
    holders: u64,
    used: u64,
    in_rows: bool,
    /// When the first holder's client dies.
    ends: Option<u64>,
    dead: Vec<SessionId>,
    /// Clients whose lifetimes end too late.
    too_long: Vec<SessionId>,
    /// The weight of the first waiter that lives.
    first: Option<u64>,
    /// The caller's claims: whether they hold, and their tokens.
    own: BTreeMap<u64, (bool, u64)>,
}

impl Read {
    fn of(rows: &[Row], session: SessionId) -> Self {
        let mut read = Self::default();
        for row in rows {
            match row.tag() {
                b'L' => read.line(row, session),
                b'H' if row.number(1) > 0 => {
                    (read.holders, read.used) = (row.number(1), row.number(2));
                    read.ends = Some(row.number(3));
                }
                b'D' => {
                    let found = if row.is(2) { &mut read.too_long } else { &mut read.dead };
                    found.push(SessionId::from_bits(row.number(1)));
                }
                b'F' => read.first = Some(row.number(1)),
                b'C' => {
                    read.own.insert(row.number(1), (row.number(2) == 0, row.number(3)));
                }
                _ => {}
            }
        }
        read
    }

    fn line(&mut self, row: &Row, session: SessionId) {
        (self.now, self.capacity, self.in_rows) = (row.number(1), row.number(3), row.is(4));
        if row.is(4) || !row.is(5) {
            return;
        }
        let claim = ClaimId { session: SessionId::from_bits(row.number(5)), number: row.number(6) };
        let (token, ends) = (row.number(8), row.number(9));
        self.only = Some((claim, token, ends));
        self.only_lasts_too_long = ends > self.now + row.number(10) + SLACK;
        (self.holders, self.used, self.ends) = (1, row.number(7), Some(ends));
        let waiting = waiters::read(row.bytes(11)).map(|(claim, _)| (claim, (false, 0)));
        for (claim, stands) in waiting.chain([(claim, (true, token))]) {
            if claim.session == session {
                self.own.insert(claim.number, stands);
            }
        }
    }

    /// Whether nobody has a claim, although the claims are in rows: void ones may be left, or nothing at all.
    pub(crate) fn is_empty_in_rows(&self) -> bool {
        self.in_rows && self.holders == 0 && self.first.is_none() && self.dead.is_empty()
    }

    fn has_dead(&self) -> bool {
        !self.dead.is_empty() || self.only.is_some_and(|(_, _, ends)| ends <= self.now)
    }

    /// Whether the first waiter could hold.
    fn fits(&self) -> bool {
        self.first.is_some_and(|weight| self.used + weight <= self.capacity)
    }

    fn look_in(&self, ttl: Duration) -> Duration {
        if self.holders == 0 && self.first.is_none() {
            return ttl;
        }
        // The rows of the dead that are still here are inside a user's transaction, and nobody tells of its end.
        let is_late = self.has_dead() || self.ends.is_some_and(|ends| ends <= self.now);
        let soonest = if is_late { ENDING } else { Duration::ZERO };
        look_in(self.now, self.ends, ttl).max(soonest)
    }

    fn grant(&self, token: u64) -> Option<Grant> {
        Some(Grant { token: Token::from_order(token)?, capacity: weight(self.capacity)? })
    }

    /// Where a claim of the caller stands.
    pub(crate) fn place_of(&self, number: u64, until: Moment, ttl: Duration) -> Result<Place> {
        match self.own.get(&number) {
            Some((true, token)) => match self.grant(*token) {
                Some(grant) => Ok(Place::Held { grant, until }),
                None => Err(Error::no_answer("the server")),
            },
            Some((false, _)) => Ok(Place::Waiting { until, look_in: self.look_in(ttl) }),
            // It left in this moment: core asks again.
            None => Err(Error::no_answer("the server")),
        }
    }

    fn sight(&self, session: SessionId, asked: &[ClaimId], ttl: Duration) -> Sight {
        let mut sight = Sight { held: Vec::new(), gone: Vec::new(), look_in: self.look_in(ttl) };
        for claim in asked {
            match self.own.get(&claim.number).filter(|_| claim.session == session) {
                Some((true, token)) => sight.held.extend(self.grant(*token).map(|grant| (*claim, grant))),
                Some((false, _)) => {}
                None => sight.gone.push(*claim),
            }
        }
        sight
    }
}

impl OpenSession {
    pub(crate) async fn read(&self, name: &Name) -> Result<Read> {
        self.read_key(&self.caller.key(name), "").await.map_err(|said| self.trouble(&said))
    }

    /// `note` is a comment in front of the statements.
    pub(crate) async fn read_key(&self, key: &Key, note: &str) -> Result<Read, Said> {
        let mut text = note.to_owned();
        put(&mut text, sql::LOOK, &[("name", key), ("me", &id(self.id)), ("most", &MOST)]);
        let answer = self.looks.ask(&text).await?;
        Ok(Read::of(&answer.rows, self.id))
    }

    /// Looks at a line, and looks after it until nobody in it is dead and nobody waits who could hold.
    pub(crate) async fn tidied(self: &Arc<Self>, name: &Name) -> Result<Read> {
        let mut read = self.read(name).await?;
        for _ in 0..TIMES {
            if !read.too_long.is_empty() || read.only_lasts_too_long {
                self.clamp(&read).await?;
                read = self.read(name).await?;
            }
            if !read.has_dead() && !read.fits() {
                break;
            }
            let dead = self.dead_in(name, &read).await?;
            if dead.is_empty() && !read.fits() {
                break; // a user's transaction still has their rows
            }
            self.gather(name, Action::Bury(dead)).await?;
            read = self.read(name).await?;
        }
        Ok(read)
    }

    /// Looks after a line, while the caller goes on.
    pub(crate) fn tidy(self: &Arc<Self>, name: Name) {
        if !self.untidy.needs_look(&name) {
            return;
        }
        self.meanwhile(|session| async move {
            let mut again = true;
            while again {
                let _ = session.tidied(&name).await; // otherwise the next look does it
                again = session.untidy.needs_another(&name);
            }
        });
    }

    /// Tidies while the caller goes on. A close waits for it.
    pub(crate) fn meanwhile<F>(self: &Arc<Self>, tidy: impl FnOnce(Arc<Self>) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send,
    {
        let session = Arc::downgrade(self);
        let mut tidying = self.tidying.lock().unwrap_or_else(PoisonError::into_inner);
        while tidying.try_join_next().is_some() {}
        tidying.spawn_on(
            async move {
                if let Some(session) = session.upgrade() {
                    tidy(session).await;
                }
            },
            &self.runtime,
        );
    }

    /// Waits for what was begun to tidy. A claim that leaves may be the last one that meets the dead of its line for a
    /// long time.
    pub(crate) async fn all_tidied(&self) {
        let mut tidying = std::mem::take(&mut *self.tidying.lock().unwrap_or_else(PoisonError::into_inner));
        while tidying.join_next().await.is_some() {}
    }

    /// The claims of dead clients, without those that a user's transaction has.
    pub(crate) async fn dead_in(&self, name: &Name, read: &Read) -> Result<Vec<(SessionId, Vec<u64>)>> {
        self.dead_at(&self.caller.key(name), read, "").await.map_err(|said| self.trouble(&said))
    }

    pub(crate) async fn dead_at(
        &self,
        key: &Key,
        read: &Read,
        note: &str,
    ) -> Result<Vec<(SessionId, Vec<u64>)>, Said> {
        let mut dead: BTreeMap<SessionId, Vec<u64>> = BTreeMap::new();
        if let Some((claim, _, ends)) = read.only
            && ends <= read.now
        {
            dead.entry(claim.session).or_default().push(claim.number);
        }
        if !read.dead.is_empty() {
            let sessions = list(read.dead.iter().map(|session| id(*session)));
            let mut text = note.to_owned();
            put(&mut text, sql::DEAD_CLAIMS, &[("name", key), ("sessions", &sessions), ("most", &MOST)]);
            let answer = self.looks.ask(&text).await?;
            let inside: HashSet<(u64, u64)> = answer
                .rows
                .iter()
                .filter(|row| row.tag() == b'o')
                .map(|row| (row.number(1), row.number(2)))
                .collect();
            let is_inside = |row: &&Row| row.is(3) && inside.contains(&(row.number(1), row.number(2)));
            for row in answer.rows.iter().filter(|row| row.tag() == b'd' && !is_inside(row)) {
                dead.entry(SessionId::from_bits(row.number(1))).or_default().push(row.number(2));
            }
        }
        self.has_met_dead.fetch_or(!dead.is_empty(), Ordering::Relaxed);
        Ok(dead.into_iter().collect())
    }

    async fn clamp(&self, read: &Read) -> Result<()> {
        let only = read.only.filter(|_| read.only_lasts_too_long).map(|(claim, ..)| claim.session);
        let mut text = String::new();
        for session in read.too_long.iter().copied().chain(only) {
            put(&mut text, sql::CLAMP, &[("session", &id(session))]);
        }
        self.looks.ask(&text).await.map_err(|said| self.trouble(&said))?;
        Ok(())
    }

    pub(crate) async fn look_for(self: &Arc<Self>, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        let read = self.tidied(name).await?;
        let sight = read.sight(self.id, waiting, self.ttl);
        for claim in sight.held.iter().map(|(claim, _)| claim).chain(&sight.gone) {
            self.own_claims.waits_no_more(claim.number);
        }
        Ok(sight)
    }
}
