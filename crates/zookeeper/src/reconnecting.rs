//! A session outlives its connections: the next one is made as soon as one is lost.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tidelock_core::ErrorKind;
use tidelock_core::backend::{Sleep, unharmed};
use zookeeper_client::{Error as Said, MultiWriteError, SessionInfo};

use crate::connection::{Connection, End, Wire};
use crate::dial::{Dial, Dialled, Refused};
use crate::given_up::{GivenUp, OldSession};
use crate::link;
use crate::open_session::OpenSession;
use crate::silence::Doubt;

/// The pause between two rounds of the servers, at first and at most.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What is needed to resume a session.
pub(crate) struct Ticket {
    pub(crate) dial: Dial,
    pub(crate) session: SessionInfo,
    /// The current connection, and its server.
    pub(crate) wire: Arc<Wire>,
    pub(crate) host: String,
    pub(crate) doubt: Doubt,
    pub(crate) given_up: Arc<GivenUp>,
}

/// The session at the server. Dropped without `is_over`, it is given up: its guards are Lost from then on, and it is
/// ended at the server as soon as possible.
struct AtServer {
    session: Arc<OpenSession>,
    dial: Dial,
    info: SessionInfo,
    given_up: Arc<GivenUp>,
    is_over: bool,
}

impl Drop for AtServer {
    fn drop(&mut self) {
        let Self { session, dial, info, .. } = self;
        if !self.is_over {
            session.signals.over(); // before anything is sent: nobody may trust what is ended
            let (dial, info) = (dial.clone(), info.clone());
            let old = OldSession { id: session.id, dial, ttl: session.lease.ttl, info };
            self.given_up.add(old, &session.runtime);
        }
    }
}

/// The result of reconnecting.
enum Again {
    Connected(Dialled),
    /// There was no connection in time, or the session would not last as long as callers were told.
    GivenUp,
    /// A server said that the session is over.
    Over,
}

impl OpenSession {
    /// Reconnects whenever the connection is lost, until the session is over or closed.
    pub(crate) async fn stay(self: Arc<Self>, ticket: Ticket) {
        let Ticket { dial, session, mut wire, mut host, mut doubt, given_up } = ticket;
        let mut at_server =
            AtServer { session: self.clone(), dial: dial.clone(), info: session, given_up, is_over: false };
        loop {
            let end = tokio::select! {
                end = wire.ended() => end,
                () = doubt.is_justified(&self.link, &dial, &host, &wire.missing) => {
                    doubt.gave_up();
                    wire.give_up();
                    wire.ended().await
                }
                never = self.learn_the_tick(&dial, &host) => match never {},
            };
            at_server.is_over = end == End::Closed;
            if end != End::Lost || !self.link.lose() {
                break;
            }
            drop(wire);
            unharmed(|| tracing::info!(session = %self.id, "lost the connection to ZooKeeper; reconnecting"));
            match self.connect_again(&dial, &at_server.info).await {
                Again::Connected(dialled) => {
                    at_server.info = dialled.connection.client.session().clone();
                    wire = dialled.connection.wire.clone();
                    host = dialled.host;
                    self.take_up(dialled.connection);
                }
                Again::GivenUp => break,
                Again::Over => {
                    at_server.is_over = true;
                    break;
                }
            }
        }
        self.signals.over();
        self.link.cut();
    }

    async fn connect_again(&self, dial: &Dial, session: &SessionInfo) -> Again {
        let mut pause = PAUSE;
        loop {
            let until = self.lease.until();
            let connected = tokio::select! {
                () = self.link.over() => return Again::GivenUp,
                () = Sleep::until(&self.clock, until) => return Again::GivenUp,
                connected = dial.resume(self.lease.ttl, session) => connected,
            };
            match connected {
                Ok(dialled) => return Again::Connected(dialled),
                Err(Refused::Shorter(offered)) => {
                    // Callers were told deadlines that the server would not keep, so none of them counts any more.
                    unharmed(|| {
                        tracing::warn!(
                            session = %self.id, before = ?self.lease.ttl, now = ?offered,
                            "a server shortened this session's timeout; this client gives the session up, and its locks are lost"
                        );
                    });
                    return Again::GivenUp;
                }
                Err(Refused::Failed(error)) if error.kind() == ErrorKind::Lost => return Again::Over,
                Err(Refused::Failed(error)) => {
                    unharmed(
                        || tracing::debug!(session = %self.id, %error, "no connection yet; trying again"),
                    );
                }
            }
            Sleep::until(&self.clock, self.clock.now() + pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE).min(self.lease.ttl / 10);
        }
    }

    /// Finds out the tick of the connected server, once that has time to reply.
    async fn learn_the_tick(&self, dial: &Dial, host: &str) -> Infallible {
        loop {
            if let Some(half_tick) = dial.half_tick(host).await {
                self.lease.learn(half_tick);
                return std::future::pending().await;
            }
            Sleep::until(&self.clock, self.clock.now() + self.lease.ttl / 5).await;
        }
    }

    /// Continues on a new connection.
    fn take_up(self: &Arc<Self>, connection: Connection) {
        self.lease.reconnected(connection.asked);
        // Before anything is read: this server may be behind the last one.
        let sent = self.clock.now();
        let confirming = link::confirm(&connection, self.nodes.root());
        self.link.attach(connection);
        let session = self.clone();
        self.runtime.spawn(async move {
            match confirming.await {
                Ok(_) | Err(MultiWriteError::OperationFailed { source: Said::NoNode, .. }) => {
                    session.lease.answered(sent, session.clock.now());
                    session.signals.look_everywhere();
                }
                Err(_) => {} // it is lost again
            }
        });
    }
}
