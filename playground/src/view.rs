//! What the store keeps at a moment, in that store's own words: the keys of Redis, the nodes of ZooKeeper, the rows of
//! a table. The names are those that the backends use; how each of them packs its values is in its own pages.

use crate::client::name as client;
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
            of_line(settings, server, &mut lines);
        } else if !settings.policy.is_bare() {
            of_key(settings, server, &mut lines);
        }
    }
    if lines.is_empty() {
        lines.push("(nothing)".to_owned());
    }
    lines
}

fn of_line(settings: &Settings, server: &Server, lines: &mut Vec<String>) {
    for (name, line) in server.world.lines() {
        let name = if settings.segments > 1 {
            format!("stock:42.{name}")
        } else {
            ["stock:42", "stock:43"][usize::from(*name) % 2].to_owned()
        };
        let held = line.claims.iter().filter(|claim| claim.token.is_some());
        let waiting = line.claims.iter().filter(|claim| claim.token.is_none());
        let holder = |id: tidelock_model::ClaimId| client((id.session.get() & 0xffff) as u16);
        match settings.flavour {
            Flavour::Push => {
                for claim in held {
                    let token = claim.token.map_or(0, tidelock_model::Token::store_order);
                    lines.push(format!("{{{name}}}:held  {} token {token}", holder(claim.id)));
                }
                let places: Vec<String> =
                    waiting.map(|claim| format!("{}@{}", holder(claim.id), claim.order)).collect();
                if !places.is_empty() {
                    lines.push(format!("{{{name}}}:line  {}", joined(&places, " ")));
                    lines.push(format!("{{{name}}}:wait  {} sessions", places.len()));
                }
            }
            Flavour::Watch => {
                for claim in &line.claims {
                    lines.push(format!("/{name}/{}-{:010}", holder(claim.id), claim.order));
                }
            }
            Flavour::Poll => {
                for claim in &line.claims {
                    let token = claim
                        .token
                        .map_or_else(|| "NULL".to_owned(), |token| token.store_order().to_string());
                    lines.push(format!("('{name}', {}, '{}', {token})", claim.order, holder(claim.id)));
                }
            }
        }
    }
    let sessions =
        server.world.sessions().filter(|(_, session)| session.until() > server.world.now()).count();
    lines.push(format!("sessions alive: {sessions}"));
}

fn of_key(settings: &Settings, server: &Server, lines: &mut Vec<String>) {
    let key = &server.key;
    if let Some(owner) = key.owner {
        let value = if settings.policy == Policy::ThreadId { "thread 1".to_owned() } else { client(owner) };
        let ttl = key.until.map_or_else(
            || "no ttl".to_owned(),
            |until| format!("ttl {} ms", until.saturating_sub(server.world.now() as u32)),
        );
        let name = if settings.policy == Policy::Herd { "/lock" } else { "lock:stock:42" };
        lines.push(format!("{name} = \"{value}\"  {ttl}"));
    }
    if !key.readers.all().is_empty() {
        let readers: Vec<String> = key.readers.all().iter().map(|who| client(*who)).collect();
        lines.push(format!("readers = {}", joined(&readers, " ")));
    }
    if !key.watchers.all().is_empty() {
        lines.push(format!("watches: {}", key.watchers.all().len()));
    }
}
