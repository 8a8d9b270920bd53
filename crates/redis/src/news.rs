//! News that a client gets without asking: grants, evictions and hints, on its own channel or at the end of a reply.

use std::sync::Arc;

use redis::{PushInfo, PushKind, Value};
use tidelock_core::backend::{Signals, unescape};
use tidelock_core::{ClaimId, Name, SessionId};

use crate::reply::{self, grant};

/// Passes news on to core.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) session: SessionId,
    pub(crate) signals: Arc<dyn Signals>,
}

impl News {
    /// A message that the server pushed. One that is not for us, or not understood, is only a missed hint.
    pub(crate) fn pushed(&self, push: &PushInfo) {
        if push.kind == PushKind::Message
            && let Some(text) = push.data.last().and_then(reply::text)
        {
            self.said(text);
        }
    }

    /// The caller's own grants: the last part of a reply, or the whole reply in the form of a message.
    pub(crate) fn replied(&self, reply: &Value) {
        if let Some(text) = reply::text(reply) {
            return self.said(text);
        }
        let own = reply::parts(reply).last().map(reply::parts).unwrap_or_default();
        for of_one in own.chunks_exact(3) {
            if let [Value::Int(number), Value::Int(token), Value::Int(size)] = of_one {
                self.held(number.unsigned_abs(), token.unsigned_abs(), size.unsigned_abs());
            }
        }
    }

    /// News of one name may have been missed.
    pub(crate) fn missed_on(&self, name: &Name) {
        self.signals.look(name);
    }

    /// News may have been missed.
    pub(crate) fn missed(&self) {
        self.signals.look_everywhere();
    }

    fn said(&self, text: &str) {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let numbers: Vec<u64> = rest.split(' ').map_while(|number| number.parse().ok()).collect();
        match (word, &numbers[..]) {
            ("held", grants) => {
                for of_one in grants.chunks_exact(3) {
                    self.held(of_one[0], of_one[1], of_one[2]);
                }
            }
            ("gone", [number]) => {
                self.signals.gone(ClaimId { session: self.session, number: *number });
            }
            ("look", _) => self.look(rest),
            _ => {}
        }
    }

    /// One script could not grant everything on this name (escaped as in its keys), so core has to look again.
    fn look(&self, tag: &str) {
        if let Some(name) = unescape(tag).and_then(|name| Name::new(&name).ok()) {
            self.signals.look(&name);
        }
    }

    fn held(&self, number: u64, order: u64, size: u64) {
        if let Some(grant) = grant(order, size) {
            self.signals.held(ClaimId { session: self.session, number }, grant);
        }
    }
}
