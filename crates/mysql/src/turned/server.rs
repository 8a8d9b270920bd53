//! The server, with a clock that the test turns, and clients of it.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidelock_core::backend::{Grant, Signals, boot_clock};
use tidelock_core::{ClaimId, Name, SessionId};

use super::faults::Fault;
use crate::address::Address;
use crate::link::{Idling, Link, Reads};
use crate::open_session::{OpenSession, Parts};
use crate::packet::Caller;
use crate::sql::{self, NOW, Namespace, put};
use crate::which_server::WhichServer;

pub(super) const SECOND: u64 = 1_000_000;
/// So many that claims of a test never share one.
pub(super) const SLOTS: u32 = 262_144;
const WITHIN: Duration = Duration::from_secs(20);

/// The clock that statements see, in place of the server's; and the fault in their text, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Turned {
    now: AtomicU64,
    /// How many more statements read the clock until it jumps, and how far.
    jump: Mutex<Option<(u64, u64)>>,
    fault: Option<&'static Fault>,
}

impl Turned {
    fn with(fault: Option<&'static Fault>) -> Self {
        Self { fault, ..Self::default() }
    }

    /// The text as the server gets it. Each statement has its own time.
    pub(crate) fn text(&self, text: &str) -> String {
        let clock = |text: &str| {
            let text = text.replace("{now}", NOW).replace("{counts h}", &sql::counts("h"));
            text.replace("{counts tidelock_claim}", &sql::counts("tidelock_claim"))
        };
        let changes = self.fault.iter().flat_map(|fault| fault.changes);
        let text =
            changes.fold(text.to_owned(), |text, (right, wrong)| text.replace(&clock(right), &clock(wrong)));
        let statements = text.split_inclusive(";\n");
        let turned = statements.map(|statement| match statement.contains(NOW) {
            true => statement.replace(NOW, &self.read().to_string()),
            false => statement.to_owned(),
        });
        turned.collect()
    }

    fn read(&self) -> u64 {
        let mut jump = self.jump.lock().unwrap();
        match *jump {
            Some((0, by)) => {
                self.now.fetch_add(by, Ordering::SeqCst);
                *jump = None;
            }
            Some((reads, by)) => *jump = Some((reads - 1, by)),
            None => {}
        }
        self.now.load(Ordering::SeqCst)
    }

    pub(super) fn set(&self, now: u64) {
        self.now.store(now, Ordering::SeqCst);
    }

    pub(super) fn pass(&self, by: u64) {
        self.now.fetch_add(by, Ordering::SeqCst);
    }

    pub(super) fn set_back(&self, by: u64) {
        self.now.fetch_sub(by, Ordering::SeqCst);
    }

    /// Lets time pass between two statements, after so many have read the clock.
    pub(super) fn will_jump(&self, after: u64, by: u64) {
        *self.jump.lock().unwrap() = Some((after, by));
    }

    /// Whether it has jumped. Otherwise it does now.
    pub(super) fn has_jumped(&self) -> bool {
        let jump = self.jump.lock().unwrap().take();
        jump.inspect(|(_, by)| self.pass(*by)).is_none()
    }
}

/// What a client told core of its grants.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<Vec<ClaimId>>);

impl Told {
    pub(super) fn held(&self) -> Vec<ClaimId> {
        self.0.lock().unwrap().clone()
    }
}

impl Signals for Told {
    fn held(&self, id: ClaimId, _: Grant) {
        self.0.lock().unwrap().push(id);
    }
    fn stray(&self, _: ClaimId) {}
    fn gone(&self, _: ClaimId) {}
    fn look(&self, _: &Name) {}
    fn look_everywhere(&self) {}
    fn over(&self) {}
}

/// One connection, and the clock that its statements see. Sequences use it one after another.
pub(super) struct Server {
    pub(super) clock: Arc<Turned>,
    pub(super) link: Arc<Link>,
}

impl Server {
    pub(super) fn at(url: &str, fault: Option<&'static Fault>) -> Self {
        let clock = Arc::new(Turned::with(fault));
        let mut link =
            Link::new(Address::parse(url).unwrap(), Reads::Committed, Idling::Pings, WITHIN, WITHIN);
        link.turned = Some(clock.clone());
        Self { clock, link: Arc::new(link) }
    }

    /// One whose statements are those for MariaDB, or for MySQL.
    pub(super) fn client_of(
        &self,
        id: SessionId,
        ttl: u64,
        namespace: &str,
        has_returning: bool,
    ) -> Arc<OpenSession> {
        self.client_that_tells(id, ttl, namespace, has_returning, Arc::<Told>::default())
    }

    pub(super) fn client_that_tells(
        &self,
        id: SessionId,
        ttl: u64,
        namespace: &str,
        has_returning: bool,
        told: Arc<Told>,
    ) -> Arc<OpenSession> {
        Arc::new(OpenSession::new(Parts {
            id,
            ttl: Duration::from_micros(ttl),
            within: WITHIN,
            caller: Caller {
                session: id,
                namespace: Namespace::of(namespace),
                has_returning,
                store: 0,
                slots: SLOTS,
            },
            lane: self.link.clone(),
            has_lanes: false,
            looks: self.link.clone(),
            beats: self.link.clone(),
            server: WhichServer::default(),
            bell: self.link.clone(),
            clock: boot_clock(),
            signals: told,
            until: boot_clock().now() + WITHIN,
        }))
    }

    pub(super) fn client(&self, id: SessionId, ttl: u64, namespace: &str) -> Arc<OpenSession> {
        self.client_of(id, ttl, namespace, true)
    }

    /// Begins the lifetime of a session.
    pub(super) async fn open(&self, id: SessionId, ttl: u64) {
        let mut text = String::new();
        put(&mut text, sql::OPEN, &[("me", &id.get()), ("ttl", &ttl), ("label", &"''")]);
        self.link.ask(&text).await.unwrap();
    }
}
