//! Reads the answer to a packet: what became of each request, and what else it tells.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tidelock_core::backend::{Grant, Left, Moment, Patience, Place};
use tidelock_core::{ClaimId, Error, ErrorKind, Kind, Name, Result, SessionId, Token, Weight};

use crate::link::{Answer, Row};
use crate::packet::{MOST, Packet, Section, claim, weight};
use crate::request::{Action, Outcome};
use crate::sql::{self, Namespace};
use crate::waiters;

/// Where a user's transaction notes that it has a claim, and the stamp there as long as it is not committed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) slot: u64,
    pub(crate) mark: u64,
    /// The server that has noted it: a transaction on a copy of it excludes nobody.
    pub(crate) server: u64,
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Fate {
    Over(Result<Outcome>),
    /// The name is not of the usual kind: it has to be sent again, as a section.
    NeedsSection,
    /// The claim stands in line already: a look tells where.
    Stands,
    /// It was refused because of a holder that is dead. If that one cannot be taken out, this is the outcome.
    MeetsDead(Result<Outcome>),
}

/// Where the claims of a name are that has, or had, more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Busy {
    /// A mutex: in the row of its line.
    InRow,
    /// In rows of their own, and it is of this kind.
    InRows(Kind),
}

/// The end of a section.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) name: Name,
    pub(crate) busy: Option<Busy>,
    /// Whether a holder is dead, or nobody holds although claims wait: somebody has to look after the line.
    pub(crate) needs_look: bool,
    /// Whether as many claims were granted as can be at once, and others wait.
    pub(crate) has_more: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Fates {
    /// By the place of the request in the batch.
    pub(crate) fates: HashMap<usize, Fate>,
    /// Claims of the caller that other requests have let in.
    pub(crate) granted: Vec<(ClaimId, Grant)>,
    pub(crate) ends: Vec<End>,
    /// Requests whose claims hold in rows of their own, their numbers, and their slots.
    pub(crate) slots: Vec<(usize, u64, Slot)>,
    /// Leaves after which nobody has a claim on their names.
    pub(crate) freed: Vec<usize>,
    /// How often the caller's bell had rung when its claims stood in line.
    pub(crate) rung: u64,
}

/// What is needed to read an answer.
pub(crate) struct Reader<'a> {
    pub(crate) session: SessionId,
    pub(crate) namespace: &'a Namespace,
    pub(crate) ttl: Duration,
    /// Until when the caller's session surely lives.
    pub(crate) until: Moment,
}

impl Reader<'_> {
    pub(crate) fn read(&self, packet: &Packet, requests: &[(Name, Action)], answer: &Answer) -> Fates {
        let rings = answer.rows.iter().find(|row| row.tag() == b'R');
        let mut fates = Fates { rung: rings.map_or(0, |row| row.number(1)), ..Fates::default() };
        if packet.takes_again {
            fates.fates.insert(0, self.taken_again(requests, answer));
            return fates;
        }
        Self::leaves(packet, requests, answer, &mut fates);
        self.passes(packet, requests, answer, &mut fates);
        self.hands(packet, requests, answer, &mut fates);
        self.joins(packet, requests, answer, &mut fates);
        self.behind(packet, requests, answer, &mut fates);
        self.in_rows(packet, requests, answer, &mut fates);
        let mut sections = packet.sections.iter();
        let mut rows = Vec::new();
        let is_behind = !packet.behind.is_empty();
        for row in answer.rows.iter().filter(|row| b"lwrgjke".contains(&row.tag())) {
            if is_behind && row.tag() == b'k' && row.0.len() > 3 {
                continue;
            }
            rows.push(row);
            if row.tag() == b'e' {
                let read = std::mem::take(&mut rows);
                if let Some(section) = sections.next() {
                    self.section(section, requests, &read, &mut fates);
                }
            }
        }
        fates
    }

    fn taken_again(&self, requests: &[(Name, Action)], answer: &Answer) -> Fate {
        match requests {
            [(_, Action::Join { claim, .. })] if answer.affected == [1] => {
                self.held(answer.number, Some(claim.capacity))
            }
            _ => Fate::NeedsSection,
        }
    }

    fn held(&self, token: u64, capacity: Option<Weight>) -> Fate {
        let outcome = match (Token::from_order(token), capacity) {
            (Some(token), Some(capacity)) => {
                let grant = Grant { token, capacity };
                Ok(Outcome::Joined(Place::Held { grant, until: self.until }))
            }
            _ => Err(too_far()),
        };
        Fate::Over(outcome)
    }

    fn leaves(packet: &Packet, requests: &[(Name, Action)], answer: &Answer, fates: &mut Fates) {
        let changed = answer.affected.get(packet.leaves_at).copied().unwrap_or_default();
        let have_all = changed == packet.leaves.len() as u64;
        let left: Vec<u64> =
            answer.rows.iter().filter(|row| row.tag() == b'f').map(|row| row.number(1)).collect();
        for at in &packet.leaves {
            let Action::Leave { id, .. } = &requests[*at].1 else { continue };
            let has_left = have_all || left.contains(&id.number);
            let fate = if has_left { Fate::Over(Ok(Outcome::Left(Left::Held))) } else { Fate::NeedsSection };
            // Otherwise a join of the same batch may have it by now.
            if has_left && !packet.has_join_of(&requests[*at].0, requests) {
                fates.freed.push(*at);
            }
            fates.fates.insert(*at, fate);
        }
    }

    /// `'p', name` for each mutex whose claims are in rows; `'m', number, state`; `'h', session, number, token`;
    /// `'q', name, kind, spilled, whether somebody has to look`, and of a single name, instead of `'p'`, whether it is one
    fn passes(&self, packet: &Packet, requests: &[(Name, Action)], answer: &Answer, fates: &mut Fates) {
        if packet.passes.is_empty() {
            return;
        }
        let tagged = |tag: u8| answer.rows.iter().filter(move |row| row.tag() == tag);
        let left: HashMap<u64, u64> = tagged(b'm').map(|row| (row.number(1), row.number(2))).collect();
        let is_one = |row: &&Row| row.tag() == b'p' || row.tag() == b'q' && row.0.len() > 5 && row.is(5);
        let in_rows = answer.rows.iter().filter(is_one);
        let in_rows: HashSet<Name> = in_rows.filter_map(|row| self.namespace.name(row.bytes(1))).collect();
        for at in &packet.passes {
            let (name, Action::Leave { id, .. }) = &requests[*at] else { continue };
            let fate = match left.get(&id.number) {
                Some(0) => Fate::Over(Ok(Outcome::Left(Left::Held))),
                Some(1) => Fate::Over(Ok(Outcome::Left(Left::Waiting))),
                Some(_) => Fate::Over(Ok(Outcome::Left(Left::Absent))),
                None if in_rows.contains(name) => Fate::Over(Ok(Outcome::Left(Left::Absent))),
                None => Fate::NeedsSection,
            };
            fates.fates.insert(*at, fate);
        }
        for row in tagged(b'h').filter(|row| row.number(1) == self.session.get()) {
            if let Some(token) = Token::from_order(row.number(3)) {
                let id = ClaimId { session: self.session, number: row.number(2) };
                fates.granted.push((id, Grant { token, capacity: Weight::ONE }));
            }
        }
        for row in tagged(b'q') {
            let Some(name) = self.namespace.name(row.bytes(1)) else { continue };
            let is_other_kind = row.is(3) && !in_rows.contains(&name);
            let busy = sql::kind_of(row.number(2)).filter(|_| row.is(3)).map(Busy::InRows);
            fates.ends.push(End { name, busy, needs_look: row.is(4) || is_other_kind, has_more: false });
        }
    }

    /// `'k', number, state, now, when the first holder dies, name`
    fn behind(&self, packet: &Packet, requests: &[(Name, Action)], answer: &Answer, fates: &mut Fates) {
        let rows = answer.rows.iter().filter(|row| row.tag() == b'k' && row.0.len() > 3);
        let rows: HashMap<u64, &Row> = rows.map(|row| (row.number(1), row)).collect();
        for at in &packet.behind {
            let (name, Action::Join { claim, .. }) = &requests[*at] else { continue };
            let Some(row) = rows.get(&claim.id.number) else {
                fates.fates.entry(*at).or_insert(Fate::NeedsSection);
                continue;
            };
            let (now, ends) = (row.number(3), (!row.is_null(4)).then(|| row.number(4)));
            fates.fates.insert(*at, self.queued(row, look_in(now, ends, self.ttl)));
            let needs_look = ends.is_none_or(|ends| ends <= now);
            let busy = Some(Busy::InRows(Kind::Mutex));
            fates.ends.push(End { name: name.clone(), busy, needs_look, has_more: false });
        }
    }

    /// `'a', name, session, number, token` of who holds now, behind the answers that tell what has left. If there are joins
    /// of that name, their rows begin in the same way, unless its claims are in rows.
    fn hands(&self, packet: &Packet, requests: &[(Name, Action)], answer: &Answer, fates: &mut Fates) {
        if packet.hands.is_empty() {
            return;
        }
        let now: HashMap<Name, &Row> = answer
            .rows
            .iter()
            .filter(|row| row.tag() == b'a' || row.tag() == b'n' && !row.is(7))
            .filter_map(|row| Some((self.namespace.name(row.bytes(1))?, row)))
            .filter(|(name, _)| packet.hands.iter().any(|hand| requests[hand.request].0 == *name))
            .collect();
        let handed = Self::left_by_hand(packet, requests, answer, &now, fates);
        self.handed_on(packet, requests, now, &handed, fates);
    }

    /// Whether each has left, and as what. Returns the names that were handed on.
    fn left_by_hand<'a>(
        packet: &Packet,
        requests: &'a [(Name, Action)],
        answer: &Answer,
        now: &HashMap<Name, &Row>,
        fates: &mut Fates,
    ) -> HashSet<&'a Name> {
        let changed = |at: usize| answer.affected.get(at) == Some(&1);
        let mut handed = HashSet::new();
        for hand in &packet.hands {
            let (name, Action::Leave { id, .. }) = &requests[hand.request] else { continue };
            if changed(hand.held_at) || !hand.waited_at.is_some_and(changed) {
                handed.insert(name); // or it was before, and the answer was lost
            }
            let left = match hand.waited_at {
                _ if changed(hand.held_at) => Left::Held,
                Some(waited_at) if changed(waited_at) => Left::Waiting,
                // It left from among rows of claims.
                Some(_) if matches!(fates.fates.get(&hand.request), Some(Fate::Over(_))) => continue,
                // It is neither among the waiters of the row, nor the holder whose next one is dead.
                Some(_) if now.get(name).is_some_and(|row| only_holder(row) != Some(*id)) => Left::Absent,
                _ => {
                    fates.fates.entry(hand.request).or_insert(Fate::NeedsSection);
                    continue;
                }
            };
            fates.fates.insert(hand.request, Fate::Over(Ok(Outcome::Left(left))));
        }
        handed
    }

    /// Who holds the lines now from which a claim has left: one of the caller's own is told.
    fn handed_on(
        &self,
        packet: &Packet,
        requests: &[(Name, Action)],
        now: HashMap<Name, &Row>,
        handed: &HashSet<&Name>,
        fates: &mut Fates,
    ) {
        for (name, row) in now {
            let Some(id) = only_holder(row) else {
                let mut hands = packet.hands.iter().map(|hand| hand.request);
                let is_free = !packet.has_join_of(&name, requests);
                fates.freed.extend(hands.find(|at| is_free && requests[*at].0 == name));
                continue;
            };
            if packet.joins.iter().any(|at| claim(&requests[*at].1).is_some_and(|claim| claim.id == id)) {
                continue; // it was free, and the join is told
            }
            if id.session == self.session
                && handed.contains(&name)
                && !packet.hands.iter().any(|hand| is_of(&requests[hand.request].1, id))
                && let Some(token) = Token::from_order(row.number(4))
            {
                fates.granted.push((id, Grant { token, capacity: Weight::ONE }));
            }
            fates.ends.push(End { name, busy: Some(Busy::InRow), needs_look: false, has_more: false });
        }
    }

    /// `'i', number, token, slot, mark, server`
    fn in_rows(&self, packet: &Packet, requests: &[(Name, Action)], answer: &Answer, fates: &mut Fates) {
        for at in &packet.in_rows {
            let Action::Join { claim, .. } = &requests[*at].1 else { continue };
            let is_it = |row: &&Row| row.tag() == b'i' && row.number(1) == claim.id.number;
            let Some(row) = answer.rows.iter().find(is_it) else {
                // It holds in the row of its line, since before, and needs one of its own.
                if let Some(Fate::Over(Ok(Outcome::Joined(Place::Held { .. })))) = fates.fates.get(at) {
                    fates.fates.insert(*at, Fate::NeedsSection);
                }
                continue;
            };
            fates.fates.insert(*at, self.held(row.number(2), Some(claim.capacity)));
            let slot = Slot { slot: row.number(3), mark: row.number(4), server: row.number(5) };
            fates.slots.push((*at, claim.id.number, slot));
        }
    }

    fn joins(&self, packet: &Packet, requests: &[(Name, Action)], answer: &Answer, fates: &mut Fates) {
        let mut lines: HashMap<Name, Vec<&Row>> = HashMap::new();
        for row in answer.rows.iter().filter(|row| row.tag() == b'n') {
            if let Some(name) = self.namespace.name(row.bytes(1)) {
                lines.entry(name).or_default().push(row);
            }
        }
        // A crowd stands in one row, which is read once.
        let waiting: HashMap<ClaimId, &Row> = lines
            .values()
            .flatten()
            .flat_map(|row| waiters::read(row.bytes(10)).map(move |(id, _)| (id, *row)))
            .collect();
        for at in &packet.joins {
            let (name, action) = &requests[*at];
            let Some((rows, claim)) = lines.get(name).zip(claim(action)) else {
                fates.fates.insert(*at, Fate::NeedsSection);
                continue;
            };
            let fate = match waiting.get(&claim.id) {
                Some(row) => {
                    let needs_look = row.number(9) <= row.number(8);
                    let busy = Some(Busy::InRow);
                    fates.ends.push(End { name: name.clone(), busy, needs_look, has_more: false });
                    let look_in = look_in(row.number(8), Some(row.number(9)), self.ttl);
                    Fate::Over(Ok(Outcome::Joined(Place::Waiting { until: self.until, look_in })))
                }
                None => {
                    let row = rows.iter().find(|row| only_holder(row) == Some(claim.id)).or(rows.last());
                    row.map_or(Fate::NeedsSection, |row| self.joined(row, action))
                }
            };
            fates.fates.insert(*at, fate);
        }
    }

    /// `'n', name, session, number, token, kind, capacity, spilled, now, until when the holder lives, waiters`
    fn joined(&self, row: &Row, action: &Action) -> Fate {
        let Action::Join { claim, patience, .. } = action else { return Fate::NeedsSection };
        let lives = row.number(9) > row.number(8);
        let holder = only_holder(row);
        if holder == Some(claim.id) {
            if !lives {
                return Fate::Over(Err(Error::session_over()));
            }
            return self.held(row.number(4), weight(row.number(6)));
        }
        // A mutex with a holder that lives.
        let is_mutex = claim.kind == Kind::Mutex && sql::kind_of(row.number(5)) == Some(Kind::Mutex);
        let is_taken = is_mutex && holder.is_some() && lives;
        match is_taken && *patience == Patience::Now {
            true => Fate::Over(Ok(Outcome::Joined(Place::Refused))),
            false => Fate::NeedsSection,
        }
    }

    fn section(&self, section: &Section, requests: &[(Name, Action)], rows: &[&Row], fates: &mut Fates) {
        let Some(end) = rows.last() else { return };
        let (now, soonest) = (end.number(1), end.number(5));
        let has_dead = end.is(4) && soonest <= now;
        let nobody_holds = !end.is(4) && end.is(6);
        let look_in = look_in(now, end.is(4).then_some(soonest), self.ttl);
        for at in &section.requests {
            let action = &requests[*at].1;
            let fate = match action {
                Action::Join { claim, .. } => {
                    let row = rows
                        .iter()
                        .find(|row| b"jk".contains(&row.tag()) && row.number(1) == claim.id.number);
                    match row {
                        Some(row) if row.tag() == b'k' => self.queued(row, look_in),
                        Some(row) => self.outcome(row, look_in, has_dead || nobody_holds),
                        None => left_undone(end, rows, has_dead || nobody_holds),
                    }
                }
                Action::Leave { id, .. } => Fate::Over(left(rows, *id).map(Outcome::Left)),
                Action::Lighten { id, weight } => Fate::Over(lightened(rows, *id, weight.get().into())),
                Action::Resize { from, .. } => Fate::Over(resized(rows, from.get().into())),
                Action::Bury(_) => Fate::Over(Ok(Outcome::Done)),
            };
            fates.fates.insert(*at, fate);
        }
        for row in rows.iter().filter(|row| row.tag() == b'g' && row.number(1) == self.session.get()) {
            if let (Some(token), Some(capacity)) = (Token::from_order(row.number(3)), weight(end.number(3))) {
                let id = ClaimId { session: self.session, number: row.number(2) };
                fates.granted.push((id, Grant { token, capacity }));
            }
        }
        let kind = sql::kind_of(end.number(2));
        let is_other_kind = section.is_for_mutex && kind != Some(Kind::Mutex);
        let has_dead_waiters = has_passed_waiters(rows);
        fates.ends.push(End {
            name: section.name.clone(),
            busy: kind.filter(|_| end.is(7)).map(Busy::InRows),
            needs_look: end.is(6) && (has_dead || nobody_holds || is_other_kind || has_dead_waiters),
            has_more: end.is(6) && rows.iter().filter(|row| row.tag() == b'g').count() >= MOST,
        });
    }

    /// `'k', number, state`
    fn queued(&self, row: &Row, look_in: Duration) -> Fate {
        match row.number(2) {
            0 => Fate::Stands,
            1 => Fate::Over(Ok(Outcome::Joined(Place::Waiting { until: self.until, look_in }))),
            _ => Fate::Over(Ok(Outcome::Joined(Place::Gone))),
        }
    }

    /// `'j', number, what, token, kind, capacity`
    fn outcome(&self, row: &Row, look_in: Duration, has_dead: bool) -> Fate {
        let capacity = weight(row.number(5));
        let place = match row.number(2) {
            1 => return self.held(row.number(3), capacity),
            2 => Place::Waiting { until: self.until, look_in },
            3 if has_dead => return Fate::MeetsDead(Ok(Outcome::Joined(Place::Refused))),
            3 => Place::Refused,
            4 => Place::Gone,
            5 => return Fate::Stands,
            6 => return Fate::Over(Err(Error::session_over())),
            7 => {
                let refusal = sql::kind_of(row.number(4)).map(Error::other_kind);
                return refused(refusal, has_dead);
            }
            8 => return refused(capacity.map(Error::too_heavy), has_dead),
            _ => return strange(),
        };
        Fate::Over(Ok(Outcome::Joined(place)))
    }
}

/// Whether it is a leave of this claim.
fn is_of(action: &Action, claim: ClaimId) -> bool {
    matches!(action, Action::Leave { id, .. } if *id == claim)
}

/// The holder in the row of a line whose claims are in no other rows: of a row that begins as `'n'` and `'a'` do.
fn only_holder(row: &Row) -> Option<ClaimId> {
    let id = ClaimId { session: SessionId::from_bits(row.number(2)), number: row.number(3) };
    (!row.is(7) && row.is(2)).then_some(id)
}

/// Whether a join was granted and none had to wait: then those that wait are dead.
fn has_passed_waiters(rows: &[&Row]) -> bool {
    let mut joins = rows.iter().filter(|row| b"jk".contains(&row.tag())).peekable();
    joins.peek().is_some() && joins.all(|row| row.tag() == b'j' && row.number(2) == 1)
}

/// A join that did not wait behind the one before it.
fn left_undone(end: &Row, rows: &[&Row], has_dead: bool) -> Fate {
    let is_session_over = rows.iter().any(|row| row.tag() == b'j' && row.number(2) == 6);
    let is_in_use = end.is(4) || end.is(6);
    match sql::kind_of(end.number(2)) {
        _ if is_session_over => Fate::Over(Err(Error::session_over())),
        Some(kind) if is_in_use && kind != Kind::Mutex => refused(Some(Error::other_kind(kind)), has_dead),
        // Nobody was before it: it needs statements of its own.
        _ => Fate::NeedsSection,
    }
}

fn refused(why: Option<Error>, has_dead: bool) -> Fate {
    match why {
        Some(error) if has_dead => Fate::MeetsDead(Err(error)),
        Some(error) => Fate::Over(Err(error)),
        None => strange(),
    }
}

/// When a look is due: when the first holder's lifetime ends.
pub(crate) fn look_in(now: u64, ends: Option<u64>, ttl: Duration) -> Duration {
    let micros = ends.map_or(1_000, |ends| ends.saturating_sub(now));
    Duration::from_micros(micros).clamp(Duration::from_millis(1), ttl)
}

/// `'l', session, number, state`: 3 if it has left before, 9 if a user's transaction has it
fn left(rows: &[&Row], id: ClaimId) -> Result<Left> {
    let is_it =
        |row: &&&Row| row.tag() == b'l' && row.number(1) == id.session.get() && row.number(2) == id.number;
    match rows.iter().find(is_it) {
        Some(row) if row.number(3) == 0 => Ok(Left::Held),
        Some(row) if row.number(3) == 1 => Ok(Left::Waiting),
        Some(row) if row.number(3) == 9 => Err(inside_a_transaction()),
        _ => Ok(Left::Absent),
    }
}

/// `'w', number, the weight before`
fn lightened(rows: &[&Row], id: ClaimId, to: u64) -> Result<Outcome> {
    let row = rows.iter().find(|row| row.tag() == b'w' && row.number(1) == id.number);
    let Some(row) = row.filter(|row| !row.is_null(2)) else { return Err(Error::not_in_line(id)) };
    match weight(row.number(2)) {
        Some(before) if u64::from(before.get()) < to => Err(Error::heavier(before)),
        _ => Ok(Outcome::Done),
    }
}

/// `'r', whether it is in use, kind, capacity, whether a waiter would be stuck`
fn resized(rows: &[&Row], from: u64) -> Result<Outcome> {
    let Some(row) = rows.iter().find(|row| row.tag() == b'r').filter(|row| row.is(1)) else {
        return Ok(Outcome::Done);
    };
    match (sql::kind_of(row.number(2)), weight(row.number(3))) {
        (Some(kind), _) if kind != Kind::Semaphore => Err(Error::other_kind(kind)),
        (_, Some(size)) if u64::from(size.get()) != from => Err(Error::other_size(size)),
        _ if row.is(4) => Err(Error::strands()),
        _ => Ok(Outcome::Done),
    }
}

/// Nobody takes a claim out of an open transaction.
pub(crate) fn inside_a_transaction() -> Error {
    let wrong = "its client holds it inside an open transaction of its own; end that transaction, or KILL its connection";
    Error::new(ErrorKind::Conflict, wrong)
}

fn strange() -> Fate {
    let wrong =
        "the server's answer to a transaction lacks a part; check that nothing changes statements on the way";
    Fate::Over(Err(Error::new(ErrorKind::Protocol, wrong).perhaps_done()))
}

fn too_far() -> Error {
    let wrong = "the newest token of this name is beyond 2^48; check the server's clock and tidelock_line";
    Error::new(ErrorKind::Protocol, wrong).perhaps_done()
}
