//! Compares a store that keeps lines itself with the rule, under a manual clock.
//!
//! Lifetimes of holders and of waiters end independently, in any order, exact to the tick. Joins are repeated, even
//! after the claim's own lifetime is over, or arrive late. Claims are evicted, and the store may lose some of its
//! data. After each operation the store's answer, what it told its clients and the line that it shows must match a
//! [`World`].
//!
//! A dead claim stays in a store's line until some request finds it. So the world follows the store: a claim that is
//! no longer shown must be one that can be dead, and it leaves the world's line in the same moment, before the
//! operation.
//!
//! A store may grant a crowd in parts, each part in an operation of its own. The claims that it still owes a grant
//! are the front of the waiters, and the client of the first one must have been told to look.

mod answer;
mod book;
mod drawing;
mod rates;
mod wish;

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Debug;

pub use answer::{Answer, Reply, Shown, Stands, Told};
use book::{Book, Lease};
use rates::Rates;
pub use wish::Wish;

use crate::{ClaimId, Event, Join, Leave, Left, Line, Op, Refusal, SessionId, Wishes, World};

/// How many operations are kept, to be reported when one fails.
const REMEMBERED: usize = 60;

/// One random sequence of operations on some names, and the results that a store must give. Times are in µs.
///
/// For each operation: [`Comparison::turn`] draws the time and the operation; the caller sets the store's clock to
/// that time and sends the operation; [`Comparison::judge`] says what is wrong with the store's answer.
#[derive(Debug)]
pub struct Comparison<'a, N> {
    world: World<N>,
    wishes: Wishes<'a, N>,
    rates: Rates,
    now: u64,
    /// The latest time so far: the clock is also set back.
    latest: u64,
    books: BTreeMap<N, Book>,
    joins: BTreeMap<ClaimId, Join<N>>,
    log: VecDeque<String>,
}

/// An error says what is wrong with an answer.
type Verdict<T = ()> = Result<T, String>;

impl<'a, N: Ord + Clone + Debug> Comparison<'a, N> {
    /// A comparison on the names of these wishes, with these sessions and their ttls (in µs), that starts at `now`.
    /// The store is made to lose data only if `can_lose` is set.
    #[must_use]
    pub fn new(wishes: Wishes<'a, N>, sessions: &[(SessionId, u64)], now: u64, can_lose: bool) -> Self {
        let mut world = World::new();
        for (session, ttl) in sessions {
            // The time of the world does not pass: lifetimes end claim by claim.
            world.step(Op::Open { session: *session, ttl: *ttl });
        }
        let rates = Rates::draw(wishes.dice(), can_lose);
        Self {
            world,
            wishes,
            rates,
            now,
            latest: now,
            books: BTreeMap::new(),
            joins: BTreeMap::new(),
            log: VecDeque::new(),
        }
    }

    /// The last operations and their answers, one line each.
    pub fn log(&self) -> impl Iterator<Item = &str> {
        self.log.iter().map(String::as_str)
    }

    /// The ttl of a session.
    #[must_use]
    pub fn ttl(&self, session: SessionId) -> u64 {
        self.world.session(session).map_or(0, crate::Session::ttl)
    }

    /// Compares the store's answer with the rule.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub fn judge(&mut self, wish: &Wish<N>, answer: &Answer) -> Result<(), String> {
        self.log.push_back(format!("{} {wish:?}: {:?} {:?}", self.now, answer.reply, answer.told));
        if self.log.len() > REMEMBERED {
            self.log.pop_front();
        }
        let lapses = self.lapsed(wish, answer)?;
        let mut followed = Err(String::new());
        for lapses in &lapses {
            followed = self.follow(wish, answer, lapses);
            if followed.is_ok() {
                break;
            }
        }
        self.world = followed?;
        self.note(wish, answer)
    }

    fn book(&mut self, name: &N) -> &mut Book {
        self.books.entry(name.clone()).or_default()
    }

    fn claims(&self, name: &N) -> &[crate::Claim] {
        self.world.line(name).map(|line| &line.claims[..]).unwrap_or_default()
    }

    /// A lifetime of this session that begins now.
    fn lease(&self, session: SessionId) -> Lease {
        Lease { now: self.now, latest: self.latest, ttl: self.ttl(session) }
    }

    /// The claims whose lifetimes have ended, according to the store's answer: one list for each possible reading.
    fn lapsed(&mut self, wish: &Wish<N>, answer: &Answer) -> Verdict<Vec<Vec<ClaimId>>> {
        let (name, now) = (wish.name().clone(), self.now);
        let is_shown = |id| answer.shown.claims.iter().any(|stands| stands.id == id);
        let before: Vec<_> = self.claims(&name).iter().map(|claim| claim.id).collect();
        let me = match wish {
            Wish::Join(Join { id, .. }) | Wish::Leave { id, .. } | Wish::Lighten { id, .. } => Some(*id),
            _ => None,
        };
        let leaves = |id| matches!(wish, Wish::Leave { .. }) && me == Some(id);
        let book = self.book(&name);
        if matches!(wish, Wish::Lose { .. }) {
            book.doubt();
        }
        let gone: Vec<_> = before.iter().copied().filter(|id| !is_shown(*id) && !leaves(*id)).collect();
        if let Some(alive) = gone.iter().find(|id| now < book.surely(**id)) {
            return Err(format!("{alive} is gone, but lives until {}", book.surely(*alive)));
        }
        let mut ways = Vec::from([gone.clone()]);
        if let Some(me) = me {
            let stood_and_died = before.contains(&me) && book.surely(me) <= now;
            let (may_forget, may_remember) = book.is_void(me, now);
            if matches!(wish, Wish::Join(_)) && answer.reply == Reply::Void && !may_remember {
                return Err("the join was answered Void, but its void leave is forgotten by now".to_owned());
            }
            if stood_and_died || may_forget && answer.reply != Reply::Void {
                ways.push(gone.into_iter().chain([me]).collect());
            }
        }
        Ok(ways)
    }

    /// The world after the operation, if these lifetimes have ended; an error if the store shows anything else.
    fn follow(&self, wish: &Wish<N>, answer: &Answer, lapsed: &[ClaimId]) -> Verdict<World<N>> {
        let (name, mut world) = (wish.name(), self.world.clone());
        let book = self.books.get(name).cloned().unwrap_or_default();
        if let Wish::Join(Join { id, .. }) = wish
            && let Some(held) = book.tokens.get(id).filter(|_| !lapsed.contains(id))
        {
            let is_held = matches!(answer.reply, Reply::Held { token, .. } if token == *held);
            if !is_held || book.at_most(*id) <= self.now {
                return Err(format!(
                    "{id} holds token {held} until {}, but its join was answered {:?}",
                    book.at_most(*id),
                    answer.reply
                ));
            }
        }
        world.step(Op::Lapse { name: name.clone(), ids: lapsed.to_vec() });
        let owes = |line: Option<&Line>| {
            line.is_some_and(|line| {
                line.held().any(|claim| !book.holds(claim.id) && !lapsed.contains(&claim.id))
            })
        };
        let owed = owes(world.line(name));
        match wish {
            Wish::Join(_) if owed && answer.reply == Reply::Refused => {}
            Wish::Join(join) => answers(&world.step(Op::Join(join.clone()))[0], &answer.reply)?,
            Wish::Leave { name, id, how, .. } => {
                let event = &world.step(Op::Leave { name: name.clone(), id: *id, how: *how })[0];
                let is_owed = answer.reply == Reply::Left(Left::Waiting) && !book.holds(*id);
                if !(is_owed && matches!(event, Event::Left { left: Left::Held, .. })) {
                    answers(event, &answer.reply)?;
                }
            }
            // Only a holder is made lighter: a live one, or a dead one that no request has found yet.
            Wish::Lighten { id, .. } if answer.reply == Reply::Absent => {
                let may_be_dead = lapsed.contains(id) || book.surely(*id) <= self.now;
                let is_right = !book.holds(*id) || may_be_dead;
                is_right.then_some(()).ok_or_else(|| format!("{id} holds, but was not lightened"))?;
            }
            Wish::Lighten { id, .. } if !book.holds(*id) => {
                return Err(format!("{id} does not hold, but the reply is not Absent"));
            }
            Wish::Lighten { name, id, weight } => {
                let op = Op::Lighten { name: name.clone(), id: *id, weight: *weight };
                answers(&world.step(op)[0], &answer.reply)?;
            }
            Wish::Resize { name, from, to, .. } => {
                let op = Op::Resize { name: name.clone(), from: *from, to: *to };
                answers(&world.step(op)[0], &answer.reply)?;
            }
            Wish::Look { .. } | Wish::Renew { .. } | Wish::Lose { .. } => {}
        }
        agree(world.line(name), &answer.shown)?;
        Ok(world)
    }

    /// Checks the rest of an answer whose line is right, and records what follows from it.
    fn note(&mut self, wish: &Wish<N>, answer: &Answer) -> Verdict {
        let (name, now) = (wish.name().clone(), self.now);
        self.book(&name).bury(now);
        let before = self.book(&name).tokens.clone();
        if let Wish::Join(Join { id: ClaimId { session, .. }, .. })
        | Wish::Look { session, .. }
        | Wish::Renew { session, .. } = wish
        {
            let lease = self.lease(*session);
            self.book(&name).was_heard_of(*session, lease);
        }
        self.book(&name).keep(&answer.shown.claims);
        self.note_tokens(wish, answer)?;
        told_is_right(wish, answer, &before)?;
        strands_who_lives(wish, answer, self.book(&name), now)?;
        self.note_lives(wish, answer)?;
        self.note_owed(wish, answer)?;
        let book = self.book(&name);
        let least = answer.shown.claims.iter().map(|stands| book.surely(stands.id)).max().unwrap_or(0);
        // A store that lost a record and wrote it again may keep it without an end until a client renews.
        let may_be =
            |kept: Option<u64>| kept.is_some_and(|kept| kept >= least) || kept.is_none() && book.is_doubtful;
        if !answer.shown.kept.iter().all(|kept| may_be(*kept)) {
            return Err(format!(
                "the store keeps its data until {:?}, but a claim lives until {least}",
                answer.shown.kept
            ));
        }
        let meets = matches!(wish, Wish::Join(_) | Wish::Look { .. } | Wish::Resize { .. });
        let dead = book.tokens.keys().find(|id| book.at_most(**id) <= now);
        match dead.filter(|_| meets && answer.reply != Reply::Void) {
            Some(dead) => Err(format!("{dead} still holds, but died by {}", book.at_most(*dead))),
            None => Ok(()),
        }
    }

    /// Records which claim holds which token: it stays the same, and is newer than all tokens before.
    fn note_tokens(&mut self, wish: &Wish<N>, answer: &Answer) -> Verdict {
        let (lease, now) = (|book: &Self, id: ClaimId| book.lease(id.session), self.now);
        let (name, is_set_back) = (wish.name().clone(), self.now < self.latest);
        let book = self.book(&name);
        let stays =
            |stands: &Stands| stands.token.is_some() && book.tokens.get(&stands.id) == stands.token.as_ref();
        if is_set_back && !answer.shown.claims.iter().any(stays) {
            book.newest = 0; // a store may forget an idle name's token, and then go by its clock
        }
        for stands in &answer.shown.claims {
            let (id, Some(token)) = (stands.id, stands.token) else { continue };
            let own = lease(self, id);
            let book = self.book(&name);
            if book.tokens.get(&id) == Some(&token) {
                continue;
            }
            if token <= book.newest {
                return Err(format!("the token {token} of {id} is not newer than {}", book.newest));
            }
            let joins = matches!(wish, Wish::Join(join) if join.id == id);
            if !joins && book.at_most(id) <= now {
                return Err(format!("{id} was granted, but died by {}", book.at_most(id)));
            }
            book.forget(id); // it may have died and joined again
            if joins {
                book.waiter_comes(id, own);
            }
            book.granted(id, token);
        }
        Ok(())
    }

    /// Checks what the answer says about lifetimes, and records the lifetimes that it begins.
    fn note_lives(&mut self, wish: &Wish<N>, answer: &Answer) -> Verdict {
        let (name, now) = (wish.name().clone(), self.now);
        let waiting: Vec<_> = self
            .claims(&name)
            .iter()
            .map(|claim| claim.id)
            .filter(|id| !self.books[&name].holds(*id))
            .collect();
        match (wish, &answer.reply) {
            (Wish::Join(join), Reply::Held { .. }) => {
                let lease = self.lease(join.id.session);
                self.book(&name).holder_lives(join.id.session, lease);
            }
            (Wish::Join(join), Reply::Waiting { look_in }) => {
                let lease = self.lease(join.id.session);
                let book = self.book(&name);
                book.waiter_comes(join.id, lease);
                is_soon(*look_in, book, now)?;
            }
            (Wish::Renew { session, .. }, reply) => self.note_renewal(&name, *session, reply, &waiting)?,
            (Wish::Look { session, numbers, .. }, reply) => {
                look_is_right(*session, numbers, reply, &answer.shown)?;
                let book = self.book(&name);
                if let Reply::Seen { look_in, is_in_use: true, .. } = reply {
                    is_soon(*look_in, book, now)?;
                }
            }
            (Wish::Leave { by, id, how: Leave::Void, .. }, _) => {
                let lease = self.lease(*by);
                self.book(&name).make_void(*id, lease);
            }
            _ => {}
        }
        Ok(())
    }

    fn note_renewal(&mut self, name: &N, session: SessionId, reply: &Reply, waiting: &[ClaimId]) -> Verdict {
        let (now, lease) = (self.now, self.lease(session));
        let book = self.book(name);
        let mine = book.tokens.keys().filter(|id| id.session == session);
        let (count, sum) = mine.fold((0, 0), |(count, sum), id| (count + 1, sum + id.number));
        let (surely, at_most) = book
            .tokens
            .keys()
            .find(|id| id.session == session)
            .map_or((0, 0), |id| (book.surely(*id), book.at_most(*id)));
        let Reply::Renewed { claims, sum: said, waits } = *reply else {
            return Err("the reply to a renewal is not Renewed".to_owned());
        };
        if claims > 0 && at_most <= now {
            return Err(format!("claims of {session} were renewed, but died by {at_most}"));
        }
        if (claims, said) != (count, sum) && !(claims == 0 && surely <= now) {
            return Err(format!(
                "{count} claims hold with the sum {sum}, but the reply says {claims} and {said}"
            ));
        }
        if claims > 0 {
            book.holder_lives(session, lease);
        }
        for id in waiting.iter().filter(|id| id.session == session) {
            if !waits && now < book.surely(*id) {
                return Err(format!("{id} waits, but was not renewed"));
            }
            if waits && !book.is_doubtful {
                book.waiter_lives(*id, lease);
            }
        }
        Ok(())
    }

    /// A claim that fits but was not granted is next, and its client was told to look.
    fn note_owed(&mut self, wish: &Wish<N>, answer: &Answer) -> Verdict {
        let name = wish.name();
        let Some(line) = self.world.line(name) else { return Ok(()) };
        let book = &self.books[name];
        let owed: Vec<_> = line.held().map(|claim| claim.id).filter(|id| !book.holds(*id)).collect();
        let looks = match wish {
            Wish::Join(_) | Wish::Look { .. } | Wish::Resize { .. } => true,
            Wish::Leave { .. } => !matches!(answer.reply, Reply::Left(Left::Absent)),
            Wish::Lighten { .. } => answer.reply == Reply::Done,
            Wish::Renew { .. } | Wish::Lose { .. } => false,
        };
        match owed.first() {
            Some(first) if looks && !answer.told.contains(&(first.session, Told::Look)) => {
                Err(format!("{first} fits but was not granted, and its client was not told to look"))
            }
            _ => Ok(()),
        }
    }
}

/// Whether the store answered as the world did.
fn answers<N: Debug>(event: &Event<N>, reply: &Reply) -> Verdict {
    let is_right = match (event, reply) {
        // A claim that is owed a grant waits until then.
        (Event::Held { .. }, Reply::Held { .. } | Reply::Waiting { .. })
        | (Event::Waiting { .. }, Reply::Waiting { .. })
        | (Event::Lightened { .. } | Event::Resized { .. }, Reply::Done)
        | (Event::Absent { .. }, Reply::Absent) => true,
        (Event::Left { left, .. }, Reply::Left(said)) => left == said,
        (Event::Refused { why, .. }, reply) => match (why, reply) {
            (Refusal::Busy, Reply::Refused)
            | (Refusal::Void, Reply::Void)
            | (Refusal::NoLine, Reply::Done)
            | (Refusal::Strands(_), Reply::Strands) => true,
            (Refusal::Kind(kind), Reply::Kind(said)) => kind == said,
            (Refusal::TooHeavy(weight) | Refusal::Heavier(weight), Reply::Heavy(said))
            | (Refusal::Capacity(weight), Reply::Capacity(said)) => weight == said,
            _ => false,
        },
        _ => false,
    };
    if is_right { Ok(()) } else { Err(format!("the rule says {event:?}, the store {reply:?}")) }
}

/// Whether the store shows this line: the same claims in the same order, and no holder that does not fit.
fn agree(line: Option<&Line>, shown: &Shown) -> Verdict {
    let what = line.map(|line| (line.kind, line.capacity));
    if what != shown.line {
        return Err(format!("the line is {what:?}, but the store shows {:?}", shown.line));
    }
    let claims = line.map(|line| &line.claims[..]).unwrap_or_default();
    let is_same = |(claim, stands): (&crate::Claim, &Stands)| {
        claim.id == stands.id
            && stands.weight.is_none_or(|weight| weight == claim.weight)
            && (stands.token.is_none() || claim.token.is_some())
    };
    let is_right = claims.len() == shown.claims.len() && claims.iter().zip(&shown.claims).all(is_same);
    if is_right {
        Ok(())
    } else {
        Err(format!("the line is {claims:?}, but the store shows {:?}", shown.claims))
    }
}

/// Whether each client was told of its grants and its evictions, and of nothing else.
fn told_is_right<N>(wish: &Wish<N>, answer: &Answer, before: &BTreeMap<ClaimId, u64>) -> Verdict {
    let mut right = Vec::new();
    for stands in &answer.shown.claims {
        let (id, Some(token), Some((_, capacity))) = (stands.id, stands.token, answer.shown.line) else {
            continue;
        };
        let is_answered = matches!(wish, Wish::Join(join) if join.id == id);
        if is_answered && !matches!(answer.reply, Reply::Held { token: told, .. } if told == token) {
            return Err(format!("{id} was granted {token}, but its join was answered otherwise"));
        }
        if before.get(&id) != Some(&token) && !is_answered {
            right.push((id.session, Told::Held { number: id.number, token, capacity }));
        }
    }
    if let Wish::Leave { by, id, .. } = wish
        && id.session != *by
        && answer.reply != Reply::Left(Left::Absent)
    {
        right.push((id.session, Told::Gone { number: id.number }));
    }
    // The caller may be told of its own claim once more.
    let is_own = |(session, told): &(SessionId, Told)| match (wish, told) {
        (Wish::Join(Join { id, .. }), Told::Held { number, .. }) => {
            id.session == *session && id.number == *number
        }
        _ => false,
    };
    let others = answer.told.iter().filter(|told| told.1 != Told::Look && !is_own(told));
    let mut told: Vec<_> = others.copied().collect();
    right.sort();
    told.sort();
    if told == right { Ok(()) } else { Err(format!("{right:?} should have been told, but {told:?} was")) }
}

/// Whether a resize was refused because of a waiter that may be alive.
fn strands_who_lives<N>(wish: &Wish<N>, answer: &Answer, book: &Book, now: u64) -> Verdict {
    let (Wish::Resize { to, .. }, Reply::Strands) = (wish, &answer.reply) else { return Ok(()) };
    let is_too_heavy =
        |stands: &&Stands| stands.token.is_none() && stands.weight.is_none_or(|weight| weight > *to);
    match answer.shown.claims.iter().filter(is_too_heavy).any(|stands| book.at_most(stands.id) > now) {
        true => Ok(()),
        false => Err("the resize was refused, but only dead claims wait for more".to_owned()),
    }
}

/// Whether the look is due no later than the first death of a holder.
fn is_soon(look_in: u64, book: &Book, now: u64) -> Verdict {
    let latest = book.next_death().map_or(u64::MAX, |death| death.saturating_sub(now) + 2_000);
    match look_in > 0 && look_in <= latest {
        true => Ok(()),
        false => Err(format!("a look is due within {latest} µs, but the reply says {look_in}")),
    }
}

fn look_is_right(session: SessionId, numbers: &[u64], reply: &Reply, shown: &Shown) -> Verdict {
    let Reply::Seen { is_in_use, held, gone, strays, .. } = reply else {
        return Err("the reply to a look is not Seen".to_owned());
    };
    let find = |number| shown.claims.iter().find(|stands| stands.id == ClaimId { session, number });
    let holds = |number| find(number).and_then(|stands| stands.token).map(|token| (number, token));
    let right_held: Vec<_> = numbers.iter().filter_map(|number| holds(*number)).collect();
    let right_gone: Vec<_> = numbers.iter().copied().filter(|number| find(*number).is_none()).collect();
    let others = shown.claims.iter().filter(|stands| stands.id.session == session && stands.token.is_some());
    let others = others.map(|stands| stands.id.number).filter(|number| !numbers.contains(number));
    let (mut right_strays, mut strays): (Vec<_>, _) = (others.collect(), strays.clone());
    right_strays.sort_unstable();
    strays.sort_unstable();
    let right = (shown.line.is_some(), &right_held, &right_gone, &right_strays);
    match (*is_in_use, held, gone, &strays) == right {
        true => Ok(()),
        false => Err(format!("a look should see {right:?}, but the reply is {reply:?}")),
    }
}
