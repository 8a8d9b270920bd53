//! A silent connection is compared with a new one.
//!
//! A firewall that forgets a connection, or a cable that is pulled, ends it without a word. The library notices after a
//! third of the ttl; by then callers have got a timeout. So if a request is under way and nothing was heard for a
//! while, the same server gets two requests: for the root node's state on this connection, and for a session on a new
//! one, which a majority of the servers must agree to. Requests on one connection are answered in order, and agreements
//! are made in order. So while the server is only slow, or stops for a moment, the reply on this connection comes
//! first. If the other reply comes, and still none here, this connection is given up.
//!
//! Another server would prove nothing about this one. The request on this connection is polled by a task of our own, so
//! a caller that does not poll its future is not taken for silence.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock_core::backend::{Clock, Moment, Sleep, boot_clock};
use tokio::sync::Notify;

use crate::dial::Dial;
use crate::link::Link;

/// How long a connection may be silent before it is compared with a new one, if the options allow that long.
const DOUBT: Duration = Duration::from_millis(500);
/// How much later the reply may come than the reply to a later request on another connection.
const GRACE: Duration = Duration::from_millis(50);

/// How long a silence is tolerated.
#[derive(Debug)]
pub(crate) struct Doubt {
    ttl: Duration,
    shortest: Duration,
    longer: Duration,
    given_up: Option<Moment>,
}

impl Doubt {
    pub(crate) fn new(command_deadline: Duration, ttl: Duration) -> Self {
        let shortest = DOUBT.min(command_deadline / 4).min(ttl / 8);
        Self { ttl, shortest, longer: shortest, given_up: None }
    }

    /// A connection was given up. If the next one is soon silent too, replies may simply take that long: a list of many
    /// nodes over a slow network. So wait longer then, up to the library's own limit, a third of the ttl.
    pub(crate) fn gave_up(&mut self) {
        let now = boot_clock().now();
        self.longer = if self.is_fresh(now) { (self.longer * 2).min(self.ttl / 3) } else { self.shortest };
        self.given_up = Some(now);
    }

    fn is_fresh(&self, now: Moment) -> bool {
        self.given_up.is_some_and(|given_up| now < given_up + self.ttl)
    }

    /// How long a silence is tolerated now.
    fn patience(&self, now: Moment) -> Duration {
        if self.is_fresh(now) { self.longer } else { self.shortest }
    }

    /// Waits until the link's connection to that server is taken for dead.
    pub(crate) async fn is_justified(&self, link: &Link, dial: &Dial, host: &str, wanting: &Wanting) {
        let clock = boot_clock();
        loop {
            wanting.silent_for(|now| self.patience(now), &clock).await;
            let asked = link.stat("/");
            let began = clock.now();
            let here = async {
                if asked.await.is_err() {
                    std::future::pending::<()>().await; // the link is closing and refuses requests
                }
            };
            let there = async {
                Sleep::until(&clock, began + GRACE).await;
                let is_answered = dial.answers(host).await;
                let wait = if is_answered { GRACE } else { self.shortest };
                Sleep::until(&clock, clock.now() + wait).await;
                is_answered
            };
            tokio::select! {
                biased;
                () = here => wanting.hears_all_until(began),
                is_answered = there => if is_answered && wanting.is_silent_since(began) {
                    return;
                }
            }
        }
    }
}

/// Whether replies are missing on a connection.
#[derive(Debug, Default)]
pub(crate) struct Wanting {
    state: Mutex<State>,
    /// A request is under way, and before none was.
    begun: Notify,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    /// When the last request was sent.
    last: Option<Moment>,
    /// Since when nothing was heard, if a request is under way that may still get a reply.
    since: Option<Moment>,
}

impl Wanting {
    /// A request is sent.
    pub(crate) fn ask(self: &Arc<Self>) -> Missing {
        let mut state = self.state();
        let now = boot_clock().now();
        state.under_way += 1;
        state.last = Some(now);
        if state.since.is_none() {
            state.since = Some(now);
            self.begun.notify_one();
        }
        drop(state);
        Missing(self.clone())
    }

    /// Waits until a request is under way and nothing was heard for that long.
    async fn silent_for(&self, long: impl Fn(Moment) -> Duration, clock: &Arc<dyn Clock>) {
        loop {
            let long = long(clock.now());
            let silent_at = self.state().since.map(|since| since + long);
            match silent_at {
                Some(at) if at <= clock.now() => return,
                Some(at) => Sleep::until(clock, at).await,
                None => {
                    self.begun.notified().await;
                    // The limit cannot be reached before this. Sleeping here also saves a wake-up for each of many
                    // requests.
                    Sleep::until(clock, clock.now() + long).await;
                }
            }
        }
    }

    fn is_silent_since(&self, then: Moment) -> bool {
        self.state().since.is_some_and(|since| since <= then)
    }

    /// All requests sent until then have got their replies: a future that still misses its reply is not being polled.
    fn hears_all_until(&self, then: Moment) {
        let mut state = self.state();
        if state.last.is_none_or(|last| last <= then) {
            state.since = None;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A missing reply.
pub(crate) struct Missing(Arc<Wanting>);

impl Missing {
    /// The reply has come.
    pub(crate) fn heard(&self) {
        let mut state = self.0.state();
        state.since = (state.under_way > 1).then(|| boot_clock().now());
    }
}

impl Drop for Missing {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.under_way -= 1;
        if state.under_way == 0 {
            state.since = None;
        }
    }
}
