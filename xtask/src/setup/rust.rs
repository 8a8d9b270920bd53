//! The Rust parts of setup, through rustup: the pinned toolchain's components and targets, and the oldest toolchains
//! that the libraries promise.

use std::time::Duration;

use crate::call::{Call, Show};
use crate::trouble::{Result, Trouble};
use crate::workspace::Workspace;

/// The target on which the playground's model runs.
pub(crate) const WEB: &str = "wasm32-unknown-unknown";
/// Other systems that the libraries are checked for.
pub(crate) const OTHER_SYSTEMS: [&str; 2] = ["x86_64-apple-darwin", "x86_64-pc-windows-gnu"];

/// One thing that rustup installs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RustPart {
    /// A component of the pinned toolchain.
    Component(&'static str),
    /// A target of the pinned toolchain.
    Target(&'static str),
    /// The oldest toolchains that the libraries promise, with only what a check needs.
    Oldest,
}

pub(crate) const PARTS: [RustPart; 6] = [
    RustPart::Component("clippy"),
    RustPart::Component("rustfmt"),
    RustPart::Target(WEB),
    RustPart::Target(OTHER_SYSTEMS[0]),
    RustPart::Target(OTHER_SYSTEMS[1]),
    RustPart::Oldest,
];

/// Installs those of these parts that are missing. If one fails, the others are still installed.
pub(crate) fn install(workspace: &Workspace, parts: &[RustPart]) -> Result<()> {
    let troubles: Vec<Trouble> = parts.iter().filter_map(|part| part.install(workspace).err()).collect();
    match troubles.into_iter().next() {
        Some(first) => Err(first),
        None => Ok(()),
    }
}

impl RustPart {
    pub(crate) fn is_here(self, workspace: &Workspace) -> Result<bool> {
        let pinned = workspace.pinned_rust()?;
        let (listed, names) = match self {
            Self::Component(name) => (
                rustup(&["component", "list", "--toolchain", &pinned, "--installed"])?,
                vec![name.to_owned()],
            ),
            Self::Target(name) => {
                (rustup(&["target", "list", "--toolchain", &pinned, "--installed"])?, vec![name.to_owned()])
            }
            Self::Oldest => (rustup(&["toolchain", "list"])?, workspace.promised_rusts()?),
        };
        Ok(names.iter().all(|name| is_listed(&listed, name)))
    }

    /// Its name in a message.
    pub(crate) fn name(self, workspace: &Workspace) -> Result<String> {
        Ok(match self {
            Self::Component(name) | Self::Target(name) => {
                format!("{name} for Rust {}", workspace.pinned_rust()?)
            }
            Self::Oldest => format!("Rust {}", workspace.promised_rusts()?.join(" and ")),
        })
    }

    fn install(self, workspace: &Workspace) -> Result<()> {
        if self.is_here(workspace)? {
            return Ok(());
        }
        let (pinned, name) = (workspace.pinned_rust()?, self.name(workspace)?);
        println!("installing {name} through rustup");
        let line = match self {
            Self::Component(name) => format!("component add --toolchain {pinned} {name}"),
            Self::Target(name) => format!("target add --toolchain {pinned} {name}"),
            Self::Oldest => {
                let rusts = workspace.promised_rusts()?.join(" ");
                format!("toolchain install {rusts} --profile minimal --no-self-update")
            }
        };
        loud(&line).map_err(|why| format!("{name} is missing, and {why}; type: rustup {line}").into())
    }
}

/// A component is listed with its host: `clippy-x86_64-unknown-linux-gnu`. So is a toolchain, and words may follow.
fn is_listed(list: &str, name: &str) -> bool {
    let first_words = list.lines().filter_map(|line| line.split(' ').next());
    let mut rests = first_words.filter_map(|word| word.strip_prefix(name));
    rests.any(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn rustup(args: &[&str]) -> Result<String> {
    Ok(Call::new("rustup").args(args).limit(Duration::from_secs(60)).run()?.required()?.stdout)
}

fn loud(line: &str) -> Result<()> {
    let call = Call::new("rustup").args(line.split(' ')).limit(Duration::from_secs(600));
    call.show(Show::Everything).run()?.required().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_listed_is_known_with_its_host_and_without() {
        let list =
            "stable-x86_64-unknown-linux-gnu (default)\n1.88.0-x86_64-unknown-linux-gnu\nclippy-x86_64\n";
        assert!(is_listed(list, "1.88.0") && is_listed(list, "clippy") && is_listed(list, "stable"));
        assert!(!is_listed(list, "1.8") && !is_listed(list, "1.95.0") && !is_listed(list, "rustfmt"));
        assert!(is_listed("wasm32-unknown-unknown\n", WEB));
    }
}
