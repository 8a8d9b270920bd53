//! A deployment borrowed for a while: it is started unless it runs, and afterwards left as it was found, even if the
//! borrower fails.
//!
//! A borrower may kill its servers and set their clocks, so only one has it at a time; the next one waits. If a
//! borrower was killed, the deployment that was started for it is started anew for the next one, because its state is
//! unknown.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::{Deployment, Life, clock, end, find, home, known, lock, lock_file, running, start, stop};
use crate::trouble::{Result, While};

#[derive(Debug)]
pub(crate) struct Loan {
    deployment: &'static Deployment,
    home: PathBuf,
    url: String,
    ran_before: bool,
    _alone: File,
}

impl Loan {
    /// For tests.
    pub(crate) fn of(name: &str) -> Result<Self> {
        Self::started(name, Life::Short)
    }

    pub(crate) fn to_measure(name: &str) -> Result<Self> {
        Self::started(name, Life::Long)
    }

    fn started(name: &str, life: Life) -> Result<Self> {
        let (home, deployment) = (home()?, find(name)?);
        let _alone = turn(&home.join(format!("{name}.loan")), name)?;
        let _at_work = lock(&home)?;
        let ran_before = running(&home, deployment)?.is_some_and(|state| !state.lent);
        if !ran_before {
            end(&home, deployment)?;
        }
        start(&home, deployment, life)?;
        let mut state = known(&home, deployment)?;
        for process in &state.processes {
            clock::heal(process)?;
        }
        state.lent = !ran_before;
        state.save(&home)?;
        Ok(Self { deployment, home, url: state.url, ran_before, _alone })
    }

    pub(crate) fn name(&self) -> &'static str {
        self.deployment.name
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if self.ran_before {
            return;
        }
        let stopped = lock(&self.home).and_then(|_at_work| stop(&self.home, self.deployment));
        if let Err(trouble) = stopped {
            eprintln!("xtask: {}: {trouble}", self.deployment.name);
        }
    }
}

/// Waits until no other process has it; prints a message if it must wait.
fn turn(path: &Path, name: &str) -> Result<File> {
    let file = lock_file(path)?;
    if file.try_lock().is_err() {
        println!("{name}: in use by another process; waiting for it");
        file.lock().when(|| format!("lock {}", path.display()))?;
    }
    Ok(file)
}
