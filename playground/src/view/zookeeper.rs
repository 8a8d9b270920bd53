//! ZooKeeper: an ephemeral node for each claim, in a container; a writer has two. The last number is the server's.

use tidelock_model::{Kind, Line};

use super::claims::id;

pub(super) fn line(name: &str, line: &Line, lines: &mut Vec<String>) {
    idle(name, lines);
    let letter = match line.kind {
        Kind::Mutex => 'm',
        Kind::RwLock => 'r',
        _ => 's',
    };
    for claim in &line.claims {
        let (weight, place) = (claim.weight.get(), claim.order - 1);
        let is_writer = line.kind == Kind::RwLock && weight > 1;
        let parts = if is_writer { &[1, weight - 1][..] } else { &[weight][..] };
        for (part, weight) in parts.iter().enumerate() {
            let number = if line.kind == Kind::RwLock { place * 2 + part as u64 } else { place };
            lines.push(format!("  {letter}-{}-{weight}-{}-{number:010}", id(claim.id), line.capacity));
        }
    }
}

/// The server deletes a container without children by and by.
pub(super) fn idle(name: &str, lines: &mut Vec<String>) {
    lines.push(format!("/tidelock/{name}  container"));
}
