//! Steps the wall clock of a server: `clock.c`, loaded before the server's own libraries, adds an offset that it reads
//! from a file. A write to the file steps the clock at once, without a restart. The monotonic clock does not change.
//!
//! If the library cannot be built, the server runs without it, and only stepping its clock is refused. (libfaketime
//! does not work: Debian's Redis aborts under it.)

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::preload;
use super::process::Process;
use crate::trouble::{Result, While};

const SOURCE: &str = include_str!("clock.c");
/// Tells the library the path of its offset.
const OFFSET: &str = "TIDELOCK_CLOCK";

/// Gives a server that is about to start a clock that can be stepped, with its offset in this folder, if the library
/// can be built.
pub(super) fn equip(home: &Path, folder: &Path, command: &mut Command) -> Result<()> {
    if let Ok(library) = library(home) {
        let file = folder.join("clock");
        fs::write(&file, 0_i64.to_ne_bytes()).when(|| format!("write {}", file.display()))?;
        command.env("LD_PRELOAD", library).env(OFFSET, file);
    }
    Ok(())
}

/// Sets a server's clock to the real time plus this offset. The offset stays when the server is restarted.
pub(super) fn set(home: &Path, process: &Process, offset_ms: i64) -> Result<()> {
    let refused = |why: &str| Err(format!("the clock of {} cannot be stepped: {why}", process.role).into());
    let Some(file) = process.recipe.env(OFFSET) else {
        return match library(home) {
            Err(why) => refused(&why.to_string()),
            Ok(_) => refused("it was started without the library for it"),
        };
    };
    if process.is_alive() && !maps(process.pid, file) {
        return refused("it did not load the library for it; its program may be linked statically");
    }
    write(file, offset_ms).when(|| format!("write {file}"))
}

/// Sets a stepped clock back to the real time.
pub(super) fn heal(process: &Process) -> Result<()> {
    match process.recipe.env(OFFSET) {
        Some(file) => write(file, 0).when(|| format!("write {file}")),
        None => Ok(()),
    }
}

/// Writes in place and in one piece, because the server may read it at this moment.
fn write(file: &str, offset_ms: i64) -> std::io::Result<()> {
    OpenOptions::new().write(true).open(file)?.write_all(&offset_ms.to_ne_bytes())
}

fn maps(pid: u32, file: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains(file))
}

fn library(home: &Path) -> Result<PathBuf> {
    preload::library(home, "clock", SOURCE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Scratch;
    use crate::servers::recipe::Recipe;

    /// A process that prints its clock, compared with the real time, in seconds.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_step_is_seen_at_once_and_taken_back() {
        let home = Scratch::new("clock").unwrap();
        let mut command = Command::new("date");
        equip(home.path(), home.path(), command.arg("+%s").current_dir(home.path())).unwrap();
        let recipe = Recipe::of(&command);
        let process = Process { role: "date".into(), port: 0, pid: 0, birth: String::new(), recipe };
        let ahead = || {
            let said = process.recipe.command().output().unwrap().stdout;
            let said: i64 = String::from_utf8(said).unwrap().trim().parse().unwrap();
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
            said - i64::try_from(since.as_secs()).unwrap()
        };
        set(home.path(), &process, 100_000).unwrap();
        assert!((95..=100).contains(&ahead()));
        set(home.path(), &process, -100_500).unwrap();
        assert!((-110..=-100).contains(&ahead()));
        heal(&process).unwrap();
        assert!((-5..=0).contains(&ahead()));
    }

    #[test]
    fn a_clock_that_cannot_be_stepped_is_refused() {
        let home = Scratch::new("clock-refused").unwrap();
        let process = Process {
            role: "server".into(),
            port: 0,
            pid: 0,
            birth: String::new(),
            recipe: Recipe::default(),
        };
        let trouble = set(home.path(), &process, 1).unwrap_err().to_string();
        assert!(trouble.starts_with("the clock of server cannot be stepped: "), "{trouble}");
    }
}
