//! MySQL: a row for the name, which is also a mutex's holder's and its waiters', or an only holder's; otherwise a row for
//! each claim.

use tidelock_model::{Kind, Line};

use super::claims::{divided, id, order};

/// Of another kind than a mutex, the only holder has a row of its own once somebody has waited, until the name is free.
pub(super) fn line(name: &str, line: &Line, has_waited: bool, lines: &mut Vec<String>) {
    let (held, waiting) = divided(line);
    let newest = held.iter().map(|claim| order(claim.token)).max().unwrap_or(0);
    let is_alone = held.len() == 1 && (line.kind == Kind::Mutex || waiting.is_empty() && !has_waited);
    let mut only = if is_alone { format!(", only holder {}", id(held[0].id)) } else { String::new() };
    if is_alone && !waiting.is_empty() {
        let waiting: Vec<String> = waiting.iter().map(|claim| id(claim.id)).collect();
        only.push_str(&format!(", waiting {}", waiting.join(" ")));
    }
    lines.push(format!(
        "tidelock_line  {name}, {}, capacity {}, token {newest}{only}",
        kind(line),
        line.capacity
    ));
    if !is_alone {
        for claim in &line.claims {
            let state = if claim.token.is_some() {
                format!("state 0 (holds), token {}", order(claim.token))
            } else {
                "state 1 (waits)".to_owned()
            };
            lines.push(format!("tidelock_claim  {name}, {}, weight {}, {state}", id(claim.id), claim.weight));
        }
    }
}

const fn kind(line: &Line) -> &'static str {
    match line.kind {
        Kind::Mutex => "mutex",
        Kind::RwLock => "read-write",
        _ => "semaphore",
    }
}

/// A name's row stays for an hour after its last use.
pub(super) fn idle(name: &str, newest: u64, lines: &mut Vec<String>) {
    lines.push(format!("tidelock_line  {name}, token {newest}"));
}

pub(super) fn sessions(sessions: &[String], lines: &mut Vec<String>) {
    lines.extend(sessions.iter().map(|who| format!("tidelock_session  {who}, until when it lives")));
}
