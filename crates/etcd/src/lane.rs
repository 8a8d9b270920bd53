//! A lane: where joins and leaves gather, and the connection on which they go out.
//!
//! The keeper's lane is always there, but a request through it wakes the keeper's thread, and its answer wakes the
//! caller's. So a runtime that sends many requests gets a lane with a connection of its own. A program may block that
//! runtime, or end it: then the outcome of what is under way there is unknown, and core repeats what must arrive, on
//! the keeper's lane.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use etcd_client::{Txn, TxnResponse};
use tidelock_core::backend::{Batcher, Distrust, Driven, Local, Locals, Sleep, Witness};
use tidelock_core::{ClaimId, Name};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::dial::ping;
use crate::link::{Connection, Failed, GRACE, Link, send};
use crate::login::Member;
use crate::request::Request;
use crate::trouble;

/// The largest batch. The server allows 128 operations in one transaction, less those of the transactions around it.
const MOST: usize = 100;

/// All lanes of a session.
#[derive(Debug)]
pub(crate) struct Lanes {
    keepers: Arc<Lane>,
    /// None: only the keeper's lane is used.
    others: Option<Locals<Lane>>,
}

/// One lane.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) batcher: Batcher<Request>,
    /// Where its requests are sent.
    pub(crate) runtime: Handle,
    /// None: it is the keeper's.
    own: Option<Own>,
    witness: Witness,
}

/// A connection of a lane's own.
struct Own {
    member: Arc<OnceLock<Member>>,
    /// The keeper's connection when this one was made. When that one is given up, so is this.
    beside: Arc<Connection>,
    driven: Arc<Driven>,
    is_given_up: AtomicBool,
    /// Runs for as long as the connection may be useful.
    task: AbortHandle,
}

impl Lanes {
    pub(crate) fn new(keeper: &Handle, has_others: bool) -> Self {
        let keepers = Lane {
            batcher: Batcher::in_turn(MOST),
            runtime: keeper.clone(),
            own: None,
            witness: Witness::default(),
        };
        Self { keepers: Arc::new(keepers), others: has_others.then(|| Locals::new(keeper)) }
    }

    pub(crate) fn keepers(&self) -> &Arc<Lane> {
        &self.keepers
    }

    /// The calling runtime's, if it has one that stands.
    pub(crate) fn mine(&self, link: &Arc<Link>) -> Arc<Lane> {
        let mine =
            self.others.as_ref().and_then(|others| others.mine(|here| Arc::new(Lane::open(link, here))));
        mine.unwrap_or_else(|| self.keepers.clone())
    }

    /// The same, for a join of this name. It does not overtake those that the keeper's lane has not sent yet: they may
    /// have come before this lane stood.
    pub(crate) fn mine_for(&self, link: &Arc<Link>, name: &Name) -> Arc<Lane> {
        let mine = self.mine(link);
        if self.keepers.batcher.has_joins_of(name) { self.keepers.clone() } else { mine }
    }

    /// Takes back this claim's joins that were not sent yet, on whatever lane.
    pub(crate) fn retract(&self, claim: ClaimId) {
        self.keepers.batcher.retract(claim);
        let others = self.others.iter().flat_map(Locals::all);
        others.for_each(|lane| lane.batcher.retract(claim));
    }
}

impl Lane {
    /// Connects on that runtime, in the background.
    fn open(link: &Arc<Link>, here: &Handle) -> Self {
        let (member, driven, witness) =
            (Arc::<OnceLock<Member>>::default(), Arc::<Driven>::default(), Witness::default());
        let beside = link.connection();
        let (watched, made, answering, first) =
            (witness.watch(), member.clone(), driven.clone(), beside.clone());
        let dial = link.dial().clone();
        let serving = async move {
            let _watched = watched;
            let connecting = async {
                // That member serves on the keeper's connection.
                let Ok(member) = dial.connect(first.host).await else { return };
                let _ = made.set(member);
                std::future::pending::<()>().await;
            };
            tokio::select! {
                biased;
                () = connecting => {}
                () = first.given_up() => {}
                () = answering.answer() => {}
            }
        };
        let task = here.spawn(serving).abort_handle();
        let own = Own { member, beside, driven, is_given_up: AtomicBool::new(false), task };
        Self { batcher: Batcher::in_turn(MOST), runtime: here.clone(), own: Some(own), witness }
    }

    /// Sends a transaction.
    pub(crate) async fn transact(&self, link: &Arc<Link>, txn: Txn) -> Result<TxnResponse, Failed> {
        let own = self.own.as_ref().filter(|own| !own.is_broken());
        let Some((own, member)) = own.and_then(|own| Some((own, own.member.get()?))) else {
            return link.transact(txn).await;
        };
        let asking = async {
            let answer = send(member, txn).await;
            if answer.as_ref().is_err_and(trouble::is_of_the_connection) {
                own.give_up();
            }
            answer
        };
        let least = link.revision();
        tokio::select! {
            biased;
            answer = link.answer(&own.beside, asking) => {
                let answer = answer?;
                link.shows(answer.header(), least)?;
                Ok(answer)
            }
            () = own.is_silent(link) => {
                own.give_up();
                Err(link.cut_off())
            }
        }
    }

    pub(crate) fn is_keepers(&self) -> bool {
        self.own.is_none()
    }

    /// When the keeper, waiting for a request that must arrive, no longer trusts this lane's runtime with it.
    pub(crate) fn distrust(&self, keeper: &Handle) -> Option<Distrust> {
        self.own.as_ref().map(|own| Distrust::new(own.driven.clone(), keeper))
    }
}

impl Own {
    fn is_broken(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire) || self.task.is_finished()
    }

    fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Release);
    }

    /// Waits until this connection answers nothing any more, although the keeper's does.
    async fn is_silent(&self, link: &Arc<Link>) {
        let clock = link.clock();
        loop {
            Sleep::until(clock, clock.now() + link.patience()).await;
            let Some(member) = self.member.get() else { return };
            let here = ping(&member.client, link.probe());
            let there = async {
                if ping(&self.beside.member.client, link.probe()).await.is_err() {
                    std::future::pending::<()>().await; // then it is not only this one
                }
                Sleep::until(clock, clock.now() + GRACE).await;
            };
            tokio::select! {
                biased;
                _ = here => {}
                () = there => return,
            }
        }
    }
}

impl Local for Lane {
    fn stands(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.member.get().is_some())
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
        f.debug_struct("Own").field("stands", &self.member.get().is_some()).finish_non_exhaustive()
    }
}
