//! What the names protect: a register for each, fenced, which every process of a storm writes to.
//!
//! A register is a file that holds the newest token that it has seen. Whoever writes takes the file's own lock for the
//! moment, so that to compare and to write is one step; a process that is stopped in that moment delays others' writes
//! to that register, and those are then not made.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidelock::State;

use crate::Hold;
use crate::history::{Author, Recorder, What};

/// How often a register is tried that somebody else writes to, and after how long.
const TRIES: u32 = 50;
const GLANCE: Duration = Duration::from_millis(1);

/// All of one round.
#[derive(Debug)]
pub(super) struct Registers {
    folder: PathBuf,
    /// One write at a time in this process.
    turn: tokio::sync::Mutex<()>,
}

impl Registers {
    /// Those that lie in this folder.
    pub(super) fn in_folder(folder: &Path) -> std::io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_owned(), turn: tokio::sync::Mutex::default() })
    }

    /// Writes to a name's register as whoever holds it, if the hold can be trusted and the register is to be had.
    pub(super) async fn write(&self, recorder: &Recorder, hold: &Hold) -> std::io::Result<()> {
        let author = hold.author();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.folder.join(author.name.replace(' ', "-")))?;
        let _turn = self.turn.lock().await;
        for _ in 0..TRIES {
            if is_ours(&file)? {
                return write_to(file, recorder, author, hold);
            }
            tokio::time::sleep(GLANCE).await;
        }
        Ok(())
    }
}

/// The file's lock ends with the file.
fn write_to(mut file: File, recorder: &Recorder, author: &Author, hold: &Hold) -> std::io::Result<()> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let newest: u64 = text.trim().parse().unwrap_or(0);
    let token = hold.token().get();
    let at = recorder.now(); // before the guard is asked
    if hold.state() == State::Lost {
        return Ok(());
    }
    let accepted = token >= newest;
    if accepted {
        file.seek(SeekFrom::Start(0))?;
        write!(file, "{token:020}")?;
    }
    recorder.note_since(author, What::Wrote { token, accepted }, at);
    Ok(())
}

/// Takes the file's lock, unless another process has it.
#[cfg(unix)]
fn is_ours(file: &File) -> std::io::Result<bool> {
    use rustix::fs::{FlockOperation, flock};
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// There are no other processes here.
#[cfg(not(unix))]
fn is_ours(_: &File) -> std::io::Result<bool> {
    Ok(true)
}
