//! Histories with one fault each, and the promise whose check must catch it.

use std::sync::Arc;
use std::time::Duration;

use tidelock_model::Kind;

use crate::{Event, EventKind, History, Promise};

/// A history that breaks exactly one promise.
#[derive(Debug)]
pub struct Faulty {
    /// The fault.
    pub what: &'static str,
    /// The check that must catch it.
    pub promise: Promise,
    /// The events.
    pub history: History,
}

/// All faulty histories.
#[must_use]
pub fn all() -> Vec<Faulty> {
    let faulty = |what, promise, script: Script| Faulty { what, promise, history: script.history() };
    vec![
        faulty("a mutex is held twice", Promise::Exclusion, a_mutex_is_held_twice()),
        faulty("a reader meets a writer", Promise::Exclusion, a_reader_meets_a_writer()),
        faulty("permits exceed the size", Promise::Exclusion, permits_exceed_the_size()),
        faulty("permits exceed a size that has grown", Promise::Exclusion, permits_exceed_a_grown_size()),
        faulty("a name is two kinds at once", Promise::Exclusion, a_name_is_two_kinds()),
        faulty("permits exceed what was told", Promise::Exclusion, permits_exceed_what_was_told()),
        faulty("two sizes are told", Promise::Sizes, two_sizes_are_told()),
        faulty("a size is told that no client declared", Promise::Sizes, a_size_that_nobody_said()),
        faulty("a later comer passes", Promise::Order, a_later_comer_passes()),
        faulty("a reader passes a waiting writer", Promise::Order, a_reader_passes_a_waiting_writer()),
        faulty("a small request passes a large one", Promise::Order, a_small_request_passes_a_large_one()),
        faulty("a token comes again", Promise::Tokens, a_token_comes_again()),
        faulty("a token goes down", Promise::Tokens, a_token_goes_down()),
        faulty("an old holder's write is accepted", Promise::Fence, an_old_write_is_accepted()),
        faulty("a holder's write is refused", Promise::Fence, a_holders_write_is_refused()),
        faulty("a name is unusable after healing", Promise::Usable, a_name_is_of_no_use()),
        faulty("a claim waits while nobody holds", Promise::Bounded, somebody_waits_for_nobody()),
        faulty("a later comer of one client passes", Promise::Order, a_later_comer_is_passed_the_hold()),
        faulty("a hold is passed on for too long", Promise::Passes, a_hold_is_passed_on_at(LINGER)),
        faulty("a hold is shared for too long", Promise::Passes, a_hold_is_shared_at(LINGER + 1)),
        faulty("a hold is passed on too often", Promise::Passes, a_hold_is_shared_by(33)),
        faulty("permits are passed on", Promise::Passes, permits_are_passed_on()),
        faulty("a client gets turn after turn", Promise::Order, a_client_gets_turns(3)),
        faulty("later readers get turn after turn", Promise::Order, later_readers_get_turns(2)),
    ]
}

/// A history written by hand; times are in milliseconds.
struct Script {
    events: Vec<Event>,
    linger: Duration,
}

/// For how long clients may pass a hold on in histories that say so, in milliseconds.
const LINGER: u64 = 10;

/// Claims from this number on are those of tasks of one client: 201 and 202 are tasks of client 2.
const TASKS: u64 = 100;

const WRITER: u32 = tidelock_model::Weight::MAX.get();

impl Script {
    fn new() -> Self {
        Self { events: Vec::new(), linger: Duration::ZERO }
    }

    fn with_linger() -> Self {
        Self { linger: Duration::from_millis(LINGER), ..Self::new() }
    }

    fn event(mut self, at: u64, claim: u64, name: &str, what: EventKind) -> Self {
        let who: Arc<str> = match claim {
            0 => "trial".into(),
            1..TASKS => format!("client {claim}").into(),
            _ => format!("client {}", claim / TASKS).into(),
        };
        self.events.push(Event { at: Duration::from_millis(at), who, name: name.into(), claim, what });
        self
    }

    fn asks(self, at: u64, claim: u64, weight: u32, capacity: u32) -> Self {
        let kind = match capacity {
            1 => Kind::Mutex,
            WRITER => Kind::RwLock,
            _ => Kind::Semaphore,
        };
        self.event(at, claim, "stock", EventKind::Asked { kind, weight, capacity })
    }

    fn stands(self, at: u64, claim: u64) -> Self {
        self.event(at, claim, "stock", EventKind::Stands)
    }

    fn stands_behind(self, at: u64, claim: u64) -> Self {
        self.event(at, claim, "stock", EventKind::StandsBehind)
    }

    fn granted(self, at: u64, claim: u64, token: u64) -> Self {
        self.event(at, claim, "stock", EventKind::Granted { token, told: None, id: "".into() })
    }

    fn told(self, at: u64, claim: u64, token: u64, told: u32) -> Self {
        let id = format!("session-{claim}").into();
        self.event(at, claim, "stock", EventKind::Granted { token, told: Some(told), id })
    }

    fn lets_go(self, at: u64, claim: u64) -> Self {
        self.event(at, claim, "stock", EventKind::LetGo)
    }

    fn writes(self, at: u64, token: u64) -> Self {
        self.event(at, 0, "resource", EventKind::Wrote { token, accepted: true })
    }

    fn history(self) -> History {
        History {
            backend: "written by hand".into(),
            trial: String::new(),
            seed: 0,
            ttl: Duration::from_secs(15),
            linger: self.linger,
            bound: Duration::from_secs(18),
            events: self.events,
        }
    }
}

fn a_mutex_is_held_twice() -> Script {
    Script::new()
        .asks(0, 1, 1, 1)
        .asks(1, 2, 1, 1)
        .granted(2, 1, 32)
        .granted(3, 2, 64)
        .lets_go(4, 1)
        .lets_go(5, 2)
}

fn a_reader_meets_a_writer() -> Script {
    let script = Script::new().asks(0, 1, 1, WRITER).granted(1, 1, 32).asks(2, 2, WRITER, WRITER);
    script.granted(3, 2, 64).lets_go(4, 2).lets_go(5, 1)
}

fn permits_exceed_the_size() -> Script {
    let script = Script::new().asks(0, 1, 2, 3).granted(1, 1, 32).asks(2, 2, 1, 3).granted(3, 2, 64);
    script.asks(4, 3, 1, 3).granted(5, 3, 96).lets_go(6, 1).lets_go(7, 2).lets_go(8, 3)
}

fn permits_exceed_a_grown_size() -> Script {
    let script =
        Script::new().asks(0, 1, 2, 2).granted(1, 1, 32).event(2, 9, "stock", EventKind::Resizing { to: 3 });
    let script = script.event(3, 9, "stock", EventKind::Resized { to: 3 }).asks(4, 2, 1, 3).granted(5, 2, 64);
    script.asks(6, 3, 1, 3).granted(7, 3, 96).lets_go(8, 1).lets_go(9, 2).lets_go(10, 3)
}

fn a_name_is_two_kinds() -> Script {
    let script = Script::new().asks(0, 1, 1, 1).granted(1, 1, 32).asks(2, 2, 1, 5).granted(3, 2, 64);
    script.lets_go(4, 1).lets_go(5, 2)
}

/// The client that declared 5 has left; the remaining ones were told 3.
fn permits_exceed_what_was_told() -> Script {
    let script = Script::new().asks(0, 1, 1, 5).told(1, 1, 32, 5).lets_go(2, 1);
    let script = script.asks(3, 2, 2, 3).told(4, 2, 64, 3).asks(5, 3, 2, 5).told(6, 3, 96, 3);
    script.lets_go(7, 2).lets_go(8, 3)
}

fn two_sizes_are_told() -> Script {
    let script = Script::new().asks(0, 1, 1, 3).told(1, 1, 32, 3).asks(2, 2, 1, 5).told(3, 2, 64, 5);
    script.lets_go(4, 1).lets_go(5, 2)
}

fn a_size_that_nobody_said() -> Script {
    Script::new().asks(0, 1, 1, 3).told(1, 1, 32, 4).lets_go(2, 1)
}

fn a_holders_write_is_refused() -> Script {
    let script = Script::new().asks(0, 1, 1, 1).granted(1, 1, 64);
    script.event(2, 1, "stock", EventKind::Wrote { token: 64, accepted: false }).lets_go(3, 1)
}

fn a_later_comer_passes() -> Script {
    let script = Script::new().asks(0, 1, 1, 1).granted(1, 1, 32).asks(2, 2, 1, 1).stands(3, 2);
    let script = script.asks(4, 3, 1, 1).stands(5, 3).lets_go(6, 1).granted(7, 3, 64).lets_go(8, 3);
    script.granted(9, 2, 96).lets_go(10, 2)
}

fn a_reader_passes_a_waiting_writer() -> Script {
    let script =
        Script::new().asks(0, 1, 1, WRITER).granted(1, 1, 32).asks(2, 2, WRITER, WRITER).stands(3, 2);
    let script = script.asks(4, 3, 1, WRITER).granted(5, 3, 64).lets_go(6, 1).lets_go(7, 3);
    script.granted(8, 2, 96).lets_go(9, 2)
}

fn a_small_request_passes_a_large_one() -> Script {
    let script = Script::new().asks(0, 1, 2, 3).granted(1, 1, 32).asks(2, 2, 2, 3).stands(3, 2);
    let script = script.asks(4, 3, 1, 3).granted(5, 3, 64).lets_go(6, 1).granted(7, 2, 96);
    script.lets_go(8, 2).lets_go(9, 3)
}

fn a_token_comes_again() -> Script {
    let script = Script::new().asks(0, 1, 1, 1).granted(1, 1, 32).lets_go(2, 1);
    script.asks(3, 2, 1, 1).granted(4, 2, 32).lets_go(5, 2)
}

fn a_token_goes_down() -> Script {
    let script = Script::new().asks(0, 1, 1, 1).asks(1, 2, 1, 1).granted(2, 1, 64).lets_go(3, 1);
    script.granted(4, 2, 32).lets_go(5, 2)
}

fn an_old_write_is_accepted() -> Script {
    Script::new().writes(0, 32).writes(1, 64).writes(2, 32)
}

fn a_name_is_of_no_use() -> Script {
    let fault = EventKind::Fault { act: "the server is restarted".into() };
    Script::new().event(0, 0, "", fault).event(1, 0, "", EventKind::Healed).asks(2, 1, 1, 1)
}

fn somebody_waits_for_nobody() -> Script {
    let script = Script::new().asks(0, 1, 1, 1).granted(1, 1, 32).asks(2, 2, 1, 1).stands(3, 2);
    script.lets_go(4, 1).granted(20_000, 2, 64).lets_go(20_001, 2)
}

fn a_later_comer_is_passed_the_hold() -> Script {
    let script = Script::with_linger().asks(0, 101, 1, 1).granted(1, 101, 32);
    let script = script.asks(2, 102, 1, 1).stands_behind(3, 102).asks(4, 103, 1, 1).lets_go(5, 101);
    script.granted(6, 103, 33).lets_go(7, 103).granted(8, 102, 34).lets_go(9, 102)
}

/// The store's grant is recorded at 1, and its holder lets go that much later. When the pass is recorded does not matter.
fn a_hold_is_passed_on_at(after: u64) -> Script {
    let script = Script::with_linger().asks(0, 101, 1, 1).granted(1, 101, 32).asks(2, 102, 1, 1);
    script.lets_go(1 + after, 101).granted(1_000, 102, 33).lets_go(1_001, 102)
}

fn a_hold_is_shared_at(after: u64) -> Script {
    let script = Script::with_linger().asks(0, 101, 1, WRITER).granted(1, 101, 32);
    let script = script.asks(1 + after, 102, 1, WRITER).granted(1_000, 102, 33);
    script.lets_go(1_001, 101).lets_go(1_002, 102)
}

fn a_hold_is_shared_by(readers: u64) -> Script {
    let all = || 101..101 + readers;
    let script = all().fold(Script::with_linger(), |script, claim| script.asks(0, claim, 1, WRITER));
    let token = |claim: u64| 32 + (claim - 101).min(31);
    let script = all().fold(script, |script, claim| script.granted(1, claim, token(claim)));
    all().fold(script, |script, claim| script.lets_go(2, claim))
}

fn permits_are_passed_on() -> Script {
    let script = Script::with_linger().asks(0, 101, 2, 3).granted(1, 101, 32).asks(2, 102, 2, 3);
    script.lets_go(3, 101).granted(4, 102, 33).lets_go(5, 102)
}

/// Client 1 has so many turns, while client 2 stands in line.
fn a_client_gets_turns(turns: u64) -> Script {
    let script = (0..turns).fold(Script::with_linger(), |script, turn| script.asks(turn, 101 + turn, 1, 1));
    let script = script.asks(10, 201, 1, 1).stands(11, 201);
    let script = (0..turns).fold(script, |script, turn| {
        script.granted(20 + turn, 101 + turn, 32 * (turn + 1)).lets_go(20 + turn, 101 + turn)
    });
    script.granted(30, 201, 32 * (turns + 1)).lets_go(31, 201)
}

/// Readers of client 1 that ask when a writer stands in line already share so many turns.
fn later_readers_get_turns(turns: u64) -> Script {
    let script = Script::with_linger().asks(0, 101, 1, WRITER).granted(1, 101, 32);
    let script = script.asks(2, 201, WRITER, WRITER).stands(3, 201);
    let script = (0..turns).fold(script, |script, turn| {
        let (at, reader) = (4 + turn, 102 + 2 * turn);
        let script = script.asks(at, reader, 1, WRITER).granted(at, reader, 32 * (turn + 1) + 1);
        script.asks(at, reader + 1, 1, WRITER).granted(at, reader + 1, 32 * (turn + 1) + 2)
    });
    let readers = 102..102 + 2 * turns;
    let script = readers.fold(script.lets_go(8, 101), |script, reader| script.lets_go(9, reader));
    script.granted(10, 201, 32 * (turns + 1)).lets_go(11, 201)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_caught_by_its_own_check_alone() {
        for Faulty { what, promise, history } in all() {
            let found: Vec<Promise> = history.check().iter().map(|violation| violation.promise).collect();
            assert_eq!(found, [promise], "{what}");
        }
    }

    #[test]
    fn the_same_without_the_fault_is_in_order() {
        let sound = Script::new().asks(0, 1, 1, 1).granted(1, 1, 32).asks(2, 2, 1, 1).stands(3, 2);
        let sound = sound.asks(4, 3, 1, 1).stands(5, 3).lets_go(6, 1).granted(7, 2, 64).lets_go(8, 2);
        let sound = sound.granted(9, 3, 96).lets_go(10, 3).writes(11, 32).writes(12, 32).writes(13, 64);
        assert_eq!(sound.history().check(), []);
    }

    #[test]
    fn what_a_client_may_pass_on_is_in_order() {
        let sound = [
            a_hold_is_passed_on_at(LINGER - 1),
            a_hold_is_shared_at(LINGER - 1),
            a_hold_is_shared_by(32),
            a_client_gets_turns(2),
            later_readers_get_turns(1),
        ];
        for script in sound {
            assert_eq!(script.history().check(), []);
        }
    }

    /// A store that shows its line may have claims of several kinds in it, and each kind has a local line.
    #[test]
    fn a_claim_of_another_kind_is_passed_as_if_it_were_another_clients() {
        let script =
            Script::with_linger().asks(0, 101, 1, 1).granted(1, 101, 32).asks(2, 102, WRITER, WRITER);
        let script = script.event(3, 102, "stock", EventKind::StandsUntilGranted).asks(4, 103, 1, 1);
        let script = script.lets_go(5, 101).granted(6, 103, 33).lets_go(7, 103).granted(8, 102, 64);
        assert_eq!(script.lets_go(9, 102).history().check(), []);
    }

    #[test]
    fn a_task_of_another_client_is_passed_and_one_of_the_same_is_not() {
        let passes = |linger| {
            let script = Script { linger, ..Script::new() }.asks(0, 101, 1, 1).granted(1, 101, 32);
            let script = script.asks(2, 201, 1, 1).stands(3, 201).asks(4, 102, 1, 1).stands_behind(5, 102);
            let script = script.lets_go(6, 101).granted(7, 102, 33).lets_go(8, 102);
            script.granted(9, 201, 64).lets_go(10, 201).history().check()
        };
        assert_eq!(passes(Duration::from_millis(LINGER)), []);
        let broken: Vec<Promise> = passes(Duration::ZERO).iter().map(|found| found.promise).collect();
        assert_eq!(broken, [Promise::Order, Promise::Passes]);
    }

    #[test]
    fn turns_are_counted_anew_when_the_client_that_waits_may_have_lost_its_place() {
        let begins = |between: fn(Script) -> Script| {
            let script = (1..=3).fold(Script::with_linger(), |script, task| script.asks(0, 100 + task, 1, 1));
            let script = script.asks(1, 201, 1, 1).asks(1, 202, 1, 1).stands(2, 201);
            let script = script.granted(3, 101, 32).lets_go(4, 101).granted(5, 102, 64).lets_go(6, 102);
            between(script).granted(8, 103, 96).lets_go(9, 103).history().check().len()
        };
        assert_eq!(begins(|script| script), 1);
        assert_eq!(begins(|script| script.event(7, 0, "", EventKind::Fault { act: String::new() })), 0);
        assert_eq!(begins(|script| script.event(7, 201, "stock", EventKind::Cancelled)), 0);
        assert_eq!(begins(|script| script.event(7, 202, "stock", EventKind::Refused)), 0);
    }

    #[test]
    fn a_client_whose_claim_is_known_waits_whatever_its_other_tasks_do() {
        let begins = |stands: EventKind| {
            let script = (1..=3).fold(Script::with_linger(), |script, task| script.asks(0, 100 + task, 1, 1));
            let script = script.asks(1, 201, 1, 1).asks(1, 202, 1, 1).event(2, 201, "stock", stands);
            let script = script.granted(3, 101, 32).lets_go(4, 101).granted(5, 102, 64).lets_go(6, 102);
            let script =
                script.event(7, 202, "stock", EventKind::Refused).granted(8, 103, 96).lets_go(9, 103);
            script.granted(10, 201, 128).lets_go(11, 201).history().check().len()
        };
        assert_eq!(begins(EventKind::StandsUntilGranted), 1);
        assert_eq!(begins(EventKind::Stands), 0, "it may have been the other's claim");
    }

    #[test]
    fn who_led_in_trouble_may_find_that_others_of_its_client_went_before() {
        let passes = |fault: u64, healed: u64| {
            let mut all = Script::with_linger();
            for at in 0..20 {
                all = match at {
                    _ if at == fault => all.event(at, 0, "", EventKind::Fault { act: "it rains".into() }),
                    _ if at == healed => all.event(at, 0, "", EventKind::Healed),
                    1 => all.asks(at, 101, 1, 1),
                    7 => all.event(at, 101, "stock", EventKind::StandsUntilGranted),
                    10 => all.asks(at, 102, 1, 1),
                    12 => all.granted(at, 102, 32),
                    13 => all.lets_go(at, 102),
                    14 => all.granted(at, 101, 64),
                    15 => all.lets_go(at, 101),
                    _ => all,
                };
            }
            all.history().check().len()
        };
        assert_eq!(passes(20, 20), 1);
        assert_eq!(passes(3, 5), 0, "it got no answer for a while");
        assert_eq!(passes(0, 5), 0, "it got no answer for a while");
        assert_eq!(passes(16, 17), 1, "it came later");
    }

    #[test]
    fn all_who_were_passed_a_claim_that_was_evicted_may_go_on_believing() {
        let granted = |script: Script, at, claim, token, id: &str| {
            script.event(at, claim, "stock", EventKind::Granted { token, told: None, id: id.into() })
        };
        let script = Script::with_linger().asks(0, 101, 1, WRITER).asks(0, 102, 1, WRITER);
        let script = granted(granted(script, 1, 101, 32, "a"), 2, 102, 33, "a");
        let script = script.event(3, 0, "", EventKind::Evicted { id: "a".into() });
        let script = granted(script.asks(4, 201, WRITER, WRITER), 5, 201, 64, "b");
        let script = script.lets_go(6, 101).lets_go(6, 102).lets_go(7, 201);
        assert_eq!(script.history().check(), []);
    }

    #[test]
    fn readers_share_and_tokens_of_readers_may_come_in_any_order() {
        let script = Script::new().asks(0, 1, 1, WRITER).asks(1, 2, 1, WRITER).granted(2, 2, 64);
        assert_eq!(script.granted(3, 1, 32).lets_go(4, 2).lets_go(5, 1).history().check(), []);
    }

    #[test]
    fn a_declared_overlap_is_no_violation() {
        let script = Script::new().asks(0, 1, 1, 1).granted(1, 1, 32).event(2, 0, "", EventKind::Overlap);
        assert_eq!(script.asks(3, 2, 1, 1).granted(4, 2, 64).lets_go(5, 2).history().check(), []);
    }

    #[test]
    fn a_size_that_was_declared_after_two_had_asked_lets_them_hold_together() {
        let script = Script::new().asks(0, 1, 3, 3).asks(1, 2, 1, 3).asks(2, 3, 1, 5).told(3, 3, 32, 5);
        let script = script.told(4, 2, 96, 5).lets_go(5, 2).told(6, 1, 64, 5);
        assert_eq!(script.lets_go(7, 1).lets_go(8, 3).history().check(), []);
    }

    #[test]
    fn a_resize_explains_two_sizes() {
        let script = Script::new().asks(0, 1, 1, 3).told(1, 1, 32, 3);
        let script = script.event(2, 9, "stock", EventKind::Resizing { to: 5 });
        let script =
            script.asks(3, 2, 1, 3).told(4, 2, 64, 5).event(5, 9, "stock", EventKind::Resized { to: 5 });
        assert_eq!(script.asks(6, 3, 3, 3).told(7, 3, 96, 5).lets_go(8, 1).history().check(), []);
    }

    #[test]
    fn an_evicted_holder_may_go_on_believing_whenever_it_hears_of_its_grant() {
        let evicted = || EventKind::Evicted { id: "session-1".into() };
        let late = Script::new().asks(0, 1, 1, 1).event(1, 0, "", evicted()).told(2, 1, 32, 1);
        let late = late.asks(3, 2, 1, 1).told(4, 2, 64, 1).lets_go(5, 1).lets_go(6, 2);
        assert_eq!(late.history().check(), []);
        let held = Script::new().asks(0, 1, 1, 1).told(1, 1, 32, 1).event(2, 0, "", evicted());
        let held = held.asks(3, 2, 1, 1).told(4, 2, 64, 1).asks(5, 3, 1, 1).told(6, 3, 96, 1);
        let found = held.history().check();
        assert_eq!(found.iter().map(|found| &*found.claims).collect::<Vec<_>>(), [&[2, 3][..]]);
    }

    #[test]
    fn nobody_waits_for_a_writer_that_was_evicted() {
        let script = Script::new().asks(0, 1, WRITER, WRITER).told(1, 1, 32, WRITER);
        let script = script.asks(2, 2, 1, WRITER).stands(3, 2);
        let script = script.event(4, 0, "", EventKind::Evicted { id: "session-1".into() });
        let script = script.asks(5, 3, 1, WRITER).granted(6, 3, 96).granted(7, 2, 64);
        assert_eq!(script.lets_go(8, 1).lets_go(9, 2).lets_go(10, 3).history().check(), []);
    }

    #[test]
    fn what_is_lost_for_no_reason_is_told_from_what_a_fault_may_have_cost() {
        let while_of = Duration::from_secs(30);
        let lost = |script: Script, at| script.event(at, 1, "stock", EventKind::Lost).history();
        let held = || Script::new().asks(0, 1, 1, 1).granted(1, 1, 32);
        let fault = || held().event(2, 0, "", EventKind::Fault { act: "it rains".into() });
        let healed = || fault().event(3, 0, "", EventKind::Healed);
        assert!(lost(held(), 4).lost_for_no_reason(while_of).is_some());
        assert!(lost(fault(), 40_000).lost_for_no_reason(while_of).is_none());
        assert!(lost(healed(), 4).lost_for_no_reason(while_of).is_none());
        assert!(lost(healed(), 40_000).lost_for_no_reason(while_of).is_some());
    }

    #[test]
    fn the_window_is_the_shortest() {
        let script = Script::new().asks(0, 1, 1, 1).granted(1, 1, 32).asks(2, 2, 1, 1).granted(3, 2, 64);
        let script = script.asks(4, 3, 1, 1).granted(5, 3, 96);
        let violation = script.history().check().remove(0);
        assert_eq!((violation.from, violation.to, violation.claims.as_slice()), (1, 3, &[1, 2][..]));
    }

    #[test]
    fn a_hundred_thousand_events_are_checked_in_no_time() {
        let mut script = Script::new();
        for claim in 1..=25_000 {
            let at = claim * 4;
            script = script.asks(at, claim, 1, 1).granted(at + 1, claim, claim * 32);
            script = script.writes(at + 2, claim * 32).lets_go(at + 3, claim);
        }
        let history = script.history();
        let began = std::time::Instant::now();
        assert_eq!(history.check(), []);
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    }
}
