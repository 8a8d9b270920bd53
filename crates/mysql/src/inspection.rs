//! Lines and names, for operators.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tidelock_core::{ClaimId, ClaimInfo, Line, Name, Result, SessionId, Token, Weight};

use crate::link::Row;
use crate::open_session::OpenSession;
use crate::packet::weight;
use crate::sql::{self, put};
use crate::waiters;

/// How many names are on a page.
const PAGE: usize = 1_000;

impl OpenSession {
    pub(crate) async fn inspect(&self, name: &Name) -> Result<Line> {
        let mut text = String::new();
        put(&mut text, sql::INSPECT, &[("name", &self.caller.key(name))]);
        let answer = self.looks.ask(&text).await.map_err(|said| self.trouble(&said))?;
        let Some(line) = answer.rows.iter().find(|row| row.tag() == b'L') else { return Ok(Line::default()) };
        let now = line.number(1);
        let inside = inside(&answer.rows);
        let holds = |row: &&Row| row.tag() == b'C' && (row.is(8) || inside.contains(&key(row)));
        let in_rows = answer.rows.iter().filter(holds).filter_map(|row| claim(row, now));
        let in_rows: Vec<ClaimInfo> = in_rows.collect();
        let in_line = only(line, now).into_iter().chain(waiting(line, &answer.rows));
        // They may have got rows of their own between the two statements.
        let in_line = in_line.filter(|claim| in_rows.iter().all(|other| other.id != claim.id));
        let claims: Vec<ClaimInfo> = in_line.chain(in_rows.clone()).collect();
        Ok(match (sql::kind_of(line.number(2)), weight(line.number(3))) {
            (Some(kind), Some(capacity)) if !claims.is_empty() => Line::new(kind, capacity, claims),
            _ => Line::default(),
        })
    }

    pub(crate) async fn names_in_use(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        let namespace = &self.caller.namespace;
        // The name that is the prefix itself has the same key as the prefix, so the range begins just before it.
        let first = namespace.before(prefix);
        let from = match after {
            Some(after) if after.as_str() >= prefix => namespace.key(after),
            _ => first,
        };
        let mut text = String::new();
        put(&mut text, sql::NAMES, &[("after", &from), ("end", &namespace.behind(prefix)), ("most", &PAGE)]);
        let answer = self.looks.ask(&text).await.map_err(|said| self.trouble(&said))?;
        let inside = inside(&answer.rows);
        let names = answer.rows.iter().filter_map(|row| match row.tag() {
            b'n' => namespace.name(row.bytes(1)),
            b'd' if inside.contains(&key(row)) => namespace.name(row.bytes(3)),
            _ => None,
        });
        let names: BTreeSet<Name> = names.collect();
        Ok(names.into_iter().take(PAGE).collect())
    }
}

/// The claims that are inside a user's transaction, as far as they still count.
fn inside(rows: &[Row]) -> HashSet<(u64, u64)> {
    rows.iter().filter(|row| row.tag() == b'o').map(key).collect()
}

/// The session and the number of the claim in a row.
fn key(row: &Row) -> (u64, u64) {
    (row.number(1), row.number(2))
}

/// The only holder, which is in the row of the line.
fn only(line: &Row, now: u64) -> Option<ClaimInfo> {
    let lives = !line.is(4) && line.is(5) && line.number(11) > now;
    let id = ClaimId { session: SessionId::from_bits(line.number(5)), number: line.number(6) };
    let token = Token::from_order(line.number(8));
    lives.then_some(())?;
    Some(ClaimInfo::new(id, weight(line.number(7))?, token, text(line.bytes(10)), since(now, line.number(9))))
}

/// Those who wait in the row of the line, and live.
fn waiting(line: &Row, rows: &[Row]) -> Vec<ClaimInfo> {
    let labels = rows.iter().filter(|row| row.tag() == b'W').map(|row| (row.number(1), text(row.bytes(2))));
    let labels: HashMap<u64, String> = labels.collect();
    let told = |(id, then): (ClaimId, u64)| {
        let label = labels.get(&id.session.get())?.clone();
        Some(ClaimInfo::new(id, Weight::ONE, None, label, since(line.number(1), then)))
    };
    waiters::read(line.bytes(12)).filter_map(told).collect()
}

fn claim(row: &Row, now: u64) -> Option<ClaimInfo> {
    let id = ClaimId { session: SessionId::from_bits(row.number(1)), number: row.number(2) };
    let token = Token::from_order(row.number(5)).filter(|_| row.number(4) == 0);
    Some(ClaimInfo::new(id, weight(row.number(3))?, token, text(row.bytes(7)), since(now, row.number(6))))
}

fn text(label: &[u8]) -> String {
    String::from_utf8_lossy(label).into_owned()
}

fn since(now: u64, then: u64) -> Option<Duration> {
    Some(Duration::from_micros(now.saturating_sub(then)))
}
