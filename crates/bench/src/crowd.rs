//! Many names held at once by one client.

use std::sync::Arc;

use tidelock_core::{Guard, Locks, State};
use tokio::task::JoinSet;

use crate::Result;

/// This many tasks ask at a time.
const TASKS: usize = 64;

#[derive(Debug)]
pub(crate) struct Crowd(Vec<Guard>);

impl Crowd {
    /// Takes this many names with this prefix.
    pub(crate) async fn take(client: &Arc<dyn Locks>, prefix: &str, names: usize) -> Result<Self> {
        let mut taking: JoinSet<Result<Vec<Guard>>> = JoinSet::new();
        for task in 0..TASKS {
            let (client, prefix) = (client.clone(), prefix.to_owned());
            taking.spawn(async move {
                let mut guards = Vec::with_capacity(names.div_ceil(TASKS));
                for name in (task..names).step_by(TASKS) {
                    guards.push(client.mutex(&format!("{prefix}:{name}"))?.lock().await?);
                }
                Ok(guards)
            });
        }
        let mut all = Vec::with_capacity(names);
        while let Some(taken) = taking.join_next().await {
            all.extend(taken??);
        }
        Ok(Self(all))
    }

    /// How many of them are no longer held.
    pub(crate) fn lost(&self) -> usize {
        self.0.iter().filter(|guard| guard.state() == State::Lost).count()
    }

    /// Gives all names back, and waits until that is confirmed.
    pub(crate) async fn give_back(mut self) -> Result<()> {
        let mut giving: JoinSet<Result<()>> = JoinSet::new();
        let share = self.0.len().div_ceil(TASKS).max(1);
        while !self.0.is_empty() {
            let some = self.0.split_off(self.0.len().saturating_sub(share));
            giving.spawn(async move {
                for guard in some {
                    guard.release().await?;
                }
                Ok(())
            });
        }
        while let Some(given) = giving.join_next().await {
            given??;
        }
        Ok(())
    }
}
