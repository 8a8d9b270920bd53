//! What is done to a run: faults, and the choices of a schedule that are not a client's own step.

use tidelock_model::Op as Step;

use super::{FIRST, Item, Machine};
use crate::client::Doing;
use crate::ids::owner;
use crate::record::{Kind, Record};
use crate::settings::{Act, Flavour};

impl Machine {
    pub(super) fn act(&mut self, number: u16, record: &mut Record) {
        let action = self.settings.actions[usize::from(number)];
        let by = action.by;
        let is_of_server = action.act >= Act::Restart;
        let server = usize::from(action.who);
        if is_of_server && server >= self.servers.len() {
            return;
        }
        let who = action.who.min(self.settings.lanes() - 1);
        let event = self.note(Kind::Act, action.who, action.act as u32, by, FIRST, record);
        match action.act {
            Act::Pause | Act::Partition | Act::Heal | Act::Slow | Act::Fast => {
                for task in self.process_of(who) {
                    self.suffers(task, action.act, by, event, record);
                }
            }
            Act::Kill => self.kill_because(who, event, record),
            Act::LoseReply => self.client_mut(who).loses_reply = true,
            Act::Cancel => self.cancel(who, event, record),
            Act::Skew => {} // nobody here counts by the wall clock
            Act::Restart => self.stop(server, self.now + by),
            Act::Stop => self.stop(server, u32::MAX),
            Act::Start => self.start(server as u8, record),
            Act::Failover => self.servers[server].fail_over(),
            Act::Jump => {
                self.servers[server].ahead += by as i32;
                self.ends(server as u8, record);
            }
        }
        self.shade_all(record);
    }

    /// What is done to a process, at one of its tasks.
    fn suffers(&mut self, who: u16, act: Act, by: u32, event: u32, record: &mut Record) {
        let (now, percent) = (self.now, 100 + by.min(1000));
        let client = self.client_mut(who);
        match act {
            Act::Partition => client.cut_until = now + by,
            Act::Heal => client.cut_until = now,
            Act::Slow => client.second = percent,
            Act::Fast => client.second = 10_000 / percent,
            _ => self.pause(who, by, event, record),
        }
    }

    /// A server without a disk begins with nothing.
    fn stop(&mut self, server: usize, until: u32) {
        if !self.settings.keeps_on_disk() {
            self.servers[server].restart();
        }
        self.servers[server].stop(self.now, until);
        if until < u32::MAX {
            self.push(until, 0, Item::Starts(server as u8));
        }
    }

    /// ZooKeeper and etcd do not count the time of a restart against a lease; a time in a table goes on.
    pub(super) fn start(&mut self, server: u8, record: &mut Record) {
        let counts = !matches!(self.settings.flavour, Flavour::Watch | Flavour::Range);
        if self.servers[usize::from(server)].start(self.now, counts) {
            self.ends(server, record);
        }
    }

    fn pause(&mut self, who: u16, by: u32, event: u32, record: &mut Record) {
        let until = self.now + by;
        if self.client(who).doing != Doing::Dead {
            self.client_mut(who).paused_until = until; // its keeper stands still, also if this task has ended
        }
        if self.client(who).is_over() {
            return;
        }
        self.push(until, who, Item::Resume(event));
        self.shade(who, record);
    }

    pub(super) fn kill(&mut self, who: u16, record: &mut Record) {
        let event = self.note(Kind::Act, who, Act::Kill as u32, 0, FIRST, record);
        self.kill_because(who, event, record);
    }

    fn kill_because(&mut self, who: u16, event: u32, record: &mut Record) {
        for who in self.process_of(who) {
            let client = self.client_mut(who);
            if client.doing != Doing::Ended {
                client.doing = Doing::Dead;
                client.because = event;
                client.holds = [None; 2];
                client.turn += 1;
                self.shade(who, record);
            }
        }
    }

    /// A waiter changes its mind: Tidelock's claim leaves, a naive one gives back what it may have.
    fn cancel(&mut self, who: u16, event: u32, record: &mut Record) {
        let client = self.client(who);
        if client.waits_since.is_none() || client.is_over() {
            return;
        }
        let give_back = self.program(who).give_back;
        self.leaves_local_line(who);
        let client = self.client_mut(who);
        client.waits_since = None;
        client.because = event;
        client.is_last = true;
        client.pc = give_back;
        client.turn += 1;
        let turn = client.turn;
        self.push(self.now, who, Item::Run(turn));
        self.shade(who, record);
    }

    pub(super) fn fail_over(&mut self, server: usize, record: &mut Record) {
        self.note(Kind::Act, 0, Act::Failover as u32, 0, FIRST, record);
        self.servers[server].fail_over();
        self.shade_all(record);
    }

    /// A choice: this client stands still until its lease is over. All others live and renew meanwhile.
    pub(super) fn lapse(&mut self, who: u16, record: &mut Record) {
        let event = self.note(Kind::Act, who, Act::Pause as u32, self.settings.ttl, FIRST, record);
        for who in self.family(who) {
            self.client_mut(who).because = event;
            self.client_mut(who).paused_until = self.now + self.settings.ttl;
            self.shade(who, record);
        }
        self.now += self.settings.ttl;
        for server in 0..self.servers.len() {
            self.lapse_in_line(who, server, event, record);
            self.lapse_at_key(who, server, event, record);
        }
        let mut has_lost_place = false;
        for task in self.family(who) {
            if self.client(task).doing == Doing::InLine && !self.stands_in_line(task) {
                has_lost_place = true;
                self.stands_again(task, event, record);
            }
        }
        if has_lost_place {
            let home = self.home(who);
            self.client_mut(home).session += 1;
            self.forget_cohorts(who);
        }
        for who in self.family(who) {
            self.shade(who, record);
        }
    }

    /// Whether the store has the claim for which this client waits.
    fn stands_in_line(&self, who: u16) -> bool {
        let (name, id) = (self.name(who, self.slot(who)), self.claim(who, self.slot(who)));
        self.servers[0].world.line(&name).is_some_and(|line| line.claim(id).is_some())
    }

    fn lapse_in_line(&mut self, who: u16, server: usize, event: u32, record: &mut Record) {
        let half = u64::from(self.settings.ttl).div_ceil(2);
        let sessions: Vec<_> = self.servers[server].world.sessions().map(|(id, _)| id).collect();
        for part in [half, half + 1] {
            let events = self.servers[server].step(Step::Pass(part));
            self.tell(&events, event, record);
            for session in &sessions {
                let lanes = self.settings.lanes_of(owner(*session));
                if !lanes.contains(&who) && self.client(lanes.start).doing != Doing::Dead {
                    self.servers[server].step(Step::Renew(*session));
                    for other in lanes {
                        self.client_mut(other).trusted_until = self.now + self.settings.ttl;
                    }
                }
            }
        }
    }

    fn lapse_at_key(&mut self, who: u16, server: usize, event: u32, record: &mut Record) {
        let (renews, mine, now) = (self.settings.renew, self.owner(who), self.servers[server].now());
        let Some(key_owner) = self.servers[server].key.owner else { return };
        if self.servers[server].key.until.is_none() {
            return;
        }
        let its = self.clients.get(usize::from(key_owner));
        let is_alive = its.is_some_and(|client| client.doing != Doing::Dead);
        let is_renewed = key_owner != mine && renews && is_alive;
        self.servers[server].key.until = Some(if is_renewed { now + self.settings.ttl } else { now });
        if let Some(owner) = self.servers[server].expire_key() {
            self.key_has_expired(server, owner, event, record);
        }
    }
}
