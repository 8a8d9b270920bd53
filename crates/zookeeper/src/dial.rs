//! Which server is connected to: one that answers.
//!
//! The servers are asked how they are, in any order, each next one 300 ms after the last or as soon as that one has
//! answered; and whichever says first that it serves is connected to. So one that hangs costs 300 ms, and not a third of
//! the ttl; something that is no ZooKeeper is known by its answer; and no two servers are ever asked for one session at
//! the same time, for the second would take it from the first.
//!
//! A server that was started anew may give sessions less time than before, and counts by that from the moment when it is
//! asked to take one up again, whether its answer arrives or not. So before a session is shown to it, it is asked what it
//! gives, for a session that nothing depends on. That is an offer. A server that has lost its leader, and has not noticed,
//! says that it serves, and offers nothing: so after 300 ms another is asked for one too, and the session is shown to
//! whichever offers first. One that failed meanwhile is asked again, without waiting for those that offer nothing.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tidelock::{Error, Result, boot_clock};
use tokio::task::JoinSet;
use zookeeper_client::{Client, Error as Said, SessionInfo};

use crate::address::Address;
use crate::check::{self, PATIENT, Survey};
use crate::connection::Connection;
use crate::tls::Tls;
use crate::trouble;

/// As good as nothing for a session, and enough to open it.
const SHORTEST: Duration = Duration::from_millis(400);

/// For a session that tells whether a server answers: a third of it is what connecting may take.
const OFFERED: Duration = Duration::from_secs(3);

/// The servers, and as whom they are asked.
#[derive(Clone)]
pub(crate) struct Dial {
    pub(crate) address: Address,
    pub(crate) tls: Option<Tls>,
}

/// A connection, and which server it goes to.
pub(crate) struct Dialled {
    pub(crate) connection: Connection,
    pub(crate) host: String,
}

/// Why there is no connection for a session.
#[derive(Debug)]
pub(crate) enum Refused {
    /// A server would give it only so much time; which it may have begun to.
    Shorter(Duration),
    Failed(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Dial {
    /// A connection for a new session.
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

    /// A connection for a session that has this timeout.
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
                    Err(_) => continue, // the library has failed inside
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
                // A server whose connection was cut serves again before one that hangs is given up.
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

    /// Ends a session that nobody believes in any more: with its last client it ends.
    pub(crate) async fn end(&self, ttl: Duration, session: &SessionInfo) {
        let mut servers = Servers::of(self);
        while let Some(host) = servers.next().await {
            let Err(error) = self.connect_to(&host, ttl, Some(session)).await else { return };
            if servers.failed(error).is_err() {
                return; // it has ended
            }
        }
    }

    /// Half a tick of that server, or more: a session that asks for as good as nothing gets two ticks at least. None: it
    /// has too much to do to answer so quickly.
    pub(crate) async fn half_tick(&self, host: &str) -> Option<Duration> {
        let connection = self.connect_to(host, SHORTEST, None).await.ok()?;
        Some(connection.client.session_timeout() / 4)
    }

    /// Whether that server takes another connection, and a majority agrees to a session of its own there.
    pub(crate) async fn answers(&self, host: &str) -> bool {
        self.connect_to(host, OFFERED, None).await.is_ok() // dropped, that session ends
    }

    async fn connect_to(
        &self,
        host: &str,
        ttl: Duration,
        session: Option<&SessionInfo>,
    ) -> Result<Connection, Said> {
        // A connection that carries nothing is given up while there is time to make another.
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

/// The servers to be tried, one by one: those that serve, and then those that do not say.
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

    /// All but those.
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

    /// The next one, when those before have had so long.
    async fn next_after(&mut self, patience: Duration) -> Option<String> {
        tokio::time::sleep(patience).await;
        self.next().await
    }

    /// The last one could not be connected to. An error: no other would say anything else.
    fn failed(&mut self, said: Said) -> Result<()> {
        if matches!(said, Said::SessionExpired | Said::AuthFailed) {
            return Err(trouble::from(&said, &self.name));
        }
        self.said = said;
        Ok(())
    }

    /// Why none could be connected to.
    fn trouble(self) -> Error {
        match check::what_is_wrong(self.survey.found()) {
            Some(error) => error.because(self.said),
            None => trouble::from(&self.said, &self.name),
        }
    }
}

/// Clients do not all come to the same server.
fn in_any_order(mut hosts: Vec<String>) -> Vec<String> {
    let dice = RandomState::new();
    hosts.sort_by_cached_key(|host| dice.hash_one(host));
    hosts
}
