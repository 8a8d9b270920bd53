//! Reads the replies of the scripts.

use std::time::Duration;

use redis::Value;
use tidelock_core::backend::{Grant, Left, Moment, Place, Sight};
use tidelock_core::{ClaimId, Error, Kind, Result, SessionId, Token, Weight};

use crate::trouble::strange;

/// A claim's place, from the reply of `join`. The reply leaves the capacity out where it is the requested one. From
/// here on the claim lives until `until`.
pub(crate) fn place(reply: &Value, capacity: Weight, until: Moment) -> Result<Place> {
    let waiting =
        |millis: &i64| Place::Waiting { until, look_in: Duration::from_millis(millis.unsigned_abs()) };
    if let Value::Int(millis) = reply {
        return Ok(waiting(millis));
    }
    if let Some(word) = text(reply) {
        let token = word.parse().ok().and_then(Token::from_order);
        let held = |token| Place::Held { grant: Grant { token, capacity }, until };
        let place = if word == "refused" { Some(Place::Refused) } else { token.map(held) };
        return place.ok_or_else(|| strange(reply));
    }
    let place = match parts(reply) {
        [word, Value::Int(token), Value::Int(size), ..] if is(word, "held") => {
            let grant = grant(token.unsigned_abs(), size.unsigned_abs());
            grant.map(|grant| Place::Held { grant, until })
        }
        [word, Value::Int(millis), ..] if is(word, "waiting") => Some(waiting(millis)),
        [word, ..] if is(word, "refused") => Some(Place::Refused),
        [word, ..] if is(word, "gone") => Some(Place::Gone),
        [word, kind, ..] if is(word, "kind") => return Err(other_kind(kind)),
        [word, Value::Int(size), ..] if is(word, "permits") => {
            return Err(weighed(size, Error::too_heavy));
        }
        _ => None,
    };
    place.ok_or_else(|| strange(reply))
}

/// What `leave` found.
pub(crate) fn left(reply: &Value) -> Result<Left> {
    match parts(reply) {
        // A text, with or without the caller's next grant.
        [] if text(reply).is_some_and(|word| word.starts_with("held")) => Ok(Left::Held),
        [word, ..] if is(word, "held") => Ok(Left::Held),
        [word, ..] if is(word, "waiting") => Ok(Left::Waiting),
        [word, ..] if is(word, "absent") => Ok(Left::Absent),
        _ => Err(strange(reply)),
    }
}

/// How `lighten` went.
pub(crate) fn lightened(reply: &Value, claim: ClaimId) -> Result<()> {
    match parts(reply) {
        [word, ..] if is(word, "done") => Ok(()),
        [word, ..] if is(word, "absent") => Err(Error::not_in_line(claim)),
        [word, Value::Int(weight), ..] if is(word, "permits") => Err(weighed(weight, Error::heavier)),
        _ => Err(strange(reply)),
    }
}

/// How `resize` went.
pub(crate) fn resized(reply: &Value) -> Result<()> {
    match parts(reply) {
        [word, ..] if is(word, "done") => Ok(()),
        [word, kind, ..] if is(word, "kind") => Err(other_kind(kind)),
        [word, Value::Int(size), ..] if is(word, "size") => Err(weighed(size, Error::other_size)),
        [word, ..] if is(word, "waits") => Err(Error::strands()),
        _ => Err(strange(reply)),
    }
}

/// What `look` saw.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) is_in_use: bool,
    pub(crate) sight: Sight,
}

pub(crate) fn seen(reply: &Value, session: SessionId) -> Result<Seen> {
    let [Value::Int(used), Value::Int(millis), Value::Int(size), Value::Array(held), Value::Array(gone), ..] =
        parts(reply)
    else {
        return Err(strange(reply));
    };
    let id = |number: &Value| claim(number, session);
    let one = |pair: &[Value]| match pair {
        [number, Value::Int(token)] => Some((id(number)?, grant(token.unsigned_abs(), size.unsigned_abs())?)),
        _ => None,
    };
    let sight = Sight {
        held: held.chunks(2).filter_map(one).collect(),
        gone: gone.iter().filter_map(id).collect(),
        look_in: Duration::from_millis(millis.unsigned_abs()),
    };
    Ok(Seen { is_in_use: *used == 1, sight })
}

/// What a `look` of a renewal saw.
#[derive(Debug)]
pub(crate) struct Compared {
    pub(crate) held: Vec<ClaimId>,
    pub(crate) gone: Vec<ClaimId>,
    /// Held claims of the caller that the look did not ask about.
    pub(crate) strays: Vec<ClaimId>,
}

pub(crate) fn compared(reply: &Value, session: SessionId) -> Result<Compared> {
    let [_, _, _, Value::Array(held), Value::Array(gone), Value::Array(strays), ..] = parts(reply) else {
        return Err(strange(reply));
    };
    let ids = |some: &[Value]| some.iter().filter_map(|number| claim(number, session)).collect();
    // Behind each number comes the claim's token.
    let held = held.chunks(2).filter_map(|pair| claim(pair.first()?, session)).collect();
    Ok(Compared { held, gone: ids(gone), strays: ids(strays) })
}

/// A grant, from the numbers in the scripts' replies. Their tokens are the store's order.
pub(crate) fn grant(order: u64, size: u64) -> Option<Grant> {
    Some(Grant { token: Token::from_order(order)?, capacity: Weight::new(u32::try_from(size).ok()?)? })
}

fn claim(number: &Value, session: SessionId) -> Option<ClaimId> {
    match number {
        Value::Int(number) => Some(ClaimId { session, number: number.unsigned_abs() }),
        _ => None,
    }
}

/// How many claims `renew` found, and the sum of their numbers. `None` where some may be waiting, because `renew` does
/// not count those.
pub(crate) fn counted(reply: &Value) -> Option<(u64, u64)> {
    let holding = holding(reply)?;
    (text(reply)?.split(' ').nth(2) == Some("0")).then_some(holding)
}

/// How many holding claims `renew` found, and the sum of their numbers; waiting claims do not matter here.
pub(crate) fn holding(reply: &Value) -> Option<(u64, u64)> {
    let mut words = text(reply)?.split(' ');
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// The parts of an array; empty for anything else.
pub(crate) fn parts(value: &Value) -> &[Value] {
    if let Value::Array(parts) = value { parts } else { &[] }
}

/// The text of any kind of string.
pub(crate) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

fn is(value: &Value, word: &str) -> bool {
    text(value) == Some(word)
}

fn other_kind(kind: &Value) -> Error {
    let kinds = [Kind::Mutex, Kind::RwLock, Kind::Semaphore];
    let used = kinds.into_iter().find(|known| text(kind) == Some(known.as_str()));
    used.map_or_else(|| strange(kind), Error::other_kind)
}

/// An error that contains a weight from the server's reply.
fn weighed(said: &i64, wrong: impl FnOnce(Weight) -> Error) -> Error {
    let weight = u32::try_from(*said).ok().and_then(Weight::new);
    weight.map_or_else(|| strange(&Value::Int(*said)), wrong)
}
