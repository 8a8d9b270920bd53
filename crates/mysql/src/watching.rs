//! The watcher: one task of a client, which hears that one of its claims was granted by another client.
//!
//! Every client has a bell, a number in a row. The transaction that grants or evicts another client's claim increments
//! it. The watcher's statement sleeps in the server and reads that number in short steps, for at most 50 ms; so a
//! waiting client sends twenty statements a second, however many of its tasks wait, and one that does not wait sends
//! none. The statement also sees a ring that is not committed yet, and may never be. So what was granted is read by
//! another statement, which sees only what is committed.
//!
//! A claim can be granted, and the bell heard, before the client has read that it waits at all. So each join is told how
//! often the bell had rung; if more rings were heard by then, its line is looked at.

use std::sync::Arc;
use std::time::Duration;

use tidelock_core::backend::Grant;
use tidelock_core::{ClaimId, Name, Token};
use tokio::time::Instant;

use crate::link::{Answer, at_random};
use crate::open_session::OpenSession;
use crate::packet::weight;
use crate::sql::{self, id, list, put};
use crate::trouble::Said;

/// For how long one statement listens at least. So no more than 20 of them fit into a second.
const LISTENS: Duration = Duration::from_millis(50);
/// The steps of one statement: how many, the first in seconds, and by how much each next one is longer. After news more
/// news is likely, so the first steps are short. Later, a waiting client shall cost the server little.
const AFTER_NEWS: (u32, f64, f64) = (20, 0.000_5, 0.000_2);
const SOON: (u32, f64, f64) = (12, 0.002, 0.000_4);
const LATER: (u32, f64, f64) = (5, 0.010, 0.0);
/// For so long after the last news, hand-offs are likely.
const EAGER: Duration = Duration::from_secs(1);
/// The first pause between two reads of a ring that is not committed.
const STEP: Duration = Duration::from_micros(500);
/// How long a ring may take until it is committed.
const COMMITS: Duration = Duration::from_millis(500);
/// The pause after the server did not answer.
const PAUSE: Duration = Duration::from_millis(200);
/// How many lines are looked at after a ring that tells of no grant.
const LOOKS: usize = 100;
/// How many names fit into one statement.
const NAMES: usize = 1_000;

impl OpenSession {
    /// Runs until it is dropped.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut last_news = Instant::now();
        let mut rung = Some(0); // as it was when the session was opened
        loop {
            if !self.own_claims.is_waiting() {
                self.waits.notified().await;
                last_news = Instant::now();
                continue;
            }
            match self.watch_once(rung, last_news).await {
                Ok(now) => {
                    if rung.is_some_and(|before| before != now) {
                        last_news = Instant::now();
                    }
                    rung = Some(now);
                }
                Err(_) => {
                    rung = None; // a ring may have been missed
                    tokio::time::sleep(at_random(PAUSE)).await;
                }
            }
        }
    }

    /// Listens once, and reports what was granted. Returns the number of rings.
    async fn watch_once(&self, rung: Option<u64>, last_news: Instant) -> Result<u64, Said> {
        let steps = match last_news.elapsed() {
            age if age < LISTENS => AFTER_NEWS,
            age if age < EAGER => SOON,
            _ => LATER,
        };
        match rung {
            Some(rung) if !self.listen(rung, steps).await? => return Ok(rung),
            _ => {}
        }
        let late = Instant::now() + COMMITS;
        let mut pause = STEP;
        loop {
            let now = self.hear(rung).await?;
            if Some(now) != rung {
                return Ok(now);
            }
            if Instant::now() > late {
                return Ok(now); // it was rolled back
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(STEP * 16);
        }
    }

    /// Whether the bell has rung.
    async fn listen(&self, rung: u64, (steps, first, more): (u32, f64, f64)) -> Result<bool, Said> {
        let mut text = String::new();
        put(
            &mut text,
            sql::LISTEN,
            &[("steps", &steps), ("first", &first), ("more", &more), ("rung", &rung), ("me", &id(self.id))],
        );
        let began = Instant::now();
        let answer = self.bell.ask(&text).await?;
        let has_rung = !answer.rows.is_empty();
        if !has_rung {
            // The server did not sleep: it was interrupted, or the bell is not there.
            tokio::time::sleep_until(began + LISTENS).await;
        }
        Ok(has_rung)
    }

    /// Returns the number of rings that are committed. If there are new ones, reports which of the waiting claims hold.
    async fn hear(&self, rung: Option<u64>) -> Result<u64, Said> {
        let waited = self.own_claims.hears();
        let (mut now, mut has_news) = (rung.unwrap_or_default(), false);
        for (at, names) in waited.chunks(NAMES).enumerate() {
            let answer = self.hear_of(names).await?;
            if at == 0 {
                now = answer.rows.iter().find(|row| row.tag() == b'R').map_or(0, |row| row.number(1));
                if Some(now) == rung {
                    self.own_claims.has_heard(now);
                    return Ok(now);
                }
            }
            has_news |= self.tell_all(&answer);
        }
        // Perhaps a claim was evicted.
        let is_quiet = !has_news && rung.is_some();
        waited.iter().filter(|_| is_quiet).take(LOOKS).for_each(|name| self.signals.look(name));
        self.own_claims.has_heard(now).iter().for_each(|name| self.signals.look(name));
        Ok(now)
    }

    /// The rings, and what holds: in this order, so that what rang is seen.
    async fn hear_of(&self, names: &[Name]) -> Result<Answer, Said> {
        const COMMITTED: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;\n";
        let keys = list(names.iter().map(|name| self.caller.key(name)));
        let mut text = COMMITTED.to_owned();
        put(&mut text, sql::RINGS, &[("me", &id(self.id))]);
        text.push_str(COMMITTED);
        put(&mut text, sql::GRANTED_TO_ME, &[("names", &keys), ("me", &id(self.id))]);
        self.bell.ask(&text).await
    }

    /// Whether there was anything.
    fn tell_all(&self, answer: &Answer) -> bool {
        let mut has_news = false;
        for row in answer.rows.iter().filter(|row| row.tag() == b'G') {
            let claim = ClaimId { session: self.id, number: row.number(1) };
            if let (Some(token), Some(capacity)) = (Token::from_order(row.number(2)), weight(row.number(3)))
                && self.own_claims.waits_no_more(claim.number)
            {
                self.tell(claim, Grant { token, capacity });
                has_news = true;
            }
        }
        has_news
    }
}
