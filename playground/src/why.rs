//! What an event is, in a sentence, and which events led to it.

mod local_line;

use crate::client::name as process;
use crate::machine::Machine;
use crate::program::Op;
use crate::record::{Event, Kind, NONE};
use crate::run::{Run, sorted};
use crate::settings::{ACTS, Act, Work};

/// The most links of a chain that are shown.
const LONGEST: usize = 10;

impl Run {
    /// What this event is, in a sentence.
    #[must_use]
    pub fn sentence(&self, number: u32) -> String {
        let Some(event) = self.record.events.get(number as usize) else { return String::new() };
        let who = if self.is_of_process(event) { self.process(event.who) } else { self.client(event.who) };
        let sentence = match event.kind {
            Kind::Call => format!("{who} sends: {}.", request(event.a)),
            Kind::Done => self.done(event, &who),
            Kind::Denied => self.denied(event, number, &who),
            Kind::Reply if event.b == 0 && event.a == 0 => format!("{who} learns that it waits its turn."),
            Kind::Reply if event.b == 0 => format!("{who} learns: no."),
            Kind::Reply => format!("{who} has the reply."),
            Kind::Grant => {
                format!("It is {who}'s turn: the store grants it the lock with token {}.", event.a)
            }
            Kind::Held if self.settings().policy.has_line() => {
                format!("{who} holds the lock, with token {}.", event.a)
            }
            Kind::Held => format!("{who} believes that it holds the lock."),
            Kind::Hint => format!("{who} is told that the lock may be free."),
            Kind::Expired => format!(
                "The lease of {who} is over: nobody renewed it in time. The store gives the lock away."
            ),
            Kind::Lost => self.lost(number, &who),
            Kind::Dropped => {
                format!("The message was lost ({}). {who} does not know what became of it.", request(event.a))
            }
            Kind::Timeout => format!("{who} has no reply, and tries again."),
            Kind::Act => self.act(event, &who),
            Kind::Resumed => format!("{who} goes on. For {who} no time has passed."),
            Kind::Ended => format!("{who} is done."),
            Kind::Wrong => self.wrong(event, &who),
            Kind::Oversold if event.b == 1 => {
                format!("{} have sat down where there is room for {}.", event.a, self.settings().permits)
            }
            Kind::Oversold => format!(
                "That is order {} for {} item{}: an update was lost, so an item is sold twice.",
                event.a,
                self.settings().stock,
                if self.settings().stock == 1 { "" } else { "s" }
            ),
            Kind::Overlap => {
                format!("Two believe that they hold: {who}, and {} still.", self.client(event.a as u16))
            }
            Kind::Behind => local_line::behind(event, &who),
            Kind::Leads => self.leads(event, &who),
            Kind::Pass => self.pass(event, &who),
        };
        match sentence.strip_prefix("the ") {
            Some(rest) => format!("The {rest}"), // the crowd, at the beginning of a sentence
            None => sentence,
        }
    }

    fn client(&self, who: u16) -> String {
        if self.settings().is_crowd(who) { "the crowd".to_owned() } else { self.settings().name(who) }
    }

    /// What the process of this client is called.
    fn process(&self, who: u16) -> String {
        if self.settings().is_crowd(who) {
            "the crowd".to_owned()
        } else {
            process(self.settings().process(who))
        }
    }

    /// Whether this concerns every task of a process: what is done to it, and what becomes of its session.
    fn is_of_process(&self, event: &Event) -> bool {
        let is_of_session = match event.kind {
            Kind::Expired => true,
            Kind::Call | Kind::Done | Kind::Denied | Kind::Dropped => event.a & 0xff == Op::Renew.code(),
            Kind::Act => {
                return event.a < Act::Restart as u32
                    && ![Act::LoseReply as u32, Act::Cancel as u32].contains(&event.a);
            }
            _ => false,
        };
        is_of_session && self.settings().policy.has_line()
    }

    /// Whether a lease of the first is one of the second.
    fn is_its_lease(&self, one: u16, other: u16) -> bool {
        let settings = self.settings();
        one == other || (settings.policy.has_line() && settings.process(one) == settings.process(other))
    }

    /// The events that led to this one, newest first, itself included. A wrong write has a second root: the write that
    /// it undid. If that one was a stale holder's, all began there.
    #[must_use]
    pub fn chain(&self, number: u32) -> Vec<u32> {
        let mut chain = vec![number];
        let mut at = number;
        while let Some(event) = self.record.events.get(at as usize) {
            let mut before = event.cause;
            match event.kind {
                Kind::Wrong if event.b != NONE => {
                    chain.push(event.b);
                    if let Some(end) = self.stale_between(event) {
                        chain.extend([event.cause, end]);
                        before = event.b;
                    } else {
                        chain.extend(self.overlap_of(event, at));
                        chain.extend(self.end_of_hold(event.who, at));
                    }
                }
                // A read or a write that the fence refuses.
                Kind::Denied if matches!(event.a, 12 | 13) => chain.extend(self.end_of_hold(event.who, at)),
                Kind::Overlap => chain.extend(self.reasons(event, at)),
                Kind::Pass => chain.extend(self.grant_of(event.a, at)),
                // More is sold than there is because an update was lost before.
                Kind::Oversold => {
                    before = self.newest(at, |event| event.kind == Kind::Wrong).unwrap_or(before);
                }
                _ => {}
            }
            if before == NONE || before >= at || chain.len() >= LONGEST {
                break;
            }
            at = before;
            chain.push(at);
        }
        let mut chain = sorted(chain);
        chain.dedup();
        chain.reverse();
        chain
    }

    /// What the line, or the key, looks like in the words of a store; one line of text for each thing that it keeps.
    #[must_use]
    pub fn store_view(&self, machine: &Machine) -> Vec<String> {
        crate::view::lines(self.settings(), machine)
    }

    fn done(&self, event: &Event, who: &str) -> String {
        match event.a & 0xff {
            0 if event.b > 0 => {
                format!("{who} joins the line. Nobody is ahead: it holds, with token {}.", event.b)
            }
            0 => format!("{who} joins the line, and waits: somebody is ahead."),
            1 => format!("{who} leaves the line.{}", self.given_back(event)),
            2 if event.b > 0 => format!("{who} looks: it is its turn, with token {}.", event.b),
            2 => format!("{who} looks: it still waits."),
            3 => format!("{who} renews its lease for {} ms.", self.settings().ttl),
            4..=6 => format!("The key is free: now it says \"{who}\"."),
            7 => "The key will expire now.".to_owned(),
            8 => format!("The key still says \"{who}\"."),
            9 => format!("{who} deletes the key, without a look at whose it is."),
            10 => format!("{who} gives the lock back."),
            11 => format!("{who} is one more reader; no writer holds."),
            12 if self.settings().work == Work::Sale => format!("{who} reads: {} left.", event.b),
            12 => format!("{who} reads version {}.", event.b),
            13..=15 if self.settings().work == Work::Sale => {
                format!("{who} sells one, and writes: {} left.", event.b)
            }
            13..=15 => format!("{who} writes version {}.", event.b),
            16 => format!("{who} sits down."),
            17 => format!("{who} gets up."),
            18 => format!("The database says {} now.", event.b),
            _ => format!("The cache says {} now.", event.b),
        }
    }

    fn act(&self, event: &Event, who: &str) -> String {
        let by = event.b;
        let server = match self.settings().policy.servers() {
            1 => "The server",
            _ => ["Server a", "Server b", "Server c"][usize::from(event.who) % 3],
        };
        let act = ACTS.iter().find(|row| row.0 as u32 == event.a).map_or(Act::Pause, |row| row.0);
        let keeps = self.settings().keeps_on_disk();
        let memory = if keeps { "What it kept is on its disk." } else { "It has forgotten everything." };
        match act {
            Act::Pause => format!("{who} stands still for {by} ms, and does not notice it."),
            Act::Kill => format!("{who} dies. It gives nothing back."),
            Act::Partition => format!("{who} is cut off for {by} ms: nothing reaches it, nothing leaves it."),
            Act::Heal => format!("{who}'s network is whole again."),
            Act::LoseReply => format!("The next reply to {who} will be lost."),
            Act::Cancel => format!("{who} does not want to wait any more."),
            Act::Slow => format!("{who}'s clock runs {by} % slow from now on."),
            Act::Fast => format!("{who}'s clock runs {by} % fast from now on."),
            Act::Skew => format!(
                "{who}'s wall clock is set ahead by {by} ms. Nothing changes: a lease is counted by a clock that nobody sets."
            ),
            Act::Restart => format!("{server} restarts. {memory}"),
            Act::Stop => format!("{server} is killed, and nobody starts it. {memory}"),
            Act::Start => format!("{server} is started again."),
            Act::Failover => {
                format!("{server} fails; a replica takes over that missed the newest write.")
            }
            Act::Jump => format!("{server} sets its clock ahead by {by} ms."),
        }
    }

    /// A client learns that it has lost the lock. Tidelock's guard drops the work, the others go on.
    fn lost(&self, number: u32, who: &str) -> String {
        let what = if self.settings().policy.has_line() {
            "and stops its work"
        } else {
            "but its program does not look, and goes on"
        };
        let under_way =
            if self.has_write_under_way(number) { " Its write is already on its way." } else { "" };
        format!("{who} knows now that it has lost the lock, {what}.{under_way}")
    }

    /// Whether at this event its client has sent a write that has not arrived.
    fn has_write_under_way(&self, number: u32) -> bool {
        let who = self.record.events[number as usize].who;
        let is_call = |event: &Event| {
            event.kind == Kind::Call && event.who == who && matches!(event.a, 13..=15 | 18 | 19)
        };
        self.newest(number, is_call).is_some_and(|call| {
            let mut later = self.record.events[call as usize..].iter().zip(call..);
            let arrival =
                later.find(|row| row.0.cause == call && matches!(row.0.kind, Kind::Done | Kind::Denied));
            arrival.is_some_and(|row| row.1 > number)
        })
    }

    fn denied(&self, event: &Event, number: u32, who: &str) -> String {
        match event.a & 0xff {
            0 => format!("{who} joins the line, but its session is over: what it held is lost."),
            3 => format!("{who} wants to renew: there is nothing to renew any more."),
            4..=6 | 11 => format!("The lock is taken: {who} gets a no."),
            8 => format!("The key does not say \"{who}\" any more."),
            9 | 10 => format!("{who} finds nothing of its own to give back."),
            12 | 13 => {
                let what = if event.a == 12 { "read" } else { "write" };
                let (token, newest) = self.compared(number).unwrap_or_default();
                format!(
                    "The fence refuses {who}'s {what}: its token {token} is older than {newest}, the newest seen."
                )
            }
            14 => format!("The version has changed: {who}'s write is refused, and it tries again."),
            _ => format!("Nothing is left for {who}."),
        }
    }

    /// The token that the fence refuses at this event, and the newest one seen, with which it was compared.
    #[must_use]
    pub fn compared(&self, number: u32) -> Option<(u32, u32)> {
        let event = self.record.events.get(number as usize)?;
        if event.kind != Kind::Denied || !matches!(event.a, 12 | 13) {
            return None;
        }
        let token = self.record.events.get(event.cause as usize)?.b;
        let machine = self.moment(number + 1);
        Some((token, machine.resource.fence[machine.segment(event.who)]))
    }

    fn wrong(&self, event: &Event, who: &str) -> String {
        let events = &self.record.events;
        let (Some(between), Some(write)) = (events.get(event.b as usize), events.get(event.cause as usize))
        else {
            return format!("{who} wrote what it had computed from an old value.");
        };
        let other = self.client(between.who);
        let is_sale = self.settings().work == Work::Sale;
        let (read, what) = if is_sale { (write.b + 1, "") } else { (write.b.saturating_sub(1), "version ") };
        if self.stale_between(event).is_some() {
            return format!(
                "A stale write came between: {who} read {what}{read}, then {other} wrote {what}{}, and {who} overwrites \
                 that with {what}{}. {other}'s write is lost.",
                between.b, write.b
            );
        }
        let stale = if self.end_of_hold(event.who, event.cause).is_some() { ", a stale holder," } else { "" };
        format!(
            "{who}{stale} overwrites {what}{} with {what}{}, computed from an old value: it had read {what}{read}, and \
             {other} had written since. {other}'s write is lost.",
            between.b, write.b
        )
    }

    /// If the write in between was a stale holder's, and this one was not: when that one's lease ended.
    fn stale_between(&self, wrong: &Event) -> Option<u32> {
        let between = self.record.events.get(wrong.b as usize)?;
        let end = self.end_of_hold(between.who, wrong.b)?;
        self.end_of_hold(wrong.who, wrong.cause).is_none().then_some(end)
    }

    /// Why two could do that: they both believed that they held, and what led to it.
    fn overlap_of(&self, wrong: &Event, before: u32) -> Vec<u32> {
        let other = self.record.events[wrong.b as usize].who;
        let is_it = |event: &Event| {
            let (one, two) = (event.who, event.a as u16);
            event.kind == Kind::Overlap && [(one, two), (two, one)].contains(&(wrong.who, other))
        };
        let Some(overlap) = self.newest(before, is_it) else { return Vec::new() };
        let mut reasons = self.reasons(&self.record.events[overlap as usize], overlap);
        reasons.push(overlap);
        reasons
    }

    /// Why the store let another in: the rival began to hold, and then its lease ended, or something was done to the
    /// server.
    fn reasons(&self, overlap: &Event, before: u32) -> Vec<u32> {
        let rival = overlap.a as u16;
        let is_end = |event: &Event| match event.kind {
            Kind::Expired => self.is_its_lease(event.who, rival),
            Kind::Act => event.a >= Act::Restart as u32 || self.is_its_lease(event.who, rival),
            _ => false,
        };
        let hold = self.hold_of(rival, before);
        hold.into_iter().chain(self.newest(before, is_end)).collect()
    }

    /// When the lease of a client ended that still believed that it held.
    fn end_of_hold(&self, who: u16, before: u32) -> Option<u32> {
        let is_end = |event: &Event| event.kind == Kind::Expired && self.is_its_lease(event.who, who);
        let end = self.newest(before, is_end);
        end.filter(|end| self.hold_of(who, before) < Some(*end))
    }

    fn newest(&self, before: u32, is_it: impl Fn(&Event) -> bool) -> Option<u32> {
        self.record.events[..before as usize].iter().rposition(is_it).map(|index| index as u32)
    }

    /// The event by which this client began to hold, before another event.
    fn hold_of(&self, who: u16, before: u32) -> Option<u32> {
        let events = &self.record.events[..before as usize];
        events
            .iter()
            .rposition(|event| event.kind == Kind::Held && event.who == who)
            .map(|index| index as u32)
    }
}

/// What a request says.
fn request(code: u32) -> &'static str {
    const WORDS: [&str; 20] = [
        "join the line",
        "leave the line",
        "how do I stand?",
        "renew",
        "set the key, if there is none, with a ttl",
        "set the key, if there is none",
        "set the key, if there is none, with a ttl",
        "let the key expire",
        "whose is the key?",
        "delete the key",
        "delete the key, if it is mine",
        "add me to the readers",
        "read",
        "write",
        "write, if the version is the same",
        "take one, if there is one",
        "sit down",
        "get up",
        "write to the database",
        "write to the cache",
    ];
    debug_assert_eq!(Op::SetCache.code() as usize, WORDS.len() - 1);
    WORDS.get(code as usize).copied().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use crate::{Act, Kind, Run, Settings};

    #[test]
    fn a_lost_update_leads_back_to_the_failover() {
        let link = "v2;policy=setnx;clients=3;seed=2;hold=120;gap=150;latency=15;do=160.failover.0.0";
        let run = Run::new(&Settings::read(link).unwrap());
        let chain = run.chain(run.first(Kind::Wrong).unwrap());
        let kinds: Vec<Kind> = chain.iter().map(|event| run.record.events[*event as usize].kind).collect();
        assert!(kinds.contains(&Kind::Overlap), "{kinds:?}");
        let is_failover = |event: &u32| {
            let event = run.record.events[*event as usize];
            event.kind == Kind::Act && event.a == Act::Failover as u32
        };
        assert!(chain.iter().any(is_failover), "{kinds:?}");
        assert!(chain.windows(2).all(|pair| pair[0] > pair[1]));
    }

    #[test]
    fn a_refused_write_and_a_lost_update_lead_back_to_the_end_of_the_lease() {
        for (lesson, kind) in [("fenced", Kind::Denied), ("unfenced", Kind::Wrong)] {
            let lesson = crate::lessons().into_iter().find(|one| one.id == lesson).unwrap();
            let (run, _) = lesson.runs().unwrap();
            let is_it = |event: &crate::Event| event.kind == kind && (kind == Kind::Wrong || event.a == 13);
            let it = run.record.events.iter().position(is_it).unwrap() as u32;
            let chain = run.chain(it);
            let kinds: Vec<Kind> =
                chain.iter().map(|event| run.record.events[*event as usize].kind).collect();
            assert!(kinds.contains(&Kind::Expired) && kinds.contains(&Kind::Act), "{kinds:?}");
        }
    }

    /// The run of the lesson "unfenced", or of "fenced": c1 stands still with 8 read and token 3, while others sell.
    fn paused(lesson: &str) -> Run {
        crate::lessons().into_iter().find(|one| one.id == lesson).unwrap().runs().unwrap().0
    }

    fn all(run: &Run, kind: Kind) -> Vec<u32> {
        (0..run.count()).filter(|event| run.record.events[*event as usize].kind == kind).collect()
    }

    #[test]
    fn every_loss_leads_back_to_the_write_of_the_stale_holder() {
        let run = paused("unfenced");
        let lost = all(&run, Kind::Wrong);
        let stale = run.record.events[lost[0] as usize].cause;
        assert!(run.sentence(stale).starts_with("c1 sells one"));
        assert!(run.sentence(lost[0]).starts_with("c1, a stale holder, overwrites 2 with 7"));
        assert!(run.sentence(lost[1]).contains("c3 read 2, then c1 wrote 7, and c3 overwrites that with 1"));
        for event in lost.into_iter().chain(all(&run, Kind::Oversold)) {
            let chain = run.chain(event);
            assert!(chain.contains(&stale), "{}: {chain:?}", run.sentence(event));
            let pause = all(&run, Kind::Act)[0];
            assert!(chain.contains(&pause), "{}: {chain:?}", run.sentence(event));
        }
    }

    #[test]
    fn a_refusal_says_which_tokens_were_compared() {
        let run = paused("fenced");
        let is_write = |event: &u32| run.record.events[*event as usize].a == 13;
        let refused = all(&run, Kind::Denied).into_iter().find(is_write).unwrap();
        assert_eq!(run.compared(refused), Some((3, 10)));
        assert!(run.sentence(refused).contains("its token 3 is older than 10"), "{}", run.sentence(refused));
        assert_eq!(run.compared(0), None);
    }

    #[test]
    fn who_learns_of_its_loss_too_late_has_its_write_on_the_way() {
        let run = paused("fenced");
        let said = run.sentence(run.first(Kind::Lost).unwrap());
        assert!(said.ends_with("stops its work. Its write is already on its way."), "{said}");
        let naive = paused("pause");
        let said = naive.sentence(naive.first(Kind::Lost).unwrap());
        assert!(said.contains("does not look, and goes on"), "{said}");
    }

    #[test]
    fn every_event_has_a_sentence() {
        for lesson in crate::lessons() {
            let (run, _) = lesson.runs().unwrap();
            for event in 0..run.count() {
                let sentence = run.sentence(event);
                assert!(sentence.ends_with('.') || sentence.ends_with('?'), "{}: {sentence}", lesson.id);
            }
        }
    }
}
