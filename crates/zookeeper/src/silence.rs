//! A connection that has fallen silent is compared with a new one.
//!
//! A firewall that forgets a connection, or a cable that is pulled, ends it without a word. The library finds that out
//! after a third of the ttl, and by then whoever asked was told that nobody answers. So when something was asked and
//! nothing has been heard for a while, the same server is asked for two things: on this connection how the root node is,
//! and on a new one for a session, which a majority of the servers must agree to. What is asked on one connection is
//! answered in order, and what is agreed to is agreed to in order; so while the server is only slow, or stands still for a
//! moment, the first answer comes first. If the other comes, and still none here, this connection is given up.
//!
//! Another server would prove nothing of this one. What is asked here is asked by a task of ours, so that a user who does
//! not listen is not taken for a silence.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock::{Clock, Moment, Sleep, boot_clock};
use tokio::sync::Notify;

use crate::dial::Dial;
use crate::link::Link;

/// After how long a silence a connection is compared with a new one, if there is time for more.
const DOUBT: Duration = Duration::from_millis(500);
/// How much later an answer may come than that to something that was asked later, by another connection.
const GRACE: Duration = Duration::from_millis(50);

/// How long a silence is borne with.
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

    /// A connection was given up. If the next one is soon silent too, it may be that an answer takes so long: a list of
    /// many nodes by a narrow way. The library would wait for a third of the ttl.
    pub(crate) fn gave_up(&mut self) {
        let now = boot_clock().now();
        self.longer = if self.is_fresh(now) { (self.longer * 2).min(self.ttl / 3) } else { self.shortest };
        self.given_up = Some(now);
    }

    fn is_fresh(&self, now: Moment) -> bool {
        self.given_up.is_some_and(|given_up| now < given_up + self.ttl)
    }

    /// How long a silence is borne with now.
    fn patience(&self, now: Moment) -> Duration {
        if self.is_fresh(now) { self.longer } else { self.shortest }
    }

    /// Waits until the connection that this link has, to that server, is as good as dead.
    pub(crate) async fn is_justified(&self, link: &Link, dial: &Dial, host: &str, wanting: &Wanting) {
        let clock = boot_clock();
        loop {
            wanting.silent_for(|now| self.patience(now), &clock).await;
            let asked = link.stat("/");
            let began = clock.now();
            let here = async {
                if asked.await.is_err() {
                    std::future::pending::<()>().await; // the link is being closed, and takes nothing any more
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

/// Whether answers are missing on a connection.
#[derive(Debug, Default)]
pub(crate) struct Wanting {
    state: Mutex<State>,
    /// Something is under way, and before nothing was.
    begun: Notify,
}

#[derive(Debug, Default)]
struct State {
    under_way: usize,
    /// When something was asked for the last time.
    last: Option<Moment>,
    /// Since when nothing was heard, if something is under way that may still be answered.
    since: Option<Moment>,
}

impl Wanting {
    /// Something is asked.
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

    /// Waits until something is under way and nothing was heard for so long.
    async fn silent_for(&self, long: impl Fn(Moment) -> Duration, clock: &Arc<dyn Clock>) {
        loop {
            let long = long(clock.now());
            let silent_at = self.state().since.map(|since| since + long);
            match silent_at {
                Some(at) if at <= clock.now() => return,
                Some(at) => Sleep::until(clock, at).await,
                None => {
                    self.begun.notified().await;
                    // Nothing is silent for so long before, and whoever asks much and often wakes nobody each time.
                    Sleep::until(clock, clock.now() + long).await;
                }
            }
        }
    }

    fn is_silent_since(&self, then: Moment) -> bool {
        self.state().since.is_some_and(|since| since <= then)
    }

    /// Everything that was asked until then is answered: whose answer is missing still does not listen.
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

/// An answer that is missing.
pub(crate) struct Missing(Arc<Wanting>);

impl Missing {
    /// It has come.
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
