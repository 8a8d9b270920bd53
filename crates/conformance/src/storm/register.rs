//! The resources that the names protect: one fenced register for each name. Every process of a storm writes to it.
//!
//! A register is a file that contains the newest token it has seen. A writer takes the file's own lock for a moment,
//! so that comparing and writing is one step. If a process is stopped in that moment, other writes to that register
//! wait for a while and are then skipped.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidelock_core::State;

use crate::Hold;
use crate::history::{Author, EventKind, Recorder};

/// How often to try a register that another process is writing to, and the pause between tries.
const TRIES: u32 = 50;
const GLANCE: Duration = Duration::from_millis(1);

/// All registers of one round.
#[derive(Debug)]
pub(super) struct Registers {
    folder: PathBuf,
    /// One write at a time in this process.
    turn: tokio::sync::Mutex<()>,
}

impl Registers {
    /// The registers in this folder.
    pub(super) fn in_folder(folder: &Path) -> std::io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_owned(), turn: tokio::sync::Mutex::default() })
    }

    /// Writes to a name's register as its holder, if the hold can be trusted and the register is not busy.
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

/// The file's lock ends when the file is closed.
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
    recorder.note_since(author, EventKind::Wrote { token, accepted }, at);
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

/// On this system there are no other processes.
#[cfg(not(unix))]
fn is_ours(_: &File) -> std::io::Result<bool> {
    Ok(true)
}
