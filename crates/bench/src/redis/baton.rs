//! The twin of a hand-off: one script that publishes, and the subscriber's receipt of it on another connection.
//!
//! Two sides, each with a channel and a queue of its own. What one gives back goes to the first who waits on the
//! other: the line knows no length, and excludes nobody.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, cmd};
use tokio::sync::oneshot;

use super::server::Server;
use crate::Result;
use crate::exclusion::Exclusion;

const PUBLISH: &str = "return redis.call('PUBLISH', ARGV[1], ARGV[2])";

#[derive(Clone, Debug)]
pub(crate) struct Baton {
    connection: MultiplexedConnection,
    /// Tells the other side.
    give_back: Arc<Cmd>,
    waiters: Waiters,
    /// Lives as long as its side.
    _subscriber: MultiplexedConnection,
    /// The very first has nobody to wait for.
    begun: Arc<AtomicBool>,
}

#[derive(Clone, Debug, Default)]
struct Waiters(Arc<Mutex<VecDeque<oneshot::Sender<()>>>>);

impl Baton {
    /// Two sides, on channels that begin like this.
    pub(super) async fn sides(server: &Server, prefix: &str) -> Result<[Self; 2]> {
        let publish = server.load_script(PUBLISH).await?;
        let begun = Arc::<AtomicBool>::default();
        let channel = |side: usize| format!("{prefix}{side}");
        let side = async |own: usize, other: usize| -> Result<Self> {
            let waiters = Waiters::default();
            let told = waiters.clone();
            let publish = cmd("EVALSHA").arg(&publish).arg(0).arg(channel(other)).arg("yours").take();
            Ok(Self {
                connection: server.connection().await?,
                give_back: publish.into(),
                waiters,
                _subscriber: server.subscriber(&channel(own), move || told.wake_first()).await?,
                begun: begun.clone(),
            })
        };
        Ok([side(0, 1).await?, side(1, 0).await?])
    }
}

impl Waiters {
    fn join(&self) -> oneshot::Receiver<()> {
        let (turn, my_turn) = oneshot::channel();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(turn);
        my_turn
    }

    fn wake_first(&self) {
        let first = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let _ = first.map(|turn| turn.send(())); // none: the last of all has given back
    }
}

impl Exclusion for Baton {
    type Held = ();

    async fn take(&self) -> Result<()> {
        if self.begun.swap(true, Ordering::AcqRel) {
            self.waiters.join().await?;
        }
        Ok(())
    }

    async fn give_back(&self, (): ()) -> Result<()> {
        let told: u32 = self.give_back.query_async(&mut self.connection.clone()).await?;
        (told > 0).then_some(()).ok_or_else(|| "nobody hears the bare channel".into())
    }

    async fn stand(&self, _: usize) -> Result<()> {
        Ok(()) // whoever was polled stands
    }
}
