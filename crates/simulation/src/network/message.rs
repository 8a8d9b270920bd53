//! Messages between a client and the store: each arrives later, or never, whatever becomes of who sent it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidelock_core::backend::Moment;
use tidelock_core::{Error, ErrorKind, Name, Result};
use tidelock_model::Dice;

use super::Network;
use super::answer::Answer;
use crate::plan::{Fault, ms};
use crate::time::lock;

impl Network {
    /// Sends a request. It arrives, or not, whatever becomes of the caller; so does the answer.
    pub(super) fn send<T: Send + 'static>(
        self: &Arc<Self>,
        about: About,
        work: impl Fn() -> Result<T> + Send + Sync + 'static,
    ) -> Answer<T> {
        let answer = Answer::expected();
        let now = self.time.now();
        let client = about.client;
        let (mut requests, mut replies, mut are_told, mut is_refused) = (0, 0, false, false);
        for fault in lock(&self.sky).faults.values() {
            match fault {
                Fault::Rain { client: of, requests: first, replies: second, are_told: told }
                    if *of == client =>
                {
                    (requests, replies, are_told) = (*first, *second, *told);
                }
                Fault::Refuse { client: of } if *of == client => is_refused = true,
                _ => {}
            }
        }
        let (pause, is_lost, mut fate) = {
            let link = lock(&self.links[client]);
            let is_lost = link.dice.below(100) < requests;
            let fate = Fate {
                is_lost: link.dice.below(100) < replies,
                is_repeated: about.may_repeat && link.dice.one_in(2),
                is_told: are_told,
            };
            (self.pause(&link.dice, client), is_lost, fate)
        };
        fate.is_repeated &= fate.is_lost;
        if is_refused || is_lost {
            self.record.touch(client, now);
            if is_refused || are_told {
                let to = answer.clone();
                self.deliver(client, true, move || {
                    to.answer(Err(Error::new(ErrorKind::Unavailable, "the request was refused")));
                });
            }
            return answer;
        }
        let at = self.arrival(client, 0, now + pause);
        self.note_late(client, at);
        let request = Arc::new(Request { about, sent: now, work, answer: answer.clone(), fate });
        let network = self.clone();
        self.time.at(at, move || network.arrive(request));
        answer
    }

    /// A request arrives, unless something stands in its way.
    fn arrive<T, W>(self: Arc<Self>, request: Arc<Request<T, W>>)
    where
        T: Send + 'static,
        W: Fn() -> Result<T> + Send + Sync + 'static,
    {
        let About { client, may_repeat, keeps, .. } = request.about;
        let now = self.time.now();
        if let Some(until) = self.stopped_until(&request.about) {
            self.note_touched(&request.about, until);
            if request.sent + keeps > until {
                let at = self.arrival(client, 0, until + self.jitter(client));
                let network = self.clone();
                self.time.at(at, move || network.arrive(request));
            }
            return;
        }
        if request.sent + keeps <= now {
            return;
        }
        let reply = (request.work)();
        if request.fate.is_lost || self.is_deaf(client) {
            self.record.touch(client, now);
            if request.fate.is_repeated && may_repeat {
                let (network, again) = (self.clone(), request.clone());
                let late = now + self.jitter(client) * 50;
                // What arrives too late to be done is not on its way any more: it would keep a session from being dropped.
                if late < request.sent + keeps {
                    self.time.at(late, move || {
                        if network.stopped_until(&again.about).is_none() {
                            drop((again.work)());
                        }
                    });
                }
            }
            if request.fate.is_told {
                let to = request.answer.clone();
                self.deliver(client, true, move || {
                    to.answer(Err(Error::new(ErrorKind::Unavailable, "the connection was lost")));
                });
            }
            return;
        }
        let to = request.answer.clone();
        self.deliver(client, true, move || to.answer(reply));
    }

    /// Something is on its way to a client.
    pub(super) fn deliver(
        self: &Arc<Self>,
        client: usize,
        is_reply: bool,
        news: impl FnOnce() + Send + 'static,
    ) {
        let pause = {
            let dice = &lock(&self.links[client]).dice;
            let overtakes = !is_reply && !self.is_ordered && dice.one_in(2);
            if overtakes { Duration::from_nanos(dice.below(10_000)) } else { self.pause(dice, client) }
        };
        let at = self.time.now() + pause;
        let at = if is_reply || self.is_ordered { self.arrival(client, 1, at) } else { at };
        if is_reply {
            self.note_late(client, at);
        }
        let network = self.clone();
        self.time.at(at, move || network.reach(client, Box::new(news)));
    }

    fn reach(self: Arc<Self>, client: usize, news: Box<dyn FnOnce() + Send>) {
        let until = self.cut_until(client).max(self.clocks[client].suspended_until());
        if until <= self.time.now() {
            return news();
        }
        self.record.touch(client, until);
        let at = self.arrival(client, 1, until + self.jitter(client) / 2);
        let network = self.clone();
        self.time.at(at, move || network.reach(client, news));
    }

    /// What the store tells a client unasked.
    pub(super) fn push(self: &Arc<Self>, client: usize, news: impl Fn() + Send + Sync + 'static) {
        let is_cut_off = lock(&self.sky).faults.values().any(|fault| match fault {
            Fault::LosePushes { client: of } | Fault::Cut { client: of, are_pushes_lost: true } => {
                *of == client
            }
            _ => false,
        });
        let (is_lost, is_doubled) = {
            let dice = &lock(&self.links[client]).dice;
            (dice.below(100) < self.lost_pushes, dice.below(100) < self.doubled_pushes)
        };
        if is_lost || is_cut_off || self.is_mute.load(Ordering::Relaxed) {
            return;
        }
        let news = Arc::new(news);
        if is_doubled {
            let news = news.clone();
            self.deliver(client, false, move || news());
        }
        self.deliver(client, false, move || news());
    }

    fn pause(&self, dice: &Dice, client: usize) -> Duration {
        let slow = lock(&self.sky).faults.values().find_map(|fault| match fault {
            Fault::Slow { client: of, delay } if *of == client => Some(ms(*delay)),
            _ => None,
        });
        let longest = slow.unwrap_or(self.delay);
        Duration::from_nanos(10_000 + dice.below(u64::try_from(longest.as_nanos()).unwrap_or(u64::MAX)))
    }

    pub(super) fn jitter(&self, client: usize) -> Duration {
        let longest = self.delay * 2;
        Duration::from_nanos(
            lock(&self.links[client]).dice.below(u64::try_from(longest.as_nanos()).unwrap_or(1)),
        )
    }

    fn arrival(&self, client: usize, way: usize, at: Moment) -> Moment {
        if !self.is_ordered {
            return at;
        }
        let last = &mut lock(&self.links[client]).last[way];
        *last = at.max(*last);
        *last
    }
}

/// A request: what it concerns, and how it may fare.
pub(super) struct About {
    pub(super) client: usize,
    pub(super) name: Option<Name>,
    pub(super) shard: u32,
    /// Whether it may be carried out once more, late, if its reply is lost.
    pub(super) may_repeat: bool,
    /// After this time it does not arrive any more.
    pub(super) keeps: Duration,
}

/// A request on its way.
struct Request<T, W> {
    about: About,
    sent: Moment,
    work: W,
    answer: Answer<T>,
    fate: Fate,
}

/// What becomes of a reply.
struct Fate {
    is_lost: bool,
    is_repeated: bool,
    is_told: bool,
}
