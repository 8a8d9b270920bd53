//! Clippy over each library's package with none of its features, and with each feature alone: a user chooses one, and
//! must get no warning that only then appears.
//!
//! A feature that the library's source does not name adds no line to it: it only turns on a feature of another library,
//! where that one is checked. (`tidelock-redis/serde` is core's, the facade's `redis-tls` is Redis's.) It is checked here
//! with `--deep` alone.
//!
//! A library is checked alone: with others, it might depend on features of a dependency that only they turn on. It is
//! checked from its package, with the Rust that the workspace pins.

use std::collections::BTreeSet;

use super::Job;
use super::package::Packages;
use crate::call::Show;
use crate::place;
use crate::tally::Tally;
use crate::trouble::Result;
use crate::workspace::Package;

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let packages = job.packages()?;
    for library in job.workspace.libraries() {
        let source = place::sources_of(&library.dir)?;
        let alone = features(library).into_iter().filter(|feature| job.deep || is_named(feature, &source));
        for feature in std::iter::once(None).chain(alone.map(Some)) {
            let label = feature.map_or("without features".to_owned(), |name| format!("with {name} alone"));
            match check(packages, library, feature.unwrap_or_default()) {
                Ok(()) => {
                    println!("ok {} {label}", library.name);
                    tally.pass(1);
                }
                Err(trouble) => {
                    println!("{trouble}");
                    tally.fail(format!("{} {label}", library.name));
                }
            }
        }
    }
    Ok(())
}

/// What a user can turn on, in a fixed order.
fn features(library: &Package) -> BTreeSet<&str> {
    library.features.keys().map(String::as_str).filter(|name| *name != "default").collect()
}

/// Whether some of the library is compiled only with this feature, or only without it.
fn is_named(feature: &str, source: &str) -> bool {
    source.contains(&format!("feature = \"{feature}\""))
}

fn check(packages: &Packages, library: &Package, feature: &str) -> Result<()> {
    let call = packages.cargo("clippy").args(["--package", &library.name, "--lib", "--no-default-features"]);
    let call = call.args(["--features", feature, "--", "-D", "warnings"]);
    call.show(Show::Everything).run()?.required().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_is_named_by_its_whole_name() {
        let source = "#[cfg(any(test, feature = \"redis-tls\"))]\nmod serde;";
        assert!(is_named("redis-tls", source));
        assert!(!is_named("redis", source) && !is_named("tls", source) && !is_named("serde", source));
    }
}
