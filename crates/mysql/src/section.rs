//! A section: the statements about one name whose claims are in rows, or will be.
//!
//! First the line is locked, then the changes are made, then the next claims granted, and then come the joins.

use tidelock_core::backend::{Claim, Leave, Patience};
use tidelock_core::{ClaimId, Kind, SessionId};

use crate::packet::{Caller, MOST, claim};
use crate::request::Action;
use crate::sql::{self, Key, id, list, put};

impl Caller {
    /// One transaction that takes the dead out of a line, also of another namespace, and grants the next ones.
    pub(crate) fn burial(&self, key: &Key, dead: Vec<(SessionId, Vec<u64>)>) -> String {
        let mut text = "START TRANSACTION;\n".to_owned();
        self.put_section(&mut text, key, std::iter::once(&Action::Bury(dead)), false);
        text.push_str("COMMIT;\n");
        text
    }

    /// All statements about one name whose claims are in rows, or will be.
    pub(crate) fn put_section<'a>(
        &self,
        text: &mut String,
        key: &Key,
        actions: impl Iterator<Item = &'a Action>,
        is_for_mutex: bool,
    ) {
        let actions: Vec<&Action> = actions.collect();
        let (joins, changes): (Vec<&Action>, Vec<&Action>) =
            actions.into_iter().partition(|action| matches!(action, Action::Join { .. }));
        let is_new = !joins.is_empty() || changes.iter().any(|change| is_void(change));
        put(text, if is_new { sql::BEGIN_NEW } else { sql::BEGIN }, &[("name", key)]);
        put(text, sql::SPILL, &[("name", key)]);
        let buries = !joins.is_empty() && !is_for_mutex;
        if buries {
            put(text, sql::BURY_HOLDERS, &[("name", key)]);
        }
        self.put_changes(text, key, &changes);
        put(text, sql::COUNT, &[("name", key)]);
        if !changes.is_empty() || buries {
            put(text, sql::GRANT_NEXT, &[("name", key)]);
            if !is_for_mutex {
                put(text, sql::GRANT, &[("name", key), ("most", &MOST)]);
            }
            put(text, sql::GRANTED, &[("name", key), ("me", &id(self.session))]);
            put(text, sql::COUNT, &[("name", key)]);
        }
        if !joins.is_empty() {
            put(text, sql::BEFORE_JOINS, &[("name", key), ("me", &id(self.session))]);
        }
        self.put_section_joins(text, key, &joins);
        put(text, sql::END, &[("name", key)]);
    }

    /// The last joins of a mutex that have patience wait behind the one before them, whatever became of it.
    /// Only the last ones: a queue that turns out to have nobody before it is left undone, and must not be overtaken by
    /// what is done behind it.
    fn put_section_joins(&self, text: &mut String, key: &Key, joins: &[&Action]) {
        let queues = |join: &&&Action| matches!(join, Action::Join { claim, patience: Patience::Wait, .. } if claim.kind == Kind::Mutex);
        let queue = joins.iter().rev().take_while(queues).count().min(joins.len().saturating_sub(1));
        let (single, queue) = joins.split_at(joins.len() - queue);
        for join in single {
            if let Action::Join { claim, patience, .. } = join {
                self.put_join(text, key, claim, *patience);
            }
        }
        let numbers = queue.iter().filter_map(|join| claim(join)).map(|claim| claim.id.number);
        self.put_queue(text, key, &numbers.collect::<Vec<_>>());
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
        self.put_own_leaves(text, key, changes);
        for change in changes {
            let Action::Leave { id: ClaimId { session, number }, how } = change else { continue };
            if *session != self.session {
                let session = id(*session);
                put(text, sql::LEAVE_OTHER, &[("name", key), ("session", &session), ("number", number)]);
                if *how == Leave::Void {
                    put(text, sql::VOID_OTHER, &[("name", key), ("session", &session), ("number", number)]);
                }
                put(text, sql::TELL, &[("session", &session)]);
            }
        }
        for change in changes {
            match change {
                Action::Leave { .. } | Action::Join { .. } => {}
                Action::Lighten { id: ClaimId { session, number }, weight } => {
                    let values: &[(&str, &dyn std::fmt::Display)] = &[
                        ("name", key),
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
                        let values: &[(&str, &dyn std::fmt::Display)] =
                            &[("name", key), ("session", &id(*session)), ("numbers", &numbers)];
                        put(text, sql::BURY, values);
                    }
                }
            }
        }
    }

    /// The caller's own claims that leave, all of them in one statement.
    fn put_own_leaves(&self, text: &mut String, key: &Key, changes: &[&Action]) {
        let me = id(self.session);
        let own = |change: &&Action| match change {
            Action::Leave { id, how } if id.session == self.session => Some((id.number, *how)),
            _ => None,
        };
        let leaves: Vec<(u64, Leave)> = changes.iter().filter_map(own).collect();
        if leaves.is_empty() {
            return;
        }
        let numbers = list(leaves.iter().map(|(number, _)| number));
        put(text, sql::LEAVE, &[("name", key), ("session", &me), ("numbers", &numbers)]);
        let void = leaves.iter().filter(|(_, how)| *how == Leave::Void);
        let rows: Vec<String> = void.map(|(number, _)| format!("SELECT {number} AS number")).collect();
        if !rows.is_empty() {
            let rows = rows.join(" UNION ALL ");
            put(text, sql::VOID, &[("name", key), ("me", &me), ("rows", &rows)]);
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
}

fn is_void(change: &Action) -> bool {
    matches!(change, Action::Leave { how: Leave::Void, .. })
}
