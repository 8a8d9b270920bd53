//! Finds free ports of 127.0.0.1.
//!
//! They are below the range that systems use for outgoing connections, so that no such connection can take one between
//! our check and the server's start. A node of a Redis cluster also uses its port + 10 000.
//!
//! A server that is being restarted does not listen for a moment. So that no other run on this machine takes its port
//! then, a file below the system's temporary folder reserves each port for one deployment's folder. A reservation whose
//! folder is gone does not count.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::trouble::{Result, While};

const FIRST: u16 = 11_000;
const COUNT: u16 = 10_000;
/// The distance between the port of a Redis cluster node and its bus port.
const BUS: u16 = 10_000;
// Bus ports have no reservations, so none may be a port that is given out.
const _: () = assert!(COUNT <= BUS);

/// `N` different free ports, reserved for the deployment with this folder.
pub(super) fn free<const N: usize>(folder: &Path) -> Result<[u16; N]> {
    // Starts elsewhere each time, so that a port that was just released is not reused at once.
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    let start = u16::try_from(nanos / 1000 % u32::from(COUNT)).unwrap_or(0);
    let mut candidates = (0..COUNT).map(|step| FIRST + (start + step) % COUNT);
    let mut ports = [0; N];
    for port in &mut ports {
        *port = loop {
            let candidate = candidates.next();
            let candidate = candidate.ok_or("no free port is left on 127.0.0.1 between 11000 and 21000")?;
            // Reserved first: the check itself listens for a moment.
            if reserve(candidate, folder)? && is_free(candidate) {
                break candidate;
            }
        };
    }
    Ok(ports)
}

/// Ends the reservations for this folder.
pub(super) fn give_back(folder: &Path) -> Result<()> {
    let Ok(all) = fs::read_dir(reservations()) else {
        return Ok(());
    };
    for file in all.filter_map(|entry| Some(entry.ok()?.path())) {
        if owner(&file).is_some_and(|owner| owner == folder) {
            remove(&file)?;
        }
    }
    Ok(())
}

/// Whether this port is now reserved for this folder alone.
fn reserve(port: u16, folder: &Path) -> Result<bool> {
    let file = reservations().join(port.to_string());
    if owner(&file).is_some_and(|owner| !owner.exists()) {
        remove(&file)?;
    }
    // A link appears with its content or not at all, unlike a file that is created and then written.
    let draft = folder.join(format!("port-{port}"));
    fs::create_dir_all(reservations()).when(|| format!("make the folder {}", reservations().display()))?;
    fs::write(&draft, folder.as_os_str().as_encoded_bytes()).when(|| format!("write {}", draft.display()))?;
    let linked = fs::hard_link(&draft, &file);
    remove(&draft)?;
    match linked {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        // The folder is another user's: their runs and ours do not know of each other.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(true),
        Err(error) => Err(error).when(|| format!("reserve a port by {}", file.display())),
    }
}

/// The folder for which this file reserves its port.
fn owner(file: &Path) -> Option<PathBuf> {
    fs::read_to_string(file).ok().map(PathBuf::from)
}

fn remove(file: &Path) -> Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).when(|| format!("remove {}", file.display()))
        }
        _ => Ok(()),
    }
}

fn reservations() -> PathBuf {
    std::env::temp_dir().join("tidelock-ports")
}

fn is_free(port: u16) -> bool {
    is_unused(port) && is_unused(port + BUS)
}

/// Whether nobody listens there.
pub(super) fn is_unused(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Scratch;

    #[test]
    fn ports_in_use_are_passed_over() {
        let scratch = Scratch::new("ports").unwrap();
        let [a, b, c] = free(scratch.path()).unwrap();
        assert!(a != b && b != c && a != c);
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, a)).unwrap();
        assert!(!is_free(a));
        give_back(scratch.path()).unwrap();
    }

    #[test]
    fn a_port_is_reserved_while_its_server_is_down() {
        let [mine, others] = [(); 2].map(|()| Scratch::new("reserved").unwrap());
        let [port] = free(mine.path()).unwrap();
        assert!(!reserve(port, others.path()).unwrap(), "nobody listens, but it is taken");
        give_back(others.path()).unwrap();
        assert!(!reserve(port, others.path()).unwrap());
        give_back(mine.path()).unwrap();
        assert!(reserve(port, others.path()).unwrap());
        drop(others);
        assert!(reserve(port, mine.path()).unwrap(), "the folder of that reservation is gone");
        give_back(mine.path()).unwrap();
    }
}
