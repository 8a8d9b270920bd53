//! Reads the scripts' replies, messages and stored state.

use std::collections::BTreeMap;

use redis::Value;
use tidelock_model::comparison::{Answer, Reply, Shown, Stands, Told, Wish};
use tidelock_model::{ClaimId, Kind, Left, SessionId, Weight};

use crate::lua::record::{HOLDS, IN_LINE_BYTE, ONE_FRESH_END, ONE_WAITS, VOID, WEIGHS};

const KINDS: [Kind; 3] = [Kind::Mutex, Kind::RwLock, Kind::Semaphore];

/// Reads the answer to a wish; `None` if it makes no sense.
pub(crate) fn answer(wish: &Wish<String>, value: &Value) -> Option<Answer> {
    let [reply, told, held, line, wait, kept] = parts(value) else { return None };
    let mut all_told = Vec::new();
    for message in parts(told) {
        let [channel, word] = parts(message) else { return None };
        let session = text(channel)?.rsplit(':').next()?;
        let session = SessionId::from_bits(u64::from_str_radix(session, 16).ok()?);
        all_told.extend(words_told(text(word)?)?.into_iter().map(|told| (session, told)));
    }
    let own = |session: SessionId, told: Vec<Told>| told.into_iter().map(move |told| (session, told));
    let (reply, told_caller) = match wish {
        Wish::Join(join) => {
            let (reply, told) = joined(reply, join.capacity)?;
            (reply, own(join.id.session, told))
        }
        Wish::Look { session, .. } => {
            let [used, look_in, _, held, gone, strays, granted] = parts(reply) else { return None };
            let pair = |pair: &[Value]| Some((number(&pair[0])?, number(&pair[1])?));
            let seen = Reply::Seen {
                look_in: number(look_in)? * 1_000,
                is_in_use: number(used)? == 1,
                held: parts(held).chunks(2).map(pair).collect::<Option<_>>()?,
                gone: parts(gone).iter().map(number).collect::<Option<_>>()?,
                strays: parts(strays).iter().map(number).collect::<Option<_>>()?,
            };
            (seen, own(*session, grants(granted)?))
        }
        Wish::Leave { by, .. } => {
            let (left, told) = left(reply)?;
            (Reply::Left(left), own(*by, told))
        }
        Wish::Lighten { id, .. } => {
            let (reply, told) = changed(reply)?;
            (reply, own(id.session, told))
        }
        Wish::Resize { by, .. } => {
            let (reply, told) = changed(reply)?;
            (reply, own(*by, told))
        }
        Wish::Renew { session, .. } => {
            let words: Vec<u64> =
                text(reply)?.split(' ').map(|word| word.parse().ok()).collect::<Option<_>>()?;
            let [claims, sum, waits] = words[..] else { return None };
            (Reply::Renewed { claims, sum, waits: waits > 0 }, own(*session, Vec::new()))
        }
        _ => (Reply::Lost, own(SessionId::from_bits(0), Vec::new())),
    };
    all_told.extend(told_caller);
    Some(Answer { reply, told: all_told, shown: shown(held, line, wait, kept)? })
}

fn joined(reply: &Value, asked: Weight) -> Option<(Reply, Vec<Told>)> {
    match reply {
        Value::Int(millis) => {
            return Some((Reply::Waiting { look_in: millis.unsigned_abs() * 1_000 }, vec![]));
        }
        Value::BulkString(_) => {
            let word = text(reply)?;
            let held = || Some(Reply::Held { token: word.parse().ok()?, capacity: asked });
            return Some((if word == "refused" { Reply::Refused } else { held()? }, vec![]));
        }
        _ => {}
    }
    let (word, first) = (text(parts(reply).first()?)?, parts(reply).get(1));
    let said = match word {
        "held" => Reply::Held { token: number(first?)?, capacity: weight(parts(reply).get(2)?)? },
        "waiting" => Reply::Waiting { look_in: number(first?)? * 1_000 },
        "refused" => Reply::Refused,
        "gone" => Reply::Void,
        "kind" => Reply::Kind(kind(text(first?)?)?),
        "permits" => Reply::Heavy(weight(first?)?),
        _ => return None,
    };
    Some((said, parts(reply).get(3).map_or(Some(vec![]), grants)?))
}

fn left(reply: &Value) -> Option<(Left, Vec<Told>)> {
    if let Some(words) = text(reply) {
        return Some((Left::Held, if words == "held" { vec![] } else { words_told(words)? }));
    }
    let [word, granted] = parts(reply) else { return None };
    let left = match text(word)? {
        "held" => Left::Held,
        "waiting" => Left::Waiting,
        "absent" => Left::Absent,
        _ => return None,
    };
    Some((left, grants(granted)?))
}

fn changed(reply: &Value) -> Option<(Reply, Vec<Told>)> {
    let (word, what) = (text(parts(reply).first()?)?, parts(reply).get(1)?);
    let said = match word {
        "done" => Reply::Done,
        "absent" => Reply::Absent,
        "permits" => Reply::Heavy(weight(what)?),
        "kind" => Reply::Kind(kind(text(what)?)?),
        "size" => Reply::Capacity(weight(what)?),
        "waits" => Reply::Strands,
        _ => return None,
    };
    Some((said, if word == "permits" { vec![] } else { grants(parts(reply).last()?)? }))
}

/// The caller's own grants.
fn grants(value: &Value) -> Option<Vec<Told>> {
    let one = |three: &[Value]| {
        Some(Told::Held {
            number: number(&three[0])?,
            token: number(&three[1])?,
            capacity: weight(&three[2])?,
        })
    };
    parts(value).chunks(3).map(one).collect()
}

fn words_told(words: &str) -> Option<Vec<Told>> {
    let words: Vec<_> = words.split(' ').collect();
    let held = |three: &[&str]| {
        let (number, token) = (three[0].parse().ok()?, three[1].parse().ok()?);
        Some(Told::Held { number, token, capacity: Weight::new(three[2].parse().ok()?)? })
    };
    match &words[..] {
        ["held", grants @ ..] if grants.len() % 3 == 0 => grants.chunks(3).map(held).collect(),
        ["gone", number] => Some(vec![Told::Gone { number: number.parse().ok()? }]),
        ["look", ..] => Some(vec![Told::Look]),
        _ => None,
    }
}

fn shown(held: &Value, line: &Value, wait: &Value, kept: &Value) -> Option<Shown> {
    let (held, wait) = (fields(held), fields(wait));
    let mut shown = Shown::default();
    // If `held` alone was evicted, its old waiters are forgotten; the next waiter removes them from the keys.
    let is_waited = held
        .get("one")
        .map_or(held.contains_key("seq"), |one| one.as_bytes().get(ONE_WAITS - 1) == Some(&IN_LINE_BYTE));
    // If only void claims are left, a shorter expiry is enough.
    let first = parts(line).get(1).and_then(text).and_then(|place| place.parse::<f64>().ok());
    let keys = if is_waited && first.is_some_and(|place| place < VOID as f64) { 3 } else { 1 };
    shown.kept = parts(kept).iter().take(keys).filter_map(kept_until).collect();
    if let Some(one) = held.get("one") {
        show_one(one, &mut shown)?;
    } else if let Some(line) = held.get("line") {
        let words: Vec<_> = line.splitn(6, ' ').collect();
        shown.line = Some((kind(words.get(5)?)?, Weight::new(words[0].parse().ok()?)?));
        let holder = |(field, value): (&&str, &&str)| {
            let (id, mut words) = (claim(field.strip_prefix(HOLDS)?)?, value.split(' '));
            let weight = Weight::new(words.next()?.parse().ok()?);
            Some(Stands { id, weight, token: words.next()?.parse().ok() })
        };
        shown.claims = held.iter().filter_map(holder).collect();
        shown.claims.sort_by_key(|stands| stands.token);
    }
    let Some((kind, _)) = shown.line else { return Some(shown) };
    for pair in parts(line).chunks(2).filter(|_| is_waited) {
        let (id, place) = (text(&pair[0])?, text(&pair[1])?.parse::<f64>().ok()?);
        if place < VOID as f64 {
            let weight = wait
                .get(format!("{WEIGHS}{id}").as_str())
                .and_then(|weight| Weight::new(weight.parse().ok()?));
            let weight = if kind == Kind::Mutex { Some(Weight::ONE) } else { weight };
            shown.claims.push(Stands { id: claim(id)?, weight, token: None });
        }
    }
    Some(shown)
}

/// When a key expires; `None` if there is no such key.
fn kept_until(value: &Value) -> Option<Option<u64>> {
    match value {
        Value::Int(-2) => None,
        Value::Int(-1) => Some(None),
        ends => number(ends).map(|millis| Some(millis * 1_000)),
    }
}

/// Reads the field `one`.
fn show_one(one: &str, shown: &mut Shown) -> Option<()> {
    if one.len() == ONE_FRESH_END {
        return Some(());
    }
    let mut lines = one.split('\t').next()?.split('\n');
    let head: Vec<_> = lines.next()?.split(' ').collect();
    let letter = head.get(5)?;
    let kind = KINDS.into_iter().find(|kind| kind.as_str().starts_with(letter))?;
    let number = |at: usize| Weight::new(head.get(at)?.parse().ok()?);
    let (size, weight) =
        if kind == Kind::Mutex { (Weight::ONE, Weight::ONE) } else { (number(7)?, number(8)?) };
    shown.line = Some((kind, size));
    shown.claims.push(Stands { id: claim(head[6])?, weight: Some(weight), token: head[0].parse().ok() });
    for line in lines {
        let id = claim(line.split(' ').nth(3)?)?;
        shown.claims.push(Stands { id, weight: Some(Weight::ONE), token: None });
    }
    Some(())
}

fn fields(value: &Value) -> BTreeMap<&str, &str> {
    parts(value).chunks(2).filter_map(|pair| Some((text(&pair[0])?, text(&pair[1])?))).collect()
}

fn claim(words: &str) -> Option<ClaimId> {
    let (session, number) = words.split_once('-')?;
    let session = SessionId::from_bits(u64::from_str_radix(session, 16).ok()?);
    Some(ClaimId { session, number: number.parse().ok()? })
}

fn kind(word: &str) -> Option<Kind> {
    KINDS.into_iter().find(|kind| kind.as_str() == word)
}

fn weight(value: &Value) -> Option<Weight> {
    Weight::new(u32::try_from(number(value)?).ok()?)
}

fn number(value: &Value) -> Option<u64> {
    if let Value::Int(number) = value { u64::try_from(*number).ok() } else { None }
}

fn parts(value: &Value) -> &[Value] {
    if let Value::Array(parts) = value { parts } else { &[] }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}
