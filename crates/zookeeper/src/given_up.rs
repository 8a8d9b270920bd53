//! Sessions that were given up are ended at the server, as soon as one can be reached.
//!
//! A client gives its session up by its own clock. The server may keep it for longer: it counts from when it last heard
//! of the client, and if it stood still it gives each session its whole time again. Until then the claims of that
//! session are in everyone's way, also in the way of this client's next session. So the session is shown to a server
//! once more, and closed. The next opening of a session waits for that, for a moment.
//!
//! This takes no lock from anyone: `Signals::over` comes first, and after it no guard of that session trusts its claim.

use std::sync::Arc;
use std::time::Duration;

use tidelock_core::SessionId;
use tidelock_core::backend::{boot_clock, unharmed};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use zookeeper_client::SessionInfo;

use crate::dial::Dial;

/// The pause between two attempts, at first and at most.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// For how long it is attempted. A server that is back later may keep the session for its whole time.
const LONGEST: Duration = Duration::from_secs(3_600);

/// The sessions of a store's clients that may live on at the server.
#[derive(Default)]
pub(crate) struct GivenUp {
    number: watch::Sender<usize>,
    a_server_serves: Notify,
}

/// A session that nothing is sent in any more.
pub(crate) struct OldSession {
    pub(crate) id: SessionId,
    pub(crate) dial: Dial,
    pub(crate) ttl: Duration,
    pub(crate) info: SessionInfo,
}

impl GivenUp {
    /// Ends this session in the background. Its guards are Lost already.
    pub(crate) fn add(self: &Arc<Self>, old: OldSession, runtime: &Handle) {
        let counted = Counted::among(self);
        runtime.spawn(async move {
            let given_up_at = boot_clock().now();
            let mut pause = PAUSE;
            while !old.dial.end(old.ttl, &old.info).await {
                if boot_clock().now() > given_up_at + LONGEST {
                    return;
                }
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = counted.0.a_server_serves.notified() => {}
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            unharmed(|| {
                tracing::info!(session = %old.id, "the session that this client gave up is over at the server too");
            });
        });
    }

    /// A server serves. Waits until these sessions are ended there, for this long at most.
    pub(crate) async fn end_now(&self, longest: Duration) {
        if *self.number.borrow() > 0 {
            self.a_server_serves.notify_waiters();
            let mut number = self.number.subscribe();
            let _ = tokio::time::timeout(longest, number.wait_for(|number| *number == 0)).await;
        }
    }
}

/// One of these sessions.
struct Counted(Arc<GivenUp>);

impl Counted {
    fn among(all: &Arc<GivenUp>) -> Self {
        all.number.send_modify(|number| *number += 1);
        Self(all.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.number.send_modify(|number| *number -= 1);
    }
}
