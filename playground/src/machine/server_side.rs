//! What happens at the servers and at the resource: each request is carried out the moment that it arrives.

use tidelock_model::{ClaimId, Event as Told, Kind as LockKind, Leave, Op as Step, Weight};

use super::client_side::{NOTHING_TO_COMMIT, SESSION_OVER};
use super::{Item, Machine, Message};
use crate::client::Doing;
use crate::ids::{self, owner};
use crate::policy::Policy;
use crate::program::Op;
use crate::record::{Kind, NONE, Record};
use crate::resource::Verdict;
use crate::server::join;
use crate::settings::{Flavour, Work};

impl Machine {
    /// A request arrives: it is carried out, and the reply is sent.
    pub(super) fn serve(&mut self, who: u16, message: Message, record: &mut Record) {
        if self.client(who).cut_until > self.now {
            return self.is_lost(who, message, message.cause, record);
        }
        let reply = match message.op.server() {
            None => self.at_resource(who, message, record),
            Some(server) if self.servers[usize::from(server)].down_until > self.now => {
                return self.is_lost(who, message, message.cause, record);
            }
            Some(server) => {
                self.settle(server, record);
                self.at_server(usize::from(server), who, message, record)
            }
        };
        if self.client(who).doing == Doing::Dead {
            return; // what it had sent took effect, and nobody reads the reply
        }
        match self.travel(who) {
            Some(at) => self.push(at, who, Item::Reply(reply)),
            None => self.is_lost(who, reply, reply.cause, record),
        }
    }

    /// The id of a client's claim.
    pub(super) fn claim(&self, who: u16, slot: u8) -> ClaimId {
        self.id(who, self.session(who), self.client(who).claims[usize::from(slot)], slot)
    }

    fn id(&self, who: u16, session: u32, claim: u32, slot: u8) -> ClaimId {
        ids::id(self.settings.process(who), session, claim, slot)
    }

    fn at_server(&mut self, server: usize, who: u16, message: Message, record: &mut Record) -> Message {
        let (op, mut message) = (message.op, message);
        if self.replicates && !matches!(op, Op::Look | Op::Get | Op::Renew) {
            self.servers[server].remember();
        }
        let (answer, is_yes) = match op {
            Op::Join(_) | Op::Leave(_) | Op::Look => return self.in_line(who, message, record),
            Op::Renew => self.renew(who, &mut message, record),
            _ => self.at_key(server, who, message),
        };
        let kind = if is_yes { Kind::Done } else { Kind::Denied };
        let event = self.note(kind, who, op.code() | (server as u32) << 8, answer, message.cause, record);
        if is_yes && matches!(op, Op::Del | Op::DelMine(_)) {
            self.wake_watchers(server, event);
            self.shade_all(record);
        }
        self.watch_ends(server);
        Message { answer, cause: event, ..message }
    }

    fn in_line(&mut self, who: u16, message: Message, record: &mut Record) -> Message {
        let events = match message.op {
            Op::Join(slot) => self.join(who, slot, message),
            Op::Leave(slot) => {
                let (name, id) = (self.name(who, slot), self.id(who, message.session, message.claim, slot));
                self.servers[0].step(Step::Leave { name, id, how: Leave::Done })
            }
            _ => {
                let slot = self.slot(who);
                let (name, id) = (self.name(who, slot), self.claim(who, slot));
                self.servers[0].step(Step::Look { name, id })
            }
        };
        let answer = match events.first() {
            Some(Told::Held { token, .. }) => self.number(*token),
            Some(Told::Left { .. }) => 1,
            Some(Told::Refused { .. }) => SESSION_OVER,
            _ => 0,
        };
        let kind = if answer == SESSION_OVER { Kind::Denied } else { Kind::Done };
        let event = self.note(kind, who, message.op.code(), answer, message.cause, record);
        self.tell(&events[1.min(events.len())..], event, record);
        self.watch_ends(0);
        Message { answer, cause: event, ..message }
    }

    fn join(&mut self, who: u16, slot: u8, message: Message) -> Vec<Told<u8>> {
        let (session, home) = (ids::session(self.settings.process(who), message.session), self.home(who));
        let stands = |other: u16| {
            let client = self.client(other);
            client.holds_any() || (other != who && client.claims != [0, 0])
        };
        if self.client(home).opened < message.session || !self.family(who).any(stands) {
            self.servers[0].step(Step::Open { session, ttl: self.settings.ttl.into() });
            self.client_mut(home).opened = message.session;
        } else if self.family(who).len() > 1 {
            self.servers[0].step(Step::Renew(session)); // it lives
        }
        let id = self.id(who, message.session, message.claim, slot);
        let (kind, weight, capacity) = match self.settings.work {
            Work::Pages if self.settings.reads_only(who) => (LockKind::RwLock, Weight::ONE, Weight::MAX),
            Work::Pages => (LockKind::RwLock, Weight::MAX, Weight::MAX),
            Work::Seats => {
                let size = Weight::new(self.settings.permits).unwrap_or(Weight::ONE);
                (LockKind::Semaphore, Weight::ONE, size)
            }
            Work::Sale | Work::Cache => (LockKind::Mutex, Weight::ONE, Weight::ONE),
        };
        let name = self.name(who, slot);
        self.servers[0].step(join(name, id, kind, weight, capacity))
    }

    /// A renewal of the key, or of the session; there it says, too, how the client's claims stand.
    fn renew(&mut self, who: u16, message: &mut Message, record: &mut Record) -> (u32, bool) {
        if !self.settings.policy.has_line() {
            let until = self.servers[0].now() + self.settings.ttl;
            let owner = self.owner(who);
            let key = &mut self.servers[0].key;
            let is_mine = key.owner == Some(owner);
            if is_mine && key.until.is_some() {
                key.until = Some(until);
            }
            let has_key = is_mine || key.readers.all().contains(&who);
            return (has_key.into(), has_key);
        }
        let session = ids::session(self.settings.process(who), message.session);
        let lives = self.servers[0].step(Step::Renew(session));
        if !matches!(lives.first(), Some(Told::Lives { .. })) {
            return (0, false);
        }
        // A client with one task loses with its session what a join left there that was overtaken by its leave.
        if self.replicates || self.family(who).len() > 1 {
            self.give_back_strays(who, *message, record);
        }
        let mut answer = 1;
        for task in self.family(who) {
            for slot in 0..2u8 {
                match self.look(task, slot) {
                    Some(Told::Held { token, .. }) if self.may_learn(task, slot) => {
                        answer = self.number(token) + 1;
                        message.claim = self.client(task).claims[usize::from(slot)];
                    }
                    // While a join or a leave is under way, it says nothing that the claim is not there.
                    Some(Told::Absent { .. }) if self.client(task).doing != Doing::Calling => {
                        return (0, false);
                    }
                    _ => {}
                }
            }
        }
        (answer, true)
    }

    /// How a client's claim stands, if it has one.
    fn look(&mut self, who: u16, slot: u8) -> Option<Told<u8>> {
        if self.client(who).claims[usize::from(slot)] == 0 {
            return None;
        }
        let look = Step::Look { name: self.name(who, slot), id: self.claim(who, slot) };
        self.servers[0].step(look).into_iter().next()
    }

    /// Whether a renewal tells this client that it holds. Of several tasks only one that waits is told.
    fn may_learn(&self, who: u16, slot: u8) -> bool {
        let waits = self.client(who).doing == Doing::InLine || self.family(who).len() == 1;
        waits && slot == self.slot(who)
    }

    /// A renewal says, too, what stands in line in this session and is not known to its client, which gives it back:
    /// what a replica still has that missed a leave.
    fn give_back_strays(&mut self, who: u16, message: Message, record: &mut Record) {
        let mine = ids::session(self.settings.process(who), message.session);
        let mut known = Vec::new();
        for task in self.family(who) {
            known.extend((0..2u8).map(|slot| (self.name(task, slot), self.claim(task, slot))));
        }
        let lines = self.servers[0].world.lines();
        let claims = lines.flat_map(|(name, line)| line.claims.iter().map(|claim| (*name, claim.id)));
        let is_stray = |(name, id): &(u8, ClaimId)| id.session == mine && !known.contains(&(*name, *id));
        let strays: Vec<(u8, ClaimId)> = claims.filter(is_stray).collect();
        for (name, id) in strays {
            self.counters.messages += 1;
            let events = self.servers[0].step(Step::Leave { name, id, how: Leave::Done });
            let event = self.note(Kind::Done, who, Op::Leave(0).code(), 1, message.cause, record);
            self.tell(&events[1.min(events.len())..], event, record);
        }
    }

    /// The naive lock: one key.
    fn at_key(&mut self, server: usize, who: u16, message: Message) -> (u32, bool) {
        let (me, ttl, policy) = (self.owner(who), self.settings.ttl, self.settings.policy);
        let now = self.servers[server].now();
        let key = &mut self.servers[server].key;
        let is_free = key.owner.is_none() && key.readers.all().is_empty();
        let is_mine = key.owner == Some(me);
        let yes = match message.op {
            Op::SetTtl(_) | Op::Set | Op::SetUnread if is_free => {
                key.owner = Some(me);
                key.until = (message.op != Op::Set).then_some(now + ttl);
                key.watchers.remove(who);
                true
            }
            // "It is my own": right for Redlock's second try, wrong for a number that others have, too.
            Op::SetTtl(_) => is_mine && matches!(policy, Policy::ThreadId | Policy::Redlock),
            Op::Share if key.owner.is_none() => {
                key.readers.insert(who);
                true
            }
            Op::Expire => {
                key.until = key.owner.map(|_| now + ttl);
                true
            }
            Op::Get => is_mine,
            Op::Del => {
                key.until = None;
                key.owner.take().is_some()
            }
            Op::DelMine(_) => {
                let was_reader = key.readers.remove(who);
                if is_mine {
                    (key.owner, key.until) = (None, None);
                }
                was_reader || is_mine
            }
            _ => false,
        };
        (yes.into(), yes)
    }

    fn at_resource(&mut self, who: u16, message: Message, record: &mut Record) -> Message {
        let segment = self.segment(who);
        let event = record.count; // the number that this request's event will have
        let mut reply = Message { answer: 1, ..message };
        let mut shown = 0;
        let mut between = None;
        match message.op {
            Op::Read => {
                reply.answer = self.shows_token_at_read(who, segment, message.token).into();
                (reply.value, reply.version) = (self.resource.stock[segment], self.resource.version[segment]);
                shown = reply.value;
            }
            Op::Write if message.version == NOTHING_TO_COMMIT => {}
            Op::Write => {
                let token =
                    (self.settings.fence > 0 && self.settings.policy.has_line()).then_some(message.token);
                // What is committed after the release has no token any more.
                let token = token.filter(|_| self.settings.policy != Policy::EarlyRelease);
                let verdict = self.resource.write(segment, message.value, message.version, token, event);
                shown = message.value;
                if let Verdict::Wrong(other) = verdict {
                    between = Some(other);
                }
                reply.answer = (verdict != Verdict::Fenced).into();
                self.sells(reply.answer);
            }
            Op::WriteIf if self.resource.version[segment] == message.version => {
                self.resource.write(segment, message.value, message.version, None, event);
                shown = message.value;
                self.sells(1);
            }
            Op::WriteIf => {
                self.resource.conflicts += 1;
                reply.answer = 0;
            }
            Op::Decrement if self.resource.stock[segment] > 0 => {
                shown = self.resource.stock[segment] - 1;
                self.resource.write(segment, shown, self.resource.version[segment], None, event);
                self.sells(1);
            }
            Op::Decrement => reply.answer = 0,
            Op::Enter => self.resource.enter(),
            Op::Exit => self.resource.seated = self.resource.seated.saturating_sub(1),
            Op::SetDatabase => (self.resource.database, shown) = (message.value, message.value),
            Op::SetCache => (self.resource.cache, shown) = (message.value, message.value),
            _ => {}
        }
        let kind = if reply.answer > 0 { Kind::Done } else { Kind::Denied };
        reply.cause = self.note(kind, who, message.op.code(), shown, message.cause, record);
        if let Some(other) = between {
            self.note(Kind::Wrong, who, 0, other, reply.cause, record);
        }
        self.note_too_many(who, &reply, record);
        reply
    }

    /// Whether the fence lets this read pass. A reader of pages shows no token: it writes nothing.
    fn shows_token_at_read(&mut self, who: u16, segment: usize, token: u32) -> bool {
        let is_shown =
            self.settings.fence == 2 && self.settings.policy.has_line() && !self.settings.reads_only(who);
        !is_shown || self.resource.passes(segment, token)
    }

    fn note_too_many(&self, who: u16, reply: &Message, record: &mut Record) {
        let is_sale = matches!(reply.op, Op::Write | Op::WriteIf | Op::Decrement)
            && reply.answer > 0
            && reply.version != NOTHING_TO_COMMIT
            && self.settings.work == Work::Sale;
        if is_sale && self.resource.sold > self.resource.initial {
            self.note(Kind::Oversold, who, self.resource.sold, 0, reply.cause, record);
        }
        if reply.op == Op::Enter && self.resource.seated > self.settings.permits {
            self.note(Kind::Oversold, who, self.resource.seated, 1, reply.cause, record);
        }
    }

    const fn sells(&mut self, how_many: u32) {
        if matches!(self.settings.work, Work::Sale) {
            self.resource.sold += how_many;
        }
    }

    /// Brings a server's clock to the present; what ends by that, ends.
    fn settle(&mut self, server: u8, record: &mut Record) {
        if self.is_scheduled() {
            return; // there, time passes only by a choice
        }
        let index = usize::from(server);
        let events = self.servers[index].pass(self.now);
        self.tell(&events, NONE, record);
        if let Some(owner) = self.servers[index].expire_key() {
            self.key_has_expired(index, owner, NONE, record);
        }
    }

    pub(super) fn key_has_expired(&mut self, server: usize, owner: u16, cause: u32, record: &mut Record) {
        let cause = self.clients.get(usize::from(owner)).map_or(cause, |client| client.because);
        let event = self.note(Kind::Expired, owner, 0, server as u32, cause, record);
        if let Some(client) = self.clients.get_mut(usize::from(owner)) {
            client.outlived = client.holds_any();
        }
        self.wake_watchers(server, event);
        self.shade_all(record);
    }

    /// What the lines did by themselves is recorded, and told to the clients that it concerns.
    pub(super) fn tell(&mut self, events: &[Told<u8>], cause: u32, record: &mut Record) {
        let mut cause = cause;
        for event in events {
            match event {
                Told::Over { session } => {
                    let tasks = self.settings.lanes_of(owner(*session));
                    // The end of a session by which nothing stands in line concerns nobody.
                    let had_claims = events
                        .iter()
                        .any(|event| matches!(event, Told::Left { id, .. } if id.session == *session));
                    if !tasks.is_empty() && had_claims {
                        let because = self.client(tasks.start).because;
                        cause = self.note(Kind::Expired, tasks.start, 0, 0, because, record);
                        for who in tasks {
                            self.client_mut(who).outlived = self.client(who).holds_any();
                        }
                    }
                }
                Told::Held { id, token, .. } => self.grant(*id, self.number(*token), cause, record),
                _ => {}
            }
        }
        if !events.is_empty() {
            self.shade_all(record);
        }
    }

    fn grant(&mut self, id: ClaimId, token: u32, cause: u32, record: &mut Record) {
        let Some(who) = self.lane_of(id) else { return };
        let event = self.note(Kind::Grant, who, token, 0, cause, record);
        let (slot, claim) = ((id.number & 1) as u8, (id.number >> 1) as u32);
        match self.settings.flavour {
            Flavour::Poll if !self.is_scheduled() => {}
            Flavour::Watch | Flavour::Range if !self.is_scheduled() => self.hint(who, event),
            _ => {
                if let Some(at) = self.travel(who) {
                    self.push(at, who, Item::Told(slot, claim, token, event));
                } // a lost push is only a hint: the next renewal says who holds
            }
        }
    }

    /// Sends a hint to a client.
    pub(super) fn hint(&mut self, who: u16, cause: u32) {
        if let Some(at) = self.travel(who) {
            self.push(at, who, Item::Hint(cause));
        }
    }

    /// The key is gone: everyone who watched it is told, or one of them by chance.
    fn wake_watchers(&mut self, server: usize, cause: u32) {
        let watchers = self.servers[server].key.watchers.all().to_vec();
        if watchers.is_empty() {
            return;
        }
        let woken = if self.settings.policy == Policy::Unfair {
            let lucky = self.client_mut(watchers[0]).draws.between(0, watchers.len() as u32 - 1);
            vec![watchers[lucky as usize]]
        } else {
            watchers
        };
        for who in woken {
            self.servers[server].key.watchers.remove(who);
            self.hint(who, cause);
        }
    }

    /// Leases may end at this server: one look at the next moment at which that is possible.
    pub(super) fn watch_ends(&mut self, server: usize) {
        if self.is_scheduled() || self.ends_watched[server] {
            return;
        }
        if let Some(at) = self.servers[server].next_end() {
            self.ends_watched[server] = true;
            self.push(at.max(self.now + 1), 0, Item::Ends(server as u8));
        }
    }

    pub(super) fn ends(&mut self, server: u8, record: &mut Record) {
        self.ends_watched[usize::from(server)] = false;
        if self.servers[usize::from(server)].down_until > self.now {
            return; // when it starts, it looks
        }
        self.settle(server, record);
        if !self.clients.iter().all(|client| client.doing == Doing::Ended) {
            self.watch_ends(usize::from(server));
        }
    }

    /// Brings the lanes of all that hold up to date: the store may have changed its mind.
    pub(super) fn shade_all(&self, record: &mut Record) {
        if !record.keeps {
            return;
        }
        for who in 0..self.settings.lanes() {
            if self.client(who).holds_any() {
                self.shade(who, record);
            }
        }
    }
}
