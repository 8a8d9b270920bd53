//! Clients at the seam, for a backend's own tests on a server: each is a session, and what it is told.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)] // a test that goes wrong panics

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use tidelock_core::backend::{Backend, Claim, Grant, Patience, Place, Session, Signals};
use tidelock_core::{ClaimId, Kind, Name, Options, SessionId, Weight};
use tokio::sync::Notify;

/// A namespace of its own for each test.
#[must_use]
pub fn namespace(what: &str) -> String {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    format!("{what} {:x}", since.as_micros())
}

/// A namespace of its own, and a ttl so long that no timer sends anything.
#[must_use]
pub fn options(what: &str) -> Options {
    Options::new().ttl(Duration::from_secs(600)).namespace(&namespace(what))
}

/// Waits for a condition that takes the server or other tasks a moment.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "never saw that {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The name of a lock.
#[must_use]
pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A weight.
#[must_use]
pub fn weight(n: u32) -> Weight {
    Weight::new(n).unwrap()
}

/// A session with this number. A store may know a session by its id for its whole server, so each run and each session
/// has its own.
fn session(number: u64) -> SessionId {
    static RUN: OnceLock<u64> = OnceLock::new();
    static COUNT: AtomicU64 = AtomicU64::new(0);
    const BITS: u32 = 44;
    if number >> BITS != 0 {
        return SessionId::from_bits(number);
    }
    let since = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros();
    let run = RUN.get_or_init(|| u64::try_from(since() & 0x3_ffff).unwrap() << BITS);
    SessionId::from_bits(run | COUNT.fetch_add(1, Ordering::Relaxed) << 24 | number)
}

/// One client at the seam, and what it is told.
#[derive(Debug)]
pub struct Caller {
    /// Its session's id.
    pub id: SessionId,
    /// The session.
    pub session: Arc<dyn Session>,
    /// What it was told.
    pub heard: Arc<Heard>,
}

impl Caller {
    /// Opens a session.
    pub async fn open(store: &dyn Backend, id: u64, options: &Options) -> Self {
        let (id, heard) = (session(id), Arc::new(Heard::default()));
        let session = store.open(id, options, heard.clone()).await.unwrap();
        Self { id, session, heard }
    }

    /// Two clients of the store.
    pub async fn two(store: &dyn Backend, options: &Options) -> [Self; 2] {
        [Self::open(store, 1, options).await, Self::open(store, 2, options).await]
    }

    /// The id of its claim with this number.
    #[must_use]
    pub fn claim(&self, number: u64) -> ClaimId {
        ClaimId { session: self.id, number }
    }

    /// A claim on a mutex.
    #[must_use]
    pub fn mutex(&self, name: &Name, number: u64) -> Claim {
        Claim::new(self.claim(number), name.clone(), Kind::Mutex, Weight::ONE, Weight::ONE)
    }

    /// A claim on permits of a semaphore of this size.
    #[must_use]
    pub fn permits(&self, name: &Name, number: u64, permits: u32, of: u32) -> Claim {
        Claim::new(self.claim(number), name.clone(), Kind::Semaphore, weight(permits), weight(of))
    }
}

/// A join that waits.
pub async fn join(caller: &Caller, claim: &Claim) -> Place {
    caller.session.join(claim, Patience::Wait).await.unwrap()
}

/// Whether a join was granted.
#[must_use]
pub fn is_held(place: Place) -> bool {
    matches!(place, Place::Held { .. })
}

/// Waits until the claim is held: its client is told so, or is told to look and then sees it.
pub async fn turn(caller: &Caller, name: &Name, id: ClaimId) {
    if caller.heard.turn(name, id).await.is_some() {
        return;
    }
    let sight = caller.session.look(name, &[id]).await.unwrap();
    assert_eq!(sight.held.first().map(|(held, _)| *held), Some(id), "{sight:?}");
}

/// Records the lines a client is told to look at, and the claims granted without a look.
#[derive(Default)]
pub struct Heard {
    hints: Mutex<VecDeque<Name>>,
    held: Mutex<Vec<(ClaimId, Grant)>>,
    something: Notify,
}

impl Heard {
    /// Waits until the client is told to look at this line (None), or told of this claim's turn.
    pub async fn turn(&self, name: &Name, id: ClaimId) -> Option<Grant> {
        let hearing = async {
            loop {
                if let Some(grant) = self.held(id) {
                    return Some(grant);
                }
                let at = self.hints.lock().unwrap().iter().position(|hint| hint == name);
                if let Some(at) = at {
                    self.hints.lock().unwrap().remove(at);
                    return None;
                }
                self.something.notified().await;
            }
        };
        let heard = tokio::time::timeout(Duration::from_secs(20), hearing).await;
        heard.unwrap_or_else(|_| panic!("it was never told to look at {name:?}"))
    }

    /// Waits until the client is told to look at this line.
    pub async fn hint(&self, name: &Name) {
        let nobody = ClaimId { session: SessionId::from_bits(u64::MAX), number: 0 };
        self.turn(name, nobody).await;
    }

    /// The grant that the claim got without a look.
    pub fn held(&self, id: ClaimId) -> Option<Grant> {
        self.held.lock().unwrap().iter().find(|(held, _)| *held == id).map(|(_, grant)| *grant)
    }

    /// The claim has left. Its grant is over, even if it stands in line again.
    pub fn has_left(&self, id: ClaimId) {
        self.held.lock().unwrap().retain(|(held, _)| *held != id);
    }

    /// Forgets that the client was told to look there.
    pub fn forget(&self, name: &Name) {
        self.hints.lock().unwrap().retain(|hint| hint != name);
    }
}

impl fmt::Debug for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Heard")
    }
}

impl Signals for Heard {
    fn held(&self, id: ClaimId, grant: Grant) {
        self.held.lock().unwrap().push((id, grant));
        self.something.notify_one();
    }
    fn stray(&self, _: ClaimId) {}
    fn gone(&self, _: ClaimId) {}
    fn look(&self, name: &Name) {
        self.hints.lock().unwrap().push_back(name.clone());
        self.something.notify_one();
    }
    fn look_everywhere(&self) {}
    fn over(&self) {}
}
