//! The suite's own proof: the suite can fail, and each fault makes the trial fail that tests for it.
//!
//! Each broken backend is played by its own trial, which must fail there and pass on the sound backend. Each faulty
//! history must be caught by its own check, and by no other. A storm, which knows no particular fault, must also fail
//! on those broken backends that it can catch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::broken::{Broken, Weak};
use crate::history::faulty::{self, Faulty};
use crate::history::{Promise, timeline};
use crate::report::{Ending, Painter, Verdict};
use crate::runner::play_one;
use crate::settings::Settings;
use crate::{Storm, Subject, broken, storm, subjects, trials};

/// How long one round of a storm lasts in the proof, and how long the whole storm may last.
const ROUND: Duration = Duration::from_secs(2);
const LONGEST_STORM: Duration = Duration::from_secs(180);

/// The result of the proof.
#[derive(Clone, Debug, Default)]
pub struct Proof {
    /// All its steps.
    pub steps: Vec<Step>,
}

/// One fault that the suite must catch.
#[derive(Clone, Debug)]
pub struct Step {
    /// The fault.
    pub what: String,
    /// The trial, or the check, that must catch it.
    pub by: String,
    /// Whether it was caught, and the sound backend passed.
    pub holds: bool,
    /// The first line of what was reported, and the history that shows it.
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
    for step in catch_all_weak(&is_chosen, settings.seed) {
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
    /// How many faults were caught.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.steps.iter().filter(|step| step.holds).count()
    }

    /// How many faults were not caught.
    #[must_use]
    pub fn failed(&self) -> usize {
        self.steps.len() - self.passed()
    }

    /// Whether all faults were caught.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.failed() == 0 && !self.steps.is_empty()
    }
}

impl Step {
    /// The fault, the trial that caught it, and the report.
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
        return step(false, "the trial fails on the sound backend too".into());
    }
    let subject: Arc<dyn Subject> = Arc::new(broken.subject());
    match play_one(&subject, trial, settings).ending {
        Ending::Failed { why, timeline, .. } => step(true, format!("{why}\n{timeline}")),
        _ => step(false, "the trial passes on the broken backend".into()),
    }
}

/// Storms mostly wait, so all of them run at once.
fn catch_all_weak(is_chosen: &dyn Fn(&str) -> bool, seed: u64) -> Vec<Step> {
    let weak: Vec<Weak> = broken::weak().into_iter().filter(|weak| is_chosen(weak.name)).collect();
    thread::scope(|scope| {
        let storms: Vec<_> = weak.iter().map(|weak| scope.spawn(move || catch_weak(weak, seed))).collect();
        storms.into_iter().filter_map(|storm| storm.join().ok()).collect()
    })
}

fn catch_weak(weak: &Weak, seed: u64) -> Step {
    let subject: Arc<dyn Subject> = Arc::new(weak.subject());
    let settings = Storm { round: ROUND, ..Storm::new(seed, LONGEST_STORM) };
    let rounds = storm(&subject, &settings, &mut |_| {});
    let damage = rounds.last().and_then(|round| round.damage.clone());
    Step {
        what: weak.name.into(),
        by: format!("a storm of {} rounds", rounds.len()),
        holds: damage.is_some(),
        said: damage.map_or_else(
            || "nothing".into(),
            |damage| format!("{}\n{}", damage.why.lines().next().unwrap_or_default(), damage.timeline),
        ),
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
