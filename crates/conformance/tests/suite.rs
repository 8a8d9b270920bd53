//! The suite on memory, and its own proof.

use tidelock_conformance::report::{Ending, Painter};
use tidelock_conformance::{Settings, prove, run, subjects};

#[test]
fn memory_keeps_the_contract() {
    let report = run(subjects::memory(), &Settings::default());
    let failed = report.verdicts.iter().filter(|verdict| matches!(verdict.ending, Ending::Failed { .. }));
    let failed: Vec<String> = failed.map(|verdict| verdict.text(Painter::plain())).collect();
    assert!(report.passed(), "{}", failed.join("\n"));
}

#[test]
fn every_broken_backend_and_every_faulty_history_is_caught() {
    let proof = prove(&Settings::default(), &mut |_| {});
    let missed: Vec<String> =
        proof.steps.iter().filter(|step| !step.holds).map(|step| step.text(Painter::plain())).collect();
    assert!(proof.holds(), "{}", missed.join("\n"));
}
