//! Several requests as the text of one transaction.
//!
//! A name without waiters is one row, and all requests about such names are two statements: one for the leaves and one
//! for the joins. A name with more claims, or with void ones, has them in rows of their own, and a section of several
//! statements about it. If a name turns out to be of the second kind, the first kind of statement leaves it alone, and
//! the request is made again as a section. A text with a single statement that changes anything needs no transaction
//! around it.

use std::collections::{BTreeMap, HashMap, HashSet};

use tidelock_core::backend::{Claim, Leave, Patience};
use tidelock_core::{ClaimId, Kind, Name, SessionId, Weight};

use crate::request::Action;
use crate::sql::{self, Key, Namespace, id, list, put};

/// The most claims that one section grants, and the most dead ones that one look finds.
pub(crate) const MOST: usize = 1_000;

/// What a client puts into all its statements.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) session: SessionId,
    pub(crate) namespace: Namespace,
}

/// A text, and how its answer is to be read.
#[derive(Debug, Default)]
pub(crate) struct Packet {
    pub(crate) text: String,
    /// Requests that were put into the statement for leaves. If all of them leave, the answer lists none.
    pub(crate) leaves: Vec<usize>,
    /// Requests that were put into the statement for joins.
    pub(crate) joins: Vec<usize>,
    /// Which answer says how many rows the leaves changed.
    pub(crate) leaves_at: usize,
    pub(crate) sections: Vec<Section>,
}

/// The requests about one name, in the order of their statements.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) name: Name,
    pub(crate) requests: Vec<usize>,
    /// It grants the next claim only if the line is a mutex's, which it was when it was last seen.
    pub(crate) is_for_mutex: bool,
}

/// How the requests of a batch are sent.
struct Sorted {
    leaves: Vec<usize>,
    joins: Vec<usize>,
    sections: BTreeMap<Name, Vec<usize>>,
}

impl Caller {
    /// The text for these requests. `busy` says for which names it is known that their claims are in rows, and of which
    /// kind they are. `mark` is a number that no other packet has.
    pub(crate) fn packet(
        &self,
        requests: &[(Name, Action)],
        busy: impl Fn(&Name) -> Option<Kind>,
        mark: u64,
    ) -> Packet {
        let sorted = self.sorted(requests, &busy);
        let mut packet = Packet { leaves: sorted.leaves, joins: sorted.joins, ..Packet::default() };
        let is_simple = sorted.sections.is_empty() && packet.leaves.len() + packet.joins.len() <= 1;
        if !is_simple {
            packet.text.push_str("START TRANSACTION;\n");
            self.lock(&mut packet, requests, &sorted.sections);
        }
        self.put_leaves(&mut packet, requests, mark, is_simple);
        self.put_joins(&mut packet, requests);
        for (name, members) in sorted.sections {
            let is_for_mutex = busy(&name) == Some(Kind::Mutex);
            self.put_section(
                &mut packet.text,
                &name,
                members.iter().map(|at| &requests[*at].1),
                is_for_mutex,
            );
            packet.sections.push(Section { name, requests: members, is_for_mutex });
        }
        if !is_simple {
            packet.text.push_str("COMMIT;\n");
        }
        packet
    }

    fn sorted(&self, requests: &[(Name, Action)], busy: impl Fn(&Name) -> Option<Kind>) -> Sorted {
        let mut needs_section: HashSet<&Name> = HashSet::new();
        let (mut leaves, mut joins): (HashMap<&Name, usize>, HashMap<&Name, usize>) = Default::default();
        for (name, action) in requests {
            let is_usual = match action {
                Action::Join { claim, .. } => {
                    *joins.entry(name).or_default() += 1;
                    claim.weight <= claim.capacity
                }
                Action::Leave { id, how: Leave::Done } => {
                    *leaves.entry(name).or_default() += 1;
                    id.session == self.session
                }
                _ => false,
            };
            if !is_usual {
                needs_section.insert(name);
            }
        }
        let several = leaves.iter().chain(&joins).filter(|(_, count)| **count > 1).map(|(name, _)| *name);
        needs_section.extend(several);
        let mut sorted = Sorted { leaves: Vec::new(), joins: Vec::new(), sections: BTreeMap::new() };
        for (at, (name, action)) in requests.iter().enumerate() {
            match action {
                _ if needs_section.contains(name) || busy(name).is_some() => {
                    sorted.sections.entry(name.clone()).or_default().push(at);
                }
                Action::Join { .. } => sorted.joins.push(at),
                _ => sorted.leaves.push(at),
            }
        }
        // Rows are locked in the order of their names. In a section leaves come before joins.
        sorted.leaves.sort_by_key(|at| &requests[*at].0);
        sorted.joins.sort_by_key(|at| &requests[*at].0);
        for members in sorted.sections.values_mut() {
            members.sort_by_key(|at| matches!(requests[*at].1, Action::Join { .. }));
        }
        sorted
    }

    fn lock(&self, packet: &mut Packet, requests: &[(Name, Action)], sections: &BTreeMap<Name, Vec<usize>>) {
        let kinds = usize::from(!packet.leaves.is_empty()) + usize::from(!packet.joins.is_empty());
        if kinds + sections.len() <= 1 {
            return;
        }
        let alone = packet.leaves.iter().chain(&packet.joins).map(|at| &requests[*at].0);
        let mut names: Vec<&Name> = alone.chain(sections.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let names = list(names.into_iter().map(|name| self.key(name)));
        put(&mut packet.text, sql::LOCK_LINES, &[("names", &names)]);
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
            put(&mut packet.text, sql::LEAVE_ONLY_WHICH, &[("names", &names), ("mark", &mark)]);
        }
    }

    fn put_joins(&self, packet: &mut Packet, requests: &[(Name, Action)]) {
        let joins: Vec<&Claim> = packet.joins.iter().filter_map(|at| claim(&requests[*at].1)).collect();
        if joins.is_empty() {
            return;
        }
        let row = |claim: &&Claim| {
            let mut text = String::new();
            put(
                &mut text,
                sql::TAKE_FREE_ROW,
                &[
                    ("name", &self.key(&claim.name)),
                    ("kind", &sql::kind(claim.kind)),
                    ("capacity", &claim.capacity.get()),
                    ("me", &id(self.session)),
                    ("number", &claim.id.number),
                    ("weight", &claim.weight.get()),
                ],
            );
            text
        };
        let rows = list(joins.iter().map(row));
        let names = list(joins.iter().map(|claim| self.key(&claim.name)));
        put(&mut packet.text, sql::TAKE_FREE, &[("rows", &rows), ("names", &names)]);
    }

    /// All statements about one name whose claims are in rows, or will be.
    fn put_section<'a>(
        &self,
        text: &mut String,
        name: &Name,
        actions: impl Iterator<Item = &'a Action>,
        is_for_mutex: bool,
    ) {
        let key = self.key(name);
        let actions: Vec<&Action> = actions.collect();
        let (joins, changes): (Vec<&Action>, Vec<&Action>) =
            actions.into_iter().partition(|action| matches!(action, Action::Join { .. }));
        let is_new = !joins.is_empty() || changes.iter().any(|change| is_void(change));
        put(text, if is_new { sql::BEGIN_NEW } else { sql::BEGIN }, &[("name", &key)]);
        put(text, sql::SPILL, &[("name", &key)]);
        self.put_changes(text, &key, &changes);
        put(text, sql::COUNT, &[("name", &key)]);
        if !changes.is_empty() {
            put(text, sql::GRANT_NEXT, &[("name", &key)]);
            if !is_for_mutex {
                put(text, sql::GRANT, &[("name", &key), ("most", &MOST)]);
            }
            put(text, sql::GRANTED, &[("name", &key), ("me", &id(self.session))]);
            put(text, sql::COUNT, &[("name", &key)]);
        }
        if !joins.is_empty() {
            put(text, sql::BEFORE_JOINS, &[("name", &key), ("me", &id(self.session))]);
        }
        self.put_section_joins(text, &key, &joins);
        put(text, sql::END, &[("name", &key)]);
    }

    /// The first join decides for those that join the same mutex behind it, if they have patience: they wait.
    fn put_section_joins(&self, text: &mut String, key: &Key, joins: &[&Action]) {
        let mut queue = Vec::new();
        for (at, join) in joins.iter().enumerate() {
            let Action::Join { claim, patience } = join else { continue };
            let queues = at > 0 && claim.kind == Kind::Mutex && *patience == Patience::Wait;
            if queues {
                queue.push(claim.id.number);
            } else {
                self.put_queue(text, key, &std::mem::take(&mut queue));
                self.put_join(text, key, claim, *patience);
            }
        }
        self.put_queue(text, key, &queue);
    }

    fn put_queue(&self, text: &mut String, key: &Key, numbers: &[u64]) {
        if numbers.is_empty() {
            return;
        }
        let rows = numbers.iter().enumerate().map(|(at, number)| match at {
            0 => format!("SELECT 1 AS nth, {number} AS number"),
            _ => format!("SELECT {}, {number}", at + 1),
        });
        let rows = rows.collect::<Vec<_>>().join(" UNION ALL ");
        put(
            text,
            sql::QUEUE,
            &[
                ("name", key),
                ("me", &id(self.session)),
                ("rows", &rows),
                ("count", &numbers.len()),
                ("numbers", &list(numbers)),
            ],
        );
    }

    fn put_changes(&self, text: &mut String, key: &Key, changes: &[&Action]) {
        let mut leaving: BTreeMap<SessionId, Vec<u64>> = BTreeMap::new();
        for change in changes {
            if let Action::Leave { id, .. } = change {
                leaving.entry(id.session).or_default().push(id.number);
            }
        }
        for (session, numbers) in leaving {
            let values: &[(&str, &dyn std::fmt::Display)] =
                &[("session", &id(session)), ("numbers", &list(numbers))];
            put(text, sql::LEAVE, values);
            if session != self.session {
                put(text, sql::TELL, &[("session", &id(session))]);
            }
        }
        let void = changes.iter().filter_map(|change| match change {
            Action::Leave { id: ClaimId { session, number }, how: Leave::Void } => {
                let session = id(*session);
                Some(format!("({key}, 2, {number}, {session}, {number}, 0, 0, @t_now)"))
            }
            _ => None,
        });
        let rows = list(void);
        if !rows.is_empty() {
            put(text, sql::VOID, &[("rows", &rows)]);
        }
        for change in changes {
            match change {
                Action::Leave { .. } | Action::Join { .. } => {}
                Action::Lighten { id: ClaimId { session, number }, weight } => {
                    let values: &[(&str, &dyn std::fmt::Display)] = &[
                        ("session", &id(*session)),
                        ("number", number),
                        ("weight", &weight.get()),
                    ];
                    put(text, sql::LIGHTEN, values);
                }
                Action::Resize { from, to } => {
                    put(text, sql::RESIZE, &[("name", key), ("from", &from.get()), ("to", &to.get())]);
                }
                Action::Bury(dead) => {
                    for (session, numbers) in dead {
                        let numbers = list(numbers);
                        put(
                            text,
                            sql::BURY,
                            &[("session", &id(*session)), ("numbers", &numbers)],
                        );
                    }
                }
            }
        }
    }

    fn put_join(&self, text: &mut String, key: &Key, claim: &Claim, patience: Patience) {
        put(
            text,
            sql::JOIN,
            &[
                ("name", key),
                ("me", &id(self.session)),
                ("number", &claim.id.number),
                ("kind", &sql::kind(claim.kind)),
                ("capacity", &claim.capacity.get()),
                ("weight", &claim.weight.get()),
                ("patient", &u8::from(patience == Patience::Wait)),
            ],
        );
    }

    pub(crate) fn key(&self, name: &Name) -> Key {
        self.namespace.key(name)
    }
}

fn is_void(change: &Action) -> bool {
    matches!(change, Action::Leave { how: Leave::Void, .. })
}

fn number(action: &Action) -> Option<u64> {
    match action {
        Action::Leave { id, .. } => Some(id.number),
        _ => None,
    }
}

fn claim(action: &Action) -> Option<&Claim> {
    match action {
        Action::Join { claim, .. } => Some(claim),
        _ => None,
    }
}

/// The weight with this number in a table.
pub(crate) fn weight(number: u64) -> Option<Weight> {
    u32::try_from(number).ok().and_then(Weight::new)
}
