//! A timeline as text: the shortest window of a history that shows the fault, with a column for each claim.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::{Event, EventKind, Violation};

/// The maximum number of lines of a timeline.
const LINES: usize = 24;

/// The mark of a claim in that state.
const ABSENT: char = ' ';
const ASKS: char = '?';
const WAITS: char = 'w';
const HOLDS: char = '#';
const LOST: char = 'x';

/// The window of a violation, with a line for each event and a column for each claim involved. Without a violation,
/// the last events.
#[must_use]
pub fn timeline(events: &[Event], violation: Option<&Violation>) -> String {
    let Some(violation) = violation else {
        return last(events);
    };
    let concerned = |event: &Event| match event.what {
        EventKind::Fault { .. } | EventKind::Healed | EventKind::Overlap => true,
        _ if violation.claims.is_empty() => *event.name == *violation.name,
        _ => violation.claims.contains(&event.claim),
    };
    let is_theirs = |event: &Event| violation.claims.contains(&event.claim);
    // Also the history before the window: everything its claims did, and what happened to all within the window.
    let shown: Vec<(usize, &Event)> = events
        .iter()
        .enumerate()
        .take(violation.to + 1)
        .filter(|(position, event)| is_theirs(event) || (*position >= violation.from && concerned(event)))
        .collect();
    draw(&shown, &violation.claims, Some(violation))
}

/// The last events, of all clients.
fn last(events: &[Event]) -> String {
    let shown: Vec<(usize, &Event)> = events.iter().enumerate().collect();
    let from = shown.len().saturating_sub(LINES);
    let mut claims: Vec<u64> =
        shown[from..].iter().map(|(_, event)| event.claim).filter(|claim| *claim > 0).collect();
    claims.sort_unstable();
    claims.dedup();
    let claims = if claims.len() > 12 { Vec::new() } else { claims };
    draw(&shown, &claims, None)
}

fn draw(shown: &[(usize, &Event)], claims: &[u64], violation: Option<&Violation>) -> String {
    let mut marks: BTreeMap<u64, char> = claims.iter().map(|claim| (*claim, ABSENT)).collect();
    let mut lines: Vec<String> = Vec::new();
    let mut alike = 0;
    for (index, (position, event)) in shown.iter().enumerate() {
        if let Some(mark) = marks.get_mut(&event.claim) {
            *mark = after(*mark, &event.what);
        }
        let is_like = |(_, other): &(usize, &Event)| {
            (&other.who, &other.name, &other.what) == (&event.who, &event.name, &event.what)
        };
        if violation.is_none() && shown.get(index + 1).is_some_and(is_like) {
            alike += 1;
            continue;
        }
        let lanes: String = claims.iter().flat_map(|claim| [' ', marks[claim]]).collect();
        let name = match (event.name.is_empty(), violation) {
            (false, None) => format!("{:?}: ", event.name),
            _ => String::new(),
        };
        let times = if alike > 0 { format!(" ({} times)", alike + 1) } else { String::new() };
        let is_end = violation.is_some_and(|violation| violation.to == *position);
        let end = if is_end { "   <-- broken here" } else { "" };
        let (at, who, sentence) = (event.at.as_secs_f64(), &event.who, event.what.sentence());
        lines.push(format!("{at:>9.3}s {lanes}  {name}{who} {sentence}{times}{end}\n"));
        alike = 0;
    }
    let mut text = String::new();
    let skipped = lines.len().saturating_sub(LINES);
    if skipped > 0 {
        let _ = writeln!(text, "          … {skipped} earlier lines");
    }
    text.extend(lines.drain(skipped..));
    if !claims.is_empty() {
        let _ = writeln!(
            text,
            "           a column for each claim: {ASKS} asks, {WAITS} waits, {HOLDS} holds, {LOST} knows it is lost"
        );
    }
    text
}

fn after(before: char, what: &EventKind) -> char {
    match what {
        EventKind::Asked { .. } => ASKS,
        EventKind::Stands | EventKind::StandsBehind | EventKind::StandsUntilGranted => WAITS,
        EventKind::Granted { .. } => HOLDS,
        EventKind::Lost => LOST,
        EventKind::Refused | EventKind::Failed | EventKind::Cancelled | EventKind::LetGo => ABSENT,
        _ => before,
    }
}
