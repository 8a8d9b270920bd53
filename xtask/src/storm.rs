//! `cargo xtask storm`: random load and faults on one backend or on all, on each deployment it has.
//!
//! The suite runs the storm itself. This command gives it servers, and the way to stop, pause and kill them.

use std::process::ExitCode;

use lexopt::Parser;
use lexopt::prelude::*;

use crate::backend::{self, Backend};
use crate::call::Call;
use crate::conformance::{REAL_TIME, Suite};
use crate::place;
use crate::servers::Loan;
use crate::trouble::Result;
use crate::workspace::Workspace;

const HELP: &str = "\
A storm: clients and processes use a few names in every possible way, while connections, processes and servers
fail. Each round's plan is made from a seed, and all its events are checked. The storm ends at the first
broken promise, and saves the history that shows it.

Usage: cargo xtask storm --backend NAME [--deployment NAME | --url URL] [--seed N] [--for TIME]

  --backend NAME     memory, redis, zookeeper, etcd, mysql, or all
  --deployment NAME  one deployment of the backend; default: all of them, one after the other
  --url URL          your own server, which is then not stopped, paused or killed
  --seed N           the seed of the first round: replays a failed round
  --for TIME         how long, on each deployment: 90s, 20m, 8h; default: 1m";

/// How long a storm lasts without `--for`.
const USUALLY: &str = "1m";

/// The parsed flags.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    backend: Option<String>,
    deployment: Option<String>,
    url: Option<String>,
    seed: Option<String>,
    lasts: Option<String>,
}

/// The target of one storm: a deployment, the user's own server, or nothing for a backend that needs no server.
#[derive(Debug, PartialEq, Eq)]
enum Over {
    Nothing,
    Url(String),
    Deployment(&'static str),
}

pub(crate) fn main(flags: Parser) -> Result<ExitCode> {
    let Some(request) = Request::parse(flags)? else {
        return Ok(crate::help(HELP));
    };
    let backends =
        backend::called(request.backend.as_deref().ok_or("no backend given; use --backend NAME")?)?;
    let storms = request.storms(&backends)?;
    let suite = Suite::for_storms(&Workspace::load()?, &backends)?;
    let mut went_well = true;
    for (backend, over) in storms {
        let call = suite.call(backend)?.args(["--storm", request.lasts.as_deref().unwrap_or(USUALLY)]);
        let call = match &request.seed {
            Some(seed) => call.args(["--seed", seed.as_str()]),
            None => call,
        };
        went_well &= match over {
            Over::Nothing => call
                .arg(REAL_TIME) // a storm takes its time: a backend without a server uses the boot clock too
                .interactive()?,
            Over::Url(url) => call.args(["--url", &url]).interactive()?,
            Over::Deployment(name) => {
                let loan = Loan::of(name)?;
                on_loan(call, &loan)?.interactive()?
            }
        };
    }
    Ok(if went_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A storm on servers started here. The call also gets the program that stops, pauses and starts them.
pub(crate) fn on_loan(call: Call, loan: &Loan) -> Result<Call> {
    let call = call.args(["--url", loan.url(), "--deployment", loan.name()]);
    Ok(call.arg("--control").arg(place::own_program()?))
}

impl Request {
    /// None: only help is wanted.
    fn parse(mut flags: Parser) -> Result<Option<Self>> {
        let mut request = Self::default();
        while let Some(flag) = flags.next()? {
            let place = match flag {
                Short('h') | Long("help") => return Ok(None),
                Long("backend") => &mut request.backend,
                Long("deployment") => &mut request.deployment,
                Long("url") => &mut request.url,
                Long("seed") => &mut request.seed,
                Long("for") => &mut request.lasts,
                other => return Err(other.unexpected().into()),
            };
            *place = Some(flags.value()?.string()?);
        }
        Ok(Some(request))
    }

    /// All storms of this request, in order.
    fn storms(&self, backends: &[&'static Backend]) -> Result<Vec<(&'static Backend, Over)>> {
        if let Some(url) = &self.url {
            return match backends {
                [backend] if self.deployment.is_none() => Ok(vec![(*backend, Over::Url(url.clone()))]),
                [_] => Err("use either --deployment or --url, not both".into()),
                _ => Err("a URL belongs to one backend: name it with --backend".into()),
            };
        }
        let mut storms = Vec::new();
        for backend in backends {
            let wanted = |name: &&&str| self.deployment.as_deref().is_none_or(|wanted| wanted == **name);
            let deployments = backend.deployments.iter().filter(wanted);
            storms.extend(deployments.map(|name| (*backend, Over::Deployment(name))));
            if backend.deployments.is_empty() && self.deployment.is_none() {
                storms.push((*backend, Over::Nothing));
            }
        }
        match (&self.deployment, storms.is_empty()) {
            (Some(name), true) => {
                let names: Vec<&str> =
                    backends.iter().flat_map(|backend| backend.deployments).copied().collect();
                Err(format!("the backend has no deployment `{name}`; choose one of: {}", names.join(", "))
                    .into())
            }
            _ => Ok(storms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storms(line: &str) -> Result<Vec<Over>> {
        let words = std::iter::once("storm").chain(line.split_whitespace());
        let request = Request::parse(Parser::from_iter(words)).unwrap().unwrap();
        let backends = backend::called(request.backend.as_deref().unwrap())?;
        Ok(request.storms(&backends)?.into_iter().map(|(_, over)| over).collect())
    }

    #[test]
    fn a_backend_is_stormed_on_each_deployment_or_on_the_one_that_is_named() {
        assert_eq!(storms("--backend memory --for 20m").unwrap(), [Over::Nothing]);
        let all = ["zookeeper", "zookeeper-ensemble"].map(Over::Deployment);
        assert_eq!(storms("--backend zookeeper").unwrap(), all);
        let one = [Over::Deployment("redis-cluster")];
        assert_eq!(storms("--backend redis --deployment redis-cluster --seed 7").unwrap(), one);
        let own = [Over::Url("redis://h".into())];
        assert_eq!(storms("--backend redis --url redis://h").unwrap(), own);
    }

    #[test]
    fn what_fits_nothing_is_told() {
        for line in [
            "--backend redis --deployment zookeeper",
            "--backend all --url redis://h",
            "--backend redis --url redis://h --deployment redis",
            "--backend stone-tablets",
        ] {
            assert!(storms(line).is_err(), "{line}");
        }
    }
}
