//! A server under trial, whatever its kind: real time, short leases, a namespace for each stage.
//!
//! What a trial does is done in one of four places. At the seam, on a wire between core and the backend, as for a
//! backend in memory. On the network, where each client has a proxy of its own. To the server, by an operator's
//! commands or through whoever has started it. And to clients, some of which are processes of their own.

mod address;
mod control;
mod elsewhere;
mod network;
mod server;
mod site;
mod skew;

use std::fmt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tidelock::{Locks, Options, Result};

pub use control::Control;
pub use site::Site;

use crate::{Ability, Belief, Can, Cost, Mishap, Server, Subject};
use server::RemoteServer;

/// How long a server has to be asked nothing to be quiet, and how often that is tried.
const QUIET: Duration = Duration::from_millis(100);
const LOOKS_FOR_QUIET: u32 = 30;

/// What runs a client in a process of its own, with these options.
pub type Program = Arc<dyn Fn(&Options) -> Command + Send + Sync>;

/// A server under trial.
#[derive(Clone)]
pub struct Remote {
    site: Arc<dyn Site>,
    control: Option<Arc<Control>>,
    program: Option<Program>,
    /// What the namespaces of this run begin with, and how many there have been.
    run: String,
    stages: Arc<AtomicU64>,
}

impl Remote {
    /// The server at a site.
    #[must_use]
    pub fn new(site: impl Site) -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let run =
            format!("conformance-{:x}-{:x}", std::process::id(), since.map_or(0, |since| since.as_micros()));
        Self { site: Arc::new(site), control: None, program: None, run, stages: Arc::default() }
    }

    /// The server's process can be stopped, started, paused, and its clock set.
    #[must_use]
    pub fn controlled_by(mut self, control: Control) -> Self {
        self.control = Some(Arc::new(control));
        self
    }

    /// Clients can be processes of their own. What the command runs has to do what
    /// [`serve_as_child`](crate::serve_as_child) is told.
    #[must_use]
    pub fn with_children(mut self, program: impl Fn(&Options) -> Command + Send + Sync + 'static) -> Self {
        self.program = Some(Arc::new(program));
        self
    }

    /// Waits until the server is asked nothing any more: what a trial before has left to do would be counted. Others
    /// may never be quiet; that is then seen as it is.
    async fn wait_for_quiet(&self) -> Result<()> {
        for _ in 0..LOOKS_FOR_QUIET {
            let before = self.site.counts().await?;
            tokio::time::sleep(QUIET).await;
            if self.site.counts().await? == before {
                break;
            }
        }
        Ok(())
    }

    /// The stage of that namespace, as a process that is not the one that has set it sees it.
    ///
    /// # Errors
    /// What the URL is refused for.
    pub fn stage(&self, namespace: &str) -> Result<Box<dyn Server>> {
        Ok(Box::new(RemoteServer::new(self, namespace.to_owned(), false)?))
    }

    /// A client of this server, as its users make one.
    ///
    /// # Errors
    /// As of the backend's own `connect`.
    pub async fn connect(&self, options: Options) -> Result<Arc<dyn Locks>> {
        tidelock::connect(self.site.backend(self.site.url())?, options).await
    }
}

#[async_trait]
impl Subject for Remote {
    fn name(&self) -> &str {
        self.site.name()
    }

    fn assumptions(&self) -> Vec<String> {
        self.site.assumptions()
    }

    fn can(&self, ability: Ability) -> Can {
        use Ability::{Agree, Child, FailOver, Pause, Restart, SkewClients, Sleep, StepClock};
        let no = |why: &str| Can::No(why.to_owned());
        match (ability, self.site.can(ability)) {
            (_, Can::No(why)) => Can::No(why),
            (Restart | Pause | StepClock | FailOver | Agree, Can::Yes) if self.control.is_none() => {
                no("the server is not the suite's own: give --control PROGRAM --deployment NAME")
            }
            (Child | SkewClients, Can::Yes) if !cfg!(unix) => {
                no("processes are stopped and killed by signals, as on Unix")
            }
            (Child | SkewClients, Can::Yes) if self.program.is_none() => {
                no("only the program `conformance` can run itself again as a client")
            }
            (Sleep, Can::Yes) => {
                no("real time cannot be made to jump: clients that are processes are stopped instead")
            }
            (SkewClients, Can::Yes) => skew::why_not().map_or(Can::Yes, no),
            (_, Can::Yes) => Can::Yes,
        }
    }

    fn belief(&self, mishap: Mishap) -> Belief {
        self.site.belief(mishap)
    }

    fn ttl(&self) -> Duration {
        self.site.ttl()
    }

    fn cost(&self) -> Cost {
        self.site.cost()
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn server(&self, needs: &[Ability]) -> Result<Box<dyn Server>> {
        if let Some(control) = &self.control {
            // A trial before may never have come to its end.
            if control.mend().await? {
                self.site.settle().await?;
            }
        }
        if needs.contains(&Ability::Count) {
            self.wait_for_quiet().await?;
        }
        let number = self.stages.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("{}-{number}", self.run);
        let is_networked = needs.iter().any(|need| need.is_of_the_network());
        Ok(Box::new(RemoteServer::new(self, namespace, is_networked)?))
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remote({})", self.site.name())
    }
}
