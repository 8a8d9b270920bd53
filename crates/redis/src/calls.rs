//! One client's calls of the scripts, each a command with its arguments.

use std::sync::Arc;
use std::time::Duration;

use redis::Cmd;
use tidelock_core::backend::{Claim, Leave, Patience};
use tidelock_core::{ClaimId, Kind, Name, SessionId, Token, Weight};

use crate::keys::Keys;
use crate::lua::record::SHORT;
use crate::script::{CONFIRM, INSPECT, JOIN, LEAVE, LIGHTEN, LOOK, RENEW, RESIZE, Script};

/// What all calls of one client have in common.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) session: SessionId,
    pub(crate) ttl: Duration,
    pub(crate) label: Arc<str>,
    pub(crate) keys: Keys,
}

impl Calls {
    /// Most joins can take the script's fast path. Those carry no more arguments than needed.
    pub(crate) fn join(&self, claim: &Claim, patience: Patience) -> Cmd {
        let Claim { id, kind, weight, capacity, .. } = claim;
        let (ttl, letter) = (self.ttl_millis(), &kind.as_str()[..1]);
        let mut command = self.call(&JOIN, &claim.name);
        command.arg(match kind {
            Kind::Mutex => format!("{ttl:011} {letter} {id} {}", self.label),
            _ => format!("{ttl:011} {letter} {id} {capacity} {weight} {}", self.label),
        });
        let is_usual = ttl <= SHORT && weight <= capacity;
        if patience == Patience::Now || *kind != Kind::Mutex || !is_usual {
            command.arg(if patience == Patience::Now { "now" } else { "wait" });
        }
        if !is_usual {
            command.arg("slow");
        }
        command
    }

    pub(crate) fn leave(&self, name: &Name, id: ClaimId, how: Leave) -> Cmd {
        let mut command = self.call(&LEAVE, name);
        command.arg(format!("{id} "));
        if how == Leave::Void || id.session != self.session {
            let how = if how == Leave::Void { "void" } else { "done" };
            command.arg(how).arg(self.session.to_string()).arg(self.ttl_millis());
        }
        command
    }

    /// `look.lua` says what `strays` can be.
    pub(crate) fn look(&self, name: &Name, claims: &[ClaimId], strays: &str) -> Cmd {
        let mut command = self.call_as_me(&LOOK, name);
        command.arg(self.ttl_millis()).arg(strays);
        for claim in claims {
            command.arg(claim.number);
        }
        command
    }

    pub(crate) fn renew(&self, name: &Name) -> Cmd {
        let mut command = self.call_as_me(&RENEW, name);
        command.arg(format!("{:011}", self.ttl_millis()));
        command
    }

    pub(crate) fn lighten(&self, claim: &Claim, weight: Weight) -> Cmd {
        let mut command = self.call_as_me(&LIGHTEN, &claim.name);
        command.arg(claim.id.to_string()).arg(weight.get());
        command
    }

    pub(crate) fn resize(&self, name: &Name, from: Weight, to: Weight) -> Cmd {
        let mut command = self.call_as_me(&RESIZE, name);
        command.arg(from.get()).arg(to.get());
        command
    }

    pub(crate) fn inspect(&self, name: &Name) -> Cmd {
        self.call(&INSPECT, name)
    }

    pub(crate) fn confirm(&self, name: &Name, id: ClaimId, token: Token) -> Cmd {
        let mut command = self.call_as_me(&CONFIRM, name);
        command.arg(id.to_string()).arg(token.store_order());
        command
    }

    fn call(&self, script: &Script, name: &Name) -> Cmd {
        script.on(name, &self.keys)
    }

    /// The command for a script that takes the caller's session.
    fn call_as_me(&self, script: &Script, name: &Name) -> Cmd {
        let mut command = self.call(script, name);
        command.arg(self.session.to_string());
        command
    }

    fn ttl_millis(&self) -> u64 {
        u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX)
    }
}
