//! Runs another program until it ends or reaches its time limit.
//!
//! One thread reads each of its outputs, line by line, so that the lines can be shown as they come and searched later,
//! and so that a full pipe cannot block the program. At the limit, the program and all its descendants are ended: a
//! test that hangs is a grandchild, below the cargo that we started.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::progress;
use crate::trouble::{Result, Trouble, While};

/// How often a running program is checked while it prints nothing.
const GLANCE: Duration = Duration::from_millis(50);

/// How long to wait for the pipes of a program that has ended: a process that it left behind may hold them.
const GRACE: Duration = Duration::from_secs(2);

/// Which part of a program's output is shown while it runs.
#[derive(Clone, Copy)]
pub(crate) enum Show {
    Nothing,
    Everything,
    /// Only its stderr: its stdout is read by this program.
    Stderr,
    /// Lines for which the function is true.
    Some(fn(&str) -> bool),
}

/// A program about to be run.
pub(crate) struct Call {
    command: Command,
    limit: Duration,
    show: Show,
}

/// How a call ended.
pub(crate) struct Outcome {
    /// None: it reached its time limit.
    status: Option<ExitStatus>,
    /// Its stdout alone.
    pub(crate) stdout: String,
    /// Both outputs, in the order of their lines.
    pub(crate) text: String,
    shown: String,
    limit: Duration,
}

struct Line {
    text: String,
    stdout: bool,
}

impl Call {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command, limit: Duration::from_secs(600), show: Show::Nothing }
    }

    pub(crate) fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    pub(crate) fn args<I: IntoIterator<Item: AsRef<OsStr>>>(mut self, args: I) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    pub(crate) fn without_env(mut self, key: &str) -> Self {
        self.command.env_remove(key);
        self
    }

    pub(crate) fn dir(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    pub(crate) fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    pub(crate) fn show(mut self, show: Show) -> Self {
        self.show = show;
        self
    }

    /// Gives the program our own terminal: to ask the user (sudo's password), or for output of its own.
    pub(crate) fn interactive(self) -> Result<bool> {
        self.interactive_code().map(|code| code == Some(0))
    }

    /// The same, and returns the program's exit code. None: it was ended by a signal.
    pub(crate) fn interactive_code(mut self) -> Result<Option<i32>> {
        self.command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
        let mut child = self.command.spawn().map_err(|error| cannot_start(&self.command, &error))?;
        let status = child.wait().when(|| format!("wait for {}", shown(&self.command)))?;
        Ok(status.code())
    }

    pub(crate) fn run(mut self) -> Result<Outcome> {
        let mut child = self.command.spawn().map_err(|error| cannot_start(&self.command, &error))?;
        let (send, lines) = channel();
        read(child.stdout.take(), true, send.clone());
        read(child.stderr.take(), false, send);

        let mut outcome = Outcome {
            status: None,
            stdout: String::new(),
            text: String::new(),
            shown: shown(&self.command),
            limit: self.limit,
        };
        outcome.status = follow(&mut child, &lines, self.limit, |line| {
            outcome.take(&line, self.show);
        })
        .when(|| format!("wait for {}", shown(&self.command)))?;
        progress::clear();
        Ok(outcome)
    }
}

impl Show {
    fn likes(self, line: &Line) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::Stderr => !line.stdout,
            Self::Some(likes) => likes(&line.text),
        }
    }
}

impl Outcome {
    pub(crate) fn success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    pub(crate) fn timed_out(&self) -> bool {
        self.status.is_none()
    }

    /// Success, or a sentence about the failure.
    pub(crate) fn required(self) -> Result<Self> {
        if self.success() { Ok(self) } else { Err(self.trouble()) }
    }

    /// A sentence about the failure.
    pub(crate) fn trouble(&self) -> Trouble {
        match self.status {
            None => format!("{} was ended: it ran longer than {} s", self.shown, self.limit.as_secs()),
            Some(status) => format!("{} failed ({status})", self.shown),
        }
        .into()
    }

    /// The last lines of both outputs, indented, for a report.
    pub(crate) fn tail(&self, lines: usize) -> String {
        self.tail_of(lines, |_| true)
    }

    /// The last of those lines for which the function is true.
    pub(crate) fn tail_of(&self, lines: usize, is_wanted: impl Fn(&str) -> bool) -> String {
        let all: Vec<&str> = self.text.lines().filter(|line| is_wanted(line)).collect();
        all[all.len().saturating_sub(lines)..].iter().map(|line| format!("      {line}\n")).collect()
    }

    fn take(&mut self, line: &Line, show: Show) {
        progress::note(&line.text);
        if show.likes(line) {
            progress::say(&line.text);
        }
        self.text.push_str(&line.text);
        self.text.push('\n');
        if line.stdout {
            self.stdout.push_str(&line.text);
            self.stdout.push('\n');
        }
    }
}

/// Passes on every line until the program has ended; ends the program at its time limit.
fn follow(
    child: &mut Child,
    lines: &Receiver<Line>,
    limit: Duration,
    mut take: impl FnMut(Line),
) -> std::io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    let mut ended: Option<Instant> = None;
    loop {
        progress::tick();
        match lines.recv_timeout(GLANCE) {
            Ok(line) => take(line),
            Err(RecvTimeoutError::Disconnected) if ended.is_some() => break,
            Err(RecvTimeoutError::Disconnected) => thread::sleep(GLANCE),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if ended.is_none() && child.try_wait()?.is_some() {
            ended = Some(Instant::now());
        }
        if ended.is_some_and(|at| at.elapsed() > GRACE) {
            break;
        }
        if ended.is_none() && start.elapsed() > limit {
            end_tree(child);
            return Ok(None);
        }
    }
    child.wait().map(Some)
}

fn read(pipe: Option<impl Read + Send + 'static>, stdout: bool, to: Sender<Line>) {
    let Some(pipe) = pipe else { return };
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n') {
            let Ok(line) = line else { return };
            let text = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
            if to.send(Line { text, stdout }).is_err() {
                return;
            }
        }
    });
}

/// Ends a child and every process below it. The child is ended first, so that it starts no more.
fn end_tree(child: &mut Child) {
    let below = descendants(child.id());
    let _ = child.kill();
    if cfg!(windows) {
        let pid = child.id().to_string();
        let _ = Command::new("taskkill").args(["/T", "/F", "/PID", &pid]).output();
    } else if !below.is_empty() {
        let _ = Command::new("kill").arg("-KILL").args(below.iter().map(u32::to_string)).output();
    }
    let _ = child.wait();
}

fn descendants(root: u32) -> Vec<u32> {
    let Ok(table) = Command::new("ps").args(["-A", "-o", "pid=,ppid="]).output() else {
        return Vec::new();
    };
    below(root, &String::from_utf8_lossy(&table.stdout))
}

/// All processes below `root` in a table of lines `pid parent`.
fn below(root: u32, table: &str) -> Vec<u32> {
    let pairs: Vec<(u32, u32)> = table
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
        })
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(pairs.iter().filter(|(pid, of)| *of == parent && *pid != parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Trouble {
    let program = Path::new(command.get_program()).display();
    match error.kind() {
        ErrorKind::NotFound if command.get_program() == "rustup" => {
            "`rustup` is missing: install it from https://rustup.rs".into()
        }
        ErrorKind::NotFound => {
            format!("`{program}` is missing: install it with `cargo xtask setup`, or by hand").into()
        }
        _ => format!("cannot start `{program}`: {error}").into(),
    }
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    format!("`{}`", line.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_at_any_depth_and_nobody_else() {
        let table = "  1 0\n 10 1\n 11 10\n 12 11\n 20 1\n 13 10\n";
        assert_eq!(below(10, table), [11, 13, 12]);
    }

    #[test]
    #[cfg(unix)]
    fn a_program_that_hangs_is_ended_with_its_children() {
        let started = Instant::now();
        let call = Call::new("sh").args(["-c", "echo first; sleep 60 & wait"]);
        let outcome = call.limit(Duration::from_millis(200)).run().unwrap();
        assert!(outcome.timed_out());
        assert_eq!(outcome.stdout, "first\n");
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_missing_program_is_one_sentence() {
        let trouble = Call::new("tidelock-has-no-such-program").run().err().unwrap().to_string();
        assert!(trouble.starts_with("`tidelock-has-no-such-program` is missing"), "{trouble}");
    }
}
