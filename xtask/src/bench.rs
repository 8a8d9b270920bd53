//! `cargo xtask bench`: builds the benchmark in release mode, and runs it with the given flags.
//!
//! A backend that needs a server gets one for this run, unless the flags give the URL of another.

use std::ffi::OsString;
use std::process::ExitCode;

use lexopt::Parser;

use crate::backend::{self, Backend};
use crate::call::Call;
use crate::cargo;
use crate::place;
use crate::servers::Loan;
use crate::trouble::Result;

const PROGRAM: &str = "tidelock-bench";
const SELECTION: [&str; 4] = ["--package", "tidelock-bench", "--profile", "bench"];

pub(crate) fn main(mut flags: Parser) -> Result<ExitCode> {
    let args: Vec<OsString> = flags.raw_args()?.collect();
    let backend = backend(&args);
    let features = backend::features(backend.as_slice());
    let selection: Vec<&str> = SELECTION.into_iter().chain(features.iter().map(String::as_str)).collect();
    let bench = cargo::build_program(&place::root()?, &selection, PROGRAM)?;
    let loan = backend.and_then(|backend| deployment(backend, &args)).map(Loan::of).transpose()?;
    let server = loan.as_ref().map(|loan| ["--url", loan.url()]).into_iter().flatten();
    let went_well = Call::new(&bench).args(&args).args(server).interactive()?;
    Ok(if went_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The backend in these flags, if there is such a backend. The benchmark itself checks the flags.
fn backend(args: &[OsString]) -> Option<&'static Backend> {
    let name = value(args, "--backend").filter(|name| *name != "all")?;
    backend::called(name).ok()?.first().copied()
}

/// The deployment to start for it: none if a URL is given.
fn deployment(backend: &Backend, args: &[OsString]) -> Option<&'static str> {
    if value(args, "--url").is_some() { None } else { backend.deployments.first().copied() }
}

fn value<'a>(args: &'a [OsString], flag: &str) -> Option<&'a str> {
    let equals = format!("{flag}=");
    args.iter().enumerate().find_map(|(i, arg)| match arg.to_str()? {
        word if word == flag => args.get(i + 1)?.to_str(),
        word => word.strip_prefix(&equals),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(line: &str) -> Option<&'static str> {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        deployment(backend(&args)?, &args)
    }

    #[test]
    fn memory_and_strangers_need_no_server() {
        assert_eq!(needs("--short --backend memory"), None);
        assert_eq!(needs("--backend=stone-tablets"), None);
        assert_eq!(needs("--backend"), None);
    }

    #[test]
    fn a_server_is_started_unless_one_is_named() {
        assert_eq!(needs("--backend redis --short"), Some("redis"));
        assert_eq!(needs("--backend redis --url=redis://127.0.0.1"), None);
    }
}
