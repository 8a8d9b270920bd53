//! Clippy over the libraries with none of their features, and with each feature alone: a user chooses one, and must get
//! no warning that only then appears.
//!
//! A feature with the same name in several libraries is turned on in all of them at once, and in a library that another
//! one turns on the same way as for a user. The example is there for the features of the tests' dependencies, so that
//! most dependencies are checked once for all of this and for the step `lints`.

use std::collections::BTreeSet;

use super::Job;
use crate::call::Show;
use crate::cargo;
use crate::tally::Tally;
use crate::trouble::Result;
use crate::workspace::Workspace;

const LIBRARIES: &[&str] = &["--workspace", "--lib", "--example", "first_lock", "--no-default-features"];

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let features = job.workspace.libraries().flat_map(|library| library.features.keys());
    let features: BTreeSet<&str> = features.map(String::as_str).filter(|name| *name != "default").collect();
    for feature in std::iter::once(None).chain(features.into_iter().map(Some)) {
        let label = feature.map_or("without features".to_owned(), |name| format!("with {name} alone"));
        match check(job, &feature.map_or_else(String::new, |name| wherever(&job.workspace, name))) {
            Ok(()) => {
                println!("ok the libraries {label}");
                tally.pass(1);
            }
            Err(trouble) => {
                println!("{trouble}");
                tally.fail(format!("the libraries {label}"));
            }
        }
    }
    Ok(())
}

/// `tidelock-redis/tls,tidelock-zookeeper/tls`: this feature of every library that has it.
fn wherever(workspace: &Workspace, feature: &str) -> String {
    let having = workspace.libraries().filter(|library| library.features.contains_key(feature));
    having.map(|library| format!("{}/{feature}", library.name)).collect::<Vec<_>>().join(",")
}

fn check(job: &Job, features: &str) -> Result<()> {
    let call = cargo::call(&job.workspace.root).arg("clippy").args(LIBRARIES).args(["--features", features]);
    let call = call.args(["--profile", "test", "--", "-D", "warnings"]);
    call.show(Show::Everything).run()?.required().map(drop)
}
