//! The time until which the session certainly lives.
//!
//! A server only notes that it heard from a client. It passes these notes on with the leader's next ping, one every
//! half tick; the leader ends sessions. So a reply shows that the server heard the request, but not that the leader
//! knows. But a *transaction* goes to the leader and back on the connection between the two, behind all earlier notes.
//! So if a transaction gets a reply, and it was sent more than half a tick after the *reply* to some other request, the
//! leader knows of that other request. The session then lives for its timeout from the moment that request was sent,
//! whatever happens to the connection later. Half a tick after its sending is not enough: a network that stalls may
//! deliver both at once.
//!
//! A client is not told the tick. But no session is shorter than two ticks, so half a tick is at most a quarter of the
//! shortest timeout that the server grants. Until that is known, half a tick counts as a quarter of the ttl, which it
//! cannot exceed.
//!
//! When a session moves to another server, that server shows it to the leader before it tells the client to go on. So
//! the first reply to a transaction on a new connection proves the session from the moment that connection was
//! requested. What was learnt of the previous server, including its tick, does not count for the new one.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock_core::backend::Moment;

#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) ttl: Duration,
    proof: Mutex<Proof>,
}

#[derive(Debug)]
struct Proof {
    /// The latest moment at which the leader certainly heard of us.
    known: Moment,
    /// When the current connection was requested, until the leader is proved to know of it.
    connected: Option<Moment>,
    /// Requests that got a reply, the earliest first. The notes of them may still be on their way to the leader.
    heard: VecDeque<Heard>,
    /// How long a note may take to the leader, while the connection stands: half a tick, and some delay of a thread.
    note_takes: Duration,
}

/// A request that got a reply. It reached the server at some time between the two: a network that stalls may deliver it
/// long after it was sent, together with one that was sent much later.
#[derive(Clone, Copy, Debug)]
struct Heard {
    sent: Moment,
    answered: Moment,
}

impl Lease {
    /// The lease of a session that was requested at `asked`. The leader itself has opened it.
    pub(crate) fn new(ttl: Duration, asked: Moment) -> Self {
        let note_takes = note_takes(ttl, Duration::MAX);
        let proof = Proof { known: asked, connected: None, heard: VecDeque::new(), note_takes };
        Self { ttl, proof: Mutex::new(proof) }
    }

    /// There is a new connection, which was requested at `asked`.
    pub(crate) fn reconnected(&self, asked: Moment) {
        let mut proof = self.proof();
        proof.connected = Some(asked);
        proof.heard.clear();
        proof.note_takes = note_takes(self.ttl, Duration::MAX);
    }

    /// Half a tick of the connected server is now known.
    pub(crate) fn learn(&self, half_tick: Duration) {
        self.proof().note_takes = note_takes(self.ttl, half_tick);
    }

    /// A transaction that was sent at `sent` got its reply at `now`.
    pub(crate) fn answered(&self, sent: Moment, now: Moment) {
        let mut proof = self.proof();
        if let Some(asked) = proof.connected.take_if(|asked| *asked <= sent) {
            proof.known = proof.known.max(asked);
        }
        let noted_by = sent - proof.note_takes;
        while let Some(first) = proof.heard.front().copied().filter(|first| first.answered <= noted_by) {
            proof.known = proof.known.max(first.sent);
            proof.heard.pop_front();
        }
        drop(proof);
        self.heard(sent, now);
    }

    /// Any request that was sent at `sent` got its reply at `now`.
    pub(crate) fn heard(&self, sent: Moment, now: Moment) {
        let mut proof = self.proof();
        // There may be thousands of requests, and one in a while is enough.
        let is_news = |last: &Heard| sent > last.sent + self.ttl / 32;
        if proof.heard.back().is_none_or(is_news) {
            proof.heard.push_back(Heard { sent, answered: now });
        }
    }

    /// The time until which the session certainly lives.
    pub(crate) fn until(&self) -> Moment {
        self.proof().known + self.ttl
    }

    fn proof(&self) -> MutexGuard<'_, Proof> {
        self.proof.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session has two ticks at least, so half a tick is never more than a quarter of it.
fn note_takes(ttl: Duration, half_tick: Duration) -> Duration {
    half_tick.min(ttl / 4) + ttl / 32
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(32);

    fn at(seconds: u64) -> Moment {
        Moment::START + Duration::from_secs(100 + seconds)
    }

    #[test]
    fn an_answer_alone_proves_nothing_of_itself() {
        let lease = Lease::new(TTL, at(0));
        lease.answered(at(20), at(20));
        assert_eq!(lease.until(), at(0) + TTL, "the note may still be with a server that is cut off");
    }

    #[test]
    fn an_answer_proves_what_was_answered_half_a_tick_before() {
        let lease = Lease::new(TTL, at(0));
        lease.answered(at(10), at(10));
        lease.answered(at(18), at(18));
        assert_eq!(lease.until(), at(0) + TTL);
        lease.answered(at(20), at(20));
        assert_eq!(lease.until(), at(10) + TTL);
        lease.answered(at(30), at(30));
        assert_eq!(lease.until(), at(20) + TTL);
    }

    #[test]
    fn requests_that_may_have_arrived_together_prove_nothing() {
        let lease = Lease::new(TTL, at(0));
        lease.learn(Duration::from_secs(1));
        // A stalled network has delivered both at once: the server still has the note of the first.
        lease.heard(at(10), at(20));
        lease.answered(at(19), at(20));
        assert_eq!(lease.until(), at(0) + TTL);
        lease.answered(at(23), at(23));
        assert_eq!(lease.until(), at(19) + TTL, "this one was sent half a tick after the replies");
    }

    #[test]
    fn the_first_transaction_on_a_new_connection_proves_that_it_was_asked_for() {
        let lease = Lease::new(TTL, at(0));
        lease.answered(at(10), at(10));
        lease.reconnected(at(15));
        assert_eq!(lease.until(), at(0) + TTL, "nothing was answered on it");
        lease.answered(at(14), at(14));
        assert_eq!(lease.until(), at(0) + TTL, "that was sent on the one before");
        lease.heard(at(16), at(16));
        lease.answered(at(16), at(16));
        assert_eq!(lease.until(), at(15) + TTL);
        lease.answered(at(26), at(26));
        assert_eq!(lease.until(), at(16) + TTL);
    }

    #[test]
    fn the_tick_is_that_of_the_server_now() {
        let lease = Lease::new(TTL, at(0));
        lease.learn(Duration::from_secs(1));
        lease.answered(at(4), at(4));
        lease.answered(at(6), at(6));
        assert_eq!(lease.until(), at(4) + TTL);
        lease.reconnected(at(10));
        lease.answered(at(11), at(11));
        lease.answered(at(15), at(15));
        assert_eq!(lease.until(), at(10) + TTL, "a note may take a quarter of the ttl");
        lease.learn(Duration::from_secs(1));
        lease.answered(at(17), at(17));
        assert_eq!(lease.until(), at(15) + TTL);
    }

    #[test]
    fn a_thousand_answers_are_remembered_by_a_few() {
        let lease = Lease::new(TTL, at(0));
        for millis in 0..20_000 {
            let now = at(0) + Duration::from_millis(millis);
            lease.answered(now, now);
        }
        assert!(lease.proof().heard.len() < 20);
        assert!(lease.until() >= at(9) + TTL);
    }
}
