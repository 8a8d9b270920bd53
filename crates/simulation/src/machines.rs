//! Which machine a task runs on. What a client's tasks spawn runs on that client's machine, so a backend's own timers go by
//! that machine's clock: a little too fast or too slow, and not at all while it is suspended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tidelock_core::backend::Clock;
use tidelock_core::simulation;
use tokio::task::Id;

use crate::time::{ClientClock, lock};

pub(crate) struct Machines {
    world: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    clocks: Vec<Arc<ClientClock>>,
    /// The client whose task runs now.
    current: Option<usize>,
    of_tasks: HashMap<Id, usize>,
}

impl Machines {
    pub(crate) fn new(world: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { world, state: Mutex::default() })
    }

    pub(crate) fn add(&self, clock: Arc<ClientClock>) {
        lock(&self.state).clocks.push(clock);
    }

    /// Does something on the machine of a client.
    pub(crate) fn on<T>(&self, client: usize, work: impl FnOnce() -> T) -> T {
        let before = lock(&self.state).current;
        self.switch(Some(client));
        let done = work();
        self.switch(before);
        done
    }

    pub(crate) fn spawns(&self, task: Id) {
        let mut state = lock(&self.state);
        if let Some(client) = state.current {
            state.of_tasks.insert(task, client);
        }
    }

    pub(crate) fn begins(&self, task: Id) {
        let client = lock(&self.state).of_tasks.get(&task).copied();
        self.switch(client);
    }

    pub(crate) fn rests(&self) {
        self.switch(None);
    }

    pub(crate) fn ends(&self, task: Id) {
        lock(&self.state).of_tasks.remove(&task);
    }

    fn switch(&self, client: Option<usize>) {
        let clock = {
            let mut state = lock(&self.state);
            state.current = client;
            client.and_then(|client| state.clocks.get(client).cloned())
        };
        simulation::switch(clock.map_or_else(|| self.world.clone(), |clock| clock as Arc<dyn Clock>));
    }
}
