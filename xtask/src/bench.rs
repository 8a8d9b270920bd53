//! `cargo xtask bench`: builds the benchmark in release mode, and runs it with the given flags.
//!
//! `--playground` measures the playground in a browser instead.
//!
//! A backend that needs a server gets one for this run, unless the flags give the URL of another.

use std::ffi::OsString;
use std::process::ExitCode;

use lexopt::Parser;

use crate::backend::{self, Backend};
use crate::call::Call;
use crate::cargo;
use crate::place;
use crate::playground::browser;
use crate::servers::Loan;
use crate::trouble::Result;

const SELECTION: [&str; 4] = ["--package", "tidelock-bench", "--bin", "tidelock-bench"];
/// The benchmark of a backend with servers, in its own crate.
const TARGET: &str = "store";

pub(crate) fn main(mut flags: Parser) -> Result<ExitCode> {
    let args: Vec<OsString> = flags.raw_args()?.collect();
    if args == ["--playground"] {
        let is_kept = browser::bench(&place::root()?)?;
        return Ok(if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let (backend, args) = backend(args)?;
    let mut selection = match backend.has_servers() {
        true => backend.selection("--bench", TARGET),
        false => SELECTION.map(str::to_owned).to_vec(),
    };
    selection.extend(["--profile".to_owned(), "bench".to_owned()]);
    let selection: Vec<&str> = selection.iter().map(String::as_str).collect();
    let built = cargo::build_programs(&place::root()?, &selection, |_| true)?;
    let bench = built.first().ok_or("cargo built no benchmark")?;
    let loan = deployment(backend, &args).map(Loan::to_measure).transpose()?;
    let server = loan.as_ref().map(|loan| ["--url", loan.url()]).into_iter().flatten();
    let went_well = Call::new(&bench.executable).args(&args).args(server).interactive()?;
    Ok(if went_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The backend in these flags (memory by default), and the flags for the benchmark itself.
fn backend(args: Vec<OsString>) -> Result<(&'static Backend, Vec<OsString>)> {
    let (mut name, mut others) = ("memory".to_owned(), Vec::new());
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let word = arg.to_str().unwrap_or_default();
        if word == "--backend" {
            let value = args.next().ok_or("which backend? give --backend NAME")?;
            name = value.to_string_lossy().into_owned();
        } else if let Some(value) = word.strip_prefix("--backend=") {
            name = value.to_owned();
        } else {
            others.push(arg);
        }
    }
    match backend::called(&name)?[..] {
        [backend] => Ok((backend, others)),
        _ => Err("one backend is measured at a time: say which".into()),
    }
}

/// The deployment to start for it: none if a URL is given, or only help is wanted.
fn deployment(backend: &Backend, args: &[OsString]) -> Option<&'static str> {
    let needs_none = |arg: &OsString| {
        arg.to_str().is_some_and(|arg| arg.starts_with("--url") || ["--help", "-h"].contains(&arg))
    };
    if args.iter().any(needs_none) { None } else { backend.deployments.first().copied() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(line: &str) -> Option<&'static str> {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let (backend, args) = backend(args).unwrap();
        assert!(args.iter().all(|arg| arg != "--backend" && arg != "redis"));
        deployment(backend, &args)
    }

    #[test]
    fn a_server_is_started_unless_one_is_named() {
        assert_eq!(needs("--short"), None);
        assert_eq!(needs("--short --backend memory"), None);
        assert_eq!(needs("--backend redis --short"), Some("redis"));
        assert_eq!(needs("--backend=redis --url=redis://127.0.0.1"), None);
        assert_eq!(needs("--backend redis --help"), None);
    }

    #[test]
    fn one_backend_is_measured_at_a_time() {
        for wrong in ["--backend=stone-tablets", "--backend", "--backend all"] {
            assert!(backend(wrong.split(' ').map(OsString::from).collect()).is_err(), "{wrong}");
        }
    }
}
