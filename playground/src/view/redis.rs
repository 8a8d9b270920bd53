//! Redis: a hash, and for a crowd or for another kind than a mutex a sorted set and a second hash.
//!
//! A held mutex is one field, and its first waiters stand in it, too. `crates/redis/src/lua/record.rs` has all of it.

use tidelock_model::{Kind, Line};

use super::claims::{divided, id, order, whose};
use crate::settings::joined;

/// So many waiters have room in the field; how many really depends on their labels.
const ROOM: usize = 8;

pub(super) fn line(name: &str, line: &Line, newest: u64, lines: &mut Vec<String>) {
    let (held, waiting) = divided(line);
    let is_one = held.len() == 1 && (line.kind == Kind::Mutex || waiting.is_empty());
    lines.push(format!("tidelock:{{{name}}}:held  hash"));
    let in_line = if is_one {
        let mut one = vec![format!("  one  token {newest}"), format!("{} holds", whose(held[0]))];
        one.extend(waiting.iter().take(ROOM).map(|claim| format!("{} waits", whose(claim))));
        lines.push(joined(&one, ", "));
        waiting.get(ROOM..).unwrap_or_default()
    } else {
        several(line, newest, lines);
        &waiting[..]
    };
    if in_line.is_empty() {
        return;
    }
    lines.push(format!("tidelock:{{{name}}}:line  sorted set"));
    lines.extend(in_line.iter().map(|claim| format!("  {}", id(claim.id))));
    lines.push(format!("tidelock:{{{name}}}:wait  hash"));
    lines.extend(in_line.iter().map(|claim| format!("  s:{}  its lifetime", whose(claim))));
    if line.kind != Kind::Mutex {
        lines.extend(in_line.iter().map(|claim| format!("  w:{}  weight {}", id(claim.id), claim.weight)));
    }
}

/// Several holders: a field for each, and for each of their sessions.
fn several(line: &Line, newest: u64, lines: &mut Vec<String>) {
    let (held, waiting) = divided(line);
    for claim in &held {
        lines.push(format!("  h:{}  weight {}, token {}", id(claim.id), claim.weight, order(claim.token)));
    }
    lines.push(format!("  last  token {newest}"));
    let used: u64 = held.iter().map(|claim| u64::from(claim.weight.get())).sum();
    lines.push(format!("  line  capacity {}, {used} of it held", line.capacity));
    lines.extend(held.iter().map(|claim| format!("  s:{}  its lifetime", whose(claim))));
    lines.extend((!waiting.is_empty()).then(|| "  seq".to_owned()));
}

/// A name on which nobody stands keeps its newest token for an hour or two.
pub(super) fn idle(name: &str, newest: u64, lines: &mut Vec<String>) {
    lines.push(format!("tidelock:{{{name}}}:held  hash"));
    lines.push(format!("  one  token {newest}"));
}
