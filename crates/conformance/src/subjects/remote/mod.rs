//! A server under trial, whatever its kind: real time, short leases, a namespace for each stage.
//!
//! A trial acts in four places. At the seam: on a wire between core and the backend, as with the memory backend. On
//! the network: each client has a proxy of its own. On the server: through an operator's commands, or through the
//! program that started it. And on clients, some of which are processes of their own.

mod address;
mod control;
mod elsewhere;
mod network;
mod program;
mod server;
mod site;
mod skew;

use std::fmt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::{Locks, Options, Result};

pub use control::Control;
pub use program::Program;
pub use site::Site;

use crate::{Ability, Belief, Can, Cost, Mishap, Server, Subject};
use server::RemoteServer;

/// How long a server must receive no request to count as quiet, and how often this is checked.
const QUIET: Duration = Duration::from_millis(100);
const LOOKS_FOR_QUIET: u32 = 30;

/// A server under trial.
#[derive(Clone)]
pub struct Remote {
    site: Arc<dyn Site>,
    control: Option<Arc<Control>>,
    program: Option<Program>,
    spares_crowds: bool,
    /// The prefix of this run's namespaces, and how many there have been.
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
        Self {
            site: Arc::new(site),
            control: None,
            program: None,
            spares_crowds: false,
            run,
            stages: Arc::default(),
        }
    }

    /// The server's process can be stopped, started and paused, and its clock can be set.
    #[must_use]
    pub fn controlled_by(mut self, control: Control) -> Self {
        self.control = Some(Arc::new(control));
        self
    }

    /// No crowds of thousands are tried here: another deployment of the same store has them.
    #[must_use]
    pub fn without_crowds(mut self) -> Self {
        self.spares_crowds = true;
        self
    }

    /// Clients can be processes of their own. The command must do what [`serve_as_child`](crate::serve_as_child) does.
    #[must_use]
    pub fn with_children(mut self, program: impl Fn(&Options) -> Command + Send + Sync + 'static) -> Self {
        self.program = Some(Arc::new(program));
        self
    }

    /// Waits until the server receives no more requests: the leftover work of an earlier trial would be counted too.
    /// If other clients never let it be quiet, the count includes them.
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

    fn stage_at(&self, namespace: String, is_networked: bool) -> Result<RemoteServer> {
        RemoteServer::new(
            self.site.clone(),
            self.control.clone(),
            self.program.clone(),
            namespace,
            is_networked,
        )
    }

    /// The stage with that namespace, opened by a process that did not create it.
    ///
    /// # Errors
    /// If the URL is refused.
    pub fn stage(&self, namespace: &str) -> Result<Box<dyn Server>> {
        Ok(Box::new(self.stage_at(namespace.to_owned(), false)?))
    }

    /// A client of this server, made as users make one.
    ///
    /// # Errors
    /// As the backend's own `connect`.
    pub async fn connect(&self, options: Options) -> Result<Arc<dyn Locks>> {
        tidelock_core::backend::connect(self.site.backend(self.site.url())?, options).await
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
        use Ability::{Agree, Child, Crowd, FailOver, Pause, Restart, SkewClients, Sleep, StepClock};
        let no = |why: &str| Can::No(why.to_owned());
        match (ability, self.site.can(ability)) {
            (_, Can::No(why)) => Can::No(why),
            (Restart | Pause | StepClock | FailOver | Agree, Can::Yes) if self.control.is_none() => {
                no("the suite cannot control this server: pass --control PROGRAM --deployment NAME")
            }
            (Crowd, Can::Yes) if self.spares_crowds => {
                no("crowds of thousands are tried on another deployment of this store")
            }
            (Child | SkewClients, Can::Yes) if !cfg!(unix) => {
                no("stopping and killing processes needs Unix signals")
            }
            (Child | SkewClients, Can::Yes) if self.program.is_none() => {
                no("only the program `conformance` can run itself again as a client")
            }
            (Sleep, Can::Yes) => no("real time cannot jump (other trials stop clients that are processes)"),
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
            // An earlier trial may never have ended.
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
        Ok(Box::new(self.stage_at(namespace, is_networked)?))
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remote({})", self.site.name())
    }
}
