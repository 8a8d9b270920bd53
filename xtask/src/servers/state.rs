//! The state of a deployment between two calls of xtask: a small text file in `.tidelock/servers`.
//!
//! It has one `folder` line; for each process a `process` line (role, port, pid, birth), and below it how it was
//! started: `program`, `arg`, `env` and `in` lines; a `url` line once it serves; and a `lent` line if it was started
//! for one run only. It is rewritten after each process starts, so that a killed caller leaves no unknown process
//! behind.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::port;
use super::process::Process;
use super::recipe::Recipe;
use crate::place;
use crate::trouble::{Result, While};

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    pub(super) processes: Vec<Process>,
    /// Empty until the deployment serves.
    pub(super) url: String,
    /// Started for one run, and stopped after it.
    pub(super) lent: bool,
}

impl State {
    /// None: it was never started, or it was stopped.
    pub(super) fn load(home: &Path, name: &str) -> Result<Option<Self>> {
        let file = home.join(name);
        match fs::read_to_string(&file) {
            Ok(text) => Ok(Some(Self::parse(name, &text))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("cannot read {}: {error}", file.display()).into()),
        }
    }

    pub(super) fn save(&self, home: &Path) -> Result<()> {
        let file = home.join(&self.name);
        let draft = home.join(format!("{}.draft", self.name));
        place::write(&draft, &self.print())?;
        fs::rename(&draft, &file).when(|| format!("write {}", file.display()))
    }

    /// Held only while this deployment's processes are started or ended, not while they run. The system releases it
    /// however this process ends.
    pub(super) fn lock(home: &Path, name: &str) -> Result<File> {
        let file = super::lock_file(&home.join(format!("{name}.lock")))?;
        file.lock().when(|| format!("lock the state of {name}"))?;
        Ok(file)
    }

    pub(super) fn process(&self, role: &str) -> Result<&Process> {
        let roles: Vec<&str> = self.processes.iter().map(|process| process.role.as_str()).collect();
        self.processes.iter().find(|process| process.role == role).ok_or_else(|| {
            format!("{} has no member `{role}`; it has: {}", self.name, roles.join(", ")).into()
        })
    }

    /// Starts a process again as before if it is down. A running one is left alone.
    pub(super) fn start(&mut self, role: &str) -> Result<()> {
        let old = self.process(role)?;
        if old.is_alive() {
            return Ok(());
        }
        let new = Process::spawn(role, old.port, old.recipe.clone(), &self.log(role))?;
        let new = new.ok_or_else(|| format!("{role} ended at once:\n{}", self.log_tail(role)))?;
        self.processes.iter_mut().filter(|process| process.role == role).for_each(|old| *old = new.clone());
        Ok(())
    }

    /// The log of the process with this role.
    pub(super) fn log(&self, role: &str) -> PathBuf {
        self.folder.join(format!("{role}.log"))
    }

    /// The end of the log, indented, for an error message.
    pub(super) fn log_tail(&self, role: &str) -> String {
        let bytes = fs::read(self.log(role)).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(8)..];
        last.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
    }

    /// Removes the data, and then the state itself.
    pub(super) fn forget(&self, home: &Path) -> Result<()> {
        port::give_back(&self.folder)?;
        // Removes only a folder with our prefix, in case the state file was edited.
        let ours =
            self.folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("tidelock-"));
        if ours && self.folder.exists() {
            fs::remove_dir_all(&self.folder).when(|| format!("remove {}", self.folder.display()))?;
        }
        let file = home.join(&self.name);
        fs::remove_file(&file).when(|| format!("remove {}", file.display()))
    }

    fn print(&self) -> String {
        let mut text = format!("folder {}\n", self.folder.display());
        for process in &self.processes {
            let Process { role, port, pid, birth, recipe } = process;
            let _ = writeln!(text, "process {role} {port} {pid} {birth}");
            text.push_str(&print(recipe));
        }
        if !self.url.is_empty() {
            let _ = writeln!(text, "url {}", self.url);
        }
        if self.lent {
            text.push_str("lent\n");
        }
        text
    }

    /// Bad lines are skipped: a process that they name cannot be verified, so it is not touched.
    fn parse(name: &str, text: &str) -> Self {
        let mut state = Self { name: name.to_owned(), ..Self::default() };
        for line in text.lines() {
            if line == "lent" {
                state.lent = true;
            }
            match line.split_once(' ') {
                Some(("folder", path)) => state.folder = path.into(),
                Some(("url", url)) => url.clone_into(&mut state.url),
                Some(("process", words)) => state.processes.extend(process(words)),
                Some((key, value)) => {
                    if let Some(last) = state.processes.last_mut() {
                        note(&mut last.recipe, key, value);
                    }
                }
                None => {}
            }
        }
        state
    }
}

fn process(words: &str) -> Option<Process> {
    let mut words = words.splitn(4, ' ');
    Some(Process {
        role: words.next()?.to_owned(),
        port: words.next()?.parse().ok()?,
        pid: words.next()?.parse().ok()?,
        birth: words.next()?.to_owned(),
        recipe: Recipe::default(),
    })
}

/// One line each: no argument of a process that xtask starts contains a line break.
fn print(recipe: &Recipe) -> String {
    let mut text = format!("program {}\n", recipe.program);
    for arg in &recipe.args {
        let _ = writeln!(text, "arg {arg}");
    }
    for (key, value) in &recipe.env {
        let _ = writeln!(text, "env {key}={value}");
    }
    let _ = writeln!(text, "in {}", recipe.folder.display());
    text
}

fn note(recipe: &mut Recipe, key: &str, value: &str) {
    match key {
        "program" => value.clone_into(&mut recipe.program),
        "arg" => recipe.args.push(value.to_owned()),
        "env" => {
            recipe.env.extend(value.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())));
        }
        "in" => recipe.folder = value.into(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back() {
        let recipe = Recipe {
            program: "/usr/bin/redis-server".into(),
            args: ["--save", "", "--bind", "127.0.0.1"].map(str::to_owned).into(),
            env: vec![("CLOCK".into(), "/tmp/with = and a space".into())],
            folder: "/tmp/with a space/tidelock-x/replica-1".into(),
        };
        let birth = "Mon Nov 3".to_owned();
        let process = Process { role: "replica-1".into(), port: 11_001, pid: 77, birth, recipe };
        let state = State {
            name: "redis-sentinel".into(),
            folder: "/tmp/with a space/tidelock-x".into(),
            processes: vec![process.clone(), Process { role: "replica-2".into(), ..process }],
            url: "redis://127.0.0.1:11001".into(),
            lent: true,
        };
        assert_eq!(State::parse("redis-sentinel", &state.print()), state);
        assert_eq!(state.process("replica-2").unwrap().pid, 77);
        let trouble = state.process("replica-3").unwrap_err().to_string();
        assert_eq!(trouble, "redis-sentinel has no member `replica-3`; it has: replica-1, replica-2");
    }

    #[test]
    #[cfg(unix)]
    fn a_process_that_is_down_is_started_as_it_was_and_one_that_is_up_stays() {
        let folder = crate::place::Scratch::new("state").unwrap();
        let mut state = State { folder: folder.path().to_owned(), ..State::default() };
        let mut command = std::process::Command::new("sleep");
        let recipe = Recipe::of(command.arg("60").current_dir(folder.path()));
        let first = Process::spawn("sleeper", 7, recipe, &state.log("sleeper")).unwrap().unwrap();
        state.processes.push(first.clone());
        state.start("sleeper").unwrap();
        assert_eq!(state.process("sleeper").unwrap(), &first);
        first.kill().unwrap();
        state.start("sleeper").unwrap();
        let second = state.process("sleeper").unwrap();
        assert!(second.is_alive() && !first.is_alive());
        assert_eq!((second.port, &second.recipe), (7, &first.recipe));
        second.kill().unwrap();
    }

    #[test]
    fn nonsense_names_no_process() {
        assert_eq!(State::parse("etcd", "process member eleven 1 2\nprocess\n").processes, []);
    }
}
