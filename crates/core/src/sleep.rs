//! A wait for a moment of a clock.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::clock::Clock;
use crate::moment::Moment;

/// A future that is ready when its clock has reached a given moment.
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    clock: Arc<dyn Clock>,
    at: Moment,
    key: Option<(Moment, u64)>,
}

impl Sleep {
    /// Sleeps until `clock` reaches `at`. [`Moment::NEVER`] is never reached.
    pub fn until(clock: &Arc<dyn Clock>, at: Moment) -> Self {
        Self { clock: clock.clone(), at, key: None }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.clock.now() >= self.at {
            return Poll::Ready(());
        }
        if self.at == Moment::NEVER {
            return Poll::Pending;
        }
        match self.key {
            Some(key) => self.clock.alarms().reset(key, cx.waker()),
            None => self.key = Some(self.clock.alarms().set(self.at, cx.waker().clone())),
        }
        // The clock may have rung between the check above and setting the alarm, and woken nobody or the previous
        // waker.
        if self.clock.now() >= self.at { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.clock.alarms().clear(key);
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sleep(until {:?})", self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::Waker;

    use super::*;
    use crate::alarms::Alarms;

    /// A clock that moves on, and rings, right after it was read.
    #[derive(Debug, Default)]
    struct MovesOn {
        now: AtomicU64,
        moves_to: AtomicU64,
        alarms: Alarms,
    }

    impl Clock for MovesOn {
        fn now(&self) -> Moment {
            let moves_to = self.moves_to.load(Ordering::SeqCst);
            let shown = self.now.swap(moves_to, Ordering::SeqCst);
            self.alarms.ring(Moment::from_nanos(moves_to));
            Moment::from_nanos(shown)
        }

        fn alarms(&self) -> &Alarms {
            &self.alarms
        }
    }

    #[test]
    fn a_ring_during_a_poll_is_not_missed_by_the_task_that_polls_now() {
        let clock = Arc::new(MovesOn::default());
        let as_clock: Arc<dyn Clock> = clock.clone();
        let mut sleep = Sleep::until(&as_clock, Moment::from_nanos(10));
        let mut poll = || Pin::new(&mut sleep).poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll().is_pending());
        clock.moves_to.store(10, Ordering::SeqCst);
        assert!(poll().is_ready(), "it rang for another waker, and does not ring again");
    }
}
