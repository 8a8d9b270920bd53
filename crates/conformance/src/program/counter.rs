//! A last line that says how far a long run is: `12 of 140 trials`. Only on a terminal.

use std::io::{IsTerminal, Write};

/// Moves to the beginning of the line, and erases it.
const CLEAR: &str = "\r\x1b[K";

/// How many of the run's parts are done.
#[derive(Debug)]
pub(super) struct Counter {
    done: usize,
    of: usize,
    is_shown: bool,
}

impl Counter {
    /// A counter on standard output, if that is a terminal.
    pub(super) fn on_stdout(of: usize) -> Self {
        Self { done: 0, of, is_shown: std::io::stdout().is_terminal() }
    }

    /// Shows how many are done.
    pub(super) fn show(&self) {
        self.write(&self.line());
    }

    /// One more is done. Removes the line, so that something else can be printed.
    pub(super) fn step(&mut self) {
        self.done += 1;
        self.write(CLEAR);
    }

    /// Removes the line at the end of the run.
    pub(super) fn clear(&self) {
        self.write(CLEAR);
    }

    fn line(&self) -> String {
        format!("{} of {} trials", self.done, self.of)
    }

    fn write(&self, text: &str) {
        if self.is_shown {
            let mut stdout = std::io::stdout();
            let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()); // a terminal that went away
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_and_is_silent_without_a_terminal() {
        let mut counter = Counter { done: 0, of: 140, is_shown: false };
        counter.show();
        counter.step();
        counter.step();
        counter.clear();
        assert_eq!(counter.line(), "2 of 140 trials");
    }
}
