//! The runner: each trial has its own thread and runtime, runs in parallel where that is safe, and has a time-out.
//!
//! A trial passes if it succeeds, if every name it used can be used again after everything was healed, and if its
//! whole history keeps the contract.
//!
//! On a slow machine, trials that run in parallel take the processors from each other, and run out of time. So one that
//! fails while the processors are short is played again alone, and that counts. A history that breaks the contract, by
//! more than what took too long, counts at once.

use std::collections::VecDeque;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::failure::{Failure, Outcome};
use crate::history::{History, Recorder, timeline};
use crate::report::{Ending, Report, Verdict};
use crate::shortage::Shortage;
use crate::stalls::Stalls;
use crate::{Can, Dice, Settings, Stage, Subject, Trial};

/// How many trials run in parallel on a server in real time: they mostly wait.
const SIDE_BY_SIDE: usize = 8;

impl Settings {
    /// The trials that the filter leaves.
    pub(crate) fn trials(&self) -> impl Iterator<Item = Trial> {
        let chosen =
            |trial: &Trial| self.filter.as_ref().is_none_or(|part| trial.name.contains(part.as_str()));
        crate::trials::all().iter().copied().filter(chosen)
    }
}

/// Plays every trial on `subject`.
#[must_use]
pub fn run(subject: impl Subject, settings: &Settings) -> Report {
    let subject: Arc<dyn Subject> = Arc::new(subject);
    run_with(&subject, settings, &mut |_| {})
}

/// Like [`run`], and calls `tell` with each verdict as soon as it is known.
#[must_use]
pub fn run_with(subject: &Arc<dyn Subject>, settings: &Settings, tell: &mut dyn FnMut(&Verdict)) -> Report {
    let trials: Vec<Trial> = settings.trials().collect();
    let began = Instant::now();
    let side_by_side = match subject.is_shared() {
        true => SIDE_BY_SIDE,
        false => thread::available_parallelism().map_or(1, usize::from),
    };
    // An act on a shared server would affect other trials too.
    let is_for_everyone = |trial: &Trial| trial.needs.iter().any(|need| need.is_for_everyone());
    let (alone, together): (Vec<Trial>, Vec<Trial>) =
        trials.iter().partition(|trial| subject.is_shared() && is_for_everyone(trial));
    let mut verdicts = play(subject, together, settings, side_by_side, tell);
    verdicts.extend(play(subject, alone, settings, 1, tell));
    play_again(subject, &mut verdicts, settings, tell);
    let position = |verdict: &Verdict| trials.iter().position(|trial| trial.name == verdict.trial.name);
    verdicts.sort_by_key(position);
    Report::new(&**subject, settings.seed, settings.deep, verdicts, began.elapsed())
}

fn play(
    subject: &Arc<dyn Subject>,
    trials: Vec<Trial>,
    settings: &Settings,
    side_by_side: usize,
    tell: &mut dyn FnMut(&Verdict),
) -> Vec<Verdict> {
    let queue = Mutex::new(VecDeque::from(trials));
    let (sender, receiver) = channel();
    thread::scope(|scope| {
        for _ in 0..side_by_side {
            let (sender, queue) = (sender.clone(), &queue);
            scope.spawn(move || {
                while let Some(trial) = next(queue) {
                    let shortage = Shortage::since_now();
                    let verdict = play_one(subject, trial, settings);
                    let _ = sender.send((verdict, shortage.is_one())); // the receiver outlives this scope
                }
            });
        }
        drop(sender);
        receiver.iter().map(|(verdict, was_short)| judge(verdict, was_short, tell)).collect()
    })
}

/// Tells a verdict, unless it proves nothing: the processors were short, and its history breaks nothing else than a
/// bound of time.
fn judge(mut verdict: Verdict, was_short: bool, tell: &mut dyn FnMut(&Verdict)) -> Verdict {
    match &verdict.ending {
        Ending::Failed { why, broke: false, .. } if was_short => {
            verdict.first = Some(why.lines().next().unwrap_or_default().to_owned());
        }
        _ => tell(&verdict),
    }
    verdict
}

/// Plays those trials again, one by one, whose verdicts prove nothing.
fn play_again(
    subject: &Arc<dyn Subject>,
    verdicts: &mut [Verdict],
    settings: &Settings,
    tell: &mut dyn FnMut(&Verdict),
) {
    for verdict in verdicts.iter_mut().filter(|verdict| verdict.first.is_some()) {
        Shortage::wait_until_over();
        let first = verdict.first.take();
        *verdict = Verdict { first, ..play_one(subject, verdict.trial, settings) };
        tell(verdict);
    }
}

fn next(queue: &Mutex<VecDeque<Trial>>) -> Option<Trial> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

/// Plays one trial, or says why it cannot be played.
pub(crate) fn play_one(subject: &Arc<dyn Subject>, trial: Trial, settings: &Settings) -> Verdict {
    let missing: Vec<String> = trial
        .needs
        .iter()
        .filter_map(|need| match subject.can(*need) {
            Can::Yes => None,
            Can::No(why) => Some(format!("cannot {need}: {why}")),
        })
        .collect();
    if !missing.is_empty() {
        let ending = Ending::Skipped(missing.join("; "));
        return Verdict { trial, ending, took: Duration::ZERO, stalled: None, first: None };
    }
    let began = Instant::now();
    let notes = Notes::default();
    let ending = match play_in_thread(subject, trial, settings, &notes) {
        (Ok(()), _) => Ending::Passed,
        (Err(why), history) => failed(&why, history.as_ref(), settings),
    };
    let (stalled, mattered) = notes.get().map_or((Duration::ZERO, false), |(_, stalls)| stalls.verdict());
    let counts = mattered || ending != Ending::Passed && !stalled.is_zero();
    Verdict { trial, ending, took: began.elapsed(), stalled: counts.then_some(stalled), first: None }
}

/// The factor on the time-out for a trial that needs slow abilities.
const SLOWER: u32 = 5;

/// What is known of a trial even if it does not end.
type Notes = Arc<OnceLock<(Arc<Recorder>, Arc<Stalls>)>>;

fn play_in_thread(
    subject: &Arc<dyn Subject>,
    trial: Trial,
    settings: &Settings,
    notes: &Notes,
) -> (Outcome, Option<History>) {
    let is_slow = trial.needs.iter().any(|need| need.is_slow());
    let time_out = settings.time_out.saturating_mul(if is_slow { SLOWER } else { 1 });
    let (sender, receiver) = channel();
    let thread = thread::Builder::new().name(format!("trial {}", trial.name)).spawn({
        let (subject, settings, notes) = (subject.clone(), settings.clone(), notes.clone());
        move || play_here(subject, trial, &settings, &notes, &sender)
    });
    let outcome = match thread {
        Err(error) => Err(Failure::new(format!("cannot start a thread for the trial: {error}"))),
        // A trial that is stuck for good keeps its thread: nothing can end it from outside.
        Ok(thread) => match receiver.recv_timeout(time_out) {
            Ok(outcome) => outcome,
            Err(_) if thread.is_finished() => Err(Failure::new(panic_of(thread))),
            Err(_) => Err(Failure::new(format!("the trial did not end within {time_out:?}"))),
        },
    };
    let history = notes.get().map(|(recorder, _)| History {
        backend: subject.name().to_owned(),
        trial: trial.name.to_owned(),
        seed: settings.seed,
        ttl: subject.ttl(),
        linger: recorder.linger(),
        bound: subject.ttl() + subject.ttl() / 5,
        events: recorder.events(),
    });
    let checked = outcome.and_then(|()| match history.as_ref().map(History::check).and_then(first) {
        None => Ok(()),
        Some(violation) => Err(Failure::new(violation.sentence)),
    });
    (checked, history)
}

fn play_here(
    subject: Arc<dyn Subject>,
    trial: Trial,
    settings: &Settings,
    notes: &Notes,
    sender: &Sender<Outcome>,
) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            return drop(sender.send(Err(Failure::new(format!("cannot start a runtime: {error}")))));
        }
    };
    let outcome = runtime.block_on(async {
        let dice = Dice::new(settings.seed, trial.name);
        let stage = Stage::set(subject, trial.needs, dice, settings).await?;
        let _ = notes.set((stage.recorder().clone(), stage.stalls().clone()));
        let played = (trial.play)(&stage).await;
        if played.is_err() {
            stage.mend().await;
        }
        played?;
        stage.end().await
    });
    let _ = sender.send(outcome); // fails if the time-out was first
    runtime.shutdown_background();
}

fn first<T>(things: Vec<T>) -> Option<T> {
    things.into_iter().next()
}

fn panic_of(thread: thread::JoinHandle<()>) -> String {
    match thread.join() {
        Ok(()) => "the trial's thread ended without a result".to_owned(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            format!("the trial panicked: {}", text.unwrap_or_default())
        }
    }
}

/// A failure with the window of the history that shows it. The whole history is saved.
fn failed(why: &Failure, history: Option<&History>, settings: &Settings) -> Ending {
    let why = why.to_string();
    let Some(history) = history else {
        return Ending::Failed { why, timeline: String::new(), saved: None, broke: false };
    };
    let violations = history.check();
    let broke = violations.iter().any(|violation| !violation.promise.is_a_matter_of_time());
    let violation = first(violations);
    let broken = violation.as_ref().filter(|violation| violation.sentence != why);
    let why = match broken {
        Some(violation) => {
            format!("{why}\nits history breaks a promise ({}): {}", violation.promise, violation.sentence)
        }
        None => why,
    };
    let timeline = timeline(&history.events, violation.as_ref());
    let file =
        settings.histories.join(format!("{}-{}.json", history.backend.replace(' ', "-"), history.trial));
    let text = history.to_json(&why, violation.as_ref()).to_string();
    let saved = std::fs::create_dir_all(&settings.histories).and_then(|()| std::fs::write(&file, text));
    Ending::Failed { why, timeline, saved: saved.ok().map(|()| file), broke }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of a trial that ended so, and whether it is to be played again.
    fn judged(ending: Ending, was_short: bool) -> (usize, bool) {
        let trial = crate::trials::all()[0];
        let verdict = Verdict { trial, ending, took: Duration::ZERO, stalled: None, first: None };
        let mut told = 0;
        let verdict = judge(verdict, was_short, &mut |_| told += 1);
        (told, verdict.first.is_some())
    }

    fn failed(broke: bool) -> Ending {
        Ending::Failed { why: "too late\nby far".to_owned(), timeline: String::new(), saved: None, broke }
    }

    #[test]
    fn only_a_failure_by_time_while_processors_are_short_is_played_again() {
        assert_eq!(judged(failed(false), true), (0, true));
        assert_eq!(judged(failed(false), false), (1, false), "there was room");
        assert_eq!(judged(failed(true), true), (1, false), "no machine is slow enough for two holders");
        assert_eq!(judged(Ending::Passed, true), (1, false));
        assert_eq!(judged(Ending::Skipped("no server".to_owned()), true), (1, false));
    }
}
