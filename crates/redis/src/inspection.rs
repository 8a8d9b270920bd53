//! Shows a line to operators, from the contents of its name's keys: usually one field of `held`, otherwise all of them.
//! `lua/record.rs` describes the keys.
//!
//! A claim whose lifetime is over stays in the keys until a script meets it, so it is not shown.

use std::collections::HashMap;
use std::time::Duration;

use redis::Value;
use tidelock_core::{ClaimId, ClaimInfo, Kind, Line, Result, SessionId, Token, Weight};

use crate::lua::record::{BORN, HOLDS, LIVES, TICKS, VOID, WEIGHS};
use crate::reply::{parts, text};
use crate::trouble::strange;

const KINDS: [Kind; 3] = [Kind::Mutex, Kind::RwLock, Kind::Semaphore];

/// The line, from the reply of `inspect`.
pub(crate) fn line(reply: &Value) -> Result<Line> {
    let [now, held, line, wait] = parts(reply) else {
        return Err(strange(reply));
    };
    let now = Now(text(now).and_then(|now| now.parse().ok()).ok_or_else(|| strange(reply))?);
    let (held, wait) = (Fields::of(held, now, 2), Fields::of(wait, now, 0));
    let found = match held.all.get("one") {
        Some(one) => now.all_of_one(one),
        None => held.kind_and_size().map(|(kind, size)| (kind, size, held.holders())),
    };
    let Some((kind, size, mut claims)) = found else {
        return Ok(Line::default());
    };
    claims.extend(parts(line).chunks(2).filter_map(|pair| wait.waiter(pair, kind)));
    Ok(if claims.is_empty() { Line::default() } else { Line::new(kind, size, claims) })
}

/// The server's time, in ticks of 10 µs.
#[derive(Clone, Copy)]
struct Now(u64);

impl Now {
    fn is_in(self, from: u64, lasts: u64) -> bool {
        from.saturating_add(lasts.saturating_mul(TICKS)) > self.0
    }

    fn since(self, then: u64) -> Duration {
        Duration::from_micros(self.0.saturating_sub(then).saturating_mul(10))
    }

    /// The field `one`: the holder, and the waiters before all others.
    fn all_of_one(self, one: &str) -> Option<(Kind, Weight, Vec<ClaimInfo>)> {
        let mut lines = one.split('\t').next()?.split('\n');
        let mut head = lines.next()?.splitn(4, ' ');
        let (token, all) = (head.next()?.parse().ok()?, head.nth(2)?);
        let mut words = all.split(' ').skip(2);
        let letter = words.next()?;
        let kind = KINDS.into_iter().find(|kind| kind.as_str().starts_with(letter))?;
        let size = match kind {
            Kind::Mutex => Weight::ONE,
            _ => words.nth(1)?.parse().ok().and_then(Weight::new)?,
        };
        let holder = self.claim_info(all, kind, Some(token));
        let waiters = lines.filter_map(|line| self.claim_info(line, kind, None));
        Some((kind, size, holder.into_iter().chain(waiters).collect()))
    }

    /// One claim in that field, from its place on.
    fn claim_info(self, words: &str, kind: Kind, order: Option<u64>) -> Option<ClaimInfo> {
        let mut words = words.splitn(if kind == Kind::Mutex { 5 } else { 7 }, ' ');
        let (place, lasts) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let id = id(words.nth(1)?)?;
        let weight = match kind {
            Kind::Mutex => Weight::ONE,
            _ => words.nth(1)?.parse().ok().and_then(Weight::new)?,
        };
        let label = words.next()?.to_owned();
        let token = order.and_then(Token::from_order);
        self.is_in(place, lasts).then(|| ClaimInfo::new(id, weight, token, label, Some(self.since(place))))
    }
}

/// The fields of a hash.
struct Fields<'a> {
    all: HashMap<&'a str, &'a str>,
    now: Now,
    /// How many numbers stand between a session's lifetime and its label.
    counts: usize,
}

impl<'a> Fields<'a> {
    fn of(flat: &'a Value, now: Now, counts: usize) -> Self {
        let pair = |pair: &'a [Value]| Some((text(pair.first()?)?, text(pair.get(1)?)?));
        Self { all: parts(flat).chunks(2).filter_map(pair).collect(), now, counts }
    }

    fn kind_and_size(&self) -> Option<(Kind, Weight)> {
        let mut words = self.all.get("line")?.splitn(6, ' ');
        let size = words.next()?.parse().ok()?;
        let kind = words.nth(4)?;
        let kind = KINDS.into_iter().find(|known| known.as_str() == kind)?;
        Some((kind, Weight::new(size)?))
    }

    /// The label of a session, if its claim at `place` is alive. A claim lives as if its session had been renewed when
    /// it came. It is dead if `place` is before `born`, the first place from which this session's claims live.
    fn label(&self, session: SessionId, place: u64) -> Option<String> {
        let mut words = self.all.get(format!("{LIVES}{session}").as_str())?.splitn(3 + self.counts, ' ');
        let from: u64 = words.next()?.parse().ok()?;
        let lasts = words.next()?;
        let (lasts, born) = lasts.split_once(BORN).unwrap_or((lasts, "0"));
        let (lasts, born): (u64, u64) = (lasts.parse().ok()?, born.parse().ok()?);
        let is_alive = lasts > 0 && place >= born && self.now.is_in(from.max(place), lasts);
        is_alive.then(|| words.nth(self.counts).unwrap_or_default().to_owned())
    }

    /// The holders, in the order of their tokens.
    fn holders(&self) -> Vec<ClaimInfo> {
        let holder = |(field, value): (&&str, &&str)| self.holder(field.strip_prefix(HOLDS)?, value);
        let mut holders: Vec<_> = self.all.iter().filter_map(holder).collect();
        holders.sort_by_key(|info| info.token);
        holders
    }

    fn holder(&self, claim: &str, value: &str) -> Option<ClaimInfo> {
        let id = id(claim)?;
        let mut words = value.split(' ').map(|word| word.parse::<u64>().ok());
        let weight = Weight::new(u32::try_from(words.next()??).ok()?)?;
        let order = words.next()??;
        let since = self.now.since(words.next().flatten().unwrap_or(order)); // the token is the time of the grant
        let token = Token::from_order(order)?;
        Some(ClaimInfo::new(id, weight, Some(token), self.label(id.session, 0)?, Some(since)))
    }

    /// A waiting claim. Its place is the time when it came. If its weight is not known, the claim is dead.
    fn waiter(&self, pair: &[Value], kind: Kind) -> Option<ClaimInfo> {
        let [claim, place] = pair else { return None };
        let (claim, id) = (text(claim)?, id(text(claim)?)?);
        let place = place_of(place).filter(|place| *place < VOID)?;
        let weight = match kind {
            Kind::Mutex => Weight::ONE,
            _ => self.all.get(format!("{WEIGHS}{claim}").as_str())?.parse().ok().and_then(Weight::new)?,
        };
        let label = self.label(id.session, place)?;
        Some(ClaimInfo::new(id, weight, None, label, Some(self.now.since(place))))
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
