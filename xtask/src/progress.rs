//! How far a long run is, as a short last line: `[8/15 servers 2:10, 57 done]`. Only on a terminal.
//!
//! The cursor stays at its beginning, so whatever is printed next replaces it.

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the line is written anew.
const PACE: Duration = Duration::from_secs(1);

static SHOWN: Mutex<Option<Progress>> = Mutex::new(None);

/// The step that runs.
#[derive(Debug)]
struct Progress {
    step: String,
    began: Instant,
    written: Instant,
    done: u64,
    is_there: bool,
}

/// A step begins, or the last one has ended.
pub(crate) fn begin(step: Option<String>) {
    clear();
    let now = Instant::now();
    let progress = |step| Progress { step, began: now, written: now, done: 0, is_there: false };
    *shown() = step.filter(|_| std::io::stdout().is_terminal()).map(progress);
}

/// Notes a line of a program: is it a result of a test or a trial?
pub(crate) fn note(line: &str) {
    if let Some(progress) = shown().as_mut().filter(|_| is_result(line)) {
        progress.done += 1;
    }
}

/// Writes the line anew, if it is time.
pub(crate) fn tick() {
    let mut shown = shown();
    let Some(progress) = shown.as_mut().filter(|progress| progress.written.elapsed() >= PACE) else { return };
    progress.written = Instant::now();
    progress.is_there = true;
    write(&format!("\x1b[K{}\r", progress.line(progress.began.elapsed())));
}

/// Removes the line.
pub(crate) fn clear() {
    remove(&mut shown());
}

/// Prints this in place of the line. Other threads do not write the line meanwhile.
pub(crate) fn say(text: &str) {
    let mut shown = shown();
    remove(&mut shown);
    println!("{text}");
}

impl Progress {
    fn line(&self, passed: Duration) -> String {
        let (minutes, seconds) = (passed.as_secs() / 60, passed.as_secs() % 60);
        let done = if self.done == 0 { String::new() } else { format!(", {} done", self.done) };
        format!("[{} {minutes}:{seconds:02}{done}]", self.step)
    }
}

fn remove(shown: &mut Option<Progress>) {
    if let Some(progress) = shown.as_mut().filter(|progress| progress.is_there) {
        progress.is_there = false;
        write("\x1b[K");
    }
}

/// `test a::b ... ok` of Rust's harness, and `pass a_trial (0.10 s)` of the suite.
fn is_result(line: &str) -> bool {
    let of_a_test = line.starts_with("test ") && line.contains(" ... ");
    of_a_test || ["pass ", "FAIL ", "skip "].iter().any(|start| line.starts_with(start))
}

fn write(text: &str) {
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()); // a terminal that went away
}

fn shown() -> MutexGuard<'static, Option<Progress>> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_which_step_how_long_and_how_much() {
        let now = Instant::now();
        let mut progress =
            Progress { step: "8/15 servers".into(), began: now, written: now, done: 0, is_there: false };
        assert_eq!(progress.line(Duration::from_secs(130)), "[8/15 servers 2:10]");
        progress.done = 57;
        assert_eq!(progress.line(Duration::from_secs(9)), "[8/15 servers 0:09, 57 done]");
    }

    #[test]
    fn results_of_tests_and_trials_are_counted() {
        assert!(is_result("test line::a ... ok") && is_result("pass a (0.10 s)") && is_result("skip a: no"));
        assert!(!is_result("test result: ok. 3 passed") && !is_result("passing by"));
    }
}
