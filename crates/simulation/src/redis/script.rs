//! A call of a script: its arguments are read as its Lua does, and the model answers.
//!
//! A script is known by the hash of a text that the server has been sent, and the text by the first line that begins with
//! the script's name.

use std::collections::BTreeMap;
use std::str::FromStr;

use tidelock_core::backend::{Grant, Leave, Left, Patience, Refusal};
use tidelock_core::{ClaimId, Kind, SessionId, Token, Weight};
use tidelock_model::{Event, Join, Op};

use super::lines::{Granted, Lines, TICKS};
use super::resp::Reply;
use crate::record::Record;

const SCRIPTS: [&str; 9] =
    ["join", "leave", "lighten", "resize", "look", "renew", "inspect", "check", "confirm"];
const KINDS: [Kind; 3] = [Kind::Mutex, Kind::RwLock, Kind::Semaphore];

/// Which script a text is; `None` if it is none of ours.
pub(super) fn script_of(text: &str) -> Option<&'static str> {
    let word = |line: &str| Some(line.strip_prefix("-- ")?.split_once(':')?.0.to_owned());
    text.lines().filter_map(word).find_map(|word| SCRIPTS.into_iter().find(|script| *script == word))
}

/// A call of a script on one name.
pub(super) struct Call<'a> {
    pub(super) lines: &'a mut Lines,
    pub(super) record: &'a Record,
    /// The server's time, in ticks.
    pub(super) now: u64,
    pub(super) name: &'a str,
    pub(super) words: &'a [String],
}

/// A message to a session.
pub(super) type Message = (SessionId, String);

/// The reply, and what is told to sessions on their channels.
pub(super) type Answered = (Reply, Vec<Message>);

impl Call<'_> {
    /// The reply to that script.
    pub(super) fn answer(mut self, script: &str) -> Answered {
        let mut told = Vec::new();
        let answered = match script {
            "join" => self.join(&mut told),
            "leave" => self.leave(&mut told),
            "lighten" => self.lighten(&mut told),
            "resize" => self.resize(&mut told),
            "look" => self.look(&mut told),
            "renew" => self.renew(),
            "inspect" => Some(self.inspect()),
            "check" => Some(Reply::Array(Vec::new())),
            _ => None,
        };
        let unknown =
            || Reply::Error(format!("ERR the arguments of {script} make no sense: {:?}", self.words));
        (answered.unwrap_or_else(unknown), told)
    }

    fn word(&self, at: usize) -> Option<&str> {
        self.words.get(at).map(String::as_str)
    }

    fn number<T: FromStr>(&self, at: usize) -> Option<T> {
        self.word(at)?.parse().ok()
    }

    /// What the script granted: to the caller in its reply, to others on their channels.
    fn pass_on(&mut self, caller: SessionId, told: &mut Vec<Message>) -> Vec<Granted> {
        for dead in self.lines.take_buried() {
            self.record.store_buries(dead);
        }
        let (mut own, mut others) = (Vec::new(), BTreeMap::<SessionId, String>::new());
        for granted in self.lines.take_granted() {
            let Granted { id, token, capacity } = granted;
            if let (Some(token), Some(capacity)) = (Token::from_order(token), Weight::new(capacity)) {
                self.record.store_grants(id, Grant { token, capacity });
            }
            if id.session == caller {
                own.push(granted);
            } else {
                let words = others.entry(id.session).or_insert_with(|| "held".into());
                words.push_str(&format!(" {} {token} {capacity}", id.number));
            }
        }
        told.extend(others);
        own
    }

    fn join(&mut self, told: &mut Vec<Message>) -> Option<Reply> {
        let mut tail = self.word(0)?.splitn(4, ' ').map(str::to_owned);
        let (ttl, letter) = (tail.next()?.parse().ok()?, tail.next()?);
        let (id, mut label) = (tail.next()?.parse::<ClaimId>().ok()?, tail.next().unwrap_or_default());
        let kind = KINDS.into_iter().find(|kind| kind.as_str().starts_with(&letter))?;
        let (mut capacity, mut weight) = (Weight::ONE, Weight::ONE);
        if kind != Kind::Mutex {
            let mut words = label.splitn(3, ' ');
            capacity = Weight::new(words.next()?.parse().ok()?)?;
            weight = Weight::new(words.next()?.parse().ok()?)?;
            label = words.next().unwrap_or_default().to_owned();
        }
        let patience = if self.word(1) == Some("now") { Patience::Now } else { Patience::Wait };
        let before = self.lines.line(self.name).map(|line| line.kind);
        let is_usual =
            self.words.len() < 3 && before.is_none_or(|before| (before, kind) == (Kind::Mutex, Kind::Mutex));

        self.lines.bury(self.now, self.name, None);
        self.lines.open(id.session);
        let name = self.name.to_owned();
        let event = self.lines.step(self.now, Op::Join(Join { name, id, kind, weight, capacity, patience }));
        let mut own = Vec::new();
        let held = match event.first()? {
            Event::Held { .. } => true,
            Event::Waiting { .. } => false,
            Event::Refused { why, .. } => {
                let (own, why) = (self.pass_on(id.session, told), *why);
                return refused(why, is_usual && own.is_empty(), &own);
            }
            _ => return None,
        };
        self.lines.live(self.now, self.name, id, ttl, &label);
        own.extend(self.pass_on(id.session, told));
        own.retain(|granted| granted.id != id);
        Some(if held {
            let token = self.lines.token(self.name, id)?;
            let size = self.lines.line(self.name)?.capacity;
            if let Some(token) = Token::from_order(token) {
                self.record.store_grants(id, Grant { token, capacity: size });
            }
            if is_usual && before.is_none() {
                return Some(Reply::text(token.to_string()));
            }
            four("held", Reply::Int(token), Reply::Int(size.get().into()), &own)
        } else {
            self.record.stands(id);
            let look_in = Reply::Int(self.lines.look_in(self.now, self.name));
            if is_usual && own.is_empty() { look_in } else { four("waiting", look_in, Reply::None, &own) }
        })
    }

    fn leave(&mut self, told: &mut Vec<Message>) -> Option<Reply> {
        let id = self.word(0)?.trim_end().parse::<ClaimId>().ok()?;
        let how = if self.word(1) == Some("void") { Leave::Void } else { Leave::Done };
        let caller = self.word(2).map_or(Some(id.session), session)?;
        let is_only = self.lines.line(self.name).is_some_and(|line| line.held().count() == 1);
        let is_usual = self.words.len() == 1 && is_only;
        let left = self.lines.stands(self.name, id); // a dead holder that leaves is told that it held
        self.lines.bury(self.now, self.name, Some(id));
        self.lines.open(id.session);
        self.lines.step(self.now, Op::Leave { name: self.name.to_owned(), id, how });
        if how == Leave::Void {
            let ttl: u64 = self.number(3)?;
            self.lines.make_void(self.name, id, self.now + ttl * TICKS);
        }
        if left != Left::Absent && id.session != caller {
            told.push((id.session, format!("gone {}", id.number)));
        }
        self.record.store_forgets(id, caller, left == Left::Held);
        let own = self.pass_on(caller, told);
        if is_usual && left == Left::Held {
            let next = own
                .iter()
                .map(|Granted { id, token, capacity }| format!(" {} {token} {capacity}", id.number));
            return Some(Reply::text(format!("held{}", next.collect::<String>())));
        }
        let word = match left {
            Left::Held => "held",
            Left::Waiting => "waiting",
            _ => "absent",
        };
        Some(Reply::Array(vec![Reply::text(word), threes(&own)]))
    }

    fn lighten(&mut self, told: &mut Vec<Message>) -> Option<Reply> {
        let id = self.word(1)?.parse::<ClaimId>().ok()?;
        let weight = Weight::new(self.number(2)?)?;
        let is_alive = self.lines.life(self.name, id).is_some_and(|life| life.ends > self.now);
        if !is_alive || self.lines.token(self.name, id).is_none() {
            return Some(Reply::Array(vec![Reply::text("absent"), Reply::Array(Vec::new())]));
        }
        self.lines.bury(self.now, self.name, None);
        let events = self.lines.step(self.now, Op::Lighten { name: self.name.to_owned(), id, weight });
        let own = self.pass_on(id.session, told);
        match events.first()? {
            Event::Refused { why: Refusal::Heavier(before), .. } => {
                Some(Reply::Array(vec![Reply::text("permits"), Reply::Int(before.get().into())]))
            }
            _ => Some(Reply::Array(vec![Reply::text("done"), threes(&own)])),
        }
    }

    fn resize(&mut self, told: &mut Vec<Message>) -> Option<Reply> {
        let caller = session(self.word(0)?)?;
        let (from, to) = (Weight::new(self.number(1)?)?, Weight::new(self.number(2)?)?);
        self.lines.bury(self.now, self.name, None);
        let events = self.lines.step(self.now, Op::Resize { name: self.name.to_owned(), from, to });
        let own = self.pass_on(caller, told);
        let (word, what) = match events.first()? {
            Event::Refused { why: Refusal::Kind(kind), .. } => ("kind", Reply::text(kind.as_str())),
            Event::Refused { why: Refusal::Capacity(size), .. } => ("size", Reply::Int(size.get().into())),
            Event::Refused { why: Refusal::Strands(id), .. } => {
                let weight = self.lines.line(self.name)?.claim(*id)?.weight;
                ("waits", Reply::Int(weight.get().into()))
            }
            _ => ("done", threes(&own)), // also when nobody is there
        };
        Some(Reply::Array(vec![Reply::text(word), what, threes(&own)]))
    }

    fn look(&mut self, told: &mut Vec<Message>) -> Option<Reply> {
        let caller = session(self.word(0)?)?;
        let (ttl, strays): (u64, _) = (self.number(1)?, self.word(2)?.to_owned());
        let asked: Vec<u64> = self.words[3..].iter().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        self.lines.bury(self.now, self.name, None);
        let own = self.pass_on(caller, told);
        let line = self.lines.line(self.name);
        let (used, size) = (line.is_some(), line.map_or(1, |line| line.capacity.get()));
        let soon = if used { self.lines.look_in(self.now, self.name) } else { ttl };
        let (mut held, mut gone, mut count, mut sum) = (Vec::new(), Vec::new(), 0, 0);
        for number in &asked {
            let id = ClaimId { session: caller, number: *number };
            match self.lines.token(self.name, id) {
                Some(token) => {
                    (count, sum) = (count + 1, sum + number);
                    held.extend([Reply::Int(*number), Reply::Int(token)]);
                }
                None if self.lines.stands(self.name, id) == Left::Absent => gone.push(Reply::Int(*number)),
                None => {}
            }
        }
        let (elsewhere, of_numbers): (u64, u64) = strays
            .split_once(' ')
            .map_or(Some((0, 0)), |(count, sum)| Some((count.parse().ok()?, sum.parse().ok()?)))?;
        let all = self.lines.holders(self.name, caller);
        let all_numbers: u64 = all.iter().map(|id| id.number).sum();
        let is_complete = (all.len() as u64, all_numbers) == (count + elsewhere, sum + of_numbers);
        let is_stray = |id: &&ClaimId| strays != "0" && !is_complete && !asked.contains(&id.number);
        let strays = all.iter().filter(is_stray).map(|id| Reply::Int(id.number)).collect();
        Some(Reply::Array(vec![
            Reply::Int(used.into()),
            Reply::Int(soon),
            Reply::Int(size.into()),
            Reply::Array(held),
            Reply::Array(gone),
            Reply::Array(strays),
            threes(&own),
        ]))
    }

    fn renew(&mut self) -> Option<Reply> {
        let (session, ttl) = (session(self.word(0)?)?, self.number(1)?);
        let (count, sum, waits) = self.lines.renew(self.now, self.name, session, ttl);
        Some(Reply::text(format!("{count} {sum} {}", u64::from(waits))))
    }

    /// The keys as they are in their general form.
    fn inspect(&self) -> Reply {
        let (mut held, mut line, mut wait) = (Vec::new(), Vec::new(), Vec::new());
        let found = self.lines.line(self.name);
        if let Some(found) = found {
            held.extend([
                Reply::text("line"),
                Reply::text(format!("{} 0 0 0 0 {}", found.capacity, found.kind.as_str())),
            ]);
        }
        for claim in found.into_iter().flat_map(|line| &line.claims) {
            let Some(life) = self.lines.life(self.name, claim.id).filter(|life| life.ends > self.now) else {
                continue;
            };
            let (id, of, rest) = (claim.id, claim.id.session, (life.ends - self.now).div_ceil(TICKS));
            match self.lines.token(self.name, id) {
                Some(token) => {
                    let entry = format!("{} {token} {}", claim.weight, life.came);
                    held.extend([Reply::text(format!("h:{id}")), Reply::text(entry)]);
                    let entry = format!("{} {rest} 1 {} {}", self.now, id.number, life.label);
                    held.extend([Reply::text(format!("s:{of}")), Reply::text(entry)]);
                }
                None => {
                    line.extend([Reply::text(id.to_string()), Reply::text(life.came.to_string())]);
                    let entry = format!("{} {rest} {}", self.now, life.label);
                    wait.extend([Reply::text(format!("s:{of}")), Reply::text(entry)]);
                    wait.extend([Reply::text(format!("w:{id}")), Reply::text(claim.weight.to_string())]);
                }
            }
        }
        let now = Reply::text(self.now.to_string());
        Reply::Array(vec![now, Reply::Array(held), Reply::Array(line), Reply::Array(wait)])
    }
}

fn refused(why: Refusal, is_usual: bool, own: &[Granted]) -> Option<Reply> {
    let (word, what) = match why {
        Refusal::Void => return Some(Reply::Array(vec![Reply::text("gone")])),
        Refusal::Busy if is_usual => return Some(Reply::text("refused")),
        Refusal::Busy => ("refused", Reply::None),
        Refusal::Kind(kind) => ("kind", Reply::text(kind.as_str())),
        Refusal::TooHeavy(size) => ("permits", Reply::Int(size.get().into())),
        _ => return None,
    };
    Some(four(word, what, Reply::None, own))
}

fn four(word: &str, first: Reply, second: Reply, own: &[Granted]) -> Reply {
    Reply::Array(vec![Reply::text(word), first, second, threes(own)])
}

/// The caller's own grants.
fn threes(own: &[Granted]) -> Reply {
    let three =
        |granted: &Granted| [granted.id.number, granted.token, granted.capacity.into()].map(Reply::Int);
    Reply::Array(own.iter().flat_map(three).collect())
}

fn session(hex: &str) -> Option<SessionId> {
    u64::from_str_radix(hex, 16).ok().map(SessionId::from_bits)
}
