//! A backend inside this process, tested at the seam between core and the backend.
//!
//! Each client gets a wire between core and the backend. All faults are injected on the wires: refusals, lost replies,
//! delays, stalls, deaths. The trial turns time by hand, unless the backend uses the boot clock. A restart keeps the
//! counter of tokens and nothing else: every session ends, its clients are told, and lines are empty.

use std::collections::BTreeMap;
use std::fmt;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{Backend, Grant, Layer, Layered, Signals};
use tidelock_core::{ClaimId, Error, ErrorKind, Locks, Name, Options, Result, SessionId};

use crate::history::Witness;
use crate::wires::Wires;
use crate::{
    Ability, Act, Belief, Can, Cost, Counts, ManualTime, Mishap, RealTime, Seat, Server, Subject, Time, Whom,
    Wrong,
};

/// How long claims live where the trial turns time by hand.
const TURNED_TTL: Duration = Duration::from_secs(15);

/// Makes one more layer between core and the wire for each client of a stage. The deliberately broken backends use it.
pub type Bend = Arc<dyn Fn(&str) -> Arc<dyn Layer> + Send + Sync>;

type Make = dyn Fn(&ManualTime) -> Arc<dyn Backend> + Send + Sync;
type MakeBend = dyn Fn(&ManualTime) -> Bend + Send + Sync;

/// A backend inside this process.
pub struct Seam {
    name: String,
    make: Box<Make>,
    bend: Option<Box<MakeBend>>,
    assumptions: Vec<String>,
    beliefs: BTreeMap<Mishap, Belief>,
    cost: Cost,
    /// The ttl, for a backend that uses real time.
    real_ttl: Option<Duration>,
}

impl Seam {
    /// A backend that `make` creates anew for each trial. It must use the time that `make` is given.
    #[must_use]
    pub fn new(name: &str, make: impl Fn(&ManualTime) -> Arc<dyn Backend> + Send + Sync + 'static) -> Self {
        Self {
            name: name.to_owned(),
            make: Box::new(make),
            bend: None,
            assumptions: Vec::new(),
            beliefs: BTreeMap::new(),
            cost: Cost { acquire: 1, release: 1, hand_off: 0, renewal: 0 },
            real_ttl: None,
        }
    }

    /// The backend uses the boot clock: time is real, and a ttl takes as long as it says.
    #[must_use]
    pub fn in_real_time(mut self, ttl: Duration) -> Self {
        self.real_ttl = Some(ttl);
        self
    }

    /// Adds an assumption that its promises rest on.
    #[must_use]
    pub fn assuming(mut self, assumption: &str) -> Self {
        self.assumptions.push(assumption.to_owned());
        self
    }

    /// Declares whether two clients may both believe that they hold under this mishap. The default is never.
    #[must_use]
    pub fn believing(mut self, mishap: Mishap, belief: Belief) -> Self {
        self.beliefs.insert(mishap, belief);
        self
    }

    /// Declares the cost of its operations. The default is one command each, and none for a hand-off.
    #[must_use]
    pub fn costing(mut self, cost: Cost) -> Self {
        self.cost = cost;
        self
    }

    /// Puts a layer between core and each client's wire. `bend` is called once for each stage.
    #[must_use]
    pub fn bent(mut self, bend: impl Fn(&ManualTime) -> Bend + Send + Sync + 'static) -> Self {
        self.bend = Some(Box::new(bend));
        self
    }
}

impl fmt::Debug for Seam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seam({})", self.name)
    }
}

#[async_trait]
impl Subject for Seam {
    fn name(&self) -> &str {
        &self.name
    }

    fn assumptions(&self) -> Vec<String> {
        self.assumptions.clone()
    }

    fn can(&self, ability: Ability) -> Can {
        let no = |why: &str| Can::No(why.to_owned());
        match ability {
            Ability::FailOver => no("a process's memory has no replica"),
            Ability::Spread => no("all names are in one process's memory"),
            Ability::Agree => no("there is only one store"),
            Ability::StepClock => no("the boot clock never steps"),
            Ability::SkewClients => no("all clients of a process read the same clock"),
            Ability::WrongPassword => no("there is no password"),
            Ability::WrongAddress => no("there is no address"),
            Ability::Sleep if self.real_ttl.is_some() => no("real time cannot jump"),
            Ability::Pause | Ability::Forget => no("a process's memory has no server"),
            Ability::Cut | Ability::CutPush | Ability::Stall => no("there is no network inside a process"),
            Ability::Child => no("another process cannot reach this process's memory"),
            Ability::NoPermission => no("there are no permissions"),
            _ => Can::Yes,
        }
    }

    fn belief(&self, mishap: Mishap) -> Belief {
        self.beliefs.get(&mishap).cloned().unwrap_or(Belief::NeverOverlaps)
    }

    fn ttl(&self) -> Duration {
        self.real_ttl.unwrap_or(TURNED_TTL)
    }

    fn cost(&self) -> Cost {
        self.cost
    }

    fn is_shared(&self) -> bool {
        false
    }

    async fn server(&self, _: &[Ability]) -> Result<Box<dyn Server>> {
        let turned = ManualTime::new();
        let (backend, bend) = ((self.make)(&turned), self.bend.as_ref().map(|bend| bend(&turned)));
        let time: Arc<dyn Time> = match self.real_ttl {
            Some(_) => Arc::new(RealTime),
            None => Arc::new(turned.clone()),
        };
        Ok(Box::new(SeamServer { time, turned, backend, bend, wires: Wires::default() }))
    }
}

struct SeamServer {
    time: Arc<dyn Time>,
    turned: ManualTime,
    backend: Arc<dyn Backend>,
    bend: Option<Bend>,
    wires: Wires,
}

impl SeamServer {
    /// The names in use, listed through a temporary session.
    async fn names(&self) -> Result<Vec<Name>> {
        let id = SessionId::from_bits(u64::MAX);
        let session = self.backend.open(id, &Options::new(), Arc::new(Deaf)).await?;
        let mut names: Vec<Name> = Vec::new();
        loop {
            let page = session.names("", names.last()).await?;
            if page.is_empty() {
                break;
            }
            names.extend(page);
        }
        session.close().await?;
        Ok(names)
    }
}

#[async_trait]
impl Server for SeamServer {
    fn time(&self) -> Arc<dyn Time> {
        self.time.clone()
    }

    async fn connect(&self, options: Options) -> Result<Arc<dyn Locks>> {
        let wire = self.wires.add(&options.label, self.backend.clock());
        let mut backend: Arc<dyn Backend> = Arc::new(Layered::new(self.backend.clone(), wire));
        if let Some(bend) = &self.bend {
            backend = Arc::new(Layered::new(backend, bend(&options.label)));
        }
        tidelock_core::backend::attach(self.wires.overheard(backend), options)
    }

    async fn connect_to(&self, _: Seat, _: Options) -> Result<Arc<dyn Locks>> {
        Err(cannot(Ability::Agree))
    }

    async fn connect_wrongly(&self, wrong: Wrong, _: Options) -> Result<Arc<dyn Locks>> {
        Err(cannot(wrong.needs()))
    }

    fn listen(&self, witness: Arc<Witness>) {
        self.wires.listen(witness);
    }

    fn program(&self, _: Options) -> Result<Command> {
        Err(cannot(Ability::Child))
    }

    async fn act(&self, act: Act) -> Result<()> {
        let Some(act) = self.wires.act(act).await? else {
            return Ok(());
        };
        match act {
            Act::Sleep(by) => self.turned.jump(by),
            Act::Restart | Act::Crash => self.wires.end_sessions(&Whom::Everyone).await?,
            Act::Stop => {
                self.wires.change(&Whom::Everyone, |trouble| trouble.refuses = true);
                self.wires.end_sessions(&Whom::Everyone).await?;
            }
            Act::Heal => self.wires.heal().await,
            other => return Err(cannot(other)),
        }
        Ok(())
    }

    async fn homes(&self, _: &[String]) -> Result<Vec<String>> {
        Err(cannot(Ability::Spread))
    }

    async fn counts(&self) -> Result<Counts> {
        Ok(self.wires.counts())
    }

    async fn leftovers(&self) -> Result<Vec<String>> {
        let mut left: Vec<String> = self
            .names()
            .await?
            .iter()
            .map(|name| format!("a claim is left in the line of {name:?}"))
            .collect();
        left.extend(self.wires.open_sessions());
        Ok(left)
    }
}

impl fmt::Debug for SeamServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SeamServer({:?})", self.backend)
    }
}

fn cannot(what: impl fmt::Display) -> Error {
    Error::new(ErrorKind::Unsupported, format!("this subject cannot do this: {what}"))
}

/// Ignores every signal.
#[derive(Debug)]
struct Deaf;

impl Signals for Deaf {
    fn held(&self, _: ClaimId, _: Grant) {}
    fn stray(&self, _: ClaimId) {}
    fn gone(&self, _: ClaimId) {}
    fn look(&self, _: &Name) {}
    fn look_everywhere(&self) {}
    fn over(&self) {}
}
