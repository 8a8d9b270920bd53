//! What is known of a deployment between two calls of xtask: a small text file under `.tidelock/servers`.
//!
//! One `folder` line, one `process` line each (role, port, pid, birth), and a `url` line once it serves. It is
//! written anew after each process starts, so that a caller who is killed half-way leaves nothing unknown.

use std::fmt::Write as _;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::process::Process;
use crate::place;
use crate::trouble::{Result, While};

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    pub(super) processes: Vec<Process>,
    /// Empty until the deployment serves.
    pub(super) url: String,
}

impl State {
    /// None: nothing of this name was started, or it was stopped.
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

    /// Removes the data and then the state itself.
    pub(super) fn forget(&self, home: &Path) -> Result<()> {
        // Only a folder that we can have made: a state file that someone edited removes nothing else.
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
            let Process { role, port, pid, birth } = process;
            let _ = writeln!(text, "process {role} {port} {pid} {birth}");
        }
        if !self.url.is_empty() {
            let _ = writeln!(text, "url {}", self.url);
        }
        text
    }

    /// Lines that make no sense are passed over: what they named cannot be verified, so it is not touched.
    fn parse(name: &str, text: &str) -> Self {
        let mut state = Self { name: name.to_owned(), ..Self::default() };
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("folder", path)) => state.folder = path.into(),
                Some(("url", url)) => url.clone_into(&mut state.url),
                Some(("process", words)) => state.processes.extend(process(words)),
                _ => {}
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back() {
        let process = Process { role: "replica-1".into(), port: 11_001, pid: 77, birth: "Mon Nov 3".into() };
        let state = State {
            name: "redis-sentinel".into(),
            folder: "/tmp/with a space/tidelock-x".into(),
            processes: vec![process],
            url: "redis://127.0.0.1:11001".into(),
        };
        assert_eq!(State::parse("redis-sentinel", &state.print()), state);
    }

    #[test]
    fn nonsense_names_no_process() {
        assert_eq!(State::parse("etcd", "process member eleven 1 2\nprocess\n").processes, []);
    }
}
