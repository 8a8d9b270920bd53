//! A storm: everything at once, by chance, for as long as one likes.
//!
//! The trials look for what somebody has thought of. A storm looks for what nobody has: clients and processes fight for
//! a few names in every way that there is, while connections are cut just after something was asked, networks stall,
//! processes are stopped and killed and servers paused and restarted. It goes in rounds of some seconds. Each has a
//! seed, and the seed is its [plan](plan): who does what when. Everything that happens is recorded, in every process
//! by itself; at the end of a round all of it is [one story](story), which is checked as any trial's is:
//!
//! - what is held together is of one kind, is told one size and fits it;
//! - nobody passes whoever is known to wait;
//! - tokens of conflicting grants grow, and the registers that the names protect refuse nobody who holds;
//! - nobody waits for long while nobody holds, and nobody loses what it holds while all is well;
//! - every name can be used again, and nothing is left.
//!
//! What the subject declares as possible under a mishap is excused, and nothing else. The same seed draws the same
//! plan; what comes of it is up to the store and to chance, so what is rare may need a few rounds of its seed.

mod plan;
mod player;
mod process;
mod pulse;
mod register;
mod round;
mod step;
mod story;
mod trouble;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use process::{Role, serve_as_player};

use crate::Subject;
use crate::history::{History, What, timeline};

/// How to storm.
#[derive(Clone, Debug)]
pub struct Storm {
    /// The seed of the first round; the next has the next number.
    pub seed: u64,
    /// No round begins when this is over. One is played in any case.
    pub lasts: Duration,
    /// How long one round lasts, without its beginning and end.
    pub round: Duration,
    /// Where the history of a round is saved that broke something.
    pub histories: PathBuf,
}

impl Storm {
    /// A storm of that seed, which lasts so long.
    #[must_use]
    pub fn new(seed: u64, lasts: Duration) -> Self {
        let histories = std::env::temp_dir().join("tidelock-conformance");
        Self { seed, lasts, round: Duration::from_secs(6), histories }
    }
}

/// What one round came to.
#[derive(Clone, Debug)]
pub struct Round {
    /// Its seed.
    pub seed: u64,
    /// What was planned, in a line.
    pub plan: String,
    /// How long it took, with its beginning and end.
    pub took: Duration,
    /// How often something was asked for, granted and lost.
    pub counts: Counts,
    /// What it broke, if anything.
    pub damage: Option<Damage>,
}

/// How often something happened in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Claims.
    pub asked: usize,
    /// Grants.
    pub granted: usize,
    /// Errors that somebody got.
    pub failed: usize,
    /// Guards that were lost.
    pub lost: usize,
    /// Things that went wrong.
    pub faults: usize,
}

/// What a round broke.
#[derive(Clone, Debug)]
pub struct Damage {
    /// How.
    pub why: String,
    /// The window of the history that shows it.
    pub timeline: String,
    /// Where the whole history is.
    pub saved: Option<PathBuf>,
}

/// Storms over `subject` until its time is over or something is broken, and tells of each round.
#[must_use]
pub fn storm(subject: &Arc<dyn Subject>, storm: &Storm, tell: &mut dyn FnMut(&Round)) -> Vec<Round> {
    let began = Instant::now();
    let mut rounds = Vec::new();
    for seed in storm.seed.. {
        let round = play(subject, storm, seed);
        tell(&round);
        let is_broken = round.damage.is_some();
        rounds.push(round);
        if is_broken || began.elapsed() >= storm.lasts {
            break;
        }
    }
    rounds
}

impl Round {
    /// One line, and what was broken below it.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { seed, plan, took, counts, damage } = self;
        let Counts { asked, granted, failed, lost, faults } = counts;
        let word = if damage.is_some() { "BROKEN" } else { "ok" };
        let took = took.as_secs_f64();
        let mut text = format!(
            "{word} seed {seed} ({took:.1} s): {plan}: {asked} asked, {granted} granted, {failed} errors, {lost} lost, \
             {faults} faults"
        );
        if let Some(damage) = damage {
            for line in damage.why.lines().chain(damage.timeline.lines()) {
                text.push_str(&format!("\n     {line}"));
            }
            if let Some(file) = &damage.saved {
                text.push_str(&format!("\n     the whole history: {}", file.display()));
            }
        }
        text
    }
}

impl Counts {
    fn of(history: &History) -> Self {
        let count = |is: fn(&What) -> bool| history.events.iter().filter(|event| is(&event.what)).count();
        Self {
            asked: count(|what| matches!(what, What::Asked { .. })),
            granted: count(|what| matches!(what, What::Granted { .. })),
            failed: count(|what| matches!(what, What::Failed)),
            lost: count(|what| matches!(what, What::Lost)),
            faults: count(|what| matches!(what, What::Fault { .. })),
        }
    }
}

/// What a client may need to find out that its connection has died without a word, and to ask again: beside the
/// lifetime of a holder, the time that a command may take, and the longest pause after it.
const RECOVERY: Duration = Duration::from_secs(4);

/// What stands still for so long explains what a fault would.
fn stumble(ttl: Duration) -> Duration {
    ttl / 6
}

/// Plays one round, and checks its story.
fn play(subject: &Arc<dyn Subject>, storm: &Storm, seed: u64) -> Round {
    let began = Instant::now();
    let plan = plan::Plan::draw(seed, &**subject, storm.round);
    let sentence = plan.sentence();
    let (outcome, events) = round::play(subject, plan, storm.round);
    let history = History {
        backend: subject.name().to_owned(),
        trial: format!("storm {seed}"),
        seed,
        ttl: subject.ttl(),
        bound: subject.ttl() * 5 / 2 + RECOVERY,
        events,
    };
    // Nobody can tell how long a client needs that has missed a whole lifetime: what is lost soon after is not counted.
    let violation = history.check().into_iter().next();
    let violation = violation.or_else(|| history.lost_for_no_reason(subject.ttl() * 2));
    let why = match (&outcome, &violation) {
        (Ok(()), None) => None,
        (Err(failure), None) => Some(failure.to_string()),
        (Ok(()), Some(violation)) => Some(format!("{}: {}", violation.promise, violation.sentence)),
        (Err(failure), Some(violation)) => {
            Some(format!("{}: {}\nand {failure}", violation.promise, violation.sentence))
        }
    };
    let damage = why.map(|why| {
        let text = history.to_json(&why, violation.as_ref()).to_string();
        let file = storm.histories.join(format!("{}-storm-{seed}.json", history.backend.replace(' ', "-")));
        let saved = std::fs::create_dir_all(&storm.histories).and_then(|()| std::fs::write(&file, text));
        let timeline = timeline(&history.events, violation.as_ref());
        Damage { why, timeline, saved: saved.ok().map(|()| file) }
    });
    Round { seed, plan: sentence, took: began.elapsed(), counts: Counts::of(&history), damage }
}
