//! A client's own claims: their nodes and tokens, the turns it was told of, and what it watches for them.
//!
//! One lock protects all of it, and each method is one atomic step. Core's [`OwnLine`](tidelock_core::backend::OwnLine) decides what
//! to watch in a line.

mod claims;
mod own_line;
mod turn;
mod usage;
mod void;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use claims::Claims;
pub(crate) use claims::{JoinStart, Stage, Stands};
use own_line::{Ended, OwnLine};
use tidelock_core::backend::{Claim, Moment};
use tidelock_core::{ClaimId, Name, SessionId, Token, Weight};
pub(crate) use turn::{Behind, Next, Turn};
pub(crate) use usage::Usage;
use usage::Used;
use void::Void;

use crate::listing::LineView;
use crate::nodes::Node;
use crate::order::{Ahead, Order};
use crate::watch::{AbortOnDrop, Target};

/// The claims of one session, and what it watches for them.
#[derive(Debug)]
pub(crate) struct OwnClaims(Mutex<State>);

#[derive(Debug)]
struct State {
    session: SessionId,
    claims: Claims,
    lines: HashMap<Name, OwnLine>,
    /// The highest stamp of a forgotten line.
    stamp: u64,
    void: Void,
    used: Used,
}

impl OwnClaims {
    pub(crate) fn of(session: SessionId) -> Self {
        Self(Mutex::new(State {
            session,
            claims: Claims::default(),
            lines: HashMap::new(),
            stamp: 0,
            void: Void::default(),
            used: Used::default(),
        }))
    }

    /// A join begins. `bytes` is the size of the claim's paths.
    pub(crate) fn begin(&self, name: &Name, id: ClaimId, bytes: usize) -> JoinStart {
        let state = &mut *self.state();
        if state.void.has(id.number) {
            return JoinStart::Void;
        }
        let start = state.claims.begin(id.number, bytes);
        if start == JoinStart::New {
            let line = state.lines.entry(name.clone());
            let line = line.or_insert_with(|| OwnLine::new(state.session, state.stamp + 1));
            line.rule.comes(id.number);
        }
        start
    }

    /// Read this before a list of the line is sent.
    pub(crate) fn stamp(&self, name: &Name) -> u64 {
        let state = self.state();
        state.lines.get(name).map_or(state.stamp, |line| line.rule.stamp())
    }

    /// How a name was used lately. `Some`: most likely it still has a line.
    pub(crate) fn usage(&self, name: &Name) -> Option<Usage> {
        self.state().used.get(name)
    }

    /// The name has a line.
    pub(crate) fn has_line(&self, name: &Name) {
        if self.usage(name).is_none() {
            self.set_usage(name, Usage::Shared);
        }
    }

    pub(crate) fn has_no_line(&self, name: &Name) {
        self.state().used.forget(name);
    }

    /// The size in use of a semaphore, if it differs from the size that this client declares.
    pub(crate) fn size(&self, name: &Name) -> Option<Weight> {
        self.state().used.size(name)
    }

    pub(crate) fn set_size(&self, name: &Name, size: Option<Weight>) {
        self.state().used.set_size(name, size);
    }

    pub(crate) fn set_usage(&self, name: &Name, usage: Usage) {
        self.state().used.set(name, usage);
    }

    /// The version of the line's data, if one of our claims already waits there and its watch is set. A claim that
    /// comes later waits behind it, so it need not look, provided that the line still has this version.
    pub(crate) fn waited_before(&self, claim: &Claim, declared: Weight) -> Option<i32> {
        let state = self.state();
        state.lines.get(&claim.name)?.waited_before(claim, declared, &state.claims)
    }

    /// The line's data have changed.
    pub(crate) fn has_changed(&self, name: &Name) {
        if let Some(line) = self.state().lines.get_mut(name) {
            line.has_changed();
        }
    }

    /// Our claim that gets its turn when this one leaves: it stands directly behind it in a mutex's line.
    pub(crate) fn next(&self, name: &Name, id: ClaimId) -> Option<Next> {
        let state = self.state();
        state.lines.get(name)?.next(id, &state.claims)
    }

    /// `left` has left, so `next` gets its turn. The turn is None if `next` is leaving or already has its turn.
    /// `Behind` is returned in both cases, for those that waited for `left`.
    pub(crate) fn hand_on(
        &self,
        name: &Name,
        left: ClaimId,
        next: &Next,
        watch: impl Fn(u64, Target) -> AbortOnDrop,
    ) -> (Option<Turn>, Behind) {
        let mut state = self.state();
        let turn = state.turn(name, next.number, &next.node, &watch);
        let (behind, ended) = state.forget(name, left, &watch);
        ended.end(state);
        (turn, behind)
    }

    /// The claim gets its turn, at this node. None: it is leaving, already has its turn, or stands at another node.
    pub(crate) fn turn(
        &self,
        name: &Name,
        number: u64,
        node: &str,
        watch: impl FnOnce(u64, Target) -> AbortOnDrop,
    ) -> Option<Turn> {
        let mut state = self.state();
        let turn = state.turn(name, number, node, watch);
        state.step(name, |_| ()).1.end(state);
        turn
    }

    /// The claims on which the turn of our first waiter depends, as far as they are known.
    pub(crate) fn ahead(&self, name: &Name) -> Option<Ahead> {
        self.state().lines.get(name)?.ahead()
    }

    /// The line was seen like this. `watch` is called with what to watch for our first waiter.
    pub(crate) fn saw(
        &self,
        name: &Name,
        seen: &LineView,
        watch: impl FnOnce(u64, Target) -> AbortOnDrop,
    ) -> Behind {
        let mut state = self.state();
        let order = Order::of(seen, state.session);
        let (behind, ended) = state.step(name, |line| line.saw(seen, order, watch));
        ended.end(state);
        behind.unwrap_or(Behind::Watched)
    }

    /// Whether any of these claims of ours still waits at the given node and is not already moving to another place.
    pub(crate) fn does_any_stand<'a>(
        &self,
        name: &Name,
        mut claims: impl Iterator<Item = (u64, &'a str)>,
    ) -> bool {
        let state = self.state();
        let Some(line) = state.lines.get(name) else { return false };
        claims.any(|(number, node)| line.rule.is_waiting(number) && state.claims.is_at(number, node))
    }

    /// The claim has these nodes. A claim that has left meanwhile is not entered again. Returns whether to look at the
    /// line: the claim stood elsewhere before, and another of our claims waited for it there.
    pub(crate) fn stands(&self, name: &Name, id: ClaimId, nodes: Vec<String>, token: Token) -> bool {
        let mut state = self.state();
        let place = nodes.first().and_then(|node| place(node));
        state.claims.comes_to(id.number, Stage::Stands(Stands { nodes, token, is_held: false }));
        let (looks, ended) =
            state.step(name, |line| place.is_some_and(|place| line.rule.stands(id.number, place)));
        ended.end(state);
        looks.unwrap_or(false)
    }

    /// The claim is about to move: until the answer comes, its nodes are unknown. Returns the nodes it had. None: it
    /// has got its turn meanwhile, or is gone.
    pub(crate) fn stands_anew(&self, name: &Name, id: ClaimId) -> Option<Stands> {
        let mut state = self.state();
        let stands = state.claims.standing(id.number).filter(|stands| !stands.is_held).cloned()?;
        state.claims.comes_to(id.number, Stage::Asked);
        if let Some(line) = state.lines.get_mut(name) {
            line.rule.moves(id.number);
        }
        Some(stands)
    }

    /// The claim has no nodes, wherever it was seen before, and joins again. Returns whether to look at the line:
    /// another of our claims waited for it.
    pub(crate) fn comes_again(&self, name: &Name, id: ClaimId) -> bool {
        let mut state = self.state();
        let (looks, ended) = state.step(name, |line| line.rule.changed(id.number));
        ended.end(state);
        looks.unwrap_or(false)
    }

    /// The claim has lost its last node and is lighter. Returns whether to look at the line: another of our claims
    /// waited for it.
    pub(crate) fn lightened(&self, name: &Name, id: ClaimId) -> bool {
        let mut state = self.state();
        if let Some(stands) = state.claims.standing_mut(id.number) {
            stands.nodes.truncate(1);
        }
        let (looks, ended) = state.step(name, |line| line.rule.changed(id.number));
        ended.end(state);
        looks.unwrap_or(false)
    }

    /// The claim was seen to have its turn, at this node. Returns whether that is news. None: it no longer stands
    /// there, or is not known to stand anywhere yet, so this view of it does not count.
    pub(crate) fn hold(&self, name: &Name, id: ClaimId, node: &str) -> Option<bool> {
        let mut state = self.state();
        let place = place(node)?;
        let (is_there, ended) = state.step(name, |line| line.rule.holds(id.number, place));
        let stands = state.claims.standing_mut(id.number).filter(|_| is_there == Some(true));
        let is_news = stands.map(|stands| !std::mem::replace(&mut stands.is_held, true));
        ended.end(state);
        is_news
    }

    /// The claim has its turn where it stands: the line was empty when it came.
    pub(crate) fn holds_alone(&self, name: &Name, id: ClaimId) {
        let mut state = self.state();
        if let Some(stands) = state.claims.standing_mut(id.number) {
            stands.is_held = true;
        }
        let (_, ended) = state.step(name, |line| line.rule.waits_no_more(id.number));
        ended.end(state);
    }

    /// The claim was refused and certainly has no node. Its leave, which follows, need not search for one.
    pub(crate) fn nowhere(&self, name: &Name, id: ClaimId) {
        let mut state = self.state();
        state.claims.comes_to(id.number, Stage::Nowhere);
        let (_, ended) = state.step(name, |line| line.rule.waits_no_more(id.number));
        ended.end(state);
    }

    /// The claim could not wait, and it was not its turn. It has no node, and no leave follows.
    pub(crate) fn refuse(&self, name: &Name, id: ClaimId) {
        let mut state = self.state();
        state.claims.forget(id.number);
        let (_, ended) = state.step(name, |line| line.rule.left(id.number));
        ended.end(state);
    }

    pub(crate) fn stage(&self, id: ClaimId) -> Option<Stage> {
        self.state().claims.stage(id.number).cloned()
    }

    /// The token of a claim, if it was seen to have its turn at this node.
    pub(crate) fn held(&self, id: ClaimId, node: &str) -> Option<Token> {
        let state = self.state();
        let stands = state.claims.standing(id.number).filter(|stands| stands.is_held);
        stands.filter(|stands| stands.is_at(node)).map(|stands| stands.token)
    }

    /// Whether the claim stands at another node than this one. Then what was seen at this node is out of date.
    pub(crate) fn stands_elsewhere(&self, id: ClaimId, node: &str) -> bool {
        self.state().claims.standing(id.number).is_some_and(|stands| !stands.is_at(node))
    }

    /// The token that a claim has, or will have.
    pub(crate) fn token(&self, id: ClaimId) -> Option<Token> {
        self.state().claims.standing(id.number).map(|stands| stands.token)
    }

    /// The claim is leaving: nothing is watched for it any more. Returns its stage.
    pub(crate) fn leaves(&self, name: &Name, id: ClaimId) -> Option<Stage> {
        let mut state = self.state();
        let stage = state.claims.stage(id.number).cloned();
        if let Some(line) = state.lines.get_mut(name) {
            line.rule.waits_no_more(id.number);
        }
        stage
    }

    /// No join of this claim takes effect from now on. The claim is remembered for `memory`.
    pub(crate) fn make_void(&self, id: ClaimId, now: Moment, memory: Duration) {
        self.state().void.add(id.number, now, memory);
    }

    /// A claim has left and is forgotten. Another of our claims may have waited for it or relied on it: `watch` is
    /// called with what to watch now.
    pub(crate) fn left(
        &self,
        name: &Name,
        id: ClaimId,
        watch: impl FnOnce(u64, Target) -> AbortOnDrop,
    ) -> Behind {
        let mut state = self.state();
        let (behind, ended) = state.forget(name, id, watch);
        ended.end(state);
        behind
    }

    /// Watches the capacity of a line in which a claim of ours waits, unless it is watched already.
    pub(crate) fn watch_capacity(&self, name: &Name, watch: impl FnOnce() -> AbortOnDrop) {
        let mut state = self.state();
        let line = state.lines.get_mut(name);
        if let Some(line) = line.filter(|line| line.capacity.is_none() && line.rule.is_waited_in()) {
            line.capacity = Some(watch());
        }
    }

    /// The watch with this number, on another client's node, is set, and the node had been written to `touches` times.
    /// False: that is news.
    pub(crate) fn is_set(&self, name: &Name, serial: u64, touches: i32) -> bool {
        let mut state = self.state();
        let touches = u64::from(touches.unsigned_abs());
        let (is_known, ended) = state.step(name, |line| line.rule.is_set(serial, touches));
        ended.end(state);
        is_known.unwrap_or(true)
    }

    /// This watch has ended.
    pub(crate) fn watched(&self, name: &Name, serial: u64) {
        let mut state = self.state();
        let (_, ended) = state.step(name, |line| line.rule.fired(serial));
        ended.end(state);
    }

    /// The watch of the capacity has ended.
    pub(crate) fn watched_capacity(&self, name: &Name) {
        let ended = self.state().lines.get_mut(name).and_then(|line| line.capacity.take());
        drop(ended);
    }

    /// The session is over: nothing is watched any more.
    pub(crate) fn close(&self) {
        let lines = std::mem::take(&mut self.state().lines);
        drop(lines);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tasks that are not needed after a step.
struct Unneeded(Option<Ended>);

impl Unneeded {
    /// Drops the tasks after the lock is released.
    fn end(self, state: MutexGuard<'_, State>) {
        drop(state);
        drop(self.0);
    }
}

impl State {
    /// Takes one step in a line. Also returns the watches that are not needed after it.
    fn step<T>(&mut self, name: &Name, step: impl FnOnce(&mut OwnLine) -> T) -> (Option<T>, Unneeded) {
        let Some(line) = self.lines.get_mut(name) else { return (None, Unneeded(None)) };
        let result = step(line);
        let ended = line.ended();
        if line.rule.is_empty() {
            self.stamp = self.stamp.max(line.rule.stamp());
            self.lines.remove(name);
        }
        (Some(result), Unneeded(Some(ended)))
    }

    fn turn(
        &mut self,
        name: &Name,
        number: u64,
        node: &str,
        watch: impl FnOnce(u64, Target) -> AbortOnDrop,
    ) -> Option<Turn> {
        let Self { claims, lines, .. } = self;
        let line = lines.get_mut(name).filter(|line| line.rule.is_waiting(number))?;
        let stands = claims.standing_mut(number)?;
        if !line.rule.holds(number, place(node)?) {
            return None;
        }
        stands.is_held = true;
        let token = stands.token;
        let behind = line.turn(number, watch);
        Some(Turn { token, behind })
    }

    fn forget(
        &mut self,
        name: &Name,
        id: ClaimId,
        watch: impl FnOnce(u64, Target) -> AbortOnDrop,
    ) -> (Behind, Unneeded) {
        if id.session != self.session {
            return (Behind::Watched, Unneeded(None));
        }
        self.claims.forget(id.number);
        let (behind, ended) = self.step(name, |line| line.left(id.number, watch));
        (behind.unwrap_or(Behind::Watched), ended)
    }
}

/// A node's place in its line.
fn place(node: &str) -> Option<u64> {
    Node::parse(node).map(|node| u64::from(node.sequence.cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listing::Listing;

    fn id(number: u64) -> ClaimId {
        ClaimId { session: SessionId::from_bits(1), number }
    }

    fn name() -> Name {
        Name::new("n").unwrap()
    }

    #[test]
    fn a_claim_that_left_while_its_join_was_under_way_is_not_entered_again() {
        let own_claims = OwnClaims::of(SessionId::from_bits(1));
        assert_eq!(own_claims.begin(&name(), id(1), 60), JoinStart::New);
        assert_eq!(own_claims.begin(&name(), id(1), 60), JoinStart::Asked);
        own_claims.left(&name(), id(1), |_, _| unreachable!());
        own_claims.stands(&name(), id(1), vec![], Token::from_order(1).unwrap());
        assert_eq!(own_claims.stage(id(1)), None);
        assert!(own_claims.state().lines.is_empty());
    }

    #[test]
    fn a_claim_has_no_turn_from_a_place_that_it_has_left() {
        let (own_claims, token) = (OwnClaims::of(SessionId::from_bits(1)), Token::from_order(1).unwrap());
        let node = |sequence: u32| format!("s-0000000000000001-1-1-3-{sequence:010}");
        own_claims.begin(&name(), id(1), 60);
        assert_eq!(
            own_claims.hold(&name(), id(1), &node(5)),
            None,
            "its place is known from the reply to its join"
        );
        own_claims.stands(&name(), id(1), vec![node(5)], token);
        let stood = own_claims.stands_anew(&name(), id(1)).unwrap();
        assert_eq!(own_claims.hold(&name(), id(1), &node(5)), None, "it is moving");
        own_claims.stands(&name(), id(1), vec![node(9)], token);
        assert_eq!(own_claims.hold(&name(), id(1), &stood.nodes[0]), None);
        assert!(own_claims.turn(&name(), 1, &node(5), |_, _| unreachable!()).is_none());
        assert!(
            own_claims.stands_elsewhere(id(1), &node(5)) && !own_claims.stands_elsewhere(id(1), &node(9))
        );
        assert_eq!(own_claims.hold(&name(), id(1), &node(9)), Some(true));
        assert_eq!(own_claims.hold(&name(), id(1), &node(9)), Some(false));
        assert_eq!((own_claims.held(id(1), &node(5)), own_claims.held(id(1), &node(9))), (None, Some(token)));
    }

    /// A mutex's line: for each claim its session, number and sequence.
    fn seen(claims: &[(u64, u64, u32)]) -> LineView {
        let nodes = claims.iter().map(|(session, number, at)| mutex(*session, *number, *at)).collect();
        let listing = Listing::of_children(nodes, 1);
        let line = listing.line(None, |_| None);
        LineView { listing, resized: None, line }
    }

    fn mutex(session: u64, number: u64, at: u32) -> String {
        format!("m-{session:016x}-{number}-1-1-{at:010}")
    }

    /// A task that watches nothing, because there is no server.
    fn unwatched(_: u64, _: Target) -> AbortOnDrop {
        static RUNTIME: std::sync::LazyLock<tokio::runtime::Runtime> =
            std::sync::LazyLock::new(|| tokio::runtime::Runtime::new().unwrap());
        AbortOnDrop(RUNTIME.spawn(std::future::pending::<()>()).abort_handle())
    }

    #[test]
    fn a_leave_hands_nothing_on_to_a_claim_that_stood_behind_it_and_came_again_elsewhere() {
        for comes_again in [false, true] {
            let (own_claims, token) = (OwnClaims::of(SessionId::from_bits(1)), Token::from_order(1).unwrap());
            own_claims.begin(&name(), id(1), 60);
            own_claims.stands(&name(), id(1), vec![mutex(1, 1, 6)], token);
            own_claims.begin(&name(), id(2), 60);
            assert_eq!(
                own_claims.saw(&name(), &seen(&[(2, 1, 5), (1, 1, 6), (1, 2, 7)]), unwatched),
                Behind::Watched
            );
            if comes_again {
                own_claims.comes_again(&name(), id(2));
            }
            // Other clients came in between.
            let at = if comes_again { 9 } else { 7 };
            own_claims.stands(&name(), id(2), vec![mutex(1, 2, at)], token);
            assert!(own_claims.turn(&name(), 1, &mutex(1, 1, 6), unwatched).is_some());
            own_claims.leaves(&name(), id(1));
            assert_eq!(own_claims.next(&name(), id(1)).is_none(), comes_again);
        }
    }

    #[test]
    fn a_list_serves_waiters_although_claims_ahead_have_left_since_it_was_sent() {
        let (own_claims, token) = (OwnClaims::of(SessionId::from_bits(1)), Token::from_order(1).unwrap());
        let shown = seen(&[(1, 1, 5), (1, 2, 6), (1, 3, 7), (1, 4, 8)]);
        for number in 1..=4 {
            own_claims.begin(&name(), id(number), 60);
            own_claims.stands(&name(), id(number), vec![mutex(1, number, number as u32 + 4)], token);
        }
        assert_eq!(own_claims.left(&name(), id(1), unwatched), Behind::Watched);
        assert_eq!(own_claims.saw(&name(), &shown, unwatched), Behind::Unknown, "it may be the turn of 2");
        let ahead = own_claims.ahead(&name()).unwrap();
        assert_eq!((ahead.number, ahead.nodes.len()), (2, 0));
        assert_eq!(own_claims.turn(&name(), 2, &ahead.node, unwatched).unwrap().behind, Behind::Watched);
        own_claims.leaves(&name(), id(2));
        assert_eq!(own_claims.next(&name(), id(2)).map(|next| next.number), Some(3));
        assert_eq!(own_claims.left(&name(), id(3), unwatched), Behind::Watched, "4 waits for 2, as 3 did");
        assert_eq!(own_claims.next(&name(), id(2)).map(|next| next.number), Some(4));
    }

    #[test]
    fn a_try_that_was_refused_leaves_nothing_behind() {
        let own_claims = OwnClaims::of(SessionId::from_bits(1));
        for number in 0..100 {
            own_claims.begin(&name(), id(number), 60);
            own_claims.refuse(&name(), id(number));
        }
        assert!(own_claims.state().claims.is_empty() && own_claims.state().lines.is_empty());
    }
}
