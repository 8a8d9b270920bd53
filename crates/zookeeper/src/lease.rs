//! Until when the session surely lives.
//!
//! The server that a client is connected to only notes that it was heard, and passes the note on to the leader, who ends
//! sessions, with the next of the leader's pings: one every half tick. An answer says that the server heard the request,
//! and not that the leader knows. But a *transaction* that was answered went to the leader and back on the same
//! connection between the two, behind every note before it. So when one is answered that was sent more than half a tick
//! after the answer to something else had come, the leader knows of that other: the session lives for its timeout from
//! when that was sent, whatever happens to that connection from here on. (Not half a tick after it was *sent*: a network
//! that stalls may deliver both at once.)
//!
//! A client is not told the tick. But no session is shorter than two ticks, so what the shortest would get says enough; as
//! long as that is not known, half a tick is a quarter of the ttl at most.
//!
//! A session that comes to another server is shown to the leader by that server, before the client is told that it may
//! go on. So the first transaction that is answered on a new connection proves what that connection was asked for. What
//! was learnt of the last server, its tick too, is not believed of this one.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock::Moment;

#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) ttl: Duration,
    proof: Mutex<Proof>,
}

#[derive(Debug)]
struct Proof {
    /// When the leader surely heard of us, at least.
    known: Moment,
    /// When the connection was asked for, until that is proved to be known.
    connected: Option<Moment>,
    /// What was answered, the earliest first: notes of it may be on their way.
    heard: VecDeque<Heard>,
    /// How long a note may take to the leader, if the connection stands: half a tick, and what a thread may be late.
    note_takes: Duration,
}

/// A request that was answered. It arrived at some time between the two: a network that stalls may deliver it long after
/// it was sent, together with what was sent much later.
#[derive(Clone, Copy, Debug)]
struct Heard {
    sent: Moment,
    answered: Moment,
}

impl Lease {
    /// The lease of a session that was asked for then: the leader itself has opened it.
    pub(crate) fn new(ttl: Duration, asked: Moment) -> Self {
        let note_takes = note_takes(ttl, Duration::MAX);
        let proof = Proof { known: asked, connected: None, heard: VecDeque::new(), note_takes };
        Self { ttl, proof: Mutex::new(proof) }
    }

    /// There is another connection, which was asked for then.
    pub(crate) fn reconnected(&self, asked: Moment) {
        let mut proof = self.proof();
        proof.connected = Some(asked);
        proof.heard.clear();
        proof.note_takes = note_takes(self.ttl, Duration::MAX);
    }

    /// The server at the other end has that tick.
    pub(crate) fn learn(&self, half_tick: Duration) {
        self.proof().note_takes = note_takes(self.ttl, half_tick);
    }

    /// A transaction was answered at `now` that was sent at `sent`.
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

    /// Anything was answered at `now` that was sent at `sent`.
    pub(crate) fn heard(&self, sent: Moment, now: Moment) {
        let mut proof = self.proof();
        // Requests come by the thousand, and one in a while is enough.
        let is_news = |last: &Heard| sent > last.sent + self.ttl / 32;
        if proof.heard.back().is_none_or(is_news) {
            proof.heard.push_back(Heard { sent, answered: now });
        }
    }

    /// Until when the session surely lives.
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
    fn what_may_have_arrived_together_proves_nothing() {
        let lease = Lease::new(TTL, at(0));
        lease.learn(Duration::from_secs(1));
        // A network that stalled has delivered both at once: the note of the one is with its server still.
        lease.heard(at(10), at(20));
        lease.answered(at(19), at(20));
        assert_eq!(lease.until(), at(0) + TTL);
        lease.answered(at(23), at(23));
        assert_eq!(
            lease.until(),
            at(19) + TTL,
            "that was sent when the answer had been there for half a tick"
        );
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
