//! Choosing a server: one that replies.
//!
//! The servers are asked for their state in random order. The next one is asked 300 ms after the last, or as soon as
//! the last has replied. The client connects to the first one that says it serves. So a server that hangs costs 300 ms,
//! not a third of the ttl, and something that is no ZooKeeper is recognized by its reply. Two servers are never asked
//! for the same session at the same time, because the second would take it from the first.
//!
//! A restarted server may give sessions a shorter timeout than before. It applies that from the moment it is asked to
//! resume a session, even if its reply does not arrive. So before a session is shown to a server, the server is asked
//! for a throwaway session, to learn the timeout it grants: this is an offer. A server that has lost its leader without
//! noticing says that it serves, but makes no offer. So after 300 ms another server is asked for an offer too, and the
//! session is shown to the first that offers. A server that failed meanwhile is asked again, without waiting for those
//! that make no offer.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tidelock_core::backend::boot_clock;
use tidelock_core::{Error, Result};
use tokio::task::JoinSet;
use zookeeper_client::{Client, Error as Said, SessionInfo};

use crate::address::Address;
use crate::check::{self, PATIENT, Survey};
use crate::connection::{Connection, End};
use crate::tls::Tls;
use crate::trouble;

/// Shorter than any session that a server grants, and long enough to open it.
const SHORTEST: Duration = Duration::from_millis(400);

/// The timeout of a session that tests whether a server replies. Connecting may take a third of it.
const OFFERED: Duration = Duration::from_secs(3);

/// The servers, and how to connect to them.
#[derive(Clone)]
pub(crate) struct Dial {
    pub(crate) address: Address,
    pub(crate) tls: Option<Tls>,
}

/// A connection, and its server.
pub(crate) struct Dialled {
    pub(crate) connection: Connection,
    pub(crate) host: String,
}

/// Why there is no connection for a session.
#[derive(Debug)]
pub(crate) enum Refused {
    /// A server would grant only this timeout, and may already apply it.
    Shorter(Duration),
    Failed(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Dial {
    /// Connects with a new session.
    pub(crate) async fn open(&self, ttl: Duration) -> Result<Dialled> {
        let mut servers = Servers::of(self);
        while let Some(host) = servers.next().await {
            match self.connect_to(&host, ttl, None).await {
                Ok(connection) => return Ok(Dialled { connection, host }),
                Err(error) => servers.failed(error)?,
            }
        }
        Err(servers.trouble())
    }

    /// Connects with an existing session, which has this timeout.
    pub(crate) async fn resume(&self, ttl: Duration, session: &SessionInfo) -> Result<Dialled, Refused> {
        let mut servers = Servers::of(self);
        let mut offers = JoinSet::new();
        let mut asked = Vec::new();
        let mut has_failed = false;
        loop {
            let patience = if offers.is_empty() { Duration::ZERO } else { PATIENT };
            let (host, offer) = tokio::select! {
                Some(offered) = offers.join_next() => match offered {
                    Ok(offered) => offered,
                    Err(_) => continue, // the library panicked
                },
                Some(host) = servers.next_after(patience) => {
                    asked.push(host.clone());
                    let dial = self.clone();
                    offers.spawn(async move {
                        let offer = dial.connect_to(&host, ttl, None).await;
                        (host, offer.map(|offer| offer.client.session_timeout()))
                    });
                    continue;
                }
                // A server whose connection was cut serves again before the wait for one that hangs is over.
                () = tokio::time::sleep(PATIENT * 2), if has_failed && !offers.is_empty() => {
                    servers = Servers::besides(self, &asked);
                    has_failed = false;
                    continue;
                }
                else => return Err(servers.trouble().into()),
            };
            asked.retain(|other| *other != host);
            let taken_up = match offer {
                Ok(offered) if offered < ttl => return Err(Refused::Shorter(offered)),
                Ok(_) => self.connect_to(&host, ttl, Some(session)).await,
                Err(error) => Err(error),
            };
            match taken_up.map(|connection| (connection.client.session_timeout(), connection)) {
                Ok((granted, _)) if granted < ttl => return Err(Refused::Shorter(granted)),
                Ok((_, connection)) => return Ok(Dialled { connection, host }),
                Err(error) => servers.failed(error)?,
            }
            has_failed = true;
        }
    }

    /// Ends a session that is no longer used. False: no server has confirmed it.
    ///
    /// A server gives a session its whole time again when the session is shown to it. So it is shown only to a server
    /// whose answers arrive: otherwise these attempts would keep it alive.
    pub(crate) async fn end(&self, ttl: Duration, session: &SessionInfo) -> bool {
        let mut servers = Servers::of(self);
        while let Some(host) = servers.next().await {
            if !self.answers(&host).await {
                continue;
            }
            match self.connect_to(&host, ttl, Some(session)).await {
                Ok(connection) => {
                    let wire = connection.wire.clone();
                    drop(connection); // the last client: this closes the session
                    if wire.ended().await == End::Closed {
                        return true;
                    }
                }
                Err(Said::SessionExpired) => return true,
                Err(_) => {}
            }
        }
        false
    }

    /// Half a tick of that server, or more: the shortest session gets at least two ticks. None: the server is too busy
    /// to reply so quickly.
    pub(crate) async fn half_tick(&self, host: &str) -> Option<Duration> {
        let connection = self.connect_to(host, SHORTEST, None).await.ok()?;
        Some(connection.client.session_timeout() / 4)
    }

    /// Whether that server accepts another connection, and a majority agrees to a new session there.
    pub(crate) async fn answers(&self, host: &str) -> bool {
        self.connect_to(host, OFFERED, None).await.is_ok() // dropping the connection ends that session
    }

    async fn connect_to(
        &self,
        host: &str,
        ttl: Duration,
        session: Option<&SessionInfo>,
    ) -> Result<Connection, Said> {
        // A dead connection is given up while there is time to make another.
        let connector = Client::connector().with_session_timeout(ttl).with_connection_timeout(ttl / 3);
        let mut connector = connector.with_fail_eagerly();
        if let Some(digest) = &self.address.digest {
            connector = connector.with_auth("digest", digest.as_bytes());
        }
        if let Some(tls) = &self.tls {
            connector = tls.equip(connector);
        }
        if let Some(session) = session {
            connector = connector.with_session(session.clone());
        }
        let asked = boot_clock().now();
        Connection::make(asked, connector.connect(&self.address.connect_string(host))).await
    }
}

/// The servers to try one by one: first those that serve, then those whose state is unknown.
struct Servers {
    survey: Survey,
    quiet: Vec<String>,
    said: Said,
    name: String,
}

impl Servers {
    fn of(dial: &Dial) -> Self {
        Self::besides(dial, &[])
    }

    /// All servers except those.
    fn besides(dial: &Dial, those: &[String]) -> Self {
        let hosts: Vec<String> =
            dial.address.hosts.iter().filter(|host| !those.contains(host)).cloned().collect();
        let survey = Survey::begin(in_any_order(hosts), dial.tls.clone());
        Self { survey, quiet: Vec::new(), said: Said::NoHosts, name: dial.address.name() }
    }

    async fn next(&mut self) -> Option<String> {
        while let Some((host, condition)) = self.survey.next().await {
            if condition.serves() {
                return Some(host);
            }
            self.quiet.extend(condition.may_serve().then_some(host));
        }
        self.quiet.pop()
    }

    /// The next server, after this delay.
    async fn next_after(&mut self, patience: Duration) -> Option<String> {
        tokio::time::sleep(patience).await;
        self.next().await
    }

    /// Connecting to the last server failed. Err: every other server would say the same.
    fn failed(&mut self, said: Said) -> Result<()> {
        if matches!(said, Said::SessionExpired | Said::AuthFailed) {
            return Err(trouble::from(&said, &self.name));
        }
        self.said = said;
        Ok(())
    }

    /// Why no connection could be made.
    fn trouble(self) -> Error {
        match check::what_is_wrong(self.survey.found()) {
            Some(error) => error.because(self.said),
            None => trouble::from(&self.said, &self.name),
        }
    }
}

/// A random order, so that clients spread over the servers.
fn in_any_order(mut hosts: Vec<String>) -> Vec<String> {
    let dice = RandomState::new();
    hosts.sort_by_cached_key(|host| dice.hash_one(host));
    hosts
}
