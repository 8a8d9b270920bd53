//! The report for machines.

use serde_json::{Value, json};

use super::{Ending, POINTS, Report, Verdict};
use crate::Belief;

impl Report {
    /// The report as JSON: the backend, the score of each point of the contract, and each trial.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let score = self.score();
        let points: Vec<Value> = (1..)
            .zip(POINTS)
            .map(|(point, title)| {
                let score = self.score_of(point);
                json!({
                    "point": point,
                    "title": title,
                    "passed": score.passed,
                    "failed": score.failed,
                    "skipped": score.skipped,
                })
            })
            .collect();
        let beliefs: Vec<Value> = self
            .beliefs
            .iter()
            .map(|(mishap, belief)| {
                let (overlap, why) = match belief {
                    Belief::NeverOverlaps => ("never", ""),
                    Belief::MayOverlap(why) => ("fenced", why.as_str()),
                    Belief::CannotHappen(why) => ("cannot happen", why.as_str()),
                };
                json!({ "mishap": mishap.as_str(), "overlap": overlap, "why": why })
            })
            .collect();
        json!({
            "format": "tidelock report 1",
            "backend": self.backend,
            "seed": self.seed,
            "deep": self.deep,
            "seconds": self.took.as_secs_f64(),
            "passed": score.passed,
            "failed": score.failed,
            "skipped": score.skipped,
            "assumptions": self.assumptions,
            "beliefs": beliefs,
            "points": points,
            "trials": self.verdicts.iter().map(Verdict::to_json).collect::<Vec<_>>(),
        })
    }
}

impl Verdict {
    fn to_json(&self) -> Value {
        let mut verdict = json!({
            "name": self.trial.name,
            "points": self.trial.points,
            "lessons": self.trial.lessons,
            "seconds": self.took.as_secs_f64(),
        });
        let mut add =
            |key: &str, value: Value| drop(verdict.as_object_mut().map(|v| v.insert(key.into(), value)));
        if let Some(stalled) = self.stalled {
            add("stalled", json!(stalled.as_secs_f64()));
        }
        if let Some(first) = &self.first {
            add("first", json!(first));
        }
        match &self.ending {
            Ending::Passed => add("ending", json!("passed")),
            Ending::Skipped(why) => {
                add("ending", json!("skipped"));
                add("why", json!(why));
            }
            Ending::Failed { why, saved, .. } => {
                add("ending", json!("failed"));
                add("why", json!(why));
                if let Some(file) = saved {
                    add("history", json!(file));
                }
            }
        }
        verdict
    }
}
