//! What the steps of `cargo xtask test` need, and its setup: what is missing for the chosen steps is named and
//! installed before the first of them, or the run ends there, with the line to type.

use std::collections::BTreeMap;

use super::packages;
use super::rust::{self, RustPart};
use crate::backend::{self, Backend};
use crate::trouble::Result;
use crate::workspace::Workspace;

/// Something that a step needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    Rust(RustPart),
    /// The programs that find processes and send them signals.
    Processes,
    /// The servers of every backend.
    Servers,
    /// The compiler that the etcd backend's client library is built with.
    Protoc,
    /// A browser and its driver, and npm, which gets what checks accessibility.
    Browser,
}

/// Installs what these steps need, or says what to type. Each step is given with its needs.
pub(crate) fn prepare(workspace: &Workspace, steps: &[(&'static str, &[Need])]) -> Result<()> {
    let (mut absent, mut rust_parts) = (BTreeMap::new(), Vec::new());
    for part in rust::PARTS {
        let users = users(Need::Rust(part), steps);
        if !users.is_empty() && !part.is_here(workspace)? {
            absent.insert(part.name(workspace)?, users);
            rust_parts.push(part);
        }
    }
    let of_part = |part: &str| match part {
        packages::PROCESSES => users(Need::Processes, steps),
        packages::BROWSER | packages::NPM => users(Need::Browser, steps),
        packages::PROTOC => users(Need::Protoc, steps),
        part if is_of_a_backend(part) => users(Need::Servers, steps),
        _ => Vec::new(),
    };
    let missing = packages::missing(|part| !of_part(part).is_empty());
    absent.extend(missing.iter().map(|part| (part.name.to_owned(), of_part(part.name))));
    for (name, users) in &absent {
        println!("missing: {name}, for: {}", users.join(", "));
    }
    // The packages first: what cannot be installed must end the run at once, not after a download.
    packages::install(&missing)?;
    rust::install(workspace, &rust_parts)
}

/// The steps with this need.
fn users(need: Need, steps: &[(&'static str, &[Need])]) -> Vec<&'static str> {
    steps.iter().filter(|(_, needs)| needs.contains(&need)).map(|(name, _)| *name).collect()
}

/// Whether this part of setup has the servers of a backend.
fn is_of_a_backend(part: &str) -> bool {
    let backends = backend::called("all").unwrap_or_default();
    backends.iter().any(|backend| is_for(part, backend))
}

/// Whether a part installs this backend's servers: it is called as the backend, or as its server is.
fn is_for(part: &str, backend: &Backend) -> bool {
    backend.has_servers() && (backend.name == part || backend.deployments.contains(&part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_chosen_step_needs_is_needed() {
        let fmt = Need::Rust(RustPart::Component("rustfmt"));
        let steps: [(&str, &[Need]); 3] = [("format", &[fmt]), ("tests", &[]), ("storm", &[Need::Servers])];
        assert_eq!(users(Need::Servers, &steps), ["storm"]);
        assert_eq!(users(fmt, &steps), ["format"]);
        assert!(users(Need::Servers, &steps[..2]).is_empty());
    }

    #[test]
    fn every_backend_with_servers_has_a_part() {
        for backend in backend::called("all").unwrap().iter().filter(|backend| backend.has_servers()) {
            assert!(packages::PARTS.iter().any(|part| is_for(part.name, backend)), "{}", backend.name);
        }
        assert!(is_of_a_backend("redis") && is_of_a_backend("mariadb") && !is_of_a_backend("browser"));
    }
}
