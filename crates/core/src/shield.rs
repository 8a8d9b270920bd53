//! Users' code that runs on threads of ours: their wakers, and what listens to their tracing. It may panic, and must
//! end nothing but itself: on the same thread everyone's alarms are rung, and everyone's sessions renewed.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use crate::deadline;

/// Wakes, whatever that does. No lock of ours may be held.
pub(crate) fn wake(waker: Waker) {
    unharmed(|| waker.wake());
}

/// Runs users' code to its end, or to its panic: for backends, what listens to their tracing on threads of ours.
///
/// ```
/// tidelock::unharmed(|| panic!("the collector is full"));
/// ```
pub fn unharmed(work: impl FnOnce()) {
    if cfg!(tidelock_loom) {
        return work(); // loom says by a panic what it has found
    }
    // The hook has told of it, as of any panic. Nothing of ours is left half done: none of it was inside.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(work))
        && let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload)))
    {
        std::mem::forget(another); // what it panicked with panics when it is dropped, and so on perhaps
    }
}

/// What the future gives. It wakes its user from another thread, perhaps from inside a library that a panic would
/// leave half done, so it is given a waker that does not panic.
pub(crate) async fn around<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    // Most stores in a process's own memory answer at once, and then there is nobody to wake.
    if let Some(output) = deadline::at_once(future.as_mut()) {
        return output;
    }
    let mut shield: Option<(Arc<Shielded>, Waker)> = None;
    poll_fn(|cx| {
        if shield.as_ref().is_none_or(|(of, _)| !of.0.will_wake(cx.waker())) {
            let of = Arc::new(Shielded(cx.waker().clone()));
            shield = Some((of.clone(), of.into()));
        }
        let waker = shield.as_ref().map_or(cx.waker(), |(_, waker)| waker);
        future.as_mut().poll(&mut Context::from_waker(waker))
    })
    .await
}

struct Shielded(Waker);

impl Wake for Shielded {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        unharmed(|| self.0.wake_by_ref());
    }
}
