//! A connection that has fallen silent is compared with a new one.
//!
//! A firewall that forgets a connection, or a machine that loses its power, ends it without a word. The library finds
//! that out after a third of the ttl, and by then whoever asked was told that nobody answers. So when something was
//! asked and nothing has been heard for a while, two things are asked at once: on this connection how the root node is,
//! and on a new one for a session, which a majority of the servers must agree to. What is asked on one connection is
//! answered in order, and what is agreed to is agreed to in order; so while the servers are only slow the first answer
//! comes first. If the other comes, and still none here, this connection is given up.
//!
//! What is asked here is asked by a task of ours, so that a user who does not listen is not taken for a silence.

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

/// For how long the session is asked for that is not used.
const OFFERED: Duration = Duration::from_secs(3);

/// How long a silence is borne with.
#[derive(Debug)]
pub(crate) struct Doubt {
    ttl: Duration,
    shortest: Duration,
    now: Duration,
    given_up: Option<Moment>,
}

impl Doubt {
    pub(crate) fn new(command_deadline: Duration, ttl: Duration) -> Self {
        let shortest = DOUBT.min(command_deadline / 4).min(ttl / 8);
        Self { ttl, shortest, now: shortest, given_up: None }
    }

    /// A connection was given up. If the next one is soon silent too, it may be that an answer takes so long: a list of
    /// many nodes by a narrow way. The library would wait for a third of the ttl.
    pub(crate) fn gave_up(&mut self) {
        let now = boot_clock().now();
        let is_again = self.given_up.is_some_and(|before| now < before + self.ttl);
        self.now = if is_again { (self.now * 2).min(self.ttl / 3) } else { self.shortest };
        self.given_up = Some(now);
    }

    /// Waits until the connection that this link has is as good as dead.
    pub(crate) async fn is_justified(&self, link: &Link, dial: &Dial, wanting: &Wanting) {
        let clock = boot_clock();
        loop {
            wanting.silent_for(self.now, &clock).await;
            let mut here = link.stat("/");
            let began = clock.now();
            let there = tokio::select! {
                biased;
                _ = &mut here => None, // or nobody is asked any more
                there = dial.open(self.ttl.min(OFFERED)) => Some(there),
            };
            let is_answered_there = matches!(there, Some(Ok(_)));
            drop(there); // that session ends
            let patience = if is_answered_there { GRACE } else { self.now };
            tokio::select! {
                biased;
                Ok(_) = here, if is_answered_there => {}
                () = Sleep::until(&clock, clock.now() + patience) => {}
            }
            if is_answered_there && wanting.is_silent_since(began) {
                return;
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

#[derive(Debug)]
struct State {
    under_way: usize,
    /// When the first of these was asked, or since then something was heard.
    since: Moment,
}

impl Wanting {
    /// Something is asked.
    pub(crate) fn ask(self: &Arc<Self>) -> Missing {
        let mut state = self.state();
        state.under_way += 1;
        if state.under_way == 1 {
            state.since = boot_clock().now();
            self.begun.notify_one();
        }
        drop(state);
        Missing(self.clone())
    }

    /// Waits until something is under way and nothing was heard for so long.
    async fn silent_for(&self, long: Duration, clock: &Arc<dyn Clock>) {
        loop {
            let silent_at = {
                let state = self.state();
                (state.under_way > 0).then_some(state.since + long)
            };
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
        let state = self.state();
        state.under_way > 0 && state.since <= then
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for State {
    fn default() -> Self {
        Self { under_way: 0, since: Moment::START }
    }
}

/// An answer that is missing.
pub(crate) struct Missing(Arc<Wanting>);

impl Missing {
    /// It has come.
    pub(crate) fn heard(&self) {
        self.0.state().since = boot_clock().now();
    }
}

impl Drop for Missing {
    fn drop(&mut self) {
        self.0.state().under_way -= 1;
    }
}
