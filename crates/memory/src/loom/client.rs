//! A client small enough for loom: one session, and a waker for each waiting claim.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidelock_core::backend::{
    Backend, Claim, Grant, Leave, Left, Patience, Place, Renewal, Session, Shard, Sight, Signals,
};
use tidelock_core::{ClaimId, Kind, Name, Options, Result, SessionId, Token, Weight};

use crate::Store;
use crate::sync::Cell;

/// The lifetime of every session in the scenarios.
pub(super) const TTL: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub(super) struct Client {
    id: SessionId,
    session: Arc<dyn Session>,
    heard: Arc<Heard>,
}

/// What the client was told, by number of the claim.
#[derive(Debug)]
struct Heard(Cell<State>);

#[derive(Debug, Default)]
struct State {
    held: BTreeMap<u64, Token>,
    over: bool,
    wakers: BTreeMap<u64, Waker>,
}

impl Signals for Heard {
    fn held(&self, id: ClaimId, grant: Grant) {
        let waker = {
            let mut state = self.0.lock();
            state.held.insert(id.number, grant.token);
            state.wakers.remove(&id.number)
        };
        waker.into_iter().for_each(Waker::wake);
    }

    fn stray(&self, _: ClaimId) {}
    fn gone(&self, _: ClaimId) {}
    fn look(&self, _: &Name) {}
    fn look_everywhere(&self) {}

    fn over(&self) {
        self.0.lock().over = true;
    }
}

impl Client {
    pub(super) fn new(store: &Store, id: u64) -> Self {
        let id = SessionId::from_bits(id);
        let heard = Arc::new(Heard(Cell::new(State::default())));
        let options = Options::new().ttl(TTL).label("loom");
        let session = now(store.open(id, &options, heard.clone())).expect("it opens");
        Self { id, session, heard }
    }

    /// A claim on the one name there is.
    pub(super) fn claim(&self, number: u64, kind: Kind, weight: Weight, capacity: Weight) -> Claim {
        let id = ClaimId { session: self.id, number };
        Claim::new(id, Name::new("stock").expect("a name"), kind, weight, capacity)
    }

    pub(super) fn mutex(&self, number: u64) -> Claim {
        self.claim(number, Kind::Mutex, Weight::ONE, Weight::ONE)
    }

    pub(super) fn read(&self, number: u64) -> Claim {
        self.claim(number, Kind::RwLock, Weight::ONE, Weight::MAX)
    }

    pub(super) fn write(&self, number: u64) -> Claim {
        self.claim(number, Kind::RwLock, Weight::MAX, Weight::MAX)
    }

    pub(super) fn join(&self, claim: &Claim) -> Result<Place> {
        now(self.session.join(claim, Patience::Wait))
    }

    /// Joins, and waits for its turn.
    pub(super) fn lock(&self, claim: &Claim) -> Token {
        match self.join(claim).expect("its session lives") {
            Place::Held { grant, .. } => grant.token,
            Place::Waiting { .. } => self.wait(claim),
            other => panic!("{:?} neither holds nor waits: {other:?}", claim.id),
        }
    }

    /// Waits for the turn of a claim in line: registers a waker, unless the client was told already.
    pub(super) fn wait(&self, claim: &Claim) -> Token {
        let number = claim.id.number;
        ::loom::future::block_on(poll_fn(|cx| {
            let mut state = self.heard.0.lock();
            if let Some(token) = state.held.get(&number) {
                return Poll::Ready(*token);
            }
            state.wakers.insert(number, cx.waker().clone());
            Poll::Pending
        }))
    }

    /// Whether the client was told that the claim is held.
    pub(super) fn heard_of(&self, claim: &Claim) -> bool {
        self.heard.0.lock().held.contains_key(&claim.id.number)
    }

    pub(super) fn heard_the_end(&self) -> bool {
        self.heard.0.lock().over
    }

    pub(super) fn look(&self, claim: &Claim) -> Result<Sight> {
        now(self.session.look(&claim.name, &[claim.id]))
    }

    pub(super) fn leave(&self, claim: &Claim) -> Result<Left> {
        now(self.session.leave(&claim.name, claim.id, Leave::Done))
    }

    pub(super) fn leave_void(&self, claim: &Claim) -> Result<Left> {
        now(self.session.leave(&claim.name, claim.id, Leave::Void))
    }

    pub(super) fn lighten(&self, claim: &Claim, weight: Weight) -> Result<()> {
        now(self.session.lighten(claim, weight))
    }

    pub(super) fn renew(&self) -> Result<Renewal> {
        now(self.session.renew(Shard(0), &[]))
    }

    pub(super) fn close(&self) -> Result<()> {
        now(self.session.close())
    }
}

/// The output of a future, which must be ready at its first poll.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the store did not answer at once"),
    }
}
