//! The server that these tests have to themselves, a plain connection to it, and clients at the seam.
#![allow(dead_code)] // each test program uses what it needs

pub(crate) mod alone;
pub(crate) mod cluster;
pub(crate) mod fake;
pub(crate) mod replicated;
pub(crate) mod wires;

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Client, FromRedisValue};
use tidelock_redis::backend::{Backend, Claim, Grant, Session, Signals};
use tidelock_redis::{ClaimId, Guard, Kind, Locks, Name, Options, Result, SessionId, Store, Weight};
use tokio::sync::Notify;

/// Where the server is: standalone, without a password.
pub(crate) fn url() -> String {
    std::env::var("TIDELOCK_REDIS_URL").expect("TIDELOCK_REDIS_URL is the server; cargo xtask test sets it")
}

/// The same server, for this user: `redis://USER:PASSWORD@HOST:PORT`.
pub(crate) fn url_of(user: &str, password: &str) -> String {
    url().replacen("redis://", &format!("redis://{user}:{password}@"), 1)
}

/// A connection outside of Tidelock, with timeouts long enough for a busy machine.
pub(crate) async fn plain() -> MultiplexedConnection {
    let patience = Some(Duration::from_secs(20));
    let config =
        redis::AsyncConnectionConfig::new().set_connection_timeout(patience).set_response_timeout(patience);
    Client::open(url()).unwrap().get_multiplexed_async_connection_with_config(&config).await.unwrap()
}

/// Sends one command, as people type it. Its words must not contain blanks.
pub(crate) async fn ask<T: FromRedisValue>(server: &mut MultiplexedConnection, words: &str) -> T {
    command(words).query_async(server).await.unwrap_or_else(|error| panic!("{words}: {error}"))
}

/// A command as people type it.
pub(crate) fn command(words: &str) -> redis::Cmd {
    let mut command = redis::Cmd::new();
    for word in words.split(' ') {
        command.arg(word);
    }
    command
}

/// Waits until `look` finds something; panics after 20 s.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "never saw that {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn weight(n: u32) -> Weight {
    Weight::new(n).unwrap()
}

/// Takes the lock `name`.
pub(crate) async fn hold(locks: &Arc<dyn Locks>, name: &str) -> Result<Guard> {
    locks.mutex(name).unwrap().lock().await
}

/// One client at the seam, and the signals that it gets.
pub(crate) struct Caller {
    pub(crate) id: SessionId,
    pub(crate) session: Arc<dyn Session>,
    pub(crate) heard: Arc<Heard>,
}

impl Caller {
    pub(crate) async fn open(store: &Store, id: u64, options: &Options) -> Self {
        Self::try_open(store, id, options).await.unwrap()
    }

    pub(crate) async fn try_open(store: &Store, id: u64, options: &Options) -> Result<Self> {
        let (id, heard) = (SessionId::from_bits(id), Arc::new(Heard::default()));
        let session = store.open(id, options, heard.clone()).await?;
        Ok(Self { id, session, heard })
    }

    pub(crate) fn claim(&self, number: u64) -> ClaimId {
        ClaimId { session: self.id, number }
    }

    /// A claim on a mutex.
    pub(crate) fn mutex(&self, name: &Name, number: u64) -> Claim {
        Claim::new(self.claim(number), name.clone(), Kind::Mutex, Weight::ONE, Weight::ONE)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Held(ClaimId, Grant),
    Gone(ClaimId),
    Look,
    LookEverywhere,
    Over,
}

/// Records the signals that a client gets.
#[derive(Default)]
pub(crate) struct Heard {
    told: Mutex<Vec<Told>>,
    something: Notify,
}

impl Heard {
    fn hear(&self, told: Told) {
        self.told.lock().unwrap().push(told);
        self.something.notify_one();
    }

    /// The signals since the last call.
    pub(crate) fn take(&self) -> Vec<Told> {
        std::mem::take(&mut self.told.lock().unwrap())
    }

    /// Waits for this signal, and returns the signals before it.
    pub(crate) async fn up_to(&self, last: impl Fn(&Told) -> bool) -> Vec<Told> {
        let hearing = async {
            loop {
                let found = {
                    let mut told = self.told.lock().unwrap();
                    let at = told.iter().position(&last);
                    at.map(|at| told.drain(..=at).collect::<Vec<_>>())
                };
                match found {
                    Some(mut told) => {
                        told.pop();
                        return told;
                    }
                    None => self.something.notified().await,
                }
            }
        };
        let heard = tokio::time::timeout(Duration::from_secs(20), hearing).await;
        heard.unwrap_or_else(|_| panic!("heard only {:?}", self.take()))
    }

    /// Waits until this claim is granted.
    pub(crate) async fn grant(&self, id: ClaimId) -> Grant {
        let granted = Mutex::new(None);
        self.up_to(|told| match told {
            Told::Held(held, grant) if *held == id => granted.lock().unwrap().replace(*grant).is_none(),
            _ => false,
        })
        .await;
        granted.into_inner().unwrap().unwrap()
    }
}

impl fmt::Debug for Heard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Heard")
    }
}

impl Signals for Heard {
    fn held(&self, id: ClaimId, grant: Grant) {
        self.hear(Told::Held(id, grant));
    }
    fn stray(&self, _: ClaimId) {}
    fn gone(&self, id: ClaimId) {
        self.hear(Told::Gone(id));
    }
    fn look(&self, _: &Name) {
        self.hear(Told::Look);
    }
    fn look_everywhere(&self) {
        self.hear(Told::LookEverywhere);
    }
    fn over(&self) {
        self.hear(Told::Over);
    }
}
