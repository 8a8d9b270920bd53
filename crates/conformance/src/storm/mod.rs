//! A storm: everything at once, at random, for as long as you like.
//!
//! The trials look for faults that their authors have thought of. A storm looks for the others. Clients and
//! processes fight for a few names in every possible way. Meanwhile connections are cut just after a request, networks
//! stall, processes are stopped and killed, and servers are paused and restarted. A storm runs in rounds of some
//! seconds. Each round has a seed, and the seed determines its [plan](plan): who does what when. Every process records
//! everything that happens in it. At the end of a round all records become [one story](story), which is checked like
//! any trial's:
//!
//! - claims held together are of one kind, were told the same size, and fit it;
//! - no claim overtakes one that is known to wait, unless a client of a round with a linger passes its hold on, within
//!   its limits;
//! - tokens of conflicting grants grow, and the registers that the names protect refuse no current holder;
//! - no claim waits for long while nobody holds, and no client loses its hold while all is well;
//! - every name can be used again, and nothing is left.
//!
//! An overlap that the subject declares as possible under a mishap is excused, and nothing else. The same seed gives
//! the same plan. The outcome also depends on the store and on chance, so a rare fault may need a few rounds of its
//! seed.

mod plan;
mod player;
mod process;
mod pulse;
mod register;
mod round;
mod step;
mod story;
mod trouble;
mod used_name;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use process::{Role, serve_as_player};

use tidelock_core::Token;

use crate::Subject;
use crate::history::{EventKind, History, timeline};

/// How to run a storm.
#[derive(Clone, Debug)]
pub struct Storm {
    /// The seed of the first round; each later round adds one.
    pub seed: u64,
    /// No round begins after this time. One round is always played.
    pub lasts: Duration,
    /// How long one round lasts, without its beginning and end.
    pub round: Duration,
    /// Where the history of a broken round is saved.
    pub histories: PathBuf,
}

impl Storm {
    /// A storm with that seed that lasts this long.
    #[must_use]
    pub fn new(seed: u64, lasts: Duration) -> Self {
        let histories = std::env::temp_dir().join("tidelock-conformance");
        Self { seed, lasts, round: Duration::from_secs(6), histories }
    }
}

/// The result of one round.
#[derive(Clone, Debug)]
pub struct Round {
    /// Its seed.
    pub seed: u64,
    /// The plan, in one line.
    pub plan: String,
    /// How long it took, with its beginning and end.
    pub took: Duration,
    /// How often claims were asked for, granted and lost.
    pub counts: Counts,
    /// What it broke, if anything.
    pub damage: Option<Damage>,
}

/// How often something happened in a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Claims that were asked for.
    pub asked: usize,
    /// Grants.
    pub granted: usize,
    /// Grants that a client passed on among its own tasks.
    pub passed: usize,
    /// Errors that clients got.
    pub failed: usize,
    /// Guards that were lost.
    pub lost: usize,
    /// Faults.
    pub faults: usize,
}

/// What a round broke.
#[derive(Clone, Debug)]
pub struct Damage {
    /// The reason.
    pub why: String,
    /// The window of the history that shows it.
    pub timeline: String,
    /// Where the whole history is.
    pub saved: Option<PathBuf>,
}

/// Storms over `subject` until its time is over or something is broken, and calls `tell` with each round.
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
    /// One line, with the damage below it.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { seed, plan, took, counts, damage } = self;
        let Counts { asked, granted, passed, failed, lost, faults } = counts;
        let word = if damage.is_some() { "BROKEN" } else { "ok" };
        let took = took.as_secs_f64();
        let mut text = format!(
            "{word} seed {seed} ({took:.1} s): {plan}: {asked} asked, {granted} granted, {passed} of them passed on, \
             {failed} errors, {lost} lost, {faults} faults"
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
        let count =
            |is: fn(&EventKind) -> bool| history.events.iter().filter(|event| is(&event.what)).count();
        Self {
            asked: count(|what| matches!(what, EventKind::Asked { .. })),
            granted: count(|what| matches!(what, EventKind::Granted { .. })),
            passed: count(|what| matches!(what, EventKind::Granted { token, .. } if is_pass(*token))),
            failed: count(|what| matches!(what, EventKind::Failed)),
            lost: count(|what| matches!(what, EventKind::Lost)),
            faults: count(|what| matches!(what, EventKind::Fault { .. })),
        }
    }
}

fn is_pass(token: u64) -> bool {
    Token::from_u64(token).is_some_and(|token| token.pass() > 0)
}

/// The time that a client may need to find out that its connection has died silently, and to ask again. It adds to the
/// lifetime of a holder: the time that a command may take, and the longest pause after it.
const RECOVERY: Duration = Duration::from_secs(4);

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
        linger: plan::linger(seed),
        bound: subject.ttl() * 5 / 2 + RECOVERY,
        events,
    };
    // The time that a client needs after it missed a whole lifetime is unknown, so losses soon after are not counted.
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
