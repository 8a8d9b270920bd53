//! Sentinels: they name the master.
//!
//! They are asked each time a connection is made, and every half second until it stands: a client waits for a hanging
//! master only until that master has been replaced. They are also asked with each round of renewals: a replaced master
//! may stay alive and go on serving connected clients, so clients have to leave it.
//!
//! All sentinels are asked at once, so a paused one delays nobody. All connections that are being made share one
//! inquiry. Of the answers that come in time, the one with the latest election counts, and the server that it names
//! must call itself master.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use redis::{ConnectionAddr, ErrorKind, RedisError, RedisResult, Value};
use tidelock_core::backend::boot_clock;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::dial::{self, Dial, Dialed, Target};
use crate::elections::Elections;
use crate::reply;
use crate::tenure::{Elected, Tenure};

/// How often the sentinels are asked while a connection is being made.
const ASK_EVERY: Duration = Duration::from_millis(500);

/// The sentinels of one master.
#[derive(Clone, Debug)]
pub(crate) struct Sentinels(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    sentinels: Vec<Target>,
    master: String,
    /// How to connect to the master's servers, except for the address.
    server: Target,
    /// The keeper's runtime: a blocked caller's runtime must not delay the others.
    runtime: Handle,
    /// The inquiry that is under way, if any.
    inquiry: Mutex<Option<Inquiry>>,
    /// The last answer.
    latest: watch::Sender<Option<Elected>>,
    elections: Mutex<Elections>,
}

/// An inquiry under way; holds its result when it is done.
type Inquiry = watch::Receiver<Option<RedisResult<Named>>>;

/// The master that the sentinels name.
#[derive(Clone, Debug)]
struct Named {
    server: Target,
    elected: Elected,
}

/// The answer of one sentinel.
struct SentinelReport {
    host: String,
    port: u16,
    /// The number of the election that made it master.
    epoch: u64,
}

impl Sentinels {
    pub(crate) fn new(sentinels: Vec<Target>, master: String, server: Target, runtime: Handle) -> Self {
        let (inquiry, latest) = (Mutex::default(), watch::Sender::new(None));
        let elections = Mutex::default();
        Self(Arc::new(Shared { sentinels, master, server, runtime, inquiry, latest, elections }))
    }

    /// Finds the master.
    async fn find(&self, within: Duration) -> RedisResult<Named> {
        let mut inquiry = self.inquiry(within);
        match inquiry.wait_for(Option::is_some).await {
            Ok(found) => found.clone().unwrap_or_else(|| Err(unknown("no sentinel answered"))),
            Err(_) => Err(unknown("no sentinel answered")),
        }
    }

    /// The inquiry that is under way, or a new one.
    fn inquiry(&self, within: Duration) -> Inquiry {
        let mut inquiry = self.0.inquiry.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inquiry) = &*inquiry
            && (inquiry.borrow().is_none() && inquiry.has_changed().is_ok()
                || seeded!("the_sentinels_are_asked_once"))
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
    /// The master by the latest election that is reported, once more than half of the sentinels have answered, or all
    /// that do.
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
        let elected = self.elections().hear(named.addr(), said.epoch, boot_clock().now());
        // The elections may keep to the master that was named before.
        let server = match &elected.address {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                self.server.at(host.clone(), *port)
            }
            _ => named,
        };
        Ok(Named { server, elected })
    }

    fn order_of(&self, said: &SentinelReport) -> (u64, bool) {
        let address = self.server.at(said.host.clone(), said.port);
        (said.epoch, self.elections().prefers(address.addr(), said.epoch))
    }

    fn elections(&self) -> MutexGuard<'_, Elections> {
        self.elections.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Starts one inquiry, however many connections there are; none if one is under way.
    fn look_around(&self, within: Duration) {
        drop(self.inquiry(within));
    }

    fn place(&self) -> String {
        format!("Redis master {:?}", self.0.master)
    }
}

/// Connects to the server that should be master.
async fn greet(server: &Target, within: Duration) -> RedisResult<Dialed> {
    let mut dialed = server.dial(within).await?;
    let role: Value = redis::cmd("ROLE").query_async(&mut dialed.connection).await?;
    match reply::parts(&role).first().and_then(reply::text) {
        Some("master") => Ok(dialed),
        _ => Err(unknown("the server that the sentinels name is not master yet")),
    }
}

async fn ask(sentinel: Target, master: String, within: Duration) -> RedisResult<SentinelReport> {
    let asking = async {
        let mut connection = sentinel.briefly(within).await?;
        redis::cmd("SENTINEL").arg("MASTER").arg(&master).query_async(&mut connection).await
    };
    let said: HashMap<String, String> =
        dial::within(within, asking).await.map_err(|error| wrong(error, sentinel.addr(), &master))?;
    let number = |field: &str| said.get(field)?.parse::<u64>().ok();
    let known = || {
        let port = u16::try_from(number("port")?).ok()?;
        Some(SentinelReport { host: said.get("ip")?.clone(), port, epoch: number("config-epoch")? })
    };
    known().ok_or_else(|| unknown("a sentinel did not report the address of the master"))
}

/// The error for a URL that names the wrong server or the wrong master.
fn wrong(error: RedisError, address: &ConnectionAddr, master: &str) -> RedisError {
    let said = error.detail().unwrap_or_default();
    let wrong = if said.starts_with("unknown command") {
        format!("{address} is a Redis server, not a sentinel; give it as redis://{address}")
    } else if said.starts_with("No such master") {
        format!("the sentinel at {address} knows no master called {master:?}")
    } else {
        return error;
    };
    RedisError::from((ErrorKind::MasterNameNotFoundBySentinel, "the URL names the wrong server", wrong))
}

/// Hides a refused connection: that a sentinel's port is closed says nothing about the master.
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
