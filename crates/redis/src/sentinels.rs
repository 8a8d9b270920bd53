//! Sentinels: they are asked who is master, each time a connection is made, and every half second while it is not: a
//! master that hangs is waited for only until it has been replaced. And they are asked with each round of renewals: a
//! master that was replaced may live on, and go on serving those who are connected to it, so it is left.
//!
//! All of them are asked at once, so that one that is paused delays nobody; and once for all connections that are being
//! made. Of the answers that come in time the one of the latest election counts, and whom it names must call itself
//! master.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redis::{ConnectionAddr, ErrorKind, RedisError, RedisResult, Value};
use tidelock::boot_clock;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::census::Census;
use crate::dial::{self, Dial, Dialed, Target};
use crate::reply;
use crate::tenure::{Elected, Tenure};

/// How often they are asked while a connection is being made.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// The sentinels of one master.
#[derive(Clone, Debug)]
pub(crate) struct Sentinels(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    sentinels: Vec<Target>,
    master: String,
    /// How its servers are connected to, but for the address.
    server: Target,
    /// The keeper's: a runtime that is blocked is not to keep the others waiting.
    runtime: Handle,
    /// What they are being asked.
    inquiry: Mutex<Option<Inquiry>>,
    /// What they said last.
    latest: watch::Sender<Option<Elected>>,
    census: Mutex<Census>,
}

/// What will have come of asking.
type Inquiry = watch::Receiver<Option<RedisResult<Named>>>;

/// Whom they name.
#[derive(Clone, Debug)]
struct Named {
    server: Target,
    elected: Elected,
}

/// What a sentinel says.
struct Said {
    host: String,
    port: u16,
    /// Which election made it master.
    epoch: u64,
}

impl Sentinels {
    pub(crate) fn new(sentinels: Vec<Target>, master: String, server: Target, runtime: Handle) -> Self {
        let (inquiry, latest) = (Mutex::default(), watch::Sender::new(None));
        let census = Mutex::default();
        Self(Arc::new(Shared { sentinels, master, server, runtime, inquiry, latest, census }))
    }

    /// Who is master.
    async fn find(&self, within: Duration) -> RedisResult<Named> {
        let mut inquiry = self.inquiry(within);
        match inquiry.wait_for(Option::is_some).await {
            Ok(found) => found.clone().unwrap_or_else(|| Err(unknown("no sentinel answered"))),
            Err(_) => Err(unknown("no sentinel answered")),
        }
    }

    /// The one that is under way, or a new one.
    fn inquiry(&self, within: Duration) -> Inquiry {
        let mut inquiry = self.0.inquiry.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inquiry) = &*inquiry
            && inquiry.borrow().is_none()
            && inquiry.has_changed().is_ok()
        {
            return inquiry.clone();
        }
        let (tell, told) = watch::channel(None);
        let shared = self.0.clone();
        self.0.runtime.spawn(async move {
            let found = shared.find(within).await;
            if let Ok(named) = &found {
                shared.latest.send_replace(Some(named.elected.clone()));
            }
            tell.send_replace(Some(found));
        });
        inquiry.insert(told).clone()
    }

    /// Waits until another server is master.
    async fn other_than(&self, named: &Named) -> Named {
        loop {
            dial::pause(ASK_EVERY).await;
            match self.find(ASK_EVERY).await {
                Ok(found) if found.elected.address != named.elected.address => return found,
                _ => {}
            }
        }
    }
}

impl Shared {
    /// Who is master by the latest election that more than half of the sentinels, or all that answer, know of.
    async fn find(&self, within: Duration) -> RedisResult<Named> {
        let mut asking = JoinSet::new();
        for sentinel in &self.sentinels {
            asking.spawn(ask(sentinel.clone(), self.master.clone(), within));
        }
        let (mut newest, mut answers, mut trouble) = (None, 0, None);
        while let Some(asked) = asking.join_next().await {
            match asked {
                Ok(Ok(said)) => {
                    answers += 1;
                    newest = newest.into_iter().chain([said]).max_by_key(|said| self.order_of(said));
                }
                Ok(Err(error)) => trouble = Some(error),
                Err(_) => {}
            }
            if answers * 2 > self.sentinels.len() {
                break;
            }
        }
        let Some(said) = newest else {
            return Err(trouble.map_or_else(|| unknown("no sentinel answered"), of_a_sentinel));
        };
        let named = self.server.at(said.host, said.port);
        let elected = self.census().hear(named.addr(), said.epoch, boot_clock().now());
        // It may be the one that they named before.
        let server = match &elected.address {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                self.server.at(host.clone(), *port)
            }
            _ => named,
        };
        Ok(Named { server, elected })
    }

    fn order_of(&self, said: &Said) -> (u64, bool) {
        let address = self.server.at(said.host.clone(), said.port);
        (said.epoch, self.census().prefers(address.addr(), said.epoch))
    }

    fn census(&self) -> MutexGuard<'_, Census> {
        self.census.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Dial for Sentinels {
    async fn dial(&self, within: Duration) -> RedisResult<Dialed> {
        // A sentinel that does not answer may take half of the time at most.
        let mut named = self.find(within / 2).await?;
        loop {
            named = tokio::select! {
                biased;
                greeted = greet(&named.server, within) => {
                    let tenure = Tenure::of(named.elected, self.0.latest.subscribe());
                    return greeted.map(|dialed| Dialed { tenure, ..dialed });
                }
                other = self.other_than(&named) => other,
            };
        }
    }

    /// Once, however many connections there are, and not while they are being asked.
    fn look_around(&self, within: Duration) {
        drop(self.inquiry(within));
    }

    fn place(&self) -> String {
        format!("Redis master {:?}", self.0.master)
    }
}

/// Connects to the server that is to be master.
async fn greet(server: &Target, within: Duration) -> RedisResult<Dialed> {
    let mut dialed = server.dial(within).await?;
    let role: Value = redis::cmd("ROLE").query_async(&mut dialed.connection).await?;
    match reply::parts(&role).first().and_then(reply::text) {
        Some("master") => Ok(dialed),
        _ => Err(unknown("whom the sentinels name is not master yet")),
    }
}

async fn ask(sentinel: Target, master: String, within: Duration) -> RedisResult<Said> {
    let asking = async {
        let mut connection = sentinel.briefly(within).await?;
        redis::cmd("SENTINEL").arg("MASTER").arg(&master).query_async(&mut connection).await
    };
    let said: HashMap<String, String> =
        dial::within(within, asking).await.map_err(|error| wrong(error, sentinel.addr(), &master))?;
    let number = |field: &str| said.get(field)?.parse::<u64>().ok();
    let known = || {
        let port = u16::try_from(number("port")?).ok()?;
        Some(Said { host: said.get("ip")?.clone(), port, epoch: number("config-epoch")? })
    };
    known().ok_or_else(|| unknown("a sentinel does not say where the master is"))
}

/// What is wrong with a URL that names somebody else.
fn wrong(error: RedisError, address: &ConnectionAddr, master: &str) -> RedisError {
    let said = error.detail().unwrap_or_default();
    let wrong = if said.starts_with("unknown command") {
        format!("{address} is a Redis server and no sentinel; give it as redis://{address}")
    } else if said.starts_with("No such master") {
        format!("the sentinel at {address} knows no master called {master:?}")
    } else {
        return error;
    };
    RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, "the URL names somebody else", wrong))
}

/// That nobody listens at a sentinel says nothing of the master.
fn of_a_sentinel(error: RedisError) -> RedisError {
    if !error.is_connection_refusal() {
        return error;
    }
    RedisError::from((ErrorKind::Io, "no sentinel answered", error.to_string()))
}

fn unknown(what: &'static str) -> RedisError {
    RedisError::from((ErrorKind::Io, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentinel_at_which_nobody_listens_says_nothing_of_the_master() {
        let refused = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
        assert!(refused.is_connection_refusal());
        assert!(!of_a_sentinel(refused).is_connection_refusal());
    }
}
