//! `cargo xtask bench`: builds the benchmark as a release is built, and runs it with the flags given.
//!
//! A backend that needs a server gets one of its own for the run, unless the flags name the URL of another.

use std::ffi::OsString;
use std::process::ExitCode;

use lexopt::Parser;

use crate::backend;
use crate::call::Call;
use crate::cargo;
use crate::place;
use crate::servers;
use crate::trouble::Result;

const PROGRAM: &str = "tidelock-bench";
const SELECTION: [&str; 4] = ["--package", "tidelock-bench", "--profile", "bench"];

pub(crate) fn main(mut flags: Parser) -> Result<ExitCode> {
    let args: Vec<OsString> = flags.raw_args()?.collect();
    let bench = cargo::build_program(&place::root()?, &SELECTION, PROGRAM)?;
    let run = |url: Option<&str>| {
        let server = url.map(|url| ["--url", url]).into_iter().flatten();
        Call::new(&bench).args(&args).args(server).interactive()
    };
    let went_well = match server(&args)? {
        Some(deployment) => servers::during(deployment, |url| run(Some(url)))?,
        None => run(None)?,
    };
    Ok(if went_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The deployment that these flags need and name no URL of. What the flags are worth is for the benchmark to say.
fn server(args: &[OsString]) -> Result<Option<&'static str>> {
    let value = |flag: &str| {
        let equals = format!("{flag}=");
        args.iter().enumerate().find_map(|(i, arg)| match arg.to_str()? {
            word if word == flag => args.get(i + 1)?.to_str(),
            word => word.strip_prefix(&equals),
        })
    };
    let is_known = |name: &str| name != "all" && backend::called(name).is_ok();
    match (value("--backend").filter(|name| is_known(name)), value("--url")) {
        (Some(name), None) => Ok(backend::called(name)?[0].deployments.first().copied()),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_strangers_need_no_server() {
        let needs = |line: &str| server(&line.split(' ').map(OsString::from).collect::<Vec<_>>()).unwrap();
        assert_eq!(needs("--short --backend memory"), None);
        assert_eq!(needs("--backend=stone-tablets"), None);
        assert_eq!(needs("--backend"), None);
    }
}
