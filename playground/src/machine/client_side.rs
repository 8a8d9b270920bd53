//! What happens at a client: its program, the replies that arrive, its keeper and its own clock.

use super::{FIRST, Item, Machine, Message};
use crate::arrivals;
use crate::client::Doing;
use crate::policy::Policy;
use crate::program::{Do, Op};
use crate::record::{Kind, Record};
use crate::settings::{Flavour, Work};

/// How long a client waits for a reply.
const PATIENCE: u32 = 400;

/// The version that a client has "read" if it has nothing to commit.
pub(super) const NOTHING_TO_COMMIT: u32 = u32::MAX;

/// The answer to a join in a session that has ended, although the client holds something by it.
pub(super) const SESSION_OVER: u32 = u32::MAX;

impl Machine {
    /// The client goes on with its program until something takes time.
    pub(super) fn run(&mut self, who: u16, record: &mut Record) {
        loop {
            let pc = self.client(who).pc;
            let Some((_, what)) = self.program(who).steps.get(pc).copied() else { return };
            match what {
                Do::Call(Op::Join(_)) if self.stands_in_local_line(who, record) => return,
                Do::Call(Op::Leave(_)) if self.gives_back_locally(who, record) => {
                    if self.client(who).holds_any() {
                        return; // the crowd's lane, for the next one of it
                    }
                    self.client_mut(who).pc += 1;
                }
                Do::Call(op) => return self.call(who, op, record),
                Do::DelIfRead if self.client(who).is_owner => return self.call(who, Op::Del, record),
                Do::Rest if !self.is_scheduled() => return self.rest(who, record),
                Do::Think if !self.is_scheduled() => return self.later(who, self.settings.hold, record),
                Do::Majority if self.client(who).votes < 2 => {
                    let give_back = self.program(who).give_back;
                    self.client_mut(who).pc = give_back;
                }
                Do::Majority => {
                    self.client_mut(who).pc += 1;
                    let cause = self.client(who).because;
                    self.holds(who, 0, 1, cause, record);
                }
                Do::Next if self.next_round(who, record) => return,
                Do::Next => {}
                Do::Rest | Do::Think | Do::DelIfRead | Do::Again => self.client_mut(who).pc += 1,
            }
        }
    }

    /// The next step comes after about this time.
    fn later(&mut self, who: u16, mean: u32, record: &mut Record) {
        let takes = self.client_mut(who).draws.around(mean);
        self.after(who, takes, record);
    }

    fn after(&mut self, who: u16, takes: u32, record: &mut Record) {
        let now = self.now;
        let client = self.client_mut(who);
        client.pc += 1;
        client.turn += 1;
        let turn = client.turn;
        self.push(now + takes, who, Item::Run(turn));
        self.shade(who, record);
    }

    /// Until the next round. The crowd goes on at once while somebody of it has come; that one has waited since.
    fn rest(&mut self, who: u16, record: &mut Record) {
        let now = self.now;
        if !self.settings.is_crowd(who) {
            let client = &mut self.clients[usize::from(who)];
            let takes = arrivals::rest(&self.settings, &mut client.draws, now, client.rounds == 0);
            return self.after(who, takes, record);
        }
        let came = arrivals::comes_at(&self.settings, self.client(who).rounds);
        if came <= now && !self.settings.policy.is_bare() {
            self.client_mut(who).waits_since = Some(came);
        }
        self.after(who, came.saturating_sub(now).max(1), record);
    }

    /// How many of the crowd have come and wait behind the one for whom it stands in line.
    #[must_use]
    pub fn behind_the_crowd(&self, now: u32) -> u32 {
        match self.clients.get(usize::from(self.settings.clients)) {
            Some(crowd) if self.settings.crowd > 0 && !crowd.is_over() => {
                arrivals::have_come(&self.settings, now).saturating_sub(crowd.rounds + 1)
            }
            _ => 0,
        }
    }

    /// The client can do its next step now.
    fn ready(&mut self, who: u16, record: &mut Record) {
        let client = self.client_mut(who);
        client.turn += 1;
        client.doing = Doing::Ready;
        let turn = client.turn;
        if !self.is_scheduled() {
            self.push(self.now + 1, who, Item::Run(turn));
        }
        self.shade(who, record);
    }

    /// The client tries the same step again after about this time.
    fn sleep(&mut self, who: u16, mean: u32, record: &mut Record) {
        let client = self.client_mut(who);
        client.doing = Doing::Asleep;
        client.turn += 1;
        let (takes, turn) = (client.draws.around(mean), client.turn);
        if !self.is_scheduled() {
            self.push(self.now + takes, who, Item::Run(turn));
        }
        self.shade(who, record);
    }

    /// A round is over. True: the client does nothing more for now.
    fn next_round(&mut self, who: u16, record: &mut Record) -> bool {
        let has_failed = self.settings.policy == Policy::Redlock && self.client(who).votes < 2;
        let limit =
            if self.settings.is_crowd(who) { self.settings.crowd } else { self.settings.rounds.into() };
        let (retry, poll) = (self.program(who).retry, self.settings.poll);
        let client = self.client_mut(who);
        client.is_at_work = false;
        client.votes = 0;
        if has_failed && !client.is_last {
            client.pc = retry;
            self.sleep(who, poll, record);
            return true;
        }
        client.rounds += 1;
        client.pc = 0;
        let ends = client.is_last || (limit > 0 && client.rounds >= limit);
        self.counters.rounds += 1;
        if ends {
            let cause = self.client(who).because;
            self.client_mut(who).doing = Doing::Ended;
            self.note(Kind::Ended, who, 0, 0, cause, record);
        }
        self.shade(who, record);
        ends
    }

    /// Sends a request, and waits for its reply.
    pub(super) fn call(&mut self, who: u16, op: Op, record: &mut Record) {
        self.prepare(who, op);
        let client = self.client_mut(who);
        client.doing = Doing::Calling;
        client.turn += 1;
        self.send(who, op, record);
        self.shade(who, record);
    }

    /// What a client does before it sends.
    pub(super) fn prepare(&mut self, who: u16, op: Op) {
        let now = self.now;
        let (tasks, task) = (u32::from(self.settings.tasks), u32::from(who - self.process_of(who).start));
        let commits_later = self.settings.policy == Policy::EarlyRelease;
        let gives_back = matches!(op, Op::Leave(_) | Op::Del | Op::DelMine(_) | Op::Get);
        let client = self.client_mut(who);
        match op {
            Op::Join(slot) => {
                // Chosen before anything is sent; no other task of the process has the same.
                client.claims[usize::from(slot)] = client.rounds * tasks + task + 1;
                client.waits_since.get_or_insert(now);
            }
            Op::SetTtl(_) | Op::Set | Op::Share => {
                client.waits_since.get_or_insert(now);
            }
            Op::Leave(slot) => client.holds[usize::from(slot)] = None,
            Op::Del | Op::DelMine(_) | Op::Get => client.holds[0] = None,
            Op::Read | Op::SetDatabase | Op::Enter => client.is_at_work = true,
            _ => {}
        }
        if !client.holds_any() {
            client.knows_loss = false;
            client.is_in_jeopardy = false;
        }
        if gives_back && !commits_later {
            client.is_at_work = false;
        }
    }

    fn send(&mut self, who: u16, op: Op, record: &mut Record) {
        let session = self.session(who);
        let client = self.client(who);
        let slot = if let Op::Join(slot) | Op::Leave(slot) = op { slot } else { 0 };
        let value = match self.settings.work {
            Work::Sale => client.read.0.saturating_sub(1),
            Work::Pages => client.read.0 + 1,
            Work::Seats | Work::Cache => u32::from(who) + 1 + client.rounds * 1000,
        };
        let message = Message {
            op,
            turn: client.turn,
            session,
            claim: client.claims[usize::from(slot)],
            value,
            version: client.read.1,
            token: client.token(),
            sent: self.now,
            answer: 0,
            cause: 0,
        };
        let cause = client.because;
        let event = self.note(Kind::Call, who, op.code(), message.token, cause, record);
        self.counters.requests += u32::from(op.server().is_some());
        match self.travel(who) {
            Some(at) => self.push(at, who, Item::Request(Message { cause: event, ..message })),
            None => self.is_lost(who, message, event, record),
        }
    }

    /// A message to or from this client is lost: it will wait in vain.
    pub(super) fn is_lost(&mut self, who: u16, message: Message, event: u32, record: &mut Record) {
        let lost = self.note(Kind::Dropped, who, message.op.code(), 0, event, record);
        let at = self.now.max(message.sent + PATIENCE);
        self.push(at, who, Item::Timeout(message.turn, lost));
        if message.op == Op::Renew {
            for who in self.family(who) {
                self.client_mut(who).is_in_jeopardy = self.client(who).holds_any();
                self.shade(who, record);
            }
        }
    }

    pub(super) fn timed_out(&mut self, who: u16, turn: u32, cause: u32, record: &mut Record) {
        let client = self.client(who);
        if client.turn != turn || client.doing != Doing::Calling {
            return;
        }
        let event = self.note(Kind::Timeout, who, 0, 0, cause, record);
        self.client_mut(who).because = event;
        self.ready(who, record); // the same step again, with the same claim: harmless where that is promised
    }

    /// A reply arrives.
    pub(super) fn answered(&mut self, who: u16, message: Message, record: &mut Record) {
        if self.client(who).cut_until > self.now {
            return self.is_lost(who, message, message.cause, record);
        }
        if self.client(who).loses_reply && message.op != Op::Renew {
            self.client_mut(who).loses_reply = false;
            return self.is_lost(who, message, message.cause, record);
        }
        if message.op == Op::Renew {
            return self.renewed(who, message, record);
        }
        let client = self.client(who);
        if client.turn != message.turn || client.is_over() {
            return;
        }
        let event = self.note(Kind::Reply, who, message.op.code(), message.answer, message.cause, record);
        self.client_mut(who).because = event;
        self.take_reply(who, message, event, record);
    }

    fn take_reply(&mut self, who: u16, message: Message, event: u32, record: &mut Record) {
        let is_yes = message.answer > 0;
        match message.op {
            Op::Join(_) if message.answer == SESSION_OVER => {
                self.is_over_at_the_store(who, event, record);
                if !self.client(who).holds_any() {
                    self.stands_again(who, event, record);
                }
            }
            // It has joined for a process whose session has ended meanwhile.
            Op::Join(_) if message.session != self.session(who) && self.family(who).len() > 1 => {
                self.stands_again(who, event, record);
            }
            Op::Join(slot) => self.stands(who, slot, message, event, record),
            Op::Look => self.looked(who, message, event, record),
            Op::SetTtl(_) if self.settings.policy == Policy::Redlock => {
                self.client_mut(who).votes += u8::from(is_yes);
                self.go_on(who, record);
            }
            Op::SetTtl(_) | Op::Set | Op::Share if !is_yes => self.try_later(who, record),
            Op::SetTtl(_) | Op::Set | Op::Share | Op::SetUnread => {
                self.client_mut(who).trusted_until = message.sent + self.settings.ttl;
                self.holds(who, 0, 1, event, record);
                self.start_keeper(who);
                self.go_on(who, record);
            }
            Op::Get => {
                self.client_mut(who).is_owner = is_yes;
                self.go_on(who, record);
            }
            Op::Read => self.has_read(who, message, record),
            Op::WriteIf if !is_yes => {
                self.client_mut(who).pc = self.program(who).retry;
                self.ready(who, record);
            }
            Op::Decrement if !is_yes => {
                self.client_mut(who).is_last = true;
                self.go_on(who, record);
            }
            Op::Leave(slot) => {
                self.client_mut(who).claims[usize::from(slot)] = 0;
                self.go_on(who, record);
            }
            _ => self.go_on(who, record),
        }
    }

    fn go_on(&mut self, who: u16, record: &mut Record) {
        self.client_mut(who).pc += 1;
        self.ready(who, record);
    }

    fn has_read(&mut self, who: u16, message: Message, record: &mut Record) {
        let give_back = self.program(who).give_back;
        let has_none = self.settings.work == Work::Sale && message.value == 0;
        let client = self.client_mut(who);
        client.read = (message.value, message.version);
        if message.answer == 0 || has_none {
            client.pc = give_back; // the fence has refused it, or nothing is left
            client.is_last = message.answer > 0;
            client.is_at_work = false;
            client.read.1 = NOTHING_TO_COMMIT;
        } else {
            client.pc += 1;
        }
        self.ready(who, record);
    }

    /// The reply to a join.
    fn stands(&mut self, who: u16, slot: u8, message: Message, event: u32, record: &mut Record) {
        self.client_mut(who).trusted_until = message.sent + self.settings.ttl;
        self.start_keeper(who);
        if message.answer > 0 {
            self.enters(who, slot, message.answer, event, record);
        } else {
            self.client_mut(who).doing = Doing::InLine;
            self.start_polling(who);
            self.shade(who, record);
        }
    }

    /// This client's turn has come.
    pub(super) fn enters(&mut self, who: u16, slot: u8, token: u32, cause: u32, record: &mut Record) {
        self.begins_turn(who);
        self.holds(who, slot, token, cause, record);
        self.watch_deadline(who);
        self.go_on(who, record);
    }

    pub(super) fn start_polling(&mut self, who: u16) {
        if self.settings.flavour == Flavour::Poll && !self.is_scheduled() {
            let mean = self.settings.poll;
            let client = self.client_mut(who);
            client.turn += 1;
            let (takes, turn) = (client.draws.around(mean), client.turn);
            self.push(self.now + takes, who, Item::Poll(turn));
        }
    }

    pub(super) fn poll(&mut self, who: u16, turn: u32, record: &mut Record) {
        if self.client(who).turn == turn && self.client(who).doing == Doing::InLine {
            self.call(who, Op::Look, record);
        }
    }

    /// The reply to a look.
    fn looked(&mut self, who: u16, message: Message, event: u32, record: &mut Record) {
        let slot = self.slot(who);
        if message.answer > 0 {
            return self.enters(who, slot, message.answer, event, record);
        }
        self.client_mut(who).doing = Doing::InLine;
        self.start_polling(who);
        self.shade(who, record);
    }

    /// The lock for which this client stands in line.
    pub(super) fn slot(&self, who: u16) -> u8 {
        match self.program(who).steps.get(self.client(who).pc) {
            Some((_, Do::Call(Op::Join(slot)))) => *slot,
            _ => 0,
        }
    }

    /// The store says by itself that a client holds.
    pub(super) fn told(&mut self, who: u16, grant: (u8, u32, u32), cause: u32, record: &mut Record) {
        let (slot, claim, token) = grant;
        let who = self.stands_for(who);
        let client = self.client(who);
        let is_waiting = matches!(client.doing, Doing::InLine | Doing::Calling);
        let is_meant = client.claims[usize::from(slot)] == claim && client.holds[usize::from(slot)].is_none();
        if !is_waiting || !is_meant || self.slot(who) != slot || client.waits_since.is_none() {
            return;
        }
        self.enters(who, slot, token, cause, record);
    }

    /// From now on this client believes that it holds.
    fn holds(&mut self, who: u16, slot: u8, token: u32, cause: u32, record: &mut Record) {
        let event = self.note(Kind::Held, who, token, u32::from(slot), cause, record);
        let now = self.now;
        let client = self.client_mut(who);
        client.because = event;
        if !client.holds_any() {
            (client.knows_loss, client.outlived, client.crossed) = (false, false, false);
        }
        client.holds[usize::from(slot)] = Some(token);
        let waited = client.waits_since.take().map_or(0, |since| now - since);
        record.waited(now, who, waited);
        self.counters.holds += 1;
        let is_rival = |other: &u16| {
            let its = self.client(*other);
            *other != who && its.holds_any() && !its.crossed && !its.is_over() && self.conflicts(who, *other)
        };
        if let Some(rival) = (0..self.settings.lanes()).find(is_rival) {
            self.client_mut(rival).crossed = true;
            self.counters.overlaps += 1;
            self.counters.betrayals += u32::from(!self.client(rival).outlived);
            self.note(Kind::Overlap, who, rival.into(), 0, event, record);
        }
    }

    /// The lock is taken: the client tries again later, or when it is told.
    fn try_later(&mut self, who: u16, record: &mut Record) {
        let is_told = matches!(self.settings.policy, Policy::Herd | Policy::Unfair);
        if !is_told || self.is_scheduled() {
            return self.sleep(who, self.settings.poll, record);
        }
        self.client_mut(who).doing = Doing::Watching;
        self.servers[0].key.watchers.insert(who);
        if self.servers[0].key.owner.is_none() {
            self.hint(who, FIRST); // it was deleted between the two requests
        }
        self.shade(who, record);
    }

    /// A hint arrives.
    pub(super) fn hinted(&mut self, who: u16, cause: u32, record: &mut Record) {
        let who = self.stands_for(who);
        let doing = self.client(who).doing;
        let stands_behind = self.cohort_of(who).is_some() && self.client(who).claims[0] == 0;
        if !matches!(doing, Doing::Watching | Doing::InLine) || stands_behind {
            return;
        }
        let event = self.note(Kind::Hint, who, 0, 0, cause, record);
        self.client_mut(who).because = event;
        if doing == Doing::Watching {
            self.ready(who, record);
        } else {
            self.call(who, Op::Look, record);
        }
    }

    fn start_keeper(&mut self, who: u16) {
        let home = self.home(who);
        if self.settings.renew && !self.is_scheduled() && !self.client(home).keeper {
            self.client_mut(home).keeper = true;
            self.push(self.next_renewal(home), home, Item::Keeper);
        }
    }

    /// The keeper renews, as long as there is something to renew.
    pub(super) fn keep(&mut self, who: u16, record: &mut Record) {
        let has_line = self.settings.policy.has_line();
        let stands = |who: u16| {
            let client = self.client(who);
            let stands = client.holds_any() || (has_line && client.claims != [0, 0]);
            stands && !client.is_over()
        };
        if !self.family(who).any(stands) {
            self.client_mut(who).keeper = false;
            return;
        }
        self.send(who, Op::Renew, record);
        self.push(self.next_renewal(who), who, Item::Keeper);
    }

    fn next_renewal(&self, who: u16) -> u32 {
        self.now + self.client(who).by_its_clock(self.settings.ttl / 3)
    }

    /// The reply to a renewal: 0, it is over; 1, it goes on; more: the order of a grant, plus one.
    fn renewed(&mut self, who: u16, message: Message, record: &mut Record) {
        if self.session(who) != message.session || self.family(who).all(|who| self.client(who).is_over()) {
            return;
        }
        if message.answer == 0 {
            return self.is_over_at_the_store(who, message.cause, record);
        }
        let until = message.sent + self.settings.ttl;
        for task in self.family(who) {
            let client = self.client_mut(task);
            client.trusted_until = client.trusted_until.max(until);
            client.is_in_jeopardy = false;
            if message.answer > 1 && client.doing == Doing::InLine {
                let slot = self.slot(task);
                let claim = self.client(task).claims[usize::from(slot)];
                if claim == message.claim {
                    self.told(task, (slot, claim, message.answer - 1), message.cause, record);
                }
            }
            self.watch_deadline(task);
            self.shade(task, record);
        }
    }

    /// The store says that the session, or the claim, is over.
    fn is_over_at_the_store(&mut self, who: u16, cause: u32, record: &mut Record) {
        self.forget_cohorts(who);
        for task in self.family(who) {
            if self.client(task).holds_any() {
                self.loses(task, cause, record);
            } else if self.client(task).doing == Doing::InLine {
                self.stands_again(task, cause, record);
            }
        }
        if self.settings.policy.has_line() {
            let home = self.home(who);
            self.client_mut(home).session += 1;
        }
    }

    /// The number of this client's session.
    pub(super) fn session(&self, who: u16) -> u32 {
        self.client(self.home(who)).session
    }

    /// A waiter whose claim is gone stands in line again, at the tail.
    pub(super) fn stands_again(&mut self, who: u16, cause: u32, record: &mut Record) {
        self.client_mut(who).because = cause;
        self.ready(who, record);
    }

    /// The client's own clock is to be looked at when its lock may be lost.
    fn watch_deadline(&mut self, who: u16) {
        let client = self.client(who);
        if !self.settings.policy.has_line() || self.is_scheduled() || !client.holds_any() {
            return;
        }
        let until = client.trusted_until;
        let margin = self.settings.ttl / 500 + 5;
        let at = self.now + client.by_its_clock(until.saturating_sub(margin).saturating_sub(self.now));
        self.push(at, who, Item::Deadline(until));
    }

    pub(super) fn deadline(&mut self, who: u16, until: u32, record: &mut Record) {
        let client = self.client(who);
        if client.trusted_until == until && client.holds_any() && !client.knows_loss {
            let cause = client.because;
            self.loses(who, cause, record);
        }
    }

    /// The client knows now that its lock is lost. Tidelock's guard drops the work; the others go on.
    fn loses(&mut self, who: u16, cause: u32, record: &mut Record) {
        if self.client(who).knows_loss {
            return;
        }
        let event = self.note(Kind::Lost, who, 0, 0, cause, record);
        self.counters.losses += 1;
        let give_back = self.program(who).give_back;
        let is_line = self.settings.policy.has_line();
        let client = self.client_mut(who);
        client.knows_loss = true;
        client.because = event;
        if is_line && client.pc < give_back {
            (client.pc, client.is_at_work) = (give_back, false);
            client.read.1 = NOTHING_TO_COMMIT;
            self.ready(who, record);
        }
        self.shade(who, record);
    }
}
