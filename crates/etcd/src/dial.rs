//! Opens a connection to one member, and finds one that serves.

use std::time::Duration;

use etcd_client::{Channel, Client, ConnectOptions, Error as Said, GetOptions, WatchOptions};
use tidelock_core::backend::Credentials;
use tidelock_core::{Error, Result};
use tokio::task::JoinSet;
use tonic::transport::Endpoint;

use crate::address::Address;
use crate::asked::{Asked, FIRST_WATCH};
use crate::login::{Member, Who};
use crate::tls::Tls;
use crate::{check, trouble};

/// After this time without an answer the next member is asked too.
const PATIENT: Duration = Duration::from_millis(300);

/// How to reach the members.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    pub(crate) address: Address,
    pub(crate) tls: Option<Tls>,
    /// In place of the user in the address.
    pub(crate) credentials: Option<Credentials>,
}

/// A member that answers.
pub(crate) struct Dialled {
    pub(crate) member: Member,
    /// Which of the address's hosts it is.
    pub(crate) host: usize,
}

impl Dial {
    pub(crate) fn name(&self) -> String {
        self.address.name()
    }

    /// The first member to show that it can read what a majority has. `first` is asked first, and the next ones if it
    /// takes long.
    pub(crate) async fn open(&self, first: usize, probe: &str) -> Result<Dialled> {
        let hosts = self.address.hosts.len();
        let mut rest: Vec<usize> = (0..hosts).map(|i| (first + i) % hosts).rev().collect();
        let (mut asking, mut worst) = (JoinSet::new(), None);
        loop {
            if asking.is_empty() {
                match rest.pop() {
                    Some(host) => self.begin(&mut asking, host, probe),
                    None => return Err(self.told(worst, probe).await),
                }
            }
            let answer = tokio::select! {
                answer = asking.join_next() => answer,
                () = tokio::time::sleep(PATIENT), if !rest.is_empty() => {
                    if let Some(host) = rest.pop() {
                        self.begin(&mut asking, host, probe);
                    }
                    continue;
                }
            };
            match answer {
                Some(Ok(Ok(dialled))) => return Ok(dialled),
                Some(Ok(Err((host, said)))) => {
                    let is_worse = !trouble::is_of_the_connection(&said) || worst.is_none();
                    if is_worse {
                        worst = Some((host, said));
                    }
                }
                _ => {}
            }
        }
    }

    /// Why none of them serves.
    async fn told(&self, worst: Option<(usize, Said)>, probe: &str) -> Error {
        let Some((host, said)) = worst else { return Error::no_answer(&self.name()) };
        let host = &self.address.hosts[host];
        let place = format!("etcd {host}");
        if trouble::is_of_the_connection(&said) && trouble::mistrust(&said).is_none() {
            if let Some(tls) = &self.tls
                && let Some(why) = tls.refusal(host).await
            {
                return trouble::mistrusted(&place, &why).because(said);
            }
            if let Some(error) = check::what_is_at(host, self.address.has_tls).await {
                return error.because(said);
            }
        }
        // The key is one that lies beside all lines: ROOT//…
        let root = format!("{}/", probe.split("//").next().unwrap_or(probe));
        trouble::from(said, &place, &root)
    }

    fn begin(
        &self,
        asking: &mut JoinSet<std::result::Result<Dialled, (usize, Said)>>,
        host: usize,
        probe: &str,
    ) {
        let (dial, probe) = (self.clone(), probe.to_owned());
        asking.spawn(async move { dial.ask(host, &probe).await.map_err(|said| (host, said)) });
    }

    async fn ask(&self, host: usize, probe: &str) -> std::result::Result<Dialled, Said> {
        // A lane is not asked: its runtime may have no timers, and each of its requests has a time limit.
        let endpoint = self.endpoint(host)?.http2_keep_alive_interval(PING);
        let member = self.connect_through(endpoint).await?;
        tokio::try_join!(ping(&member.client, probe), keeps_numbers(&member.client, probe))?;
        Ok(Dialled { member, host })
    }

    /// Connects to one of the hosts, on this runtime.
    pub(crate) async fn connect(&self, host: usize) -> std::result::Result<Member, Said> {
        self.connect_through(self.endpoint(host)?).await
    }

    fn endpoint(&self, host: usize) -> std::result::Result<Endpoint, Said> {
        let host = &self.address.hosts[host];
        let endpoint = Endpoint::from_shared(self.address.uri(host)).map_err(Said::TransportError)?;
        let endpoint = endpoint
            .tcp_nodelay(true)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        match &self.tls {
            Some(tls) => tls.on(endpoint),
            None => Ok(endpoint),
        }
    }

    async fn connect_through(&self, endpoint: Endpoint) -> std::result::Result<Member, Said> {
        let channel = endpoint.connect().await.map_err(Said::TransportError)?;
        let mut options = ConnectOptions::new().with_auto_token_refresh(true);
        let who = Who { credentials: self.credentials.clone(), user: self.address.user.clone() };
        if let Some((user, password)) = who.ask().await? {
            options = options.with_user(user, password);
        }
        let client = Client::from_channel(Channel::Tonic(channel), Some(options)).await?;
        Ok(Member::new(client, who))
    }
}

/// After so long without a word a connection on which a stream is open is asked for one. What lies between forgets quiet
/// connections, and says so to neither side: then nothing would be told to those who wait. A member closes a connection
/// that is asked more often than every 5 s, or while it has no stream.
const PING: Duration = Duration::from_secs(30);

/// How much may be on its way to us unread. Lines can be long.
const WINDOW: u32 = 4 << 20;

/// A read that only a member with a majority behind it answers.
pub(crate) async fn ping(client: &Client, key: &str) -> std::result::Result<(), Said> {
    client.kv_client().get(key, Some(GetOptions::new().with_count_only())).await.map(drop)
}

/// Sets a watch. An error: what answers does not report under the number that it was asked for with.
async fn keeps_numbers(client: &Client, key: &str) -> std::result::Result<(), Said> {
    let options = WatchOptions::new().with_watch_id(FIRST_WATCH);
    let mut asked = Asked::default();
    asked.asks(FIRST_WATCH, key, 0);
    let (_sender, mut answers) = client.watch_client().watch(key, Some(options)).await?.split();
    match answers.message().await? {
        Some(answer) => asked.admits(&answer),
        None => Err(Said::WatchError("the stream ended".to_owned())),
    }
}
