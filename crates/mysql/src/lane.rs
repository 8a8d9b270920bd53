//! A lane: where joins and leaves gather, and the connection on which they go out.
//!
//! The keeper's lane is always there, but a request through it wakes the keeper's thread, and its answer wakes the
//! caller's. So a runtime that sends many requests gets a lane with a connection of its own. A program may block that
//! runtime, or end it: then the outcome of what is under way there is unknown, and core repeats what must arrive, on
//! the keeper's lane.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidelock_core::backend::{Batcher, Distrust, Driven, Local, Locals, Moment, Witness};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::link::{Answer, Link};
use crate::request::Request;
use crate::trouble::Said;

/// The most requests in a transaction.
const MOST: usize = 250;

/// All lanes of a session.
#[derive(Debug)]
pub(crate) struct Lanes {
    pub(crate) keepers: Arc<Lane>,
    /// None: only the keeper's lane is used.
    others: Option<Locals<Lane>>,
}

/// One lane.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) batcher: Batcher<Request>,
    /// Where its requests are sent.
    pub(crate) runtime: Handle,
    pub(crate) link: Arc<Link>,
    /// None: it is the keeper's.
    own: Option<Own>,
    witness: Witness,
}

/// A lane on a caller's runtime.
struct Own {
    driven: Arc<Driven>,
    stands: Arc<AtomicBool>,
    is_given_up: AtomicBool,
    /// Runs for as long as the connection may be useful.
    task: AbortHandle,
}

impl Lanes {
    pub(crate) fn new(keeper: &Handle, link: Arc<Link>, has_others: bool) -> Self {
        let keepers = Lane {
            batcher: Batcher::new(MOST),
            runtime: keeper.clone(),
            link,
            own: None,
            witness: Witness::default(),
        };
        Self { keepers: Arc::new(keepers), others: has_others.then(|| Locals::new(keeper)) }
    }

    /// The calling runtime's, if it has one that stands.
    pub(crate) fn mine(&self) -> Arc<Lane> {
        let open = |here: &Handle| Arc::new(Lane::open(&self.keepers.link, here));
        let mine = self.others.as_ref().and_then(|others| others.mine(open));
        mine.unwrap_or_else(|| self.keepers.clone())
    }

    /// Gives up the lanes on callers' runtimes.
    pub(crate) fn give_up_others(&self) {
        for lane in self.others.iter().flat_map(Locals::all) {
            lane.give_up();
        }
    }
}

impl Lane {
    /// Connects on that runtime, in the background.
    pub(crate) fn open(keepers: &Link, here: &Handle) -> Self {
        let link = Arc::new(keepers.another());
        let (stands, driven, witness) =
            (Arc::<AtomicBool>::default(), Arc::<Driven>::default(), Witness::default());
        let (watched, connecting, connected, answering) =
            (witness.watch(), link.clone(), stands.clone(), driven.clone());
        let serving = async move {
            let _watched = watched;
            // If it cannot connect, the keeper's lane says why.
            if connecting.connect().await.is_ok() {
                connected.store(true, Ordering::Release);
                answering.answer().await;
            }
        };
        let task = here.spawn(serving).abort_handle();
        let own = Own { driven, stands, is_given_up: AtomicBool::new(false), task };
        Self { batcher: Batcher::new(MOST), runtime: here.clone(), link, own: Some(own), witness }
    }

    /// Sends statements. An error that the server did not send ends the use of a caller's connection.
    pub(crate) async fn ask_until(&self, text: &str, late: Moment) -> Result<Answer, Said> {
        let answer = self.link.ask_until(text, late).await;
        if answer.as_ref().is_err_and(|said| said.number().is_none()) {
            self.give_up();
        }
        answer
    }

    /// When the keeper, waiting for a request that must arrive, no longer trusts this lane's runtime with it.
    pub(crate) fn distrust(&self, keeper: &Handle) -> Option<Distrust> {
        self.own.as_ref().map(|own| Distrust::new(own.driven.clone(), keeper))
    }

    fn give_up(&self) {
        if let Some(own) = &self.own {
            own.is_given_up.store(true, Ordering::Release);
            own.task.abort();
        }
    }
}

impl Own {
    fn is_broken(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire) || self.task.is_finished()
    }
}

impl Local for Lane {
    fn stands(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.stands.load(Ordering::Acquire))
    }

    fn is_broken(&self) -> bool {
        self.own.as_ref().is_some_and(Own::is_broken)
    }

    fn witness(&self) -> &Witness {
        &self.witness
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Own").field("stands", &self.stands).finish_non_exhaustive()
    }
}
