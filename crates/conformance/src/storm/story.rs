//! Merges the records of several processes into one history.
//!
//! The processes read the same clock, so times give the order. Faults are recorded as outages, which may overlap: a
//! fault begins with the first of them, and everything is healed when none is left.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidelock_core::backend::Moment;

use crate::history::{Event, EventKind};

/// Something that was wrong for a while.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Outage {
    pub(super) from: Moment,
    pub(super) to: Moment,
    pub(super) what: String,
}

/// What is known of one round.
#[derive(Debug, Default)]
pub(super) struct Story {
    /// Events of all processes, in any order.
    pub(super) events: Vec<Event>,
    pub(super) outages: Vec<Outage>,
    /// Outages in which holders may go on believing that they hold, as the subject has declared.
    pub(super) overlaps: Vec<(Moment, Moment)>,
}

/// The parts of a claim's life that matter here.
#[derive(Clone, Debug)]
struct Life {
    who: Arc<str>,
    name: Arc<str>,
    asked: Duration,
    stood: Option<Duration>,
    granted: Option<Duration>,
    ended: Option<Duration>,
}

impl Story {
    /// All events in one order, with times since `began`.
    pub(super) fn tell(self, began: Moment) -> Vec<Event> {
        let Self { mut events, outages, overlaps } = self;
        let lives = lives(&events);
        let faults = faults(&outages, began);
        let begun = faults.iter().filter(|event| event.what != EventKind::Healed);
        let begun: Vec<Duration> = begun.map(|event| event.at).collect();
        // For events at the same time, this order: a fault, and then the claims that still stand in line after it.
        events.splice(0..0, faults);
        events.extend(lives.iter().flat_map(|(claim, life)| still_standing(*claim, life, &begun)));
        for (from, to) in overlaps {
            let (from, to) = (from.since(began), to.since(began));
            let believing = |life: &Life| life.asked <= to && life.ended.is_none_or(|ended| ended >= from);
            let them = lives.iter().filter(|(_, life)| believing(life));
            events.extend(them.map(|(claim, life)| life.event(*claim, from, EventKind::Overlap)));
        }
        events.sort_by_key(|event| event.at);
        events
    }
}

fn lives(events: &[Event]) -> BTreeMap<u64, Life> {
    let mut lives: BTreeMap<u64, Life> = BTreeMap::new();
    for event in events.iter().filter(|event| event.claim > 0) {
        let life = lives.entry(event.claim).or_insert_with(|| Life {
            who: event.who.clone(),
            name: event.name.clone(),
            asked: event.at,
            stood: None,
            granted: None,
            ended: None,
        });
        match event.what {
            EventKind::StandsUntilGranted => life.stood = Some(event.at),
            EventKind::Granted { .. } => life.granted = Some(event.at),
            EventKind::LetGo
            | EventKind::Lost
            | EventKind::Refused
            | EventKind::Failed
            | EventKind::Cancelled => {
                life.ended = Some(event.at);
            }
            _ => {}
        }
    }
    lives
}

/// A claim that was granted had kept its place in line since it stood there, whatever faults came in between. In a local
/// line the claim may be older than the request of the task that has it now: nothing is known of that one's own place.
fn still_standing(claim: u64, life: &Life, faults: &[Duration]) -> Vec<Event> {
    let (Some(stood), Some(granted)) = (life.stood, life.granted) else { return Vec::new() };
    if stood < life.asked {
        return Vec::new();
    }
    let between = faults.iter().filter(|at| (stood..granted).contains(at));
    between.map(|at| life.event(claim, *at, EventKind::StandsUntilGranted)).collect()
}

impl Life {
    fn event(&self, claim: u64, at: Duration, what: EventKind) -> Event {
        Event { at, who: self.who.clone(), name: self.name.clone(), claim, what }
    }
}

/// The outages as events: each begins, and all is healed when none is left.
fn faults(outages: &[Outage], began: Moment) -> Vec<Event> {
    let mut outages: Vec<&Outage> = outages.iter().collect();
    outages.sort_by_key(|outage| outage.from);
    let event = |at: Moment, what| Event {
        at: at.since(began),
        who: "storm".into(),
        name: "".into(),
        claim: 0,
        what,
    };
    let mut events = Vec::new();
    let mut until: Option<Moment> = None;
    for outage in outages {
        if let Some(end) = until.filter(|end| *end < outage.from) {
            events.push(event(end, EventKind::Healed));
            until = None;
        }
        events.push(event(outage.from, EventKind::Fault { act: outage.what.clone() }));
        until = Some(until.unwrap_or(outage.to).max(outage.to));
    }
    events.extend(until.map(|end| event(end, EventKind::Healed)));
    events
}

#[cfg(test)]
mod tests {
    use tidelock_core::Kind;

    use super::*;

    fn moment(at: u64) -> Moment {
        Moment::from_nanos(at)
    }

    fn outage(from: u64, to: u64) -> Outage {
        Outage { from: moment(from), to: moment(to), what: format!("{from} to {to}") }
    }

    fn event(at: u64, claim: u64, what: EventKind) -> Event {
        Event { at: Duration::from_nanos(at), who: "client 0".into(), name: "stock".into(), claim, what }
    }

    fn words(events: &[Event]) -> Vec<(u64, u64, &str)> {
        let at = |event: &Event| u64::try_from(event.at.as_nanos()).unwrap();
        events.iter().map(|event| (at(event), event.claim, event.what.word())).collect()
    }

    #[test]
    fn all_is_healed_when_no_spell_is_left() {
        let outages = vec![outage(20, 30), outage(0, 5), outage(4, 8), outage(22, 24)];
        let told = Story { outages, ..Story::default() }.tell(moment(0));
        let expected = [
            (0, 0, "fault"),
            (4, 0, "fault"),
            (8, 0, "healed"),
            (20, 0, "fault"),
            (22, 0, "fault"),
            (30, 0, "healed"),
        ];
        assert_eq!(words(&told), expected);
    }

    #[test]
    fn who_kept_its_place_still_stands_after_a_fault() {
        let granted = EventKind::Granted { token: 32, told: Some(1), id: "a".into() };
        let stands = EventKind::StandsUntilGranted;
        let asked =
            |at, claim| event(at, claim, EventKind::Asked { kind: Kind::Mutex, weight: 1, capacity: 1 });
        let mut events = vec![asked(0, 1), event(20, 1, granted.clone()), event(1, 1, stands.clone())];
        events.push(event(2, 2, EventKind::Stands));
        events.extend([asked(4, 3), event(21, 3, granted), event(3, 3, stands)]); // another task's claim, once
        let told = Story { events, outages: vec![outage(5, 6)], ..Story::default() }.tell(moment(0));
        let expected = [
            (0, 1, "asked"),
            (1, 1, "stands until granted"),
            (2, 2, "stands"),
            (3, 3, "stands until granted"),
            (4, 3, "asked"),
            (5, 0, "fault"),
            (5, 1, "stands until granted"),
            (6, 0, "healed"),
            (20, 1, "granted"),
            (21, 3, "granted"),
        ];
        assert_eq!(words(&told), expected);
    }

    #[test]
    fn an_overlap_is_of_those_who_had_asked_by_its_end_and_were_there() {
        let events = vec![
            event(1, 1, EventKind::Refused),
            event(2, 2, EventKind::Cancelled),
            event(15, 3, EventKind::Stands),
            event(21, 4, EventKind::Stands),
            event(25, 2, EventKind::LetGo),
        ];
        let overlaps = vec![(moment(10), moment(20))];
        let told = Story { events, overlaps, ..Story::default() }.tell(moment(0));
        let excused = told.iter().filter(|event| event.what == EventKind::Overlap);
        assert_eq!(excused.map(|event| event.claim).collect::<Vec<_>>(), [2, 3]);
    }
}
