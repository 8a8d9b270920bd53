//! etcd: a key for each claim, on its client's lease; a writer has two. The line is the order of their revisions.

use tidelock_model::{Kind, Line};

use super::claims::{id, whose};

pub(super) fn line(name: &str, line: &Line, lines: &mut Vec<String>) {
    for claim in &line.claims {
        let what = match line.kind {
            Kind::Mutex => "m".to_owned(),
            Kind::RwLock => "r".to_owned(),
            _ => format!("s{}.{}", line.capacity, claim.weight),
        };
        let (key, lease) = (format!("tidelock/{name}/{}-{what}", id(claim.id)), whose(claim));
        lines.push(format!("{key}  revision {}, lease of {lease}", claim.order));
        if line.kind == Kind::RwLock && claim.weight.get() > 1 {
            lines.push(format!("{key}+  revision {}, lease of {lease}", claim.order));
        }
    }
}

/// What names no line: each client's label.
pub(super) fn sessions(sessions: &[String], lines: &mut Vec<String>) {
    lines.extend(sessions.iter().map(|who| format!("tidelock//{who}/label  lease of {who}")));
}
