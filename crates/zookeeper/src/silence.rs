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

use std::time::Duration;

use tidelock_core::backend::{Moment, Sleep, boot_clock};

use crate::dial::Dial;
use crate::link::Link;
use crate::missing::MissingReplies;

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
    pub(crate) async fn is_justified(&self, link: &Link, dial: &Dial, host: &str, missing: &MissingReplies) {
        let clock = boot_clock();
        loop {
            missing.silent_for(|now| self.patience(now), &clock).await;
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
                () = here => missing.hears_all_until(began),
                is_answered = there => if is_answered && missing.is_silent_since(began) {
                    return;
                }
            }
        }
    }
}
