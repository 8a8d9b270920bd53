//! The report for people: a line for each trial, the history of each failure, and which promises hold.

use std::fmt::Write;
use std::io::IsTerminal;

use super::{Ending, POINTS, Report, Verdict};
use crate::Belief;

/// Colours words, or not: `NO_COLOR` and output that is not a terminal get plain text.
#[derive(Clone, Copy, Debug)]
pub struct Painter(bool);

impl Painter {
    /// The painter for standard output.
    #[must_use]
    pub fn for_stdout() -> Self {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self(!unwanted && std::io::stdout().is_terminal())
    }

    /// Plain text.
    #[must_use]
    pub const fn plain() -> Self {
        Self(false)
    }

    /// In green.
    #[must_use]
    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    /// In red.
    #[must_use]
    pub fn bad(self, text: &str) -> String {
        self.paint("31;1", text)
    }

    /// In yellow.
    #[must_use]
    pub fn odd(self, text: &str) -> String {
        self.paint("33", text)
    }

    fn paint(self, colour: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

impl Verdict {
    /// One line. The history of a failed trial follows it.
    #[must_use]
    pub fn text(&self, painter: Painter) -> String {
        let name = self.trial.name;
        let stalled = self.stalled.map_or(String::new(), |stalled| {
            format!("; the machine stood still for {:.2} s", stalled.as_secs_f64())
        });
        let first = self.first.as_ref().map_or(String::new(), |why| {
            format!("; played again alone, since with too few processors {why}")
        });
        let took = format!("{:.2} s{stalled}{first}", self.took.as_secs_f64());
        match &self.ending {
            Ending::Passed => format!("{} {name} ({took})", painter.good("pass")),
            Ending::Skipped(why) => format!("{} {name}: {why}", painter.odd("skip")),
            Ending::Failed { why, timeline, saved, .. } => {
                let mut text = format!("{} {name} ({took})\n", painter.bad("FAIL"));
                for line in why.lines().chain(timeline.lines()) {
                    let _ = writeln!(text, "     {line}");
                }
                if let Some(file) = saved {
                    let _ = writeln!(text, "     the whole history: {}", file.display());
                }
                text.trim_end().to_owned()
            }
        }
    }
}

impl Report {
    /// Which promises hold, what was skipped and why, and the score as the last line.
    #[must_use]
    pub fn summary(&self, painter: Painter) -> String {
        let mut text = format!("\nThe contract on {}:\n", self.backend);
        for (number, title) in (1..).zip(POINTS) {
            let score = self.score_of(number);
            let word = match (score.failed, score.passed) {
                (0, 0) => painter.odd("not tried"),
                (0, _) => painter.good("holds"),
                _ => painter.bad("BROKEN"),
            };
            let skipped = match score.skipped {
                0 => String::new(),
                n => format!(", {n} skipped"),
            };
            let of = score.passed + score.failed;
            let _ =
                writeln!(text, "  {number:>2} {title:<30} {word} ({} of {of} trials{skipped})", score.passed);
        }
        self.write_limits(&mut text);
        let score = self.score();
        let _ = writeln!(text, "\nseed {}, {:.1} s", self.seed, self.took.as_secs_f64());
        let _ = write!(text, "{} passed, {} failed, {} skipped", score.passed, score.failed, score.skipped);
        text
    }

    fn write_limits(&self, text: &mut String) {
        let _ = writeln!(text, "\nIt assumes:");
        for assumption in &self.assumptions {
            let _ = writeln!(text, "  - {assumption}");
        }
        for (mishap, belief) in &self.beliefs {
            let _ = match belief {
                Belief::NeverOverlaps => {
                    writeln!(
                        text,
                        "  - After {}, two clients never both believe that they hold.",
                        mishap.as_str()
                    )
                }
                Belief::MayOverlap(why) => writeln!(
                    text,
                    "  - After {}, two clients may both believe that they hold, and the fence refuses the older \
                     one: {why}.",
                    mishap.as_str()
                ),
                Belief::CannotHappen(why) => {
                    writeln!(text, "  - Cannot happen: {}, because {why}.", mishap.as_str())
                }
            };
        }
        let skipped = self.verdicts.iter().filter_map(|verdict| match &verdict.ending {
            Ending::Skipped(why) => Some((verdict.trial.name, why)),
            _ => None,
        });
        let skipped: Vec<_> = skipped.collect();
        if !skipped.is_empty() {
            let _ = writeln!(text, "\nSkipped:");
            for (name, why) in skipped {
                let _ = writeln!(text, "  - {name}: {why}");
            }
        }
    }
}
