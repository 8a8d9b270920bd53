//! Turns a wish into a command, with the arguments that `tidelock_redis` sends.

use redis::Cmd;
use tidelock_model::comparison::Wish;
use tidelock_model::{Join, Kind, Leave, Patience, SessionId};

use crate::scripts::Scripts;

/// What all commands of a sequence have in common.
pub(crate) struct Asker {
    pub(crate) namespace: String,
}

/// The client that sends a command.
pub(crate) struct Caller<'a> {
    pub(crate) millis: u64,
    pub(crate) label: &'a str,
}

impl Asker {
    pub(crate) fn channel(&self) -> String {
        format!("{}:", self.namespace)
    }

    /// The command for a wish at that time, in µs. `caller` returns the client of a session.
    pub(crate) fn command<'a>(
        &self,
        scripts: &Scripts,
        wish: &Wish<String>,
        at: u64,
        caller: impl Fn(SessionId) -> Caller<'a>,
    ) -> Cmd {
        let mut command = Cmd::new();
        command.arg("EVALSHA");
        let hash = match wish {
            Wish::Join(_) => &scripts.join,
            Wish::Look { .. } => &scripts.look,
            Wish::Leave { .. } => &scripts.leave,
            Wish::Lighten { .. } => &scripts.lighten,
            Wish::Resize { .. } => &scripts.resize,
            Wish::Renew { .. } => &scripts.renew,
            _ => &scripts.lose,
        };
        command.arg(hash).arg(3);
        for part in ["held", "line", "wait"] {
            command.arg(format!("{}{{{}}}:{part}", self.channel(), wish.name()));
        }
        match wish {
            Wish::Join(join) => put_join(&mut command, join, &caller(join.id.session)),
            Wish::Look { session, numbers, .. } => {
                command.arg(session.to_string()).arg(caller(*session).millis).arg(1).arg(numbers);
            }
            Wish::Leave { by, id, how, .. } => {
                command.arg(format!("{id} "));
                if *how == Leave::Void || *by != id.session {
                    let how = if *how == Leave::Void { "void" } else { "done" };
                    command.arg(how).arg(by.to_string()).arg(caller(*by).millis);
                }
            }
            Wish::Lighten { id, weight, .. } => {
                command.arg(id.session.to_string()).arg(id.to_string()).arg(weight.get());
            }
            Wish::Resize { by, from, to, .. } => {
                command.arg(by.to_string()).arg(from.get()).arg(to.get());
            }
            Wish::Renew { session, .. } => {
                command.arg(session.to_string()).arg(format!("{:011}", caller(*session).millis));
            }
            Wish::Lose { part, .. } => {
                command.arg(*part);
            }
            _ => unreachable!("a wish that Redis does not know"),
        }
        command.arg(at);
        command
    }
}

fn put_join(command: &mut Cmd, join: &Join<String>, caller: &Caller<'_>) {
    let Join { id, kind, weight, capacity, patience, .. } = join;
    let (ttl, letter, label) = (caller.millis, &kind.as_str()[..1], caller.label);
    command.arg(match kind {
        Kind::Mutex => format!("{ttl:011} {letter} {id} {label}"),
        _ => format!("{ttl:011} {letter} {id} {} {} {label}", capacity.get(), weight.get()),
    });
    let is_usual = ttl <= 900_000 && weight <= capacity;
    if *patience == Patience::Now || *kind != Kind::Mutex || !is_usual {
        command.arg(if *patience == Patience::Now { "now" } else { "wait" });
    }
    if !is_usual {
        command.arg("slow");
    }
}
