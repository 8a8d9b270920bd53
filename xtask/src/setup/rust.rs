//! The Rust parts of setup, through rustup: the pinned toolchain's components and targets, and the oldest toolchain
//! that the libraries promise.

use std::time::Duration;

use crate::call::{Call, Show};
use crate::trouble::{Result, Trouble};
use crate::workspace::Workspace;

/// The target on which the playground's model runs.
pub(crate) const WEB: &str = "wasm32-unknown-unknown";
/// Other systems that the libraries are checked for.
pub(crate) const OTHER_SYSTEMS: [&str; 2] = ["x86_64-apple-darwin", "x86_64-pc-windows-gnu"];

/// Everything `cargo xtask test` needs. If one part fails, the others are still installed.
pub(crate) fn install(workspace: &Workspace) -> Result<()> {
    let pinned = workspace.pinned_rust()?;
    let mut troubles: Vec<Trouble> = Vec::new();
    for component in ["clippy", "rustfmt"] {
        troubles.extend(add("component", &pinned, component).err());
    }
    for target in [WEB].into_iter().chain(OTHER_SYSTEMS) {
        troubles.extend(add("target", &pinned, target).err());
    }
    troubles.extend(workspace.oldest_rust().and_then(|oldest| toolchain(&oldest)).err());
    match troubles.into_iter().next() {
        Some(first) => Err(first),
        None => Ok(()),
    }
}

/// Installs a target of the pinned toolchain if it is missing.
pub(crate) fn target(workspace: &Workspace, target: &str) -> Result<()> {
    add("target", &workspace.pinned_rust()?, target)
}

/// Installs a toolchain if it is missing, with only what a check needs.
pub(crate) fn toolchain(version: &str) -> Result<()> {
    let installed = rustup(&["toolchain", "list"])?;
    if installed.lines().any(|line| line == version || line.starts_with(&format!("{version}-"))) {
        return Ok(());
    }
    println!("installing Rust {version} (minimal) through rustup");
    loud(&["toolchain", "install", version, "--profile", "minimal", "--no-self-update"]).map_err(|why| {
        format!("Rust {version} is missing, and {why}; install it with `rustup toolchain install {version}`")
            .into()
    })
}

/// Runs `rustup component add` or `rustup target add`, unless it is installed.
fn add(what: &str, toolchain: &str, name: &str) -> Result<()> {
    let installed = rustup(&[what, "list", "--toolchain", toolchain, "--installed"])?;
    // A component is listed with its host: `clippy-x86_64-unknown-linux-gnu`.
    if installed.lines().any(|line| line == name || line.starts_with(&format!("{name}-"))) {
        return Ok(());
    }
    println!("installing the {what} {name} for Rust {toolchain} through rustup");
    loud(&[what, "add", "--toolchain", toolchain, name]).map_err(|why| {
        format!("the {what} {name} is missing, and {why}; install it with `rustup {what} add --toolchain {toolchain} {name}`")
            .into()
    })
}

fn rustup(args: &[&str]) -> Result<String> {
    Ok(Call::new("rustup").args(args).limit(Duration::from_secs(60)).run()?.required()?.stdout)
}

fn loud(args: &[&str]) -> Result<()> {
    Call::new("rustup")
        .args(args)
        .limit(Duration::from_secs(600))
        .show(Show::Everything)
        .run()?
        .required()
        .map(drop)
}
