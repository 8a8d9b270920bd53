//! The local line of a process: its tasks that want the same name stand in it behind one claim in the store, and pass
//! the hold of that claim along it.

use std::hash::Hasher;

/// How often a hold may be passed on: as often as the low five bits of a token can tell.
pub const MOST_PASSES: u32 = 31;

/// The token of a grant of the store: its order, with room for the passes.
pub(crate) const fn token(order: u32) -> u32 {
    order * (MOST_PASSES + 1)
}

/// The order of a token's grant, and how often it had been passed on.
pub(crate) const fn parts(token: u32) -> (u32, u32) {
    (token / (MOST_PASSES + 1), token % (MOST_PASSES + 1))
}

/// Why a task stands in the store's line for its process at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Reason {
    /// Nobody else of the process stands in line or holds.
    First,
    /// The linger is over, and the hold is passed on no more.
    Lingered,
    /// The hold has been passed on as often as its token can tell.
    Used,
    /// The one that stood in the store's line has given up, and leaves its place there to this one.
    Inherits,
}

/// A hold that is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Turn {
    /// The number of the claim.
    pub claim: u32,
    /// From then on it is passed on no more.
    pub ends: u32,
    /// How often it has been.
    pub passes: u32,
}

/// The local line of one name in one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cohort {
    /// Who stands in the store's line for all.
    pub leader: Option<u16>,
    /// Who waits behind it, in order.
    pub waiting: Vec<u16>,
    /// The hold that is passed on.
    pub turn: Option<Turn>,
}

impl Turn {
    /// Why it is not passed on any more.
    #[must_use]
    pub const fn over(&self, now: u32) -> Option<Reason> {
        if self.passes == MOST_PASSES {
            Some(Reason::Used)
        } else if now >= self.ends {
            Some(Reason::Lingered)
        } else {
            None
        }
    }
}

impl Cohort {
    /// Why the next one has to stand in the store's line now; `None` if it need not.
    #[must_use]
    pub fn wants_leader(&self, now: u32) -> Option<Reason> {
        match (self.leader, self.turn) {
            (Some(_), _) => None,
            (None, None) => Some(Reason::First),
            (None, Some(turn)) => turn.over(now),
        }
    }

    /// The first of those that wait, who waits no more.
    pub(crate) fn next(&mut self) -> Option<u16> {
        if self.waiting.is_empty() { None } else { Some(self.waiting.remove(0)) }
    }

    /// Whether the hold of this claim may be passed on.
    pub(crate) fn may_pass(&self, claim: u32, now: u32) -> bool {
        self.turn.is_some_and(|turn| turn.claim == claim && turn.over(now).is_none())
    }

    /// What decides how it goes on, for comparing two states.
    pub(crate) fn mix(&self, now: u32, hasher: &mut impl Hasher) {
        let turn = self.turn.unwrap_or(Turn { claim: 0, ends: 0, passes: 0 });
        for number in [turn.claim, turn.passes, turn.ends.saturating_sub(now)] {
            hasher.write_u32(number);
        }
        for who in self.leader.iter().chain(&[u16::MAX]).chain(&self.waiting) {
            hasher.write_u16(*who);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::record::{Event, Kind};
    use crate::{Run, Settings, Work};

    fn run(link: &str) -> Run {
        Run::new(&Settings::read(&format!("v2;policy=cohort;{link}")).unwrap())
    }

    fn all(run: &Run, kind: Kind) -> impl Iterator<Item = &Event> {
        run.record.events.iter().filter(move |event| event.kind == kind)
    }

    /// When the store's grant began of which this token is.
    fn granted(run: &Run, number: u32) -> u32 {
        let first = token(parts(number).0);
        all(run, Kind::Held).find(|event| event.a == first).expect("its grant").at
    }

    const FLAVOURS: [&str; 4] = ["push", "watch", "range", "poll"];

    #[test]
    fn one_holds_at_a_time_and_tokens_grow_with_each_pass() {
        for (flavour, seed) in
            FLAVOURS.into_iter().flat_map(|flavour| (1..20).map(move |seed| (flavour, seed)))
        {
            let link = format!(
                "clients=9;tasks=4;hold=20;gap=20;stock=1000;end=20000;flavour={flavour};seed={seed};loss=2"
            );
            let run = run(&link);
            let figures = run.outcome();
            assert_eq!((figures.overlaps, figures.refused), (0, 0), "{link}");
            assert!(figures.passes > 50, "{link}: {figures:?}");
            let tokens: Vec<u32> = all(&run, Kind::Held).map(|event| event.a).collect();
            assert!(tokens.is_sorted_by(|one, next| one < next), "{link}: {tokens:?}");
        }
    }

    #[test]
    fn a_hold_is_passed_on_within_its_process_for_31_times_at_most() {
        let run = run("clients=10;tasks=8;hold=2;gap=2;latency=2;stock=5000;linger=20000");
        let mut most = 0;
        for pass in all(&run, Kind::Pass) {
            let settings = run.settings();
            assert_eq!(settings.process(pass.who), settings.process(pass.b as u16));
            most = most.max(parts(pass.a).1);
            assert!(parts(pass.a).1 > 0, "one pass more than a token can tell");
            assert!(granted(&run, pass.a) <= pass.at);
        }
        assert_eq!(most, MOST_PASSES);
        assert!(all(&run, Kind::Leads).any(|event| event.a == Reason::Used as u32));
        assert!(all(&run, Kind::Grant).any(|event| event.who >= 8), "the other process gets its turn");
    }

    #[test]
    fn a_hold_is_passed_on_for_as_long_as_the_linger_and_then_its_process_stands_behind_the_others() {
        for linger in [0, 100, 500] {
            let run = run(&format!("clients=5;tasks=4;hold=30;gap=1;stock=5000;linger={linger}"));
            let late = all(&run, Kind::Pass).filter(|pass| pass.at >= granted(&run, pass.a) + linger);
            assert_eq!(late.count(), 0, "{linger}");
            assert_eq!(run.outcome().passes > 0, linger > 0);
            // The others may be holding, and stand in line anew before this one comes: for the rest of a section, and
            // for a turn. A section takes 45 ms and four messages; one more is its leave, one the news of it.
            let (message, turn) = (31, linger + 45 + 6 * 31);
            let waits = run.record.waits.iter().filter(|wait| wait.1 == 4).map(|wait| wait.2);
            let longest = waits.max().unwrap();
            assert!(longest <= turn + 45 + 6 * message, "{linger}: {longest}");
            assert!(longest >= linger, "{linger}: {longest}");
            // While the other process waits, no process is granted the lock twice.
            let grants: Vec<u16> =
                all(&run, Kind::Grant).map(|event| run.settings().process(event.who)).collect();
            let twice = grants.windows(2).filter(|pair| pair[0] == pair[1]).count();
            assert!(grants.len() > 20 && twice * 10 < grants.len() || linger == 0, "{linger}: {grants:?}");
        }
    }

    /// Otherwise a section that lasts longer than the linger would cost its process its place.
    #[test]
    fn the_next_one_leads_when_the_linger_is_over_and_not_when_the_hold_is() {
        let run = run("clients=5;tasks=4;hold=300;gap=1;stock=5000;linger=150");
        let (mut ends, mut timely, mut waits) = (0, 0, [false; 5]);
        for event in &run.record.events {
            let who = usize::from(event.who);
            match event.kind {
                Kind::Held if who < 4 => ends = event.at + 150, // here nothing is passed on
                Kind::Behind => waits[who] = true,
                Kind::Leads if std::mem::take(&mut waits[who]) => {
                    assert_eq!((event.at, event.a), (ends, Reason::Lingered as u32));
                    timely += 1;
                }
                _ => {}
            }
        }
        assert!(timely > 8, "{timely}");
        assert_eq!(run.outcome().passes, 0);
    }

    #[test]
    fn who_waits_in_a_local_line_asks_the_store_for_nothing() {
        let run = run("clients=4;tasks=4;hold=30;gap=1;stock=5000;linger=500;renew=0");
        let asks = |event: &&Event| event.kind == Kind::Call && event.a < 2;
        let (asked, holds) = (run.record.events.iter().filter(asks).count() as u32, run.outcome().holds);
        assert!(asked < holds, "{asked} joins and leaves for {holds} holds");
        assert_eq!(all(&run, Kind::Pass).count() as u32, run.outcome().passes);
        let strict = Run::new(&Settings { policy: crate::Policy::Line, ..run.settings().clone() }).outcome();
        assert!(strict.requests >= 2 * strict.holds - 4, "{strict:?}");
        assert!(run.outcome().requests * 2 < strict.requests && holds > strict.holds, "{:?}", run.outcome());
    }

    #[test]
    fn the_first_of_a_local_line_is_served_first() {
        let run = run("clients=7;tasks=7;hold=30;gap=10;stock=5000;linger=300");
        let mut line = VecDeque::new();
        for event in &run.record.events {
            match event.kind {
                Kind::Behind => line.push_back(event.who),
                Kind::Pass => assert_eq!(line.pop_front(), Some(event.b as u16)),
                Kind::Leads => assert_eq!(line.pop_front(), Some(event.who)),
                _ => {}
            }
        }
        assert!(run.outcome().passes > 50);
    }

    #[test]
    fn the_crowd_passes_its_hold_to_the_next_of_it() {
        let run = run("clients=2;crowd=500;arrival=once;hold=5;stock=5000;linger=300");
        let own = all(&run, Kind::Pass).filter(|pass| (pass.who, pass.b) == (2, 2)).count();
        assert!(own > 20 && run.outcome().overlaps == 0, "{own} passes, {:?}", run.outcome());
        let served = all(&run, Kind::Held).filter(|event| event.who == 2).count() as u32;
        let rounds = run.last().clients[2].rounds;
        assert!(served == rounds || served == rounds + 1, "{served} holds in {rounds} rounds");
    }

    /// Whatever happens to a process, nothing wrong is written, and whoever lives comes to an end; also where each of its
    /// tasks has a claim of its own.
    #[test]
    fn no_fault_strands_a_task_of_a_process() {
        let acts = [
            "pause.1.3000",
            "pause.4.900",
            "kill.0.0",
            "kill.5.0",
            "partition.2.2600",
            "lose.1.0",
            "cancel.0.0",
            "cancel.1.0",
            "cancel.2.0",
            "cancel.3.0",
            "slow.1.60",
            "restart.0.500",
            "failover.0.0",
            "jump.0.2500",
        ];
        let all =
            acts.iter().enumerate().flat_map(|(number, act)| FLAVOURS.map(|flavour| (number, act, flavour)));
        for ((number, act, flavour), seed) in all.flat_map(|one| (1..25).map(move |seed| (one, seed))) {
            let (at, second) = (150 + 97 * seed + 13 * number, acts[(number + seed) % acts.len()]);
            for policy in ["cohort", "line"] {
                let link = format!(
                    "v2;policy={policy};clients=6;tasks=3;hold=40;gap=30;stock=5000;rounds=6;linger=250;end=90000;\
                     flavour={flavour};seed={seed};do={at}.{act},{}.{second}",
                    at + 31 * seed
                );
                let run = Run::new(&Settings::read(&link).unwrap());
                // A write whose reply is lost is written again, after whoever held next: no lock helps there.
                let is_lost = act.starts_with("lose") || second.starts_with("lose");
                assert!(run.outcome().wrong == 0 || is_lost, "{link}");
                assert!(run.last().is_over(), "{link}: {:?}", run.outcome());
            }
        }
    }

    #[test]
    fn a_process_that_stands_still_renews_nothing_also_if_its_first_task_has_ended() {
        let run = run("clients=3;tasks=2;hold=200;gap=50;stock=500;do=800.cancel.0.0,2000.pause.1.6000");
        assert_eq!(run.last().clients[0].doing, crate::Doing::Ended);
        let expired: Vec<(u16, u32)> = all(&run, Kind::Expired).map(|event| (event.who, event.at)).collect();
        assert!(matches!(expired[..], [(0, 2_000..=4_700)]), "{expired:?}");
    }

    #[test]
    fn permits_and_reads_have_claims_of_their_own() {
        for work in ["seats", "pages"] {
            let run = run(&format!("work={work};clients=6;tasks=3;writers=0;hold=30"));
            assert_eq!(run.outcome().passes, 0, "{work}");
            assert!(
                run.outcome().holds > 50 && run.outcome().most_seated <= 3,
                "{work}: {:?}",
                run.outcome()
            );
        }
        let writers = run("work=pages;clients=6;tasks=3;writers=4;hold=30");
        assert_eq!(writers.settings().work, Work::Pages);
        assert!(writers.outcome().passes > 10 && writers.outcome().overlaps == 0, "{:?}", writers.outcome());
    }

    #[test]
    fn a_pass_says_why_it_was_possible_and_a_leave_why_it_was_not() {
        let run = run("clients=5;tasks=4;hold=60;gap=60;stock=100");
        let said = |kind, a| {
            let is_it = |event: &Event| event.kind == kind && (a == u32::MAX || event.a == a);
            run.sentence(run.record.events.iter().position(is_it).unwrap() as u32)
        };
        let pass = said(Kind::Pass, u32::MAX);
        assert!(
            pass.contains("passes the hold on inside its process, to c1.")
                && pass.contains("pass 1 of at most 31"),
            "{pass}"
        );
        assert!(pass.contains("the linger is 400 ms"), "{pass}");
        let leads = said(Kind::Leads, Reason::Lingered as u32);
        assert!(leads.starts_with("The linger of 400 ms is over: c1."), "{leads}");
        let leaves = run.record.events.iter().zip(0..).filter(|row| (row.0.kind, row.0.a) == (Kind::Done, 1));
        let leaves: Vec<String> = leaves.map(|row| run.sentence(row.1)).collect();
        for reason in ["the linger of 400 ms is over", "Nobody else of its process waits"] {
            assert!(leaves.iter().any(|leave| leave.contains(reason)), "{reason}: {leaves:?}");
        }
        for event in 0..run.count() {
            assert!(run.sentence(event).ends_with('.'));
        }
        let pass = run.first(Kind::Pass).unwrap();
        let held =
            run.chain(pass).into_iter().filter(|one| run.record.events[*one as usize].kind == Kind::Held);
        assert!(held.count() > 0, "the chain of a pass leads to the store's grant");
    }
}
