//! The suite's own proof: it can fail, and each fault makes the trial fail that is about it.
//!
//! Each broken backend is played on by its own trial, which has to fail there and to pass on the sound backend; each
//! faulty history has to be caught by its own check, and by no other.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::broken::Broken;
use crate::history::faulty::{self, Faulty};
use crate::history::{Promise, timeline};
use crate::report::{Ending, Painter, Verdict};
use crate::runner::{Settings, play_one};
use crate::{Subject, broken, subjects, trials};

/// What the proof came to.
#[derive(Clone, Debug, Default)]
pub struct Proof {
    /// Each step of it.
    pub steps: Vec<Step>,
}

/// One thing that had to be caught.
#[derive(Clone, Debug)]
pub struct Step {
    /// What is broken.
    pub what: String,
    /// The trial, or the check, that has to catch it.
    pub by: String,
    /// Whether it was caught, and the sound one was not.
    pub holds: bool,
    /// What was said, in the first line, and the history that shows it.
    pub said: String,
}

/// Plays every broken backend's trial on it and on the sound one, and checks every faulty history.
#[must_use]
pub fn prove(settings: &Settings, tell: &mut dyn FnMut(&Step)) -> Proof {
    let mut proof = Proof::default();
    let mut sound = BTreeMap::new();
    let is_chosen = |what: &str| settings.filter.as_ref().is_none_or(|part| what.contains(part.as_str()));
    for broken in broken::all().iter().filter(|broken| is_chosen(broken.name)) {
        let step = catch(broken, settings, &mut sound);
        tell(&step);
        proof.steps.push(step);
    }
    for faulty in faulty::all().iter().filter(|faulty| is_chosen(faulty.what)) {
        let step = catch_history(faulty);
        tell(&step);
        proof.steps.push(step);
    }
    proof
}

impl Proof {
    /// How many were caught.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.steps.iter().filter(|step| step.holds).count()
    }

    /// How many were not.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.steps.len() - self.passed()
    }

    /// Whether all were.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.failed() == 0 && !self.steps.is_empty()
    }
}

impl Step {
    /// What is broken, by what it was caught, and what was said.
    #[must_use]
    pub fn text(&self, painter: Painter) -> String {
        let word = if self.holds { painter.good("caught") } else { painter.bad("MISSED") };
        let said = self.said.lines().next().unwrap_or_default();
        format!("{word} {}\n       by {}: {said}", self.what, self.by)
    }

    /// The history that shows it, as the trial printed it.
    #[must_use]
    pub fn timeline(&self) -> String {
        self.said.lines().skip(1).map(|line| format!("       {line}\n")).collect()
    }
}

fn catch(broken: &Broken, settings: &Settings, sound: &mut BTreeMap<&'static str, Verdict>) -> Step {
    let step = |holds, said: String| Step { what: broken.name.into(), by: broken.trial.into(), holds, said };
    let Some(trial) = trials().iter().find(|trial| trial.name == broken.trial).copied() else {
        return step(false, "there is no such trial".into());
    };
    let on_sound = sound.entry(broken.trial).or_insert_with(|| {
        let memory: Arc<dyn Subject> = Arc::new(subjects::memory());
        play_one(&memory, trial, settings)
    });
    if on_sound.ending != Ending::Passed {
        return step(false, "it fails on the sound backend too".into());
    }
    let subject: Arc<dyn Subject> = Arc::new(broken.subject());
    match play_one(&subject, trial, settings).ending {
        Ending::Failed { why, timeline, .. } => step(true, format!("{why}\n{timeline}")),
        _ => step(false, "it passes on the broken one".into()),
    }
}

fn catch_history(faulty: &Faulty) -> Step {
    let found = faulty.history.check();
    let by: Vec<Promise> = found.iter().map(|violation| violation.promise).collect();
    Step {
        what: format!("a history in which {}", faulty.what),
        by: format!("the check of {}", faulty.promise),
        holds: by == [faulty.promise],
        said: found.first().map_or_else(
            || "nothing".into(),
            |violation| {
                format!("{}\n{}", violation.sentence, timeline(&faulty.history.events, Some(violation)))
            },
        ),
    }
}
