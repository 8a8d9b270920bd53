//! A server that keeps locks: the lines of the model, and one key for the naive policies. It has its own clock.
//!
//! The line is [`World`], and nothing here decides anything about it: an operation goes in, and its events come out.

use tidelock_model::{ClaimId, Event, Join, Kind, Leave, Op, Patience, SessionId, Weight, World};

/// The newest order of any token that a server has given.
type Order = u64;

/// One server.
#[derive(Clone, Debug)]
pub struct Server {
    /// The lines.
    pub world: World<u8>,
    /// The naive lock.
    pub key: Key,
    /// How far its clock is ahead of the run's.
    pub ahead: i32,
    stopped_at: u32,
    /// Until when it does not answer.
    pub down_until: u32,
    newest: Order,
    /// A bit for each name in use on which somebody has waited.
    waited: u32,
    /// What a replica has that missed the newest write.
    behind: Option<Box<(World<u8>, Key)>>,
}

/// One key: its owner, or its readers, and who watches it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Key {
    /// Whose value it has.
    pub owner: Option<u16>,
    /// When it expires; `None`: never.
    pub until: Option<u32>,
    /// Readers, for the lock that lets readers in first, and until when each counts.
    pub readers: Members,
    /// Who wants to know when it is deleted.
    pub watchers: Members,
}

/// A few clients, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Members(Vec<u16>);

impl Members {
    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[u16] {
        &self.0
    }

    pub(crate) fn insert(&mut self, who: u16) {
        if let Err(place) = self.0.binary_search(&who) {
            self.0.insert(place, who);
        }
    }

    pub(crate) fn remove(&mut self, who: u16) -> bool {
        self.0.binary_search(&who).is_ok_and(|place| self.0.remove(place) == who)
    }
}

impl Server {
    pub(crate) fn new() -> Self {
        Self {
            world: World::new(),
            key: Key::default(),
            ahead: 0,
            stopped_at: 0,
            down_until: 0,
            newest: 0,
            waited: 0,
            behind: None,
        }
    }

    /// Brings its clock to this moment of the run; claims of sessions that are over leave.
    pub(crate) fn pass(&mut self, now: u32) -> Vec<Event<u8>> {
        let by = u64::from(now.saturating_add_signed(self.ahead)).saturating_sub(self.world.now());
        if by == 0 { Vec::new() } else { self.step(Op::Pass(by)) }
    }

    /// One operation on the lines.
    pub(crate) fn step(&mut self, op: Op<u8>) -> Vec<Event<u8>> {
        let events = self.world.step(op);
        for event in &events {
            if let Event::Held { token, .. } = event {
                self.newest = self.newest.max(token.store_order());
            }
        }
        let in_use = self.world.lines().map(|(name, line)| (bit(*name), line.claims.len() > 1));
        self.waited = in_use
            .fold(0, |waited, (bit, waits)| waited | if waits || self.waited & bit != 0 { bit } else { 0 });
        events
    }

    /// Whether somebody has waited for this name since it was last free.
    pub(crate) const fn has_waited(&self, name: u8) -> bool {
        self.waited & bit(name) != 0
    }

    /// The order of the newest token that it has given.
    pub(crate) const fn newest(&self) -> Order {
        self.newest
    }

    /// Its own time.
    pub(crate) fn now(&self) -> u32 {
        self.world.now() as u32
    }

    /// A moment by its clock, as the run counts.
    #[must_use]
    pub fn of_run(&self, its: u32) -> u32 {
        its.saturating_add_signed(-self.ahead)
    }

    pub(crate) const fn stop(&mut self, now: u32, until: u32) {
        (self.stopped_at, self.down_until) = (now, until);
    }

    /// It is there again, and counts the time since it stopped, or does not. False: it was not away.
    pub(crate) fn start(&mut self, now: u32, counts: bool) -> bool {
        let was_away = self.stopped_at < self.down_until;
        if was_away && !counts {
            self.ahead -= (now - self.stopped_at) as i32;
        }
        (self.stopped_at, self.down_until) = (now, now);
        was_away
    }

    /// The next moment of the run at which a lease ends here, if nobody renews.
    pub(crate) fn next_end(&self) -> Option<u32> {
        let sessions = self.world.sessions().map(|(_, session)| session.until() as u32);
        sessions.chain(self.key.until).min().map(|until| self.of_run(until))
    }

    /// Takes the key away if its time is over: whose it was.
    pub(crate) fn expire_key(&mut self) -> Option<u16> {
        let is_over = self.key.until.is_some_and(|until| until <= self.now());
        if !is_over {
            return None;
        }
        self.key.until = None;
        self.key.owner.take()
    }

    /// What a replica has that may take over.
    pub(crate) fn replica(&self) -> Option<&(World<u8>, Key)> {
        self.behind.as_deref()
    }

    /// Keeps what a replica would have, before a write.
    pub(crate) fn remember(&mut self) {
        self.behind = Some(Box::new((self.world.clone(), self.key.clone())));
    }

    /// A replica takes over that missed the newest write.
    pub(crate) fn fail_over(&mut self) {
        if let Some(behind) = self.behind.take() {
            (self.world, self.key) = *behind;
        }
        self.raise_tokens();
    }

    /// All that was in memory is gone.
    pub(crate) fn restart(&mut self) {
        let now = self.world.now();
        (self.world, self.key) = (World::new(), Key::default());
        self.world.step(Op::Pass(now));
        self.raise_tokens();
    }

    /// A new master's tokens are greater than any that the old one gave: the store takes them from its time. Here they
    /// are used up by a name that nobody sees.
    fn raise_tokens(&mut self) {
        let session = SessionId::from_bits(u64::MAX);
        self.world.step(Op::Open { session, ttl: 1 });
        for number in 0..=self.newest {
            let id = ClaimId { session, number };
            let given = self.world.step(join(u8::MAX, id, Kind::Mutex, Weight::ONE, Weight::ONE));
            let is_enough = given.iter().any(
                |event| matches!(event, Event::Held { token, .. } if token.store_order() >= self.newest),
            );
            self.world.step(Op::Leave { name: u8::MAX, id, how: Leave::Done });
            if is_enough {
                break;
            }
        }
        self.world.step(Op::Close(session));
    }
}

const fn bit(name: u8) -> u32 {
    1 << (name % 32)
}

/// A request to stand in line.
pub(crate) fn join(name: u8, id: ClaimId, kind: Kind, weight: Weight, capacity: Weight) -> Op<u8> {
    Op::Join(Join { name, id, kind, weight, capacity, patience: Patience::Wait })
}
