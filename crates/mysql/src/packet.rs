//! Several requests as the text of one transaction.
//!
//! A name with one claim at most is one row. All requests about such names are two statements: one takes what is free,
//! and one gives back. Who waits for such a mutex is in that row too: the statement that takes adds it, and one statement
//! for each leave hands the mutex on. A name with other claims, or with void ones, has them in rows of their own. If it
//! is a mutex, all joins behind others, and all leaves that pass it on, are a few statements again, however many names
//! there are. Any other request is a section of its own, of many statements. Each kind of statement leaves a name alone
//! that turns out to be of another kind, and the request is then made again as a section. A text with a single statement
//! that changes anything needs no transaction around it.

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tidelock_core::backend::{Claim, Leave, Patience};
use tidelock_core::{Kind, Name, SessionId, Weight};

use crate::request::Action;
use crate::sql::{self, Key, NOW, Namespace, id, list, put};
use crate::waiters::{self, ROOM, padded};

/// The most claims that one section grants, and the most dead ones that one look finds.
pub(crate) const MOST: usize = 1_000;

/// What a client puts into all its statements.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) session: SessionId,
    pub(crate) namespace: Namespace,
    /// Whether the server is a MariaDB, which can say what an INSERT has found.
    pub(crate) has_returning: bool,
    /// The number of the store, which no other has.
    pub(crate) store: u64,
    /// How many slots the server has for users' transactions.
    pub(crate) slots: u32,
}

/// A text, and how its answer is to be read.
#[derive(Debug, Default)]
pub(crate) struct Packet {
    pub(crate) text: String,
    /// Requests that were put into the statement for leaves. If all of them leave, the answer lists none.
    pub(crate) leaves: Vec<usize>,
    /// Leaves that hand a mutex on whose waiters are in its row.
    pub(crate) hands: Vec<HandOn>,
    /// Requests that were put into the statement that takes what is free.
    pub(crate) joins: Vec<usize>,
    /// Those of them that wait in the row of their line, if they did not get what is free.
    pub(crate) queues: Vec<usize>,
    /// Requests that wait behind others, if they did not get what is free.
    pub(crate) behind: Vec<usize>,
    /// Requests that take what is free in rows of their own.
    pub(crate) in_rows: Vec<usize>,
    /// Requests that pass a mutex on.
    pub(crate) passes: Vec<usize>,
    /// The only request takes a name that was free a moment ago.
    pub(crate) takes_again: bool,
    /// Which answer says how many rows the leaves changed.
    pub(crate) leaves_at: usize,
    pub(crate) sections: Vec<Section>,
}

impl Packet {
    /// Whether one of the requests that take what is free is about this name.
    pub(crate) fn has_join_of(&self, name: &Name, requests: &[(Name, Action)]) -> bool {
        self.joins.iter().any(|at| requests[*at].0 == *name)
    }
}

/// A leave of a claim that holds or waits in the row of its line.
#[derive(Debug)]
pub(crate) struct HandOn {
    pub(crate) request: usize,
    /// Which answer says whether it has left as one that waited, if that was asked, and as the holder.
    pub(crate) waited_at: Option<usize>,
    pub(crate) held_at: usize,
}

/// The requests about one name, in the order of their statements.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) name: Name,
    pub(crate) requests: Vec<usize>,
    /// It grants the next claim only if the line is a mutex's, which it was when it was last seen.
    pub(crate) is_for_mutex: bool,
}

/// What a client knows of a name. It may be wrong by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    Unknown,
    /// Nobody held it a moment ago.
    Free,
    /// It is a mutex, and who waits for it is in its row.
    InRow,
    /// Its claims are in rows, and it is of this kind.
    InRows(Kind),
    /// A request about it was left undone, so its claims are in rows, probably of a mutex.
    LeftUndone,
    /// It was left undone again.
    Section,
}

/// The statements that carry a request out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Leave,
    HandOn,
    /// As whichever of the two it needs.
    HandOnOrPass,
    Pass,
    Take,
    /// Takes what is free, or waits in the row of the line.
    TakeOrQueue,
    Wait,
    /// As whichever of the two it needs.
    TakeOrQueueOrWait,
    TakeInRows,
    /// The same, without statements for those who find it taken.
    TakeInRowsOnly,
    Section,
}

/// How the requests of a batch are sent.
#[derive(Default)]
struct Sorted {
    leaves: Vec<usize>,
    hands: Vec<usize>,
    joins: Vec<usize>,
    queues: Vec<usize>,
    behind: Vec<usize>,
    in_rows: Vec<usize>,
    passes: Vec<usize>,
    sections: BTreeMap<Name, Vec<usize>>,
}

impl Caller {
    /// The text for these requests. `hint` says what is known of a name, and `waits` which claims are known to wait. `mark`
    /// is a number that no other packet has.
    pub(crate) fn packet(
        &self,
        requests: &[(Name, Action)],
        hint: impl Fn(&Name) -> Hint,
        waits: impl Fn(u64) -> bool,
        mark: u64,
    ) -> Packet {
        if let [(name, Action::Join { claim, in_rows: false, .. })] = requests
            && claim.weight <= claim.capacity
            && hint(name) == Hint::Free
        {
            return self.taking_again(claim);
        }
        let Sorted { leaves, hands, joins, queues, behind, in_rows, passes, sections } =
            self.sorted(requests, &hint);
        let mut packet = Packet { leaves, joins, queues, behind, in_rows, passes, ..Packet::default() };
        let is_simple = sections.is_empty()
            && packet.behind.is_empty()
            && packet.in_rows.is_empty()
            && packet.passes.is_empty()
            && hands.is_empty()
            && (packet.queues.is_empty() || self.has_returning)
            && packet.leaves.len() + packet.joins.len() <= 1;
        if is_simple && !packet.queues.is_empty() {
            // Before it can be granted.
            put(&mut packet.text, sql::RINGS, &[("me", &id(self.session))]);
        }
        if !is_simple {
            packet.text.push_str("START TRANSACTION;\n");
            // First of all, so that nobody who drops rows waits for ours and we for that.
            if packet.joins.len() > 1 {
                put(&mut packet.text, sql::FLOOR, &[("me", &id(self.session))]);
            }
            self.lock(&mut packet, &hands, requests, &sections);
        }
        self.put_hands(&mut packet, &hands, requests, &hint, waits);
        self.put_leaves(&mut packet, requests, mark, is_simple);
        self.put_passes(&mut packet, requests);
        self.put_joins(&mut packet, requests);
        for (name, members) in sections {
            let is_of_mutex =
                |at: &usize| claim(&requests[*at].1).is_none_or(|claim| claim.kind == Kind::Mutex);
            let is_for_mutex = hint(&name) == Hint::InRows(Kind::Mutex) && members.iter().all(is_of_mutex);
            self.put_section(
                &mut packet.text,
                &self.key(&name),
                members.iter().map(|at| &requests[*at].1),
                is_for_mutex,
            );
            packet.sections.push(Section { name, requests: members, is_for_mutex });
        }
        // Nobody can be granted before the end of this transaction, so a ring that tells of it is one more.
        let may_wait = !packet.queues.is_empty()
            || !packet.behind.is_empty()
            || packet.sections.iter().any(|section| has_join(section, requests));
        if may_wait && !is_simple {
            put(&mut packet.text, sql::RINGS, &[("me", &id(self.session))]);
        }
        if !is_simple {
            packet.text.push_str("COMMIT;\n");
        }
        packet
    }

    fn taking_again(&self, claim: &Claim) -> Packet {
        let mut packet = Packet { takes_again: true, ..Packet::default() };
        put(
            &mut packet.text,
            sql::TAKE_AGAIN,
            &[
                ("name", &self.key(&claim.name)),
                ("kind", &sql::kind(claim.kind)),
                ("capacity", &claim.capacity.get()),
                ("me", &id(self.session)),
                ("number", &claim.id.number),
                ("weight", &claim.weight.get()),
            ],
        );
        packet
    }

    fn sorted(&self, requests: &[(Name, Action)], hint: impl Fn(&Name) -> Hint) -> Sorted {
        let mut ways: Vec<Way> = Vec::with_capacity(requests.len());
        let mut needs_section: HashSet<&Name> = HashSet::new();
        // The names with a leave by itself, with a join that takes what is free, with only joins that take or queue, and
        // with any join.
        let (mut leaves, mut takes): (HashSet<&Name>, HashSet<&Name>) = Default::default();
        let (mut queues, mut joins): (HashSet<&Name>, HashSet<&Name>) = Default::default();
        for (name, action) in requests {
            let way = self.way(action, hint(name));
            let is_apart = match way {
                Way::Section => true,
                Way::Leave => !leaves.insert(name),
                // What takes goes before what waits, and so would overtake.
                // Those that queue do so one behind the other.
                Way::TakeOrQueue | Way::TakeOrQueueOrWait => {
                    takes.insert(name);
                    if joins.insert(name) {
                        queues.insert(name);
                    }
                    !queues.contains(name)
                }
                Way::Take | Way::TakeInRows | Way::TakeInRowsOnly => {
                    takes.insert(name);
                    queues.remove(name);
                    !joins.insert(name)
                }
                Way::Wait => !joins.insert(name) && takes.contains(name),
                Way::HandOn | Way::HandOnOrPass | Way::Pass => false,
            };
            if is_apart {
                needs_section.insert(name);
            }
            ways.push(way);
        }
        let mut sorted = Sorted::default();
        for (at, (name, _)) in requests.iter().enumerate() {
            let way = ways[at];
            match way {
                _ if needs_section.contains(name) => {
                    sorted.sections.entry(name.clone()).or_default().push(at);
                }
                Way::Leave => sorted.leaves.push(at),
                Way::HandOn => sorted.hands.push(at),
                Way::HandOnOrPass => {
                    sorted.hands.push(at);
                    sorted.passes.push(at);
                }
                Way::Pass => sorted.passes.push(at),
                Way::Take => sorted.joins.push(at),
                Way::TakeOrQueue => {
                    sorted.joins.push(at);
                    sorted.queues.push(at);
                }
                Way::Wait => sorted.behind.push(at),
                Way::TakeOrQueueOrWait => {
                    sorted.joins.push(at);
                    sorted.queues.push(at);
                    sorted.behind.push(at);
                }
                Way::TakeInRows | Way::TakeInRowsOnly => {
                    sorted.joins.push(at);
                    sorted.in_rows.push(at);
                    if way == Way::TakeInRows
                        && matches!(requests[at].1, Action::Join { patience: Patience::Wait, .. })
                    {
                        sorted.behind.push(at);
                    }
                }
                Way::Section => {}
            }
        }
        // Rows are locked in the order of their names. In a section leaves come before joins.
        for members in [&mut sorted.leaves, &mut sorted.hands, &mut sorted.joins, &mut sorted.passes] {
            members.sort_by_key(|at| &requests[*at].0);
        }
        for members in sorted.sections.values_mut() {
            members.sort_by_key(|at| matches!(requests[*at].1, Action::Join { .. }));
        }
        sorted
    }

    fn way(&self, action: &Action, hint: Hint) -> Way {
        match (action, hint) {
            (_, Hint::Section)
            | (Action::Join { in_rows: true, patience: Patience::Now, .. }, Hint::LeftUndone) => Way::Section,
            (Action::Leave { id, how: Leave::Done }, _) if id.session == self.session => match hint {
                Hint::InRow => Way::HandOn,
                Hint::LeftUndone => Way::HandOnOrPass,
                Hint::InRows(Kind::Mutex) => Way::Pass,
                Hint::InRows(_) => Way::Section,
                _ => Way::Leave,
            },
            (Action::Join { in_rows: true, .. }, Hint::Free) => Way::TakeInRowsOnly,
            (Action::Join { in_rows: true, .. }, _) => Way::TakeInRows,
            (Action::Join { claim, patience, .. }, _) if claim.weight <= claim.capacity => {
                match (hint, claim.kind, patience) {
                    (Hint::InRows(Kind::Mutex), Kind::Mutex, Patience::Wait) => Way::Wait,
                    (Hint::InRows(_), ..) | (Hint::LeftUndone, Kind::RwLock | Kind::Semaphore, _) => {
                        Way::Section
                    }
                    (Hint::LeftUndone, _, Patience::Now) => Way::Section,
                    (_, _, Patience::Now) => Way::Take,
                    (Hint::Unknown | Hint::LeftUndone, Kind::Mutex, _) => Way::TakeOrQueueOrWait,
                    (_, Kind::Mutex, _) => Way::TakeOrQueue,
                    (Hint::Free, ..) => Way::Take,
                    _ => Way::Section,
                }
            }
            _ => Way::Section,
        }
    }

    fn lock(
        &self,
        packet: &mut Packet,
        hands: &Vec<usize>,
        requests: &[(Name, Action)],
        sections: &BTreeMap<Name, Vec<usize>>,
    ) {
        let groups = [&packet.leaves, hands, &packet.passes, &packet.joins, &packet.behind];
        let used = groups.iter().filter(|group| !group.is_empty()).count();
        let all = groups.into_iter().flatten().map(|at| &requests[*at].0);
        let mut names: Vec<&Name> = all.chain(sections.keys()).collect();
        names.sort_unstable();
        names.dedup();
        // What gives back and what takes is free locks in the order of names. Two clients that cross are stopped by the
        // server, and one goes again: that is rare, and a statement more for every batch is not.
        let hands_several = !hands.is_empty() && names.len() > 1;
        if !hands_several
            && packet.passes.is_empty()
            && packet.behind.is_empty()
            && packet.in_rows.is_empty()
            && sections.is_empty()
        {
            return;
        }
        // Only the statement that takes what is free, and those that pass on, lock by themselves.
        // What reads claims has to lock all lines before it reads; a single one is locked by the statement that does.
        // So has what passes several mutexes on: a line that is none keeps no lock, and may become one meanwhile.
        let passed: HashSet<&Name> = packet.passes.iter().map(|at| &requests[*at].0).collect();
        let is_unlocked = (!packet.in_rows.is_empty() && names.len() > 1)
            || passed.len() > 1
            || packet.behind.iter().any(|at| !packet.joins.contains(at));
        if !is_unlocked && (names.len() <= 1 || used + sections.len() <= 1) {
            return;
        }
        let names = list(names.into_iter().map(|name| self.key(name)));
        put(&mut packet.text, sql::LOCK_LINES, &[("names", &names)]);
    }

    /// A statement for each leave: its answer tells what the claim was.
    fn put_hands(
        &self,
        packet: &mut Packet,
        hands: &[usize],
        requests: &[(Name, Action)],
        hint: impl Fn(&Name) -> Hint,
        waits: impl Fn(u64) -> bool,
    ) {
        for at in hands {
            let (name, Action::Leave { id: claim, .. }) = &requests[*at] else { continue };
            let key = self.key(name);
            let answers = |text: &str| text.matches(";\n").count();
            // It may have been granted meanwhile, and then it hands on.
            let waited = hint(name) == Hint::LeftUndone || waits(claim.number);
            let waited_at = waited.then(|| answers(&packet.text));
            if waited {
                let waiter = waiters::text(*claim);
                put(&mut packet.text, sql::WAIT_NO_MORE, &[("name", &key), ("waiter", &waiter)]);
            }
            let held_at = answers(&packet.text);
            let values: &[(&str, &dyn std::fmt::Display)] =
                &[("name", &key), ("me", &id(self.session)), ("number", &claim.number)];
            put(&mut packet.text, sql::HAND_ON, values);
            put(&mut packet.text, sql::HANDED_ON, values);
            packet.hands.push(HandOn { request: *at, waited_at, held_at });
        }
        if hands.is_empty() {
            return;
        }
        let mut names: Vec<&Name> = hands.iter().map(|at| &requests[*at].0).collect();
        names.dedup();
        // The joins of a name are told who holds it, but for those that get rows of their own.
        let is_told = |at: &usize, name: &Name| requests[*at].0 == *name && !packet.in_rows.contains(at);
        names.retain(|name| !packet.joins.iter().any(|at| is_told(at, name)));
        if !names.is_empty() {
            let keys = list(names.into_iter().map(|name| self.key(name)));
            put(&mut packet.text, sql::HOLDS_NOW, &[("names", &keys)]);
        }
    }

    fn put_passes(&self, packet: &mut Packet, requests: &[(Name, Action)]) {
        if packet.passes.is_empty() {
            return;
        }
        let mut names: Vec<&Name> = packet.passes.iter().map(|at| &requests[*at].0).collect();
        names.dedup();
        let pass = if names.len() == 1 { sql::PASS_ONE } else { sql::PASS };
        let names = list(names.into_iter().map(|name| self.key(name)));
        let numbers = list(packet.passes.iter().filter_map(|at| number(&requests[*at].1)));
        let values: &[(&str, &dyn std::fmt::Display)] =
            &[("name", &names), ("names", &names), ("me", &id(self.session)), ("numbers", &numbers)];
        put(&mut packet.text, pass, values);
    }

    fn put_leaves(&self, packet: &mut Packet, requests: &[(Name, Action)], mark: u64, is_simple: bool) {
        if packet.leaves.is_empty() {
            return;
        }
        // Each statement has one answer.
        packet.leaves_at = packet.text.matches(";\n").count();
        let names = list(packet.leaves.iter().map(|at| self.key(&requests[*at].0)));
        let numbers = list(packet.leaves.iter().filter_map(|at| number(&requests[*at].1)));
        let me = id(self.session);
        put(
            &mut packet.text,
            sql::LEAVE_ONLY,
            &[("names", &names), ("me", &me), ("numbers", &numbers), ("mark", &mark)],
        );
        if !is_simple {
            let count = packet.leaves.len();
            put(
                &mut packet.text,
                sql::LEAVE_ONLY_WHICH,
                &[("names", &names), ("mark", &mark), ("count", &count)],
            );
        }
    }

    fn put_joins(&self, packet: &mut Packet, requests: &[(Name, Action)]) {
        let joins: Vec<&Claim> = packet.joins.iter().filter_map(|at| claim(&requests[*at].1)).collect();
        let names = list(joins.iter().map(|claim| self.key(&claim.name)));
        let in_rows: Vec<&Claim> = packet.in_rows.iter().filter_map(|at| claim(&requests[*at].1)).collect();
        let own_names = list(in_rows.iter().map(|claim| self.key(&claim.name)));
        let own_numbers = list(in_rows.iter().map(|claim| claim.id.number));
        let slots = list(in_rows.iter().map(|_| self.next_slot()));
        if !in_rows.is_empty() {
            put(&mut packet.text, sql::UNSPILL, &[("names", &own_names)]);
        }
        if !joins.is_empty() {
            let take = if self.returns(&joins) { sql::TAKE_FREE_RETURNING } else { sql::TAKE_FREE };
            let waiters = self.waiters(packet, requests);
            put(&mut packet.text, take, &[("rows", &self.rows_of(&joins)), ("waiters", &waiters)]);
        }
        self.put_behind(packet, requests);
        if !in_rows.is_empty() {
            let values: &[(&str, &dyn std::fmt::Display)] = &[
                ("names", &own_names),
                ("me", &id(self.session)),
                ("numbers", &own_numbers),
                ("slots", &slots),
            ];
            put(&mut packet.text, sql::SPILL_OWN, values);
        }
        let is_told = |at: &usize| packet.in_rows.contains(at) && !packet.behind.contains(at);
        if !self.returns(&joins) && !packet.joins.iter().all(is_told) {
            put(&mut packet.text, sql::TAKEN, &[("names", &names)]);
        }
    }

    /// Whether the statement that takes what is free says itself what it has found. In one for several joins, whatever reads
    /// another table locks what it finds there until the end of the transaction: other clients' sessions.
    fn returns(&self, joins: &[&Claim]) -> bool {
        self.has_returning && joins.len() == 1
    }

    /// The rows of these joins as the holders of their names.
    fn rows_of(&self, joins: &[&Claim]) -> String {
        let [claim] = joins else {
            let row = |claim: &&Claim| format!("({})", self.row_of(claim, "@t_me", "@t_least", "@t_since"));
            return format!("VALUES {}", list(joins.iter().map(row))); // as FLOOR has read it
        };
        let me = id(self.session);
        let least = format!(
            "GREATEST({NOW} DIV 10, COALESCE((SELECT token + 1 FROM tidelock_floor WHERE id = 1 LOCK IN SHARE MODE), 0))"
        );
        let row = self.row_of(claim, &me.to_string(), &least, NOW);
        let mut text = String::new();
        put(&mut text, sql::TAKE_FREE_ONE, &[("row", &row), ("me", &me)]);
        text.truncate(text.trim_end().len());
        text
    }

    fn row_of(&self, claim: &Claim, me: &str, least: &str, since: &str) -> String {
        let values: &[(&str, &dyn std::fmt::Display)] = &[
            ("name", &self.key(&claim.name)),
            ("kind", &sql::kind(claim.kind)),
            ("capacity", &claim.capacity.get()),
            ("me", &me),
            ("number", &claim.id.number),
            ("weight", &claim.weight.get()),
            ("least", &least),
            ("since", &since),
        ];
        let mut text = String::new();
        put(&mut text, sql::TAKE_FREE_ROW, values);
        text.truncate(text.trim_end().len());
        text
    }

    /// What becomes of the waiters in a row.
    fn waiters(&self, packet: &Packet, requests: &[(Name, Action)]) -> String {
        let numbers = packet.queues.iter().filter_map(|at| claim(&requests[*at].1));
        let numbers = list(numbers.map(|claim| claim.id.number));
        if numbers.is_empty() {
            return "waiters".to_owned();
        }
        let me = id(self.session);
        let lives = match packet.joins.len() {
            1 => format!("(SELECT s.expires FROM tidelock_session s WHERE s.id = {me}) > {NOW}"),
            _ => "@t_me <> 0".to_owned(), // as FLOOR has read it
        };
        let values: &[(&str, &dyn std::fmt::Display)] = &[
            ("numbers", &numbers),
            ("me", &me),
            ("lives", &lives),
            ("padded", &padded(self.session)),
            ("room", &ROOM),
        ];
        let mut text = String::new();
        put(&mut text, sql::WAIT_IN_ROW, values);
        text.truncate(text.trim_end().len());
        text
    }

    fn put_behind(&self, packet: &mut Packet, requests: &[(Name, Action)]) {
        let waits: Vec<&Claim> = packet.behind.iter().filter_map(|at| claim(&requests[*at].1)).collect();
        if waits.is_empty() {
            return;
        }
        let me = id(self.session);
        let numbers_of = |claims: &[&Claim]| list(claims.iter().map(|claim| claim.id.number));
        let names_of = |claims: &[&Claim]| {
            let mut names: Vec<&Name> = claims.iter().map(|claim| &claim.name).collect();
            names.sort_unstable();
            names.dedup();
            list(names.into_iter().map(|name| self.key(name)))
        };
        let row = |(at, claim): (usize, &&Claim)| {
            let (key, number) = (self.key(&claim.name), claim.id.number);
            match at {
                0 => format!("SELECT 1 AS nth, {key} AS name, {number} AS number"),
                _ => format!("SELECT {}, {key}, {number}", at + 1),
            }
        };
        let rows = waits.iter().enumerate().map(row).collect::<Vec<_>>().join(" UNION ALL ");
        let (names, numbers) = (names_of(&waits), numbers_of(&waits));
        let values: &[(&str, &dyn std::fmt::Display)] = &[
            ("names", &names),
            ("me", &me),
            ("numbers", &numbers),
            ("rows", &rows),
            ("count", &waits.len()),
            ("spills", &u8::from(packet.behind.iter().any(|at| packet.in_rows.contains(at)))),
        ];
        put(&mut packet.text, sql::BEHIND, values);
    }

    /// Each one in turn, from anywhere on: other processes do the same.
    fn next_slot(&self) -> u32 {
        static NEXT: LazyLock<AtomicU32> =
            LazyLock::new(|| AtomicU32::new(getrandom::u32().unwrap_or_default()));
        1 + NEXT.fetch_add(1, Ordering::Relaxed) % self.slots
    }

    /// Any of them: after one that was not free.
    pub(crate) fn any_slot(&self) -> u32 {
        1 + getrandom::u32().unwrap_or_default() % self.slots
    }

    pub(crate) fn key(&self, name: &Name) -> Key {
        self.namespace.key(name)
    }
}

fn has_join(section: &Section, requests: &[(Name, Action)]) -> bool {
    section.requests.iter().any(|at| claim(&requests[*at].1).is_some())
}

fn number(action: &Action) -> Option<u64> {
    match action {
        Action::Leave { id, .. } => Some(id.number),
        _ => None,
    }
}

pub(crate) fn claim(action: &Action) -> Option<&Claim> {
    match action {
        Action::Join { claim, .. } => Some(claim),
        _ => None,
    }
}

/// The weight with this number in a table.
pub(crate) fn weight(number: u64) -> Option<Weight> {
    u32::try_from(number).ok().and_then(Weight::new)
}
