//! What a client knows of its own claims: their nodes, their tokens, whose turn it was told to be; and what it watches.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock::{Claim, ClaimId, Kind, Moment, Name, Token, Weight};
use tokio::task::AbortHandle;

use crate::listing::is_before;
use crate::nodes::Node;
use crate::order::{Ahead, Order};

/// Of how many names it is remembered how they are used.
const USED: usize = 4_096;

/// One session's books.
#[derive(Debug, Default)]
pub(crate) struct Books(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    claims: HashMap<u64, Stage>,
    lines: HashMap<Name, OwnLine>,
    void: Void,
    last_watch: u64,
    /// Names that had a line lately, the latest last.
    used: VecDeque<Name>,
    usage: HashMap<Name, Usage>,
}

/// Who has used a name lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    /// This client by itself: and so had the line's data this version.
    Alone(i32),
    /// Others may as well.
    Shared,
    /// Others who thought themselves alone: it is not tried again.
    Contended,
}

/// How far a claim has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its nodes were asked for, and the answer has not come, or never will.
    Asked,
    /// It has nodes.
    Stands(Stands),
    /// It was refused, and surely has none.
    Nowhere,
}

/// A claim that has nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stands {
    pub(crate) nodes: Vec<String>,
    pub(crate) token: Token,
    /// Whether it was seen to have its turn: nothing takes that back.
    pub(crate) is_held: bool,
}

/// The claims of ours that wait in one line, and what is watched for the first of them.
#[derive(Debug, Default)]
struct OwnLine {
    waiting: BTreeSet<u64>,
    watch: Option<Watch>,
    capacity: Option<Task>,
    /// What the line was used as when it was last seen.
    seen: Option<(Kind, Weight)>,
    order: Order,
}

/// One of ours has its turn.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) token: Token,
    pub(crate) behind: Behind,
}

/// Whether anything is watched for the next of ours that waits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// It is, or nobody waits.
    Watched,
    /// It is not, and this is what it waits for.
    Known(u64, What),
    /// It is not, and somebody should look.
    Unknown,
}

/// Whose turn it is when a claim of our own has left, without a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) number: u64,
    pub(crate) node: String,
}

#[derive(Debug)]
struct Watch {
    serial: u64,
    first: u64,
    what: What,
    /// None: it is a claim of our own, and whoever has it leave looks here.
    _task: Option<Task>,
}

/// The one thing that is worth waiting for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A claim of our own.
    Own(u64),
    /// The node of somebody else's.
    Node(String),
    /// Anyone's coming and going.
    Line,
}

/// A task that ends with this, and its watch with it.
#[derive(Debug)]
pub(crate) struct Task(pub(crate) AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What was known of a claim when its join began.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Before {
    New,
    /// It was asked for before.
    Asked,
    Stands(Stands),
    /// Its leave came first.
    Void,
}

impl Books {
    /// A join begins.
    pub(crate) fn begin(&self, name: &Name, id: ClaimId) -> Before {
        let pages = &mut *self.pages();
        if pages.void.has(id.number) {
            return Before::Void;
        }
        match pages.claims.insert(id.number, Stage::Asked) {
            Some(Stage::Stands(stands)) => {
                pages.claims.insert(id.number, Stage::Stands(stands.clone()));
                Before::Stands(stands)
            }
            Some(Stage::Asked) => Before::Asked,
            Some(Stage::Nowhere) | None => {
                pages.lines.entry(name.clone()).or_default().waiting.insert(id.number);
                Before::New
            }
        }
    }

    /// How a name was used lately, in which case it most likely still has a line.
    pub(crate) fn usage(&self, name: &Name) -> Option<Usage> {
        self.pages().usage.get(name).copied()
    }

    /// There is a line of that name.
    pub(crate) fn has_line(&self, name: &Name) {
        if self.usage(name).is_none() {
            self.set_usage(name, Usage::Shared);
        }
    }

    pub(crate) fn has_no_line(&self, name: &Name) {
        self.pages().usage.remove(name);
    }

    pub(crate) fn set_usage(&self, name: &Name, usage: Usage) {
        let pages = &mut *self.pages();
        if pages.usage.insert(name.clone(), usage).is_some() {
            return;
        }
        pages.used.push_back(name.clone());
        if pages.used.len() > USED
            && let Some(oldest) = pages.used.pop_front()
        {
            pages.usage.remove(&oldest);
        }
    }

    /// Whether somebody of ours waits in this line, and hears when it goes on: whoever comes later waits behind, and has
    /// no need to look, if the line is what it takes it for.
    pub(crate) fn is_waited_before(&self, claim: &Claim) -> bool {
        let pages = self.pages();
        let Some(line) = pages.lines.get(&claim.name) else { return false };
        let is_ahead = |watch: &Watch| {
            line.waiting.contains(&watch.first) && pages.is_ahead(watch.first, claim.id.number)
        };
        let fits = line.seen == Some((claim.kind, claim.capacity)) && claim.weight <= claim.capacity;
        fits && line.watch.as_ref().is_some_and(is_ahead)
    }

    /// Who has its turn when this one leaves: somebody of ours who stands right behind it, with a mutex.
    pub(crate) fn next(&self, name: &Name, id: ClaimId) -> Option<Next> {
        let pages = self.pages();
        let line = pages.lines.get(name)?;
        let watch = line.watch.as_ref().filter(|watch| watch.what == What::Own(id.number))?;
        let Some(Stage::Stands(stands)) = pages.claims.get(&watch.first) else { return None };
        let is_mutex = line.seen.is_some_and(|(kind, _)| kind == Kind::Mutex);
        is_mutex.then(|| Next { number: watch.first, node: stands.nodes[0].clone() })
    }

    /// That one has left, so this one has its turn.
    pub(crate) fn hand_on(&self, name: &Name, left: ClaimId, next: u64) -> Option<Turn> {
        self.pages().claims.remove(&left.number);
        self.turn(name, next)
    }

    /// This one has its turn. None: it is on its way out, or has it already.
    pub(crate) fn turn(&self, name: &Name, number: u64) -> Option<Turn> {
        let mut pages = self.pages();
        let Pages { claims, lines, last_watch, .. } = &mut *pages;
        let Some(Stage::Stands(stands)) = claims.get_mut(&number) else { return None };
        let line = lines.get_mut(name)?;
        if !line.waiting.remove(&number) {
            return None;
        }
        stands.is_held = true;
        let token = stands.token;
        line.order.is_turn_of(number);
        *last_watch += 1;
        let (watch, behind) = match line.order.first(&line.waiting, |own| claims.contains_key(&own)) {
            _ if line.waiting.is_empty() => (None, Behind::Watched),
            None => (None, Behind::Unknown),
            Some((first, What::Own(own))) => {
                let watch = Watch { serial: *last_watch, first, what: What::Own(own), _task: None };
                (Some(watch), Behind::Watched)
            }
            Some((first, what)) => (None, Behind::Known(first, what)),
        };
        let ended = std::mem::replace(&mut line.watch, watch);
        let unused = pages.stop_waiting(name, number);
        drop(pages);
        drop((ended, unused));
        Some(Turn { token, behind })
    }

    /// On whom it depends whether the first of ours in this line has its turn, as far as that is known.
    pub(crate) fn ahead(&self, name: &Name) -> Option<Ahead> {
        let pages = self.pages();
        let line = pages.lines.get(name)?;
        line.order.ahead(&line.waiting, |own| pages.claims.contains_key(&own))
    }

    /// The line was seen as this. Says whether somebody of ours waits who was not in it, and whom nothing is watched for.
    pub(crate) fn saw(&self, name: &Name, seen: Option<(Kind, Weight)>, order: Order) -> bool {
        let mut pages = self.pages();
        let Pages { lines, claims, .. } = &mut *pages;
        let Some(line) = lines.get_mut(name) else { return false };
        line.seen = seen;
        line.order = order;
        let stands = |number: &u64| matches!(claims.get(number), Some(Stage::Stands(_)));
        line.watch.is_none() && line.waiting.iter().any(stands)
    }

    /// It has these nodes. Whoever has left meanwhile is not entered again.
    pub(crate) fn stands(&self, id: ClaimId, nodes: Vec<String>, token: Token) {
        if let Some(stage) = self.pages().claims.get_mut(&id.number) {
            *stage = Stage::Stands(Stands { nodes, token, is_held: false });
        }
    }

    /// It is lighter by its last node.
    pub(crate) fn lightened(&self, id: ClaimId) {
        if let Some(Stage::Stands(stands)) = self.pages().claims.get_mut(&id.number) {
            stands.nodes.truncate(1);
        }
    }

    /// It was seen to have its turn. Says whether that is news.
    pub(crate) fn hold(&self, name: &Name, id: ClaimId) -> bool {
        let mut pages = self.pages();
        let Some(Stage::Stands(stands)) = pages.claims.get_mut(&id.number) else { return false };
        let is_news = !std::mem::replace(&mut stands.is_held, true);
        let unused = pages.stop_waiting(name, id.number);
        drop(pages);
        drop(unused);
        is_news
    }

    /// It was refused, and surely has no node.
    pub(crate) fn nowhere(&self, name: &Name, id: ClaimId) {
        let mut pages = self.pages();
        if let Some(stage) = pages.claims.get_mut(&id.number) {
            *stage = Stage::Nowhere;
        }
        let unused = pages.stop_waiting(name, id.number);
        drop(pages);
        drop(unused);
    }

    pub(crate) fn stage(&self, id: ClaimId) -> Option<Stage> {
        self.pages().claims.get(&id.number).cloned()
    }

    /// The token of a claim that was seen to have its turn.
    pub(crate) fn held(&self, id: ClaimId) -> Option<Token> {
        match self.pages().claims.get(&id.number) {
            Some(Stage::Stands(stands)) if stands.is_held => Some(stands.token),
            _ => None,
        }
    }

    /// The token that a claim has, or will have.
    pub(crate) fn token(&self, id: ClaimId) -> Option<Token> {
        match self.pages().claims.get(&id.number) {
            Some(Stage::Stands(stands)) => Some(stands.token),
            _ => None,
        }
    }

    /// Whether it is ours, on its way to its turn, and not on its way out.
    pub(crate) fn is_waiting(&self, name: &Name, id: ClaimId) -> bool {
        self.pages().lines.get(name).is_some_and(|line| line.waiting.contains(&id.number))
    }

    /// It is on its way out: nothing is watched for it any more. Says how far it had come.
    pub(crate) fn leaves(&self, name: &Name, id: ClaimId) -> Option<Stage> {
        let mut pages = self.pages();
        let stage = pages.claims.get(&id.number).cloned();
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
        pages.claims.remove(&id.number);
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
            && !pages.claims.contains_key(&number)
        {
            return false;
        }
        let Some(line) = pages.lines.get_mut(name).filter(|line| line.waiting.contains(&first)) else {
            return true;
        };
        if line.watch.as_ref().is_some_and(|watch| watch.first == first && watch.what == what) {
            return true;
        }
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
    /// Whether the first stands before the second. Whoever is only asking comes behind all who stand; but a look may
    /// have seen its turn, and watch for somebody behind it, before it hears that it stands.
    fn is_ahead(&self, first: u64, second: u64) -> bool {
        let sequence = |number: u64| match self.claims.get(&number) {
            Some(Stage::Stands(stands)) => Node::parse(&stands.nodes[0]).map(|node| node.sequence),
            _ => None,
        };
        match (sequence(first), sequence(second)) {
            (Some(first), Some(second)) => is_before(first, second),
            (first, None) => first.is_some(),
            (None, Some(_)) => false,
        }
    }

    /// What is not needed any more, to be dropped where no lock is held.
    fn stop_waiting(&mut self, name: &Name, number: u64) -> Option<OwnLine> {
        let line = self.lines.get_mut(name)?;
        line.waiting.remove(&number);
        if line.waiting.is_empty() { self.lines.remove(name) } else { None }
    }
}

/// Joins that must not come alive. They are forgotten when nobody can ask for them any more.
#[derive(Debug, Default)]
struct Void {
    numbers: HashSet<u64>,
    until: VecDeque<(Moment, u64)>,
}

impl Void {
    fn add(&mut self, number: u64, now: Moment, memory: Duration) {
        while self.until.front().is_some_and(|(until, _)| *until <= now) {
            if let Some((_, old)) = self.until.pop_front() {
                self.numbers.remove(&old);
            }
        }
        if self.numbers.insert(number) {
            self.until.push_back((now + memory, number));
        }
    }

    fn has(&self, number: u64) -> bool {
        self.numbers.contains(&number)
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
    fn void_claims_are_forgotten_in_the_end() {
        let mut void = Void::default();
        let at = |seconds| Moment::START + Duration::from_secs(seconds);
        void.add(1, at(0), Duration::from_secs(5));
        void.add(2, at(4), Duration::from_secs(5));
        assert!(void.has(1) && void.has(2));
        void.add(3, at(6), Duration::from_secs(5));
        assert!(!void.has(1) && void.has(2) && void.has(3));
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
