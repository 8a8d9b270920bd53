//! `cargo xtask conformance`: runs the suite on one backend or on all, each on every deployment it has.
//!
//! Each backend has a program that runs the suite on it: a test target of its crate, and the suite's own program for
//! memory. It is built here, and then run once for each deployment, with servers that are started for it and stopped
//! again. It calls back here to pause or kill them. Each run leaves a report; the reports of several runs become tables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::Parser;
use lexopt::prelude::*;

use crate::backend::{self, Backend};
use crate::call::Call;
use crate::cargo::{self, Artifact};
use crate::guarantees;
use crate::place;
use crate::servers::Loan;
use crate::trouble::{Result, While};
use crate::workspace::Workspace;

const HELP: &str = "\
Runs the conformance suite: trials of the contract, on a backend.

Usage: cargo xtask conformance [--backend NAME] [--deployment NAME | --url URL] [--filter PART] [--deep]
                               [--report FILE] [--seed N] [--linger MS]
       cargo xtask conformance --write-table
       cargo xtask conformance --list | --prove | --table FILE…

  --backend NAME     memory (the default), redis, zookeeper, etcd, mysql, or all: every backend, on each of its deployments
  --deployment NAME  one deployment of the backend
  --url URL          your own server, which is then not paused or killed; without it, servers are
                     started and stopped again
  --filter PART      only trials whose name contains this
  --deep             larger crowds, more rounds, and crowds on each deployment: takes minutes
  --real-time        memory alone: on the boot clock, as a server is tested; takes a minute
  --report FILE      the file for the JSON report; with several runs, each adds its name to the file name
  --seed N           replays the random choices of an earlier run
  --linger MS        the clients pass a hold on among their own tasks for this long; 0: each task stands in line itself
  --write-table      runs on all backends, and writes the tables in README.md and docs/guarantees.md
  --list             lists the trials and what each proves
  --prove            proves the suite itself: it must catch backends that are broken on purpose
  --table FILE…      prints both tables from these reports";

/// The suite's own program: it runs the suite on memory.
const PROGRAM: &str = "conformance";
/// The program of any other backend, in its own crate.
const TARGET: &str = "contract";
/// Not optimized: trials wait more than they work, and in a new clone most of the time is the build.
const QUICK_TO_BUILD: &[&str] = &["--package", "tidelock-conformance", "--bin", PROGRAM];
/// The suite's flag for large crowds.
const DEEP: &str = "--deep";
/// The suite's flag for a memory backend on the boot clock.
pub(crate) const REAL_TIME: &str = "--real-time";
/// The leases of a server run in real time, and the unoptimized suite is ten times slower: trials would time out.
const IN_REAL_TIME: &[&str] = &["--profile", "test"];

/// The suite's exit codes: the contract held, or it was broken. Any other code: it could not be tested.
const HELD: Option<i32> = Some(0);
const BROKEN: Option<i32> = Some(1);

/// The built suite.
pub(crate) struct Suite {
    /// A copy of each backend's program, by the backend's name: the tests' build overwrites cargo's own files.
    programs: BTreeMap<&'static str, PathBuf>,
    /// The folder of the programs, and of reports without a given path.
    folder: PathBuf,
}

/// The parsed flags.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    backend: Option<String>,
    deployment: Option<String>,
    url: Option<String>,
    report: Option<PathBuf>,
    write_table: bool,
    /// Only print something; run nothing on a backend.
    tells: bool,
    /// Flags that are passed on to the suite.
    others: Vec<OsString>,
}

/// One run, on one deployment or on none.
struct Run<'a> {
    suite: &'a Suite,
    request: &'a Request,
    backend: &'static Backend,
    deployment: Option<&'static str>,
}

pub(crate) fn main(flags: Parser) -> Result<ExitCode> {
    let Some(request) = Request::parse(flags)? else {
        return Ok(crate::help(HELP));
    };
    let backends = request.backends()?;
    let workspace = Workspace::load()?;
    let suite =
        Suite::with(&workspace, &backends, if request.passes_on(REAL_TIME) { IN_REAL_TIME } else { &[] })?;
    let went_well = if request.tells {
        suite.any()?.args(&request.others).interactive()?
    } else {
        run_all(&suite, &request, &backends, &workspace.root)?
    };
    Ok(if went_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_all(suite: &Suite, request: &Request, backends: &[&'static Backend], root: &Path) -> Result<bool> {
    let runs: Vec<Run> = backends.iter().flat_map(|backend| Run::of(suite, request, backend)).collect();
    if let (true, Some(name)) = (runs.is_empty(), &request.deployment) {
        return Err(format!(
            "the backend has no deployment `{name}`; `cargo xtask servers --help` lists them"
        )
        .into());
    }
    let mut reports = Vec::new();
    let (mut broken, mut untried) = (Vec::new(), Vec::new());
    for run in &runs {
        let report = run.report(runs.len() > 1);
        match run.play(&report)? {
            HELD => {}
            BROKEN => broken.push(run.name()),
            _ => untried.push(run.name()),
        }
        reports.extend(report.exists().then_some(report));
    }
    if runs.len() > 1 {
        println!("\n{}", suite.table(&reports)?);
    }
    for (what, on) in [("the contract is broken on", &broken), ("the suite could not run on", &untried)] {
        if !on.is_empty() {
            println!("{what}: {}", on.join(", "));
        }
    }
    let went_well = broken.is_empty() && untried.is_empty();
    if went_well && request.write_table {
        guarantees::write(root, &suite.table(&reports)?)?;
        println!("README.md and docs/guarantees.md now have their tables from these runs");
    }
    Ok(went_well)
}

impl Suite {
    /// Every backend's program, built with the same dependencies as the tests.
    pub(crate) fn among_all(workspace: &Workspace) -> Result<Self> {
        let selection = [cargo::AMONG_ALL, &["--bin", PROGRAM, "--test", TARGET], IN_REAL_TIME].concat();
        let mut suite = Self::empty(workspace)?;
        suite.build(workspace, &selection, &backend::called("all")?)?;
        Ok(suite)
    }

    /// The programs of these backends alone, for storms, which use the boot clock on every backend.
    pub(crate) fn for_storms(workspace: &Workspace, backends: &[&'static Backend]) -> Result<Self> {
        Self::with(workspace, backends, IN_REAL_TIME)
    }

    /// The programs of these backends alone: nothing is built that only another backend needs. A backend without a server
    /// is built with these flags.
    fn with(workspace: &Workspace, backends: &[&'static Backend], without_servers: &[&str]) -> Result<Self> {
        let mut suite = Self::empty(workspace)?;
        for backend in backends {
            let own = backend.selection("--test", TARGET);
            let selection: Vec<&str> = match backend.has_servers() {
                true => own.iter().map(String::as_str).chain(IN_REAL_TIME.iter().copied()).collect(),
                false => [QUICK_TO_BUILD, without_servers].concat(),
            };
            suite.build(workspace, &selection, &[*backend])?;
        }
        Ok(suite)
    }

    fn empty(workspace: &Workspace) -> Result<Self> {
        let folder = workspace.target.join("conformance");
        fs::create_dir_all(&folder).when(|| format!("make the folder {}", folder.display()))?;
        Ok(Self { programs: BTreeMap::new(), folder })
    }

    fn build(
        &mut self,
        workspace: &Workspace,
        selection: &[&str],
        backends: &[&'static Backend],
    ) -> Result<()> {
        let built = cargo::build_programs(&workspace.root, selection, |artifact| {
            [PROGRAM, TARGET].contains(&artifact.target.as_str())
        })?;
        for backend in backends {
            let (package, target) = match backend.has_servers() {
                true => (backend.package(), TARGET),
                false => ("tidelock-conformance".to_owned(), PROGRAM),
            };
            let folder = &workspace.package(&package)?.dir;
            let is_it = |artifact: &&Artifact| artifact.target == target && artifact.folder == *folder;
            let found =
                built.iter().find(is_it).ok_or_else(|| format!("cargo built no {target} of {package}"))?;
            let program = self.folder.join(backend.name).with_extension(std::env::consts::EXE_EXTENSION);
            let _ = fs::remove_file(&program); // a running program cannot be overwritten
            fs::copy(&found.executable, &program).when(|| format!("write {}", program.display()))?;
            self.programs.insert(backend.name, program);
        }
        Ok(())
    }

    /// The program of a backend.
    pub(crate) fn call(&self, backend: &Backend) -> Result<Call> {
        let program = self.programs.get(backend.name);
        Ok(Call::new(program.ok_or_else(|| format!("the suite was not built for {}", backend.name))?))
    }

    /// Any of the programs, for what does not depend on the backend.
    pub(crate) fn any(&self) -> Result<Call> {
        Ok(Call::new(self.programs.values().next().ok_or("the suite was built for no backend")?))
    }

    /// A run on a backend without a server, or on the user's own server.
    pub(crate) fn on(&self, backend: &Backend, url: Option<&str>, report: &Path) -> Result<Call> {
        let _ = fs::remove_file(report); // an old report must not be taken for this run's
        let url = url.map(|url| ["--url", url]).into_iter().flatten();
        Ok(self.call(backend)?.args(url).arg("--report").arg(report))
    }

    /// A run on servers started here. The call also gets the program that stops, pauses and starts them. Only when deep,
    /// or where the backend says so, it has crowds of thousands.
    pub(crate) fn on_loan(&self, backend: &Backend, loan: &Loan, report: &Path, deep: bool) -> Result<Call> {
        let call = self.on(backend, Some(loan.url()), report)?;
        let call = call.arg("--control").arg(place::own_program()?).args(["--deployment", loan.name()]);
        let is_crowded = deep || backend.crowded.contains(&loan.name());
        Ok(if is_crowded { call } else { call.arg("--without-crowds") })
    }

    /// The path of a run's report.
    pub(crate) fn report(&self, run: &str) -> PathBuf {
        self.folder.join(format!("{run}.json"))
    }

    /// The tables of guarantees from these reports, each between its markers.
    pub(crate) fn table(&self, reports: &[PathBuf]) -> Result<String> {
        Ok(self.any()?.arg("--table").args(reports).run()?.required()?.stdout)
    }
}

impl Request {
    /// None: only help is wanted.
    fn parse(mut flags: Parser) -> Result<Option<Self>> {
        let mut request = Self::default();
        while let Some(flag) = flags.next()? {
            match flag {
                Short('h') | Long("help") => return Ok(None),
                Long("backend") => request.backend = Some(flags.value()?.string()?),
                Long("deployment") => request.deployment = Some(flags.value()?.string()?),
                Long("url") => request.url = Some(flags.value()?.string()?),
                Long("report") => request.report = Some(flags.value()?.into()),
                Long("write-table") => request.write_table = true,
                Long("deep") => request.others.push(DEEP.into()),
                Long("real-time") => request.others.push(REAL_TIME.into()),
                Long("filter") => request.others.extend(["--filter".into(), flags.value()?]),
                Long("seed") => request.others.extend(["--seed".into(), flags.value()?]),
                Long("linger") => request.others.extend(["--linger".into(), flags.value()?]),
                Long("list") => request.tell("--list"),
                Long("prove") => request.tell("--prove"),
                Long("table") => {
                    request.tell("--table");
                    request.others.extend(flags.values()?);
                }
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(Some(request))
    }

    /// Whether this flag is passed on to the suite.
    fn passes_on(&self, flag: &str) -> bool {
        self.others.iter().any(|other| other == flag)
    }

    fn tell(&mut self, what: &str) {
        self.tells = true;
        self.others.push(what.into());
    }

    fn backends(&self) -> Result<Vec<&'static Backend>> {
        if self.write_table {
            let is_whole = self.backend.is_none()
                && self.deployment.is_none()
                && self.url.is_none()
                && self.others.is_empty();
            return if is_whole {
                backend::called("all")
            } else {
                Err("the tables need whole runs on all backends: use --write-table without other flags"
                    .into())
            };
        }
        let found = backend::called(self.backend.as_deref().unwrap_or("memory"))?;
        match &self.url {
            Some(_) if self.backend.as_deref() == Some("all") => {
                Err("a URL belongs to one backend: name it with --backend".into())
            }
            _ => Ok(found),
        }
    }
}

impl<'a> Run<'a> {
    /// All runs of a backend: on the server of the request, on every deployment, or on none.
    fn of(suite: &'a Suite, request: &'a Request, backend: &'static Backend) -> Vec<Self> {
        let run = |deployment| Run { suite, request, backend, deployment };
        match backend.deployments {
            deployments @ [_, ..] if request.url.is_none() => {
                let wanted =
                    |name: &&&str| request.deployment.as_deref().is_none_or(|wanted| wanted == **name);
                deployments.iter().filter(wanted).map(|deployment| run(Some(*deployment))).collect()
            }
            _ if request.deployment.is_some() && request.url.is_none() => Vec::new(),
            _ => vec![run(None)],
        }
    }

    fn name(&self) -> &'static str {
        self.deployment.unwrap_or(self.backend.name)
    }

    /// The path of its report. With several runs, it contains the run's name.
    fn report(&self, is_one_of_several: bool) -> PathBuf {
        match &self.request.report {
            None => self.suite.report(self.name()),
            Some(file) if !is_one_of_several => file.clone(),
            Some(file) => {
                let stem = file.file_stem().unwrap_or_default().to_string_lossy();
                file.with_file_name(format!("{stem}-{}.json", self.name()))
            }
        }
    }

    /// Runs the suite. Returns `HELD`, `BROKEN`, or another code if it could not be tested.
    fn play(&self, report: &Path) -> Result<Option<i32>> {
        let loan = self.deployment.map(Loan::of).transpose()?;
        let call = match &loan {
            Some(loan) => self.suite.on_loan(self.backend, loan, report, self.request.passes_on(DEEP))?,
            None => self.suite.on(self.backend, self.request.url.as_deref(), report)?,
        };
        call.args(&self.request.others).interactive_code()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Request {
        let words = std::iter::once("conformance").chain(line.split_whitespace());
        Request::parse(Parser::from_iter(words)).unwrap().unwrap()
    }

    #[test]
    fn what_is_the_suites_own_affair_is_passed_on() {
        let request = parse("--backend memory --filter reader --deep --seed 7 --linger 10");
        assert_eq!(request.others, ["--filter", "reader", "--deep", "--seed", "7", "--linger", "10"]);
        assert!(!request.tells && request.backends().unwrap().len() == 1);
        let request = parse("--table a.json b.json");
        assert!(request.tells);
        assert_eq!(request.others, ["--table", "a.json", "b.json"]);
    }

    #[test]
    fn a_table_of_half_a_run_is_not_written() {
        assert!(parse("--write-table").backends().is_ok());
        assert!(parse("--write-table --filter reader").backends().is_err());
        assert!(parse("--write-table --deployment redis").backends().is_err());
        assert!(parse("--backend stone-tablets").backends().is_err());
        assert!(parse("--backend all --url redis://localhost").backends().is_err());
    }
}
