//! What a waiter waits for: one thing, so that a departure wakes few.
//!
//! A claim ahead is a *blocker* when its weight and mine exceed the capacity: while it stays I cannot be held.
//!
//! - With a blocker, watch the last one alone. That is the predecessor in a mutex's line, the writer in front for a
//!   reader, the last reader in front for a writer.
//! - Without one (only a semaphore's crowd is like that), watch the waiter in front: while it waits, so must I. When
//!   it becomes held it touches its own claim, if [`touches`] says that someone relies on it.
//! - The first waiter watches the line.
//! - A claim that came before the capacity last became smaller may be held although it does not fit: then it will
//!   not touch its claim again. With such a one in front, watch the line.
//!
//! A claim that is watched stirs when it leaves, when it is lightened and when it is touched; a line stirs when
//! anyone in it leaves or is lightened. A change of capacity stirs everyone who waits. Whoever is stirred looks again
//! and asks anew what to watch; so does whoever lightens a claim of its own that still waits.

use crate::{Claim, ClaimId, Kind, Line, Place, place};

/// The one thing worth waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Watch {
    /// This claim: until it leaves, is lightened or is touched.
    Claim(ClaimId),
    /// The line: until anyone in it leaves or is lightened.
    Line,
}

/// What `me` should watch; `None` unless it [waits](Place::Waiting).
///
/// ```
/// use tidelock_model::{Claim, ClaimId, Kind, Line, SessionId, Watch, Weight, watch};
///
/// let id = |number| ClaimId { session: SessionId::from_bits(7), number };
/// let mut line = Line::new(Kind::Mutex, Weight::ONE);
/// for number in 1..=3 {
///     line.claims.push(Claim { id: id(number), weight: Weight::ONE, order: number, token: None });
/// }
/// assert_eq!(watch(&line, id(1)), None); // it holds
/// assert_eq!(watch(&line, id(2)), Some(Watch::Claim(id(1))));
/// assert_eq!(watch(&line, id(3)), Some(Watch::Claim(id(2))));
/// ```
#[must_use]
pub fn watch(line: &Line, me: ClaimId) -> Option<Watch> {
    if place(line, me) != Place::Waiting {
        return None;
    }
    let position = line.position(me)?;
    if let Some(blocker) = blocker(line, position) {
        return Some(Watch::Claim(blocker.id));
    }
    match line.claims[..position].last() {
        Some(front) if surely_waits(line, front) => Some(Watch::Claim(front.id)),
        _ => Some(Watch::Line),
    }
}

/// Whether `me`, who waited and just found itself held, must touch its claim: the one behind may be watching it.
///
/// Never for a mutex or a read-write lock, where every waiter has a blocker.
#[must_use]
pub fn touches(line: &Line, me: ClaimId) -> bool {
    let behind = line.position(me).map_or(line.claims.len(), |position| position + 1);
    line.kind == Kind::Semaphore && behind < line.claims.len() && blocker(line, behind).is_none()
}

/// The last claim ahead of this position that must go before the one there can be held.
fn blocker(line: &Line, position: usize) -> Option<&Claim> {
    let (ahead, from_me) = line.claims.split_at(position);
    let mine = from_me.first()?.weight;
    let mut blockers = ahead.iter().filter(|claim| claim.weight.get() + mine.get() > line.capacity.get());
    if cfg!(tidelock_fault = "watch_first_blocker") { blockers.next() } else { blockers.next_back() }
}

/// Whether this claim can be trusted to touch itself when it becomes held: it waits, and never was held before.
fn surely_waits(line: &Line, claim: &Claim) -> bool {
    let before_shrink = line.shrunk_at.is_some_and(|shrunk_at| claim.order < shrunk_at);
    let may_be_held = before_shrink && !cfg!(tidelock_fault = "watch_ignores_shrunk");
    place(line, claim.id) == Place::Waiting && !may_be_held
}
