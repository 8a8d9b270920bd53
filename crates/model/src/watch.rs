//! What a waiter watches: one thing, so a departure wakes few clients.
//!
//! A claim ahead is a *blocker* if its weight and mine together exceed the capacity, or if it is of another type.
//! While it stands there, I cannot be held.
//!
//! - With blockers, watch the last one only. In a mutex's line that is the predecessor; for a reader, the writer in
//!   front; for a writer, the last reader in front.
//! - Without one (only possible with a semaphore), watch the waiter in front: while it waits, so must I. When it
//!   becomes held, it touches its own claim if [`touches`] says that another claim relies on it.
//! - The first waiter watches the line.
//! - A claim that came before the last change of capacity may be held although it does not fit, or although another
//!   size stands ahead. Then it will not touch its claim again. With such a claim in front, watch the line.
//!
//! A watch on a claim fires when that claim leaves, is lightened or is touched. A watch on the line fires when any
//! claim in it leaves or is lightened. A change of capacity fires every watch. A client whose watch fired looks again
//! and chooses a new watch. So does a client that lightens a waiting claim of its own.
//!
//! A claim behind a waiting claim of the same client needs no watch: it cannot be held before that one, and the
//! client always looks for all of its claims.

use crate::{ClaimId, Kind, Place, ShownClaim, ShownLine, place};

/// The one thing worth waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Watch {
    /// This claim: until it leaves, is lightened or is touched.
    Claim(ClaimId),
    /// The line: until any claim in it leaves or is lightened.
    Line,
}

/// What `me` should watch; `None` unless its place is [`Waiting`](Place::Waiting) or
/// [`AnotherKind`](Place::AnotherKind).
///
/// ```
/// use tidelock_model::{ClaimId, Kind, SessionId, ShownClaim, ShownLine, Watch, Weight, watch};
///
/// let id = |number| ClaimId { session: SessionId::from_bits(7), number };
/// let mut line = ShownLine::default();
/// for number in 1..=3 {
///     let (kind, weight, declared) = (Kind::Mutex, Weight::ONE, Weight::ONE);
///     line.claims.push(ShownClaim { id: id(number), kind, weight, declared, order: number, token: None });
/// }
/// assert_eq!(watch(&line, id(1)), None); // it holds
/// assert_eq!(watch(&line, id(2)), Some(Watch::Claim(id(1))));
/// assert_eq!(watch(&line, id(3)), Some(Watch::Claim(id(2))));
/// ```
#[must_use]
pub fn watch(line: &ShownLine, me: ClaimId) -> Option<Watch> {
    if !matches!(place(line, me), Place::Waiting | Place::AnotherKind(_)) {
        return None;
    }
    let position = line.position(me)?;
    if is_any_in_doubt(line, position) {
        return Some(Watch::Line);
    }
    if let Some(blocker) = blocker(line, position) {
        return Some(Watch::Claim(blocker.id));
    }
    match line.claims[..position].last() {
        Some(front) if surely_waits(line, front) => Some(Watch::Claim(front.id)),
        _ => Some(Watch::Line),
    }
}

/// Whether `me`, which has just found itself held, must touch its claim: the claim behind may be watching it.
///
/// Never for a mutex or a read-write lock, where every waiter has a blocker. Permits of another size right behind
/// learn from the touch that the line is of this size now.
#[must_use]
pub fn touches(line: &ShownLine, me: ClaimId) -> bool {
    let Some(position) = line.position(me) else { return false };
    let (mine, Some(behind)) = (&line.claims[position], line.claims.get(position + 1)) else { return false };
    let is_of_another_size =
        line.type_of(behind) != line.type_of(mine) && !seeded!("nobody_tells_another_size");
    mine.kind == Kind::Semaphore
        && behind.kind == Kind::Semaphore
        && (is_of_another_size || blocker(line, position + 1).is_none())
}

/// The last blocker of the claim at this position.
fn blocker(line: &ShownLine, position: usize) -> Option<&ShownClaim> {
    let (ahead, from_me) = line.claims.split_at(position);
    let mine = from_me.first()?;
    let (my_type, size) = (line.type_of(mine), line.size(mine));
    let is_blocker = |claim: &&ShownClaim| {
        line.type_of(claim) != my_type || claim.weight.get() + mine.weight.get() > size.get()
    };
    let mut blockers = ahead.iter().filter(is_blocker);
    if seeded!("watch_first_blocker") { blockers.next() } else { blockers.next_back() }
}

/// Whether permits of two sizes stand up to this position, some of them changed by a resize: any of them may be held.
fn is_any_in_doubt(line: &ShownLine, position: usize) -> bool {
    let up_to_me = &line.claims[..=position];
    let is_changed = |claim: &ShownClaim| line.resized.is_some_and(|resized| claim.order < resized.before);
    let permits = || up_to_me.iter().filter(|claim| claim.kind == Kind::Semaphore);
    let mut sizes = permits().map(|claim| line.size(claim));
    let first = sizes.next();
    sizes.any(|size| Some(size) != first) && permits().any(is_changed) && !seeded!("watch_ignores_two_sizes")
}

/// Whether this claim will touch itself when it becomes held: it waits, and was never held before.
fn surely_waits(line: &ShownLine, claim: &ShownClaim) -> bool {
    let is_older = line.resized.is_some_and(|resized| claim.order < resized.before);
    let may_be_held = is_older && !seeded!("watch_ignores_shrunk");
    place(line, claim.id) == Place::Waiting && !may_be_held
}
