//! Users' code on Tidelock's threads: wakers and tracing subscribers. It may panic, and such a panic must end nothing
//! else, because the same threads ring everyone's alarms and renew everyone's sessions.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

use crate::at_once::at_once;

/// Wakes, and survives a panic of the waker. None of Tidelock's locks may be held.
pub(crate) fn wake(waker: Waker) {
    unharmed(|| waker.wake());
}

/// Runs users' code and survives a panic in it. Backends call it around tracing events on Tidelock's threads.
///
/// ```
/// tidelock_core::backend::unharmed(|| panic!("the collector is full"));
/// ```
pub fn unharmed(work: impl FnOnce()) {
    if cfg!(tidelock_loom) {
        return work(); // loom reports its findings by panics
    }
    // The panic hook has reported it like any panic. No state of ours is left half changed: none was inside.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(work))
        && let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload)))
    {
        std::mem::forget(another); // the payload panics when dropped, and so may the next one
    }
}

/// The future's output. The future may wake its user from another thread, perhaps from inside a library that a panic
/// would leave in a broken state, so it gets a waker that does not panic.
pub(crate) async fn around<F: Future>(future: F) -> F::Output {
    noting(None, future).await
}

/// The same, and `is_woken` is true from when the future wakes its user until that polls it.
pub(crate) async fn noting<F: Future>(is_woken: Option<&Arc<AtomicBool>>, future: F) -> F::Output {
    let mut future = pin!(future);
    let seen = || is_woken.into_iter().for_each(|is_woken| is_woken.store(false, Ordering::Release));
    // Most in-memory stores answer at once, and then nobody has to be woken.
    if let Some(output) = at_once(future.as_mut()) {
        return output;
    }
    let mut shield: Option<(Arc<Shielded>, Waker)> = None;
    poll_fn(|cx| {
        if shield.as_ref().is_none_or(|(of, _)| !of.of.will_wake(cx.waker())) {
            let of = Arc::new(Shielded { of: cx.waker().clone(), is_woken: is_woken.cloned() });
            shield = Some((of.clone(), of.into()));
        }
        let waker = shield.as_ref().map_or(cx.waker(), |(_, waker)| waker);
        seen();
        future.as_mut().poll(&mut Context::from_waker(waker))
    })
    .await
}

struct Shielded {
    of: Waker,
    is_woken: Option<Arc<AtomicBool>>,
}

impl Wake for Shielded {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if let Some(is_woken) = &self.is_woken {
            is_woken.store(true, Ordering::Release);
        }
        unharmed(|| self.of.wake_by_ref());
    }
}
