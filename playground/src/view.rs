//! What the store keeps at a moment, in that store's own words: the keys of Redis, the nodes of ZooKeeper, the keys of
//! etcd, the rows of MySQL. A client's number stands where the store has the hex digits of its session.
//!
//! `kept/*.txt` has what each store keeps after some operations, in these words. A test here compares it with this view,
//! and a test in the store's crate with what a real server holds after the same operations.

mod claims;
mod etcd;
mod mysql;
mod redis;
mod zookeeper;

use crate::client::name as client;
use crate::ids::owner;
use crate::machine::Machine;
use crate::policy::Policy;
use crate::server::Server;
use crate::settings::{Flavour, Settings, joined};

/// One line of text for each thing that is kept.
pub(crate) fn lines(settings: &Settings, machine: &Machine) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, server) in machine.servers.iter().enumerate() {
        if machine.servers.len() > 1 {
            lines.push(format!("master {}", number + 1));
        }
        if server.down_until > machine.now {
            lines.push("(down)".to_owned());
        }
        if settings.policy.has_line() {
            of_lines(settings, server, &mut lines);
        } else if !settings.policy.is_bare() {
            of_key(settings, server, &mut lines);
        }
    }
    if lines.is_empty() {
        lines.push("(nothing)".to_owned());
    }
    lines
}

fn of_lines(settings: &Settings, server: &Server, lines: &mut Vec<String>) {
    for (name, line) in server.world.lines() {
        let has_waited = server.has_waited(*name);
        let name = if settings.segments > 1 {
            format!("stock:42/{name}")
        } else {
            ["stock:42", "stock:43"][usize::from(*name) % 2].to_owned()
        };
        match settings.flavour {
            Flavour::Push => redis::line(&name, line, server.newest(), lines),
            Flavour::Watch => zookeeper::line(&name, line, lines),
            Flavour::Range => etcd::line(&name, line, lines),
            Flavour::Poll => mysql::line(&name, line, has_waited, lines),
        }
    }
    if server.world.lines().next().is_none() {
        match settings.flavour {
            Flavour::Push if server.newest() > 0 => redis::idle("stock:42", server.newest(), lines),
            Flavour::Watch if server.newest() > 0 => zookeeper::idle("stock:42", lines),
            Flavour::Poll if server.newest() > 0 => mysql::idle("stock:42", server.newest(), lines),
            _ => {}
        }
    }
    let sessions = server.world.sessions().filter(|(_, session)| session.until() > server.world.now());
    let sessions: Vec<String> = sessions.map(|(id, _)| client(owner(id))).collect();
    match settings.flavour {
        Flavour::Range => etcd::sessions(&sessions, lines),
        Flavour::Poll => mysql::sessions(&sessions, lines),
        Flavour::Push | Flavour::Watch => {} // Redis has a lifetime in each entry, ZooKeeper its own sessions
    }
}

fn of_key(settings: &Settings, server: &Server, lines: &mut Vec<String>) {
    let key = &server.key;
    if let Some(owner) = key.owner {
        let value =
            if settings.policy == Policy::ThreadId { "thread 1".to_owned() } else { settings.name(owner) };
        let ttl = key.until.map_or_else(
            || "no ttl".to_owned(),
            |until| format!("ttl {} ms", until.saturating_sub(server.world.now() as u32)),
        );
        let name = if settings.policy == Policy::Herd { "/lock" } else { "lock:stock:42" };
        lines.push(format!("{name} = \"{value}\"  {ttl}"));
    }
    if !key.readers.all().is_empty() {
        let readers: Vec<String> = key.readers.all().iter().map(|who| settings.name(*who)).collect();
        lines.push(format!("readers = {}", joined(&readers, " ")));
    }
    if !key.watchers.all().is_empty() {
        lines.push(format!("watches: {}", key.watchers.all().len()));
    }
}

#[cfg(test)]
mod tests {
    use tidelock_model::{ClaimId, Join, Kind, Leave, Op, Patience, SessionId, Weight};

    use super::*;

    /// What a line of a scene asks for.
    fn step(server: &mut Server, kind: Kind, capacity: Weight, words: &[&str]) {
        let number = |word: &str| word.trim_start_matches('c').parse::<u64>().unwrap();
        let session = SessionId::from_bits(number(words[0]) - 1); // as the simulation numbers them
        let id = ClaimId { session, number: 1 };
        if words[1] == "leaves" {
            server.step(Op::Leave { name: 0, id, how: Leave::Done });
            return;
        }
        server.step(Op::Open { session, ttl: 1000 });
        let weight = match words.get(3) {
            Some(&"write") => Weight::MAX,
            Some(permits) => permits.parse().ok().and_then(Weight::new).unwrap_or(Weight::ONE),
            None => Weight::ONE,
        };
        server.step(Op::Join(Join { name: 0, id, kind, weight, capacity, patience: Patience::Wait }));
    }

    #[test]
    fn each_store_keeps_what_is_written_down() {
        for (flavour, text) in [
            ("push", include_str!("../kept/redis.txt")),
            ("watch", include_str!("../kept/zookeeper.txt")),
            ("range", include_str!("../kept/etcd.txt")),
            ("poll", include_str!("../kept/mysql.txt")),
        ] {
            let settings = Settings::read(&format!("v2;policy=line;flavour={flavour}")).unwrap();
            let scenes = text.split("\n\n").filter(|scene| !scene.starts_with('#'));
            assert!(scenes.clone().count() > 5);
            for scene in scenes {
                let (head, rest) = scene.split_once('\n').unwrap();
                let (kind, capacity) = match head.split(' ').collect::<Vec<_>>()[..] {
                    ["mutex:", ..] => (Kind::Mutex, Weight::ONE),
                    ["read-write", ..] => (Kind::RwLock, Weight::MAX),
                    ["semaphore", "of", "three:", ..] => (Kind::Semaphore, Weight::new(3).unwrap()),
                    _ => panic!("{head}"),
                };
                let mut server = Server::new();
                let mut wanted = Vec::new();
                for line in rest.lines() {
                    match line.strip_prefix("> ") {
                        Some(words) => {
                            step(&mut server, kind, capacity, &words.split(' ').collect::<Vec<_>>());
                        }
                        None => wanted.push(line.to_owned()),
                    }
                }
                let mut found = Vec::new();
                of_lines(&settings, &server, &mut found);
                assert_eq!(found, wanted, "{flavour}, {head}");
            }
        }
    }
}
