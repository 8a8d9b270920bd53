//! Opens a connection to one member, and finds one that serves.

use std::time::Duration;

use etcd_client::{Channel, Client, ConnectOptions, Error as Said, GetOptions};
use tidelock_core::backend::{Credentials, Sleep, boot_clock};
use tidelock_core::{Error, Result};
use tokio::task::JoinSet;
use tonic::transport::Endpoint;

use crate::address::Address;
use crate::tls::Tls;
use crate::trouble::NO_LOGIN;
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
    pub(crate) client: Client,
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
        let client = self.connect(host).await?;
        ping(&client, probe).await?;
        Ok(Dialled { client, host })
    }

    pub(crate) fn has_login(&self) -> bool {
        self.credentials.is_some() || self.address.user.is_some()
    }

    /// The user to log in as, and the password, as the program says now.
    async fn login(&self) -> std::result::Result<Option<(String, String)>, Said> {
        let Some(credentials) = &self.credentials else { return Ok(self.address.user.clone()) };
        let unknown = |error| Said::InvalidArgs(format!("{NO_LOGIN}: {error}"));
        let (user, password) = credentials.ask().await.map_err(unknown)?.into_parts();
        let named = self.address.user.as_ref().map(|(user, _)| user.clone());
        let user = user.or(named).ok_or_else(|| unknown("they name no user".into()))?;
        Ok(Some((user, password)))
    }

    /// Connects to one of the hosts, on this runtime.
    pub(crate) async fn connect(&self, host: usize) -> std::result::Result<Client, Said> {
        let host = &self.address.hosts[host];
        let endpoint = Endpoint::from_shared(self.address.uri(host)).map_err(Said::TransportError)?;
        let endpoint = endpoint
            .tcp_nodelay(true)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        let endpoint = match &self.tls {
            Some(tls) => tls.on(endpoint)?,
            None => endpoint,
        };
        let channel = endpoint.connect().await.map_err(Said::TransportError)?;
        let mut options = ConnectOptions::new().with_auto_token_refresh(true);
        if let Some((user, password)) = self.login().await? {
            options = options.with_user(user, password);
        }
        Client::from_channel(Channel::Tonic(channel), Some(options)).await
    }
}

/// A request that the server may refuse because users, roles or this client's password have changed since it logged in.
/// It has done nothing then, so it is sent again, with what the program says now. To give a user its role takes several
/// changes, and each makes every login too old: so it is tried a few times.
pub(crate) async fn logged_in<T, F>(
    dial: &Dial,
    client: &Client,
    request: impl Fn() -> F,
) -> std::result::Result<T, Said>
where
    F: Future<Output = std::result::Result<T, Said>>,
{
    let (clock, mut pause) = (boot_clock(), FIRST_PAUSE);
    loop {
        let answer = request().await;
        let is_too_old = answer.as_ref().is_err_and(trouble::is_of_an_old_login) && dial.has_login();
        if !is_too_old || pause > LONGEST_PAUSE {
            return answer;
        }
        if pause > FIRST_PAUSE {
            Sleep::until(&clock, clock.now() + pause).await; // on whatever runtime this is
        }
        pause *= 2;
        // The library logs in again only when a token is unknown. One that was signed before users changed is known.
        let login = dial.login().await?;
        client.clone().update_user(login).await?;
    }
}

/// The pauses between two attempts of a request for which the login is too old. Before the first there is none.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(64);

/// How much may be on its way to us unread. Lines can be long.
const WINDOW: u32 = 4 << 20;

/// A read that only a member with a majority behind it answers.
pub(crate) async fn ping(client: &Client, key: &str) -> std::result::Result<(), Said> {
    client.kv_client().get(key, Some(GetOptions::new().with_count_only())).await.map(drop)
}
