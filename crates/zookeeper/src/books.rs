//! What a client knows of its own claims: their nodes, their tokens, whose turn it was told to be; and what it watches.

mod claims;
mod own_line;
mod turn;
mod usage;
mod void;
mod watch;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use claims::Claims;
pub(crate) use claims::{Before, Stage, Stands};
use own_line::OwnLine;
pub(crate) use own_line::UsedAs;
use tidelock::{Claim, ClaimId, Moment, Name, Token, Weight};
pub(crate) use turn::{Behind, Next, Turn};
pub(crate) use usage::Usage;
use usage::Used;
use void::Void;
use watch::Watch;
pub(crate) use watch::{Task, What};

use crate::order::{Ahead, Order};

/// One session's books.
#[derive(Debug, Default)]
pub(crate) struct Books(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    claims: Claims,
    lines: HashMap<Name, OwnLine>,
    void: Void,
    used: Used,
    last_watch: u64,
}

impl Books {
    /// A join begins.
    pub(crate) fn begin(&self, name: &Name, id: ClaimId) -> Before {
        let pages = &mut *self.pages();
        if pages.void.has(id.number) {
            return Before::Void;
        }
        let before = pages.claims.begin(id.number);
        if before == Before::New {
            pages.lines.entry(name.clone()).or_default().waiting.insert(id.number);
        }
        before
    }

    /// How a name was used lately, in which case it most likely still has a line.
    pub(crate) fn usage(&self, name: &Name) -> Option<Usage> {
        self.pages().used.get(name)
    }

    /// There is a line of that name.
    pub(crate) fn has_line(&self, name: &Name) {
        if self.usage(name).is_none() {
            self.set_usage(name, Usage::Shared);
        }
    }

    pub(crate) fn has_no_line(&self, name: &Name) {
        self.pages().used.forget(name);
    }

    /// The size that a semaphore was seen in use in, if that is another one than this client declares.
    pub(crate) fn size(&self, name: &Name) -> Option<Weight> {
        self.pages().used.size(name)
    }

    pub(crate) fn set_size(&self, name: &Name, size: Option<Weight>) {
        self.pages().used.set_size(name, size);
    }

    pub(crate) fn set_usage(&self, name: &Name, usage: Usage) {
        self.pages().used.set(name, usage);
    }

    /// The version that the line's data had, if somebody of ours waits in it and hears when it goes on: whoever comes later
    /// waits behind, and has no need to look, if the line is what it takes it for.
    pub(crate) fn waited_before(&self, claim: &Claim, declared: Weight) -> Option<i32> {
        let pages = self.pages();
        pages.lines.get(&claim.name)?.waited_before(claim, declared, &pages.claims)
    }

    /// The line's data are not what they were.
    pub(crate) fn has_changed(&self, name: &Name) {
        if let Some(line) = self.pages().lines.get_mut(name) {
            line.has_changed();
        }
    }

    /// Who has its turn when this one leaves: somebody of ours who stands right behind it, with a mutex.
    pub(crate) fn next(&self, name: &Name, id: ClaimId) -> Option<Next> {
        let pages = self.pages();
        pages.lines.get(name)?.next(id.number, &pages.claims)
    }

    /// That one has left, so this one has its turn.
    pub(crate) fn hand_on(&self, name: &Name, left: ClaimId, next: u64) -> Option<Turn> {
        self.pages().claims.forget(left.number);
        self.turn(name, next)
    }

    /// This one has its turn. None: it is on its way out, or has it already.
    pub(crate) fn turn(&self, name: &Name, number: u64) -> Option<Turn> {
        let mut pages = self.pages();
        let Pages { claims, lines, last_watch, .. } = &mut *pages;
        let line = lines.get_mut(name).filter(|line| line.waiting.contains(&number))?;
        let stands = claims.standing_mut(number)?;
        stands.is_held = true;
        let token = stands.token;
        *last_watch += 1;
        let (behind, ended) = line.turn(number, *last_watch, claims);
        let unused = pages.stop_waiting(name, number);
        drop(pages);
        drop((ended, unused));
        Some(Turn { token, behind })
    }

    /// On whom it depends whether the first of ours in this line has its turn, as far as that is known.
    pub(crate) fn ahead(&self, name: &Name) -> Option<Ahead> {
        let pages = self.pages();
        pages.lines.get(name)?.ahead(&pages.claims)
    }

    /// The line was seen as this. Says whether somebody of ours waits who was not in it, and whom nothing is watched for.
    pub(crate) fn saw(&self, name: &Name, seen: Option<UsedAs>, order: Order) -> bool {
        let mut pages = self.pages();
        let Pages { lines, claims, .. } = &mut *pages;
        lines.get_mut(name).is_some_and(|line| line.saw(seen, order, claims))
    }

    /// It has these nodes. Whoever has left meanwhile is not entered again.
    pub(crate) fn stands(&self, id: ClaimId, nodes: Vec<String>, token: Token) {
        let stands = Stage::Stands(Stands { nodes, token, is_held: false });
        self.pages().claims.comes_to(id.number, stands);
    }

    /// It is about to stand in line anew: until that is answered nobody knows what nodes it has. Says which it had. None: it
    /// has its turn meanwhile, or is gone.
    pub(crate) fn stands_anew(&self, id: ClaimId) -> Option<Stands> {
        let mut pages = self.pages();
        let stands = pages.claims.standing(id.number).filter(|stands| !stands.is_held).cloned()?;
        pages.claims.comes_to(id.number, Stage::Asked);
        Some(stands)
    }

    /// It is lighter by its last node.
    pub(crate) fn lightened(&self, id: ClaimId) {
        if let Some(stands) = self.pages().claims.standing_mut(id.number) {
            stands.nodes.truncate(1);
        }
    }

    /// It was seen to have its turn. Says whether that is news.
    pub(crate) fn hold(&self, name: &Name, id: ClaimId) -> bool {
        let mut pages = self.pages();
        let Some(stands) = pages.claims.standing_mut(id.number) else { return false };
        let is_news = !std::mem::replace(&mut stands.is_held, true);
        let unused = pages.stop_waiting(name, id.number);
        drop(pages);
        drop(unused);
        is_news
    }

    /// It was refused, and surely has no node; its leave, which follows, need not look for any.
    pub(crate) fn nowhere(&self, name: &Name, id: ClaimId) {
        let mut pages = self.pages();
        pages.claims.comes_to(id.number, Stage::Nowhere);
        let unused = pages.stop_waiting(name, id.number);
        drop(pages);
        drop(unused);
    }

    /// It was not its turn, and it had no patience. It has no node, and no leave of it follows.
    pub(crate) fn refuse(&self, name: &Name, id: ClaimId) {
        self.forget(name, id);
    }

    pub(crate) fn stage(&self, id: ClaimId) -> Option<Stage> {
        self.pages().claims.stage(id.number).cloned()
    }

    /// The token of a claim that was seen to have its turn.
    pub(crate) fn held(&self, id: ClaimId) -> Option<Token> {
        let pages = self.pages();
        pages.claims.standing(id.number).filter(|stands| stands.is_held).map(|stands| stands.token)
    }

    /// The token that a claim has, or will have.
    pub(crate) fn token(&self, id: ClaimId) -> Option<Token> {
        self.pages().claims.standing(id.number).map(|stands| stands.token)
    }

    /// Whether it is ours, on its way to its turn, and not on its way out.
    pub(crate) fn is_waiting(&self, name: &Name, id: ClaimId) -> bool {
        self.pages().lines.get(name).is_some_and(|line| line.waiting.contains(&id.number))
    }

    /// It is on its way out: nothing is watched for it any more. Says how far it had come.
    pub(crate) fn leaves(&self, name: &Name, id: ClaimId) -> Option<Stage> {
        let mut pages = self.pages();
        let stage = pages.claims.stage(id.number).cloned();
        if let Some(line) = pages.lines.get_mut(name) {
            line.waiting.remove(&id.number);
        }
        stage
    }

    /// No join of this claim comes alive from now on; it is remembered for that long.
    pub(crate) fn make_void(&self, id: ClaimId, now: Moment, memory: Duration) {
        self.pages().void.add(id.number, now, memory);
    }

    /// A claim has left, or is lighter. Says whether that is worth a look: somebody of ours waited for just that.
    pub(crate) fn is_waited_for(&self, name: &Name, id: ClaimId) -> bool {
        let mut pages = self.pages();
        let Some(line) = pages.lines.get_mut(name) else { return false };
        let is_it = |watch: &mut Watch| watch.what == What::Own(id.number) || watch.first == id.number;
        let ended = line.watch.take_if(is_it);
        let is_waited_for = ended.is_some() && line.waiting.iter().any(|waiting| *waiting != id.number);
        drop(pages);
        drop(ended);
        is_waited_for
    }

    /// A claim has left, and nothing is known of it any more.
    pub(crate) fn forget(&self, name: &Name, id: ClaimId) {
        let mut pages = self.pages();
        pages.claims.forget(id.number);
        let unused = pages.stop_waiting(name, id.number);
        drop(pages);
        drop(unused);
    }

    /// Watches that for `first`, unless it does already. What is watched is what `watch` is told the number of; it is
    /// not asked for a claim of our own. False: that claim of our own has left already.
    pub(crate) fn watch(&self, name: &Name, first: u64, what: What, watch: impl FnOnce(u64) -> Task) -> bool {
        let mut pages = self.pages();
        pages.last_watch += 1;
        let serial = pages.last_watch;
        if let What::Own(number) = what
            && !pages.claims.has(number)
        {
            return false;
        }
        let Some(line) = pages.lines.get_mut(name).filter(|line| line.wants(first, &what)) else {
            return true;
        };
        let task = (!matches!(what, What::Own(_))).then(|| watch(serial));
        let old = line.watch.replace(Watch { serial, first, what, _task: task });
        drop(pages);
        drop(old);
        true
    }

    /// Watches the capacity of a line in which somebody of ours waits, unless it does already.
    pub(crate) fn watch_capacity(&self, name: &Name, watch: impl FnOnce() -> Task) {
        if let Some(line) = self.pages().lines.get_mut(name).filter(|line| line.capacity.is_none()) {
            line.capacity = Some(watch());
        }
    }

    /// That watch has ended.
    pub(crate) fn watched(&self, name: &Name, serial: u64) {
        let mut pages = self.pages();
        let line = pages.lines.get_mut(name);
        let ended = line.and_then(|line| line.watch.take_if(|watch| watch.serial == serial));
        drop(pages);
        drop(ended);
    }

    /// The watch of the capacity has ended.
    pub(crate) fn watched_capacity(&self, name: &Name) {
        let ended = self.pages().lines.get_mut(name).and_then(|line| line.capacity.take());
        drop(ended);
    }

    /// It is over: nothing is watched any more.
    pub(crate) fn close(&self) {
        let lines = std::mem::take(&mut self.pages().lines);
        drop(lines);
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    /// What is not needed any more, to be dropped where no lock is held.
    fn stop_waiting(&mut self, name: &Name, number: u64) -> Option<OwnLine> {
        let line = self.lines.get_mut(name)?;
        line.waiting.remove(&number);
        if line.waiting.is_empty() { self.lines.remove(name) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidelock::SessionId;

    fn id(number: u64) -> ClaimId {
        ClaimId { session: SessionId::from_bits(1), number }
    }

    fn name() -> Name {
        Name::new("n").unwrap()
    }

    #[test]
    fn a_claim_that_left_while_its_join_was_under_way_is_not_entered_again() {
        let books = Books::default();
        assert_eq!(books.begin(&name(), id(1)), Before::New);
        assert_eq!(books.begin(&name(), id(1)), Before::Asked);
        books.forget(&name(), id(1));
        books.stands(id(1), vec![], Token::from_order(1).unwrap());
        assert_eq!(books.stage(id(1)), None);
        assert!(books.pages().lines.is_empty());
    }

    #[test]
    fn a_try_that_was_refused_leaves_nothing_behind() {
        let books = Books::default();
        for number in 0..100 {
            books.begin(&name(), id(number));
            books.refuse(&name(), id(number));
        }
        assert!(books.pages().claims.is_empty() && books.pages().lines.is_empty());
    }

    #[test]
    fn who_waits_for_a_claim_of_ones_own_looks_when_it_leaves() {
        let books = Books::default();
        for number in [1, 2, 3] {
            books.begin(&name(), id(number));
        }
        assert!(books.watch(&name(), 2, What::Own(1), |_| unreachable!()));
        assert!(!books.is_waited_for(&name(), id(3)));
        assert!(books.is_waited_for(&name(), id(1)));
        assert!(!books.is_waited_for(&name(), id(1)), "it is looked once");
        assert!(books.watch(&name(), 2, What::Own(1), |_| unreachable!()));
        assert!(books.is_waited_for(&name(), id(2)), "the next one has to be watched for");
        books.forget(&name(), id(1));
        assert!(!books.watch(&name(), 3, What::Own(1), |_| unreachable!()), "it has left already");
    }
}
