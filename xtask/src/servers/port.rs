//! Finds free ports of 127.0.0.1.
//!
//! They are below the range that systems use for outgoing connections, so that no such connection can take one between
//! our check and the server's start. A node of a Redis cluster also uses its port + 10 000.

use std::net::{Ipv4Addr, TcpListener};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::trouble::Result;

const FIRST: u16 = 11_000;
const COUNT: u16 = 11_000;
/// The distance between the port of a Redis cluster node and its bus port.
const BUS: u16 = 10_000;

/// `N` different free ports.
pub(super) fn free<const N: usize>() -> Result<[u16; N]> {
    // Starts elsewhere each time, so that a port that was just released is not reused at once.
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    let start = u16::try_from(nanos / 1000 % u32::from(COUNT)).unwrap_or(0);
    let mut candidates = (0..COUNT).map(|step| FIRST + (start + step) % COUNT).filter(|&port| is_free(port));
    let mut ports = [0; N];
    for port in &mut ports {
        *port = candidates.next().ok_or("no free port is left on 127.0.0.1 between 11000 and 22000")?;
    }
    Ok(ports)
}

fn is_free(port: u16) -> bool {
    [port, port + BUS].iter().all(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_use_are_passed_over() {
        let [a, b, c] = free().unwrap();
        assert!(a != b && b != c && a != c);
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, a)).unwrap();
        assert!(!is_free(a));
    }
}
