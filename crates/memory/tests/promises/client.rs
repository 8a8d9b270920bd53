//! A client without core: it sends what a test says, and records what it is told.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidelock_memory::backend::{
    Backend, Claim, Grant, Leave, Left, Patience, Place, Renewal, Session, Shard, Sight, Signals,
};
use tidelock_memory::{ClaimId, Kind, Name, Options, Result, SessionId, Store, Token, Weight};

/// One signal to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Held(ClaimId, Token),
    Gone(ClaimId),
    Over,
}

#[derive(Debug, Default)]
struct Ears(Mutex<Vec<Told>>);

impl Signals for Ears {
    fn held(&self, id: ClaimId, grant: Grant) {
        self.0.lock().unwrap().push(Told::Held(id, grant.token));
    }
    fn stray(&self, _: ClaimId) {}
    fn gone(&self, id: ClaimId) {
        self.0.lock().unwrap().push(Told::Gone(id));
    }
    fn look(&self, _: &Name) {}
    fn look_everywhere(&self) {}
    fn over(&self) {
        self.0.lock().unwrap().push(Told::Over);
    }
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: SessionId,
    pub(crate) session: Arc<dyn Session>,
    ears: Arc<Ears>,
}

/// The output of a future, which must be ready at its first poll.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the store did not answer at once"),
    }
}

pub(crate) fn name(name: &str) -> Name {
    Name::new(name).unwrap()
}

pub(crate) fn weight(n: u32) -> Weight {
    Weight::new(n).unwrap()
}

impl Client {
    /// A client with the default options and a ttl of 15 s.
    pub(crate) fn new(store: &Store, id: u64) -> Self {
        Self::with(store, id, &Options::new())
    }

    pub(crate) fn with(store: &Store, id: u64, options: &Options) -> Self {
        let id = SessionId::from_bits(id);
        let ears = Arc::new(Ears::default());
        let session = now(store.open(id, options, ears.clone())).unwrap();
        Self { id, session, ears }
    }

    /// What it was told since the last call.
    pub(crate) fn told(&self) -> Vec<Told> {
        std::mem::take(&mut *self.ears.0.lock().unwrap())
    }

    pub(crate) fn claim_id(&self, number: u64) -> ClaimId {
        ClaimId { session: self.id, number }
    }

    pub(crate) fn mutex(&self, number: u64, on: &str) -> Claim {
        Claim::new(self.claim_id(number), name(on), Kind::Mutex, Weight::ONE, Weight::ONE)
    }

    pub(crate) fn read(&self, number: u64, on: &str) -> Claim {
        Claim::new(self.claim_id(number), name(on), Kind::RwLock, Weight::ONE, Weight::MAX)
    }

    pub(crate) fn write(&self, number: u64, on: &str) -> Claim {
        Claim::new(self.claim_id(number), name(on), Kind::RwLock, Weight::MAX, Weight::MAX)
    }

    pub(crate) fn permits(&self, number: u64, on: &str, n: u32, of: u32) -> Claim {
        Claim::new(self.claim_id(number), name(on), Kind::Semaphore, weight(n), weight(of))
    }

    pub(crate) fn join(&self, claim: &Claim) -> Result<Place> {
        now(self.session.join(claim, Patience::Wait))
    }

    pub(crate) fn try_join(&self, claim: &Claim) -> Result<Place> {
        now(self.session.join(claim, Patience::Now))
    }

    /// Joins, and must be held at once.
    pub(crate) fn hold(&self, claim: &Claim) -> Token {
        match self.join(claim).unwrap() {
            Place::Held { grant, .. } => grant.token,
            other => panic!("{:?} must be held at once, but is {other:?}", claim.id),
        }
    }

    /// Joins, and must wait.
    pub(crate) fn wait(&self, claim: &Claim) -> Duration {
        match self.join(claim).unwrap() {
            Place::Waiting { look_in, .. } => look_in,
            other => panic!("{:?} must wait, but is {other:?}", claim.id),
        }
    }

    pub(crate) fn look(&self, claim: &Claim) -> Result<Sight> {
        now(self.session.look(&claim.name, &[claim.id]))
    }

    pub(crate) fn leave(&self, claim: &Claim) -> Left {
        now(self.session.leave(&claim.name, claim.id, Leave::Done)).unwrap()
    }

    pub(crate) fn leave_void(&self, claim: &Claim) -> Left {
        now(self.session.leave(&claim.name, claim.id, Leave::Void)).unwrap()
    }

    pub(crate) fn renew(&self, standing: &[&Claim]) -> Result<Renewal> {
        let standing: Vec<_> = standing.iter().map(|claim| (claim.name.clone(), vec![claim.id])).collect();
        now(self.session.renew(Shard(0), &standing))
    }
}
