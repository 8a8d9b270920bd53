//! The server as one stage has it: a namespace, the wires and proxies of its clients, and the means to inject faults.

use std::fmt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{Backend, Layered};
use tidelock_core::{Error, ErrorKind, Locks, Options, Result};

use super::address::Address;
use super::elsewhere::Elsewhere;
use super::network::Network;
use super::skew::Skew;
use super::{Control, Program, Site};
use crate::history::Witness;
use crate::stage::WATCHER;
use crate::wires::Wires;
use crate::{Act, Counts, RealTime, Seat, Server, Time, Wrong};

/// The password of a user that is created for a trial.
const PASSWORD: &str = "right-password";
/// The password given in its place.
const WRONG_PASSWORD: &str = "wrong-password";

pub(super) struct RemoteServer {
    site: Arc<dyn Site>,
    control: Option<Arc<Control>>,
    program: Option<Program>,
    address: Address,
    namespace: String,
    wires: Wires,
    /// `None`: clients connect directly to the server.
    network: Option<Network>,
    skew: Skew,
}

impl RemoteServer {
    pub(super) fn new(
        site: Arc<dyn Site>,
        control: Option<Arc<Control>>,
        program: Option<Program>,
        namespace: String,
        is_networked: bool,
    ) -> Result<Self> {
        Ok(Self {
            address: Address::of(site.url(), site.default_port())?,
            site,
            control,
            program,
            namespace,
            wires: Wires::default(),
            network: is_networked.then(Network::default),
            skew: Skew::default(),
        })
    }

    /// The options with the namespace placed inside the stage's own.
    fn within(&self, options: Options) -> Options {
        let namespace = match &*options.namespace {
            own if *own == *Options::new().namespace => self.namespace.clone(),
            other => format!("{}.{other}", self.namespace),
        };
        options.namespace(&namespace)
    }

    async fn connect_at(&self, url: &str, options: Options) -> Result<Arc<dyn Locks>> {
        let backend = self.site.backend(url)?;
        let wire = self.wires.add(&options.label, backend.clock());
        let backend: Arc<dyn Backend> = Arc::new(Layered::new(backend, wire));
        tidelock_core::backend::connect(self.wires.overheard(backend), self.within(options)).await
    }

    /// Connects as a user created for this trial.
    async fn connect_as_somebody(&self, wrong: Wrong, options: Options) -> Result<Arc<dyn Locks>> {
        let user = &self.namespace;
        self.site.add_user(user, PASSWORD, wrong == Wrong::Password).await?;
        let outcome = match wrong {
            Wrong::Password => {
                // The right password must work, or the refusal of the wrong one proves nothing.
                let right = self.address.as_user(user, PASSWORD).url();
                let let_in = self.connect_at(&right, options.clone()).await;
                match let_in {
                    Ok(locks) => {
                        locks.close().await?;
                        self.connect_at(&self.address.as_user(user, WRONG_PASSWORD).url(), options).await
                    }
                    Err(error) => Err(error),
                }
            }
            _ => self.connect_at(&self.address.as_user(user, PASSWORD).url(), options).await,
        };
        self.site.remove_user(user).await?;
        outcome
    }

    async fn connect_elsewhere(&self, wrong: Wrong, options: Options) -> Result<Arc<dyn Locks>> {
        let elsewhere = match wrong {
            Wrong::Stranger => Elsewhere::stranger().await,
            Wrong::Mute => Elsewhere::mute().await,
            _ => Elsewhere::nobody().await,
        };
        let no_port = |error| Error::new(ErrorKind::Unavailable, "no free port").because(error);
        let elsewhere = elsewhere.map_err(no_port)?;
        self.connect_at(&self.address.by([elsewhere.address]).url(), options).await
    }

    /// Carries out acts that need the program that started the server.
    async fn act_on_server(&self, act: Act) -> Result<()> {
        let cannot =
            |act: &Act| Error::new(ErrorKind::Unsupported, format!("this subject cannot do this: {act}"));
        let control = self.control.as_ref().ok_or_else(|| cannot(&act))?;
        if let Act::KillSeat(seat) | Act::CutOff(seat) = act {
            return self.act_on_seat(&act, seat, control).await;
        }
        let members = self.site.members(&act, control).await?;
        match act {
            Act::Stop => control.stop(&members).await,
            Act::Pause | Act::PauseHome(_) => control.pause(&members).await,
            Act::KillHome(_) => control.kill(&members).await,
            Act::Restart => {
                control.stop(&members).await?;
                self.mend(control).await
            }
            Act::Crash => {
                control.kill(&members).await?;
                self.mend(control).await
            }
            Act::StepClock(by) => control.step_clock(&members, by, true).await,
            Act::StepClockBack(by) => control.step_clock(&members, by, false).await,
            Act::FallBehind => self.site.fall_behind(control).await,
            Act::FailOver => self.site.fail_over(&self.namespace, control).await,
            other => Err(cannot(&other)),
        }
    }

    async fn act_on_seat(&self, act: &Act, seat: Seat, control: &Control) -> Result<()> {
        let (seated, members) = (self.site.seated(seat).await?, control.members().await?);
        let is_seated = |(_, port): &&(String, u16)| seated.ends_with(&format!(":{port}"));
        let role = members.iter().find(is_seated).map(|(role, _)| role.clone()).ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                format!("the control program does not know the server at {seated}"),
            )
        })?;
        if matches!(act, Act::KillSeat(_)) {
            return control.kill(&[role]).await;
        }
        let cables = members.into_iter().map(|(cable, _)| cable);
        let cables: Vec<String> = cables.filter(|cable| joins(cable, &role)).collect();
        match cables.is_empty() {
            true => Err(Error::new(
                ErrorKind::Unsupported,
                format!("the control program can pause no link to {role}"),
            )),
            false => control.pause(&cables).await,
        }
    }

    /// Makes all servers run again and waits until they are in step.
    async fn mend(&self, control: &Control) -> Result<()> {
        match control.mend().await? {
            true => self.site.settle().await,
            false => Ok(()),
        }
    }

    async fn heal(&self) -> Result<()> {
        if let Some(control) = &self.control {
            self.mend(control).await?;
        }
        if let Some(network) = &self.network {
            network.heal();
        }
        self.skew.set(Duration::ZERO);
        self.wires.heal().await;
        Ok(())
    }
}

/// Whether this process is the link between that server and another: `A~B`. It can be paused instead of either.
fn joins(cable: &str, role: &str) -> bool {
    cable.split_once('~').is_some_and(|(one, other)| one == role || other == role)
}

#[async_trait]
impl Server for RemoteServer {
    fn time(&self) -> Arc<dyn Time> {
        Arc::new(RealTime)
    }

    async fn connect(&self, options: Options) -> Result<Arc<dyn Locks>> {
        let url = match &self.network {
            // The watcher must see the real state, whatever faults the others have.
            Some(network) if *options.label != *WATCHER => {
                network.way(&options.label, &self.address, &*self.site).await?.url()
            }
            _ => self.site.url().to_owned(),
        };
        self.connect_at(&url, options).await
    }

    async fn connect_to(&self, seat: Seat, options: Options) -> Result<Arc<dyn Locks>> {
        let seated = self.site.seated(seat).await?.parse().map_err(|error| {
            Error::new(ErrorKind::Unsupported, "the suite needs numeric IP addresses").because(error)
        })?;
        self.connect_at(&self.address.by([seated]).url(), options).await
    }

    async fn connect_wrongly(&self, wrong: Wrong, options: Options) -> Result<Arc<dyn Locks>> {
        match wrong {
            Wrong::Password | Wrong::Permission => self.connect_as_somebody(wrong, options).await,
            Wrong::Address | Wrong::Stranger | Wrong::Mute => self.connect_elsewhere(wrong, options).await,
        }
    }

    fn listen(&self, witness: Arc<Witness>) {
        self.wires.listen(witness);
    }

    fn program(&self, options: Options) -> Result<Command> {
        let none = || {
            Error::new(
                ErrorKind::Unsupported,
                "no program was given to run clients of this server as processes",
            )
        };
        let program = self.program.as_ref().ok_or_else(none)?;
        Ok(self.skew.put_on(program(&self.within(options))))
    }

    async fn act(&self, act: Act) -> Result<()> {
        if act == Act::Heal {
            return self.heal().await;
        }
        let Some(act) = self.wires.act(act).await? else {
            return Ok(());
        };
        let act = match &self.network {
            Some(network) => network.act(act),
            None => Some(act),
        };
        match act {
            None => Ok(()),
            Some(Act::Forget) => self.site.forget().await,
            Some(Act::SkewClients(by)) => {
                self.skew.set(by);
                Ok(())
            }
            Some(Act::MoveName(name)) => self.site.move_name(&self.namespace, &name).await,
            Some(act) => self.act_on_server(act).await,
        }
    }

    async fn homes(&self, names: &[String]) -> Result<Vec<String>> {
        self.site.homes(names).await
    }

    async fn counts(&self) -> Result<Counts> {
        self.site.counts().await
    }

    async fn leftovers(&self) -> Result<Vec<String>> {
        let mut left = self.site.leftovers(&self.namespace, &self.wires.open_ids()).await?;
        left.extend(self.wires.open_sessions());
        Ok(left)
    }
}

impl fmt::Debug for RemoteServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteServer({:?}, {})", self.site, self.namespace)
    }
}
