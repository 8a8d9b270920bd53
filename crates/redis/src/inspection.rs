//! A line as operators see it, out of what the keys of its name hold.
//!
//! Whose lifetime is over stands there only until somebody meets it, so it is not shown.

use std::collections::HashMap;
use std::time::Duration;

use redis::Value;
use tidelock::{ClaimId, Kind, Line, Result, SessionId, Stander, Token, Weight};

use crate::reply::{parts, text};
use crate::trouble::strange;

/// The line that `inspect` answered with.
pub(crate) fn line(reply: &Value) -> Result<Line> {
    let [now, held, line, wait] = parts(reply) else {
        return Err(strange(reply));
    };
    let now: u64 = text(now).and_then(|now| now.parse().ok()).ok_or_else(|| strange(reply))?;
    let (held, wait) = (Fields::of(held, now, 2), Fields::of(wait, now, 0));
    let Some((kind, size)) = held.kind_and_size() else {
        return Ok(Line::default());
    };
    let mut claims = held.holders();
    claims.sort_by_key(|stander| stander.token);
    claims.extend(parts(line).chunks(2).filter_map(|pair| wait.waiter(pair)));
    Ok(if claims.is_empty() { Line::default() } else { Line::new(kind, size, claims) })
}

/// The fields of a hash.
struct Fields<'a> {
    all: HashMap<&'a str, &'a str>,
    /// In ticks of 10 µs.
    now: u64,
    /// How many numbers stand between a session's lifetime and its label.
    counts: usize,
}

impl<'a> Fields<'a> {
    fn of(flat: &'a Value, now: u64, counts: usize) -> Self {
        let pair = |pair: &'a [Value]| Some((text(pair.first()?)?, text(pair.get(1)?)?));
        Self { all: parts(flat).chunks(2).filter_map(pair).collect(), now, counts }
    }

    fn kind_and_size(&self) -> Option<(Kind, Weight)> {
        let mut words = self.all.get("line")?.splitn(6, ' ');
        let size = words.next()?.parse().ok()?;
        let kind = words.nth(4)?;
        let kinds = [Kind::Mutex, Kind::RwLock, Kind::Semaphore];
        let kind = kinds.into_iter().find(|known| known.as_str() == kind)?;
        Some((kind, Weight::new(size)?))
    }

    fn number(&self, field: &str) -> Option<u32> {
        self.all.get(field)?.parse().ok()
    }

    /// The label of a session that lives.
    fn label(&self, session: SessionId) -> Option<String> {
        let mut words = self.all.get(format!("s:{session}").as_str())?.splitn(3 + self.counts, ' ');
        let from: u64 = words.next()?.parse().ok()?;
        let lasts: u64 = words.next()?.parse().ok()?;
        let is_alive = from.saturating_add(lasts.saturating_mul(100)) > self.now;
        is_alive.then(|| words.nth(self.counts).unwrap_or_default().to_owned())
    }

    fn holders(&self) -> Vec<Stander> {
        self.all.iter().filter_map(|(field, value)| self.holder(field.strip_prefix("h:")?, value)).collect()
    }

    fn holder(&self, claim: &str, value: &str) -> Option<Stander> {
        let id = id(claim)?;
        let mut words = value.split(' ').map(|word| word.parse::<u64>().ok());
        let weight = Weight::new(u32::try_from(words.next()??).ok()?)?;
        let order = words.next()??;
        let since = self.since(words.next().flatten().unwrap_or(order)); // its token is the time of its grant
        let token = Token::from_order(order)?;
        Some(Stander::new(id, weight, Some(token), self.label(id.session)?, Some(since)))
    }

    /// A claim that waits, and its place, which is when it came.
    fn waiter(&self, pair: &[Value]) -> Option<Stander> {
        let [claim, place] = pair else { return None };
        let (claim, id) = (text(claim)?, id(text(claim)?)?);
        let weight = self.number(&format!("w:{claim}")).unwrap_or(1);
        let since = self.since(place_of(place)?);
        Some(Stander::new(id, Weight::new(weight)?, None, self.label(id.session)?, Some(since)))
    }

    fn since(&self, then: u64) -> Duration {
        Duration::from_micros(self.now.saturating_sub(then).saturating_mul(10))
    }
}

fn place_of(value: &Value) -> Option<u64> {
    match value {
        Value::Double(place) => Some(*place as u64),
        value => text(value)?.parse::<f64>().ok().map(|place| place as u64),
    }
}

fn id(claim: &str) -> Option<ClaimId> {
    let (session, number) = claim.split_once('-')?;
    let session = SessionId::from_bits(u64::from_str_radix(session, 16).ok()?);
    Some(ClaimId { session, number: number.parse().ok()? })
}
