//! One event of a trial, as its own client saw it.
//!
//! Events are recorded on the safe side: a grant after it was given, the end of trust before the claim is let go. So a
//! hold that the history shows was surely a hold, and two holds that overlap in it did overlap.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidelock_model::Kind;

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The time since the trial began. Events with the same time are in the order in which they happened.
    pub at: Duration,
    /// The client.
    pub who: Arc<str>,
    /// The name, or the resource that was written to; empty if the event concerns all.
    pub name: Arc<str>,
    /// The claim; the number is the history's own.
    pub claim: u64,
    /// What happened.
    pub what: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum EventKind {
    /// The client asks for a weight in a line of a capacity.
    Asked {
        /// The kind of lock that the name must be.
        kind: Kind,
        /// The weight of the claim.
        weight: u32,
        /// The capacity of the line, as the client believes.
        capacity: u32,
    },
    /// The store's line shows that the claim waits, or that it waits behind a claim of its client that does.
    Stands,
    /// It waits behind another claim of its client, of which nothing more is known.
    StandsBehind,
    /// Its client's claim waits in the store's line from now until this one is granted under it.
    StandsUntilGranted,
    /// The client was granted the claim.
    Granted {
        /// Under this token.
        token: u64,
        /// The capacity of the line that was told with the grant; `None` if nobody listened.
        told: Option<u32>,
        /// The store's id of the claim; empty if it is not known.
        id: Arc<str>,
    },
    /// The name was not free, or the patience ended.
    Refused,
    /// The client got an error and does not know what became of the claim.
    Failed,
    /// The client dropped the call that was waiting.
    Cancelled,
    /// The client is about to make the claim lighter.
    Lightened {
        /// The new weight.
        weight: u32,
    },
    /// The client lets the claim go and no longer relies on it.
    LetGo,
    /// The client knows that the claim is lost.
    Lost,
    /// A client wrote to the resource.
    Wrote {
        /// Under this token.
        token: u64,
        /// `false` if the fence refused the write.
        accepted: bool,
    },
    /// A client asks for a change of capacity.
    Resizing {
        /// The new capacity.
        to: u32,
    },
    /// The change of capacity was made.
    Resized {
        /// The new capacity.
        to: u32,
    },
    /// The trial acts on the server. Places in line may be gone.
    Fault {
        /// The act.
        act: String,
    },
    /// Current holders may go on believing that they hold: the subject has declared this overlap. If a claim is given,
    /// this holds for that claim only.
    Overlap,
    /// An operator is about to take the claim with this id of the store out of the line.
    Evicted {
        /// As in [`EventKind::Granted`].
        id: Arc<str>,
    },
    /// Everything works again.
    Healed,
}

impl EventKind {
    /// The event, as a sentence about a client.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Asked { kind: Kind::RwLock, weight: 1, .. } => "asks to read".into(),
            Self::Asked { kind: Kind::RwLock, .. } => "asks to write".into(),
            Self::Asked { kind: Kind::Semaphore, weight, capacity } => {
                format!("asks for {weight} of {capacity}")
            }
            Self::Asked { .. } => "asks".into(),
            Self::Stands => "stands in line".into(),
            Self::StandsBehind => "stands behind a claim of its client".into(),
            Self::StandsUntilGranted => "stands in line until it is granted".into(),
            Self::Granted { token, .. } => format!("is granted, token {token}"),
            Self::Refused => "is refused".into(),
            Self::Failed => "gets an error".into(),
            Self::Cancelled => "gives up waiting".into(),
            Self::Lightened { weight } => format!("reduces the weight of its claim to {weight}"),
            Self::LetGo => "lets go".into(),
            Self::Lost => "knows that its claim is lost".into(),
            Self::Wrote { token, accepted: true } => format!("writes under token {token}"),
            Self::Wrote { token, accepted: false } => format!("is refused a write under token {token}"),
            Self::Resizing { to } => format!("asks for a capacity of {to}"),
            Self::Resized { to } => format!("has made the capacity {to}"),
            Self::Fault { act } => format!("fault: {act}"),
            Self::Overlap => "holders may go on believing that they hold".into(),
            Self::Evicted { id } => format!("evicts {id}"),
            Self::Healed => "everything works again".into(),
        }
    }

    /// The word for it in a saved history.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Asked { .. } => "asked",
            Self::Stands => "stands",
            Self::StandsBehind => "stands behind",
            Self::StandsUntilGranted => "stands until granted",
            Self::Granted { .. } => "granted",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Lightened { .. } => "lightened",
            Self::LetGo => "let go",
            Self::Lost => "lost",
            Self::Wrote { .. } => "wrote",
            Self::Resizing { .. } => "resizing",
            Self::Resized { .. } => "resized",
            Self::Fault { .. } => "fault",
            Self::Overlap => "overlap",
            Self::Evicted { .. } => "evicted",
            Self::Healed => "healed",
        }
    }
}

impl Event {
    /// The event as JSON in a saved history.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let at = u64::try_from(self.at.as_nanos()).unwrap_or(u64::MAX);
        let mut event = json!({ "at": at, "who": &*self.who, "what": self.what.word() });
        let mut add =
            |key: &str, value: Value| drop(event.as_object_mut().map(|e| e.insert(key.into(), value)));
        if !self.name.is_empty() {
            add("name", json!(&*self.name));
        }
        if self.claim > 0 {
            add("claim", json!(self.claim));
        }
        match &self.what {
            EventKind::Asked { kind, weight, capacity } => {
                add("kind", json!(kind.as_str()));
                add("weight", json!(weight));
                add("capacity", json!(capacity));
            }
            EventKind::Granted { token, told, id } => {
                add("token", json!(token));
                if let Some(told) = told {
                    add("told", json!(told));
                }
                if !id.is_empty() {
                    add("id", json!(&**id));
                }
            }
            EventKind::Evicted { id } => add("id", json!(&**id)),
            EventKind::Lightened { weight } => add("weight", json!(weight)),
            EventKind::Wrote { token, accepted } => {
                add("token", json!(token));
                add("accepted", json!(accepted));
            }
            EventKind::Resizing { to } | EventKind::Resized { to } => add("capacity", json!(to)),
            EventKind::Fault { act } => add("act", json!(act)),
            _ => {}
        }
        event
    }

    /// The event from a saved history; `None` if it cannot be read.
    #[must_use]
    pub fn from_json(event: &Value) -> Option<Self> {
        let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
        let number = |key: &str| event.get(key).and_then(Value::as_u64);
        let small = |key: &str| number(key).and_then(|number| u32::try_from(number).ok());
        let what = match text("what") {
            "asked" => EventKind::Asked {
                kind: kind(text("kind"))?,
                weight: small("weight")?,
                capacity: small("capacity")?,
            },
            "stands" => EventKind::Stands,
            "stands behind" => EventKind::StandsBehind,
            "stands until granted" => EventKind::StandsUntilGranted,
            "granted" => {
                EventKind::Granted { token: number("token")?, told: small("told"), id: text("id").into() }
            }
            "refused" => EventKind::Refused,
            "failed" => EventKind::Failed,
            "cancelled" => EventKind::Cancelled,
            "lightened" => EventKind::Lightened { weight: small("weight")? },
            "let go" => EventKind::LetGo,
            "lost" => EventKind::Lost,
            "wrote" => {
                EventKind::Wrote { token: number("token")?, accepted: event.get("accepted")?.as_bool()? }
            }
            "resizing" => EventKind::Resizing { to: small("capacity")? },
            "resized" => EventKind::Resized { to: small("capacity")? },
            "fault" => EventKind::Fault { act: text("act").to_owned() },
            "overlap" => EventKind::Overlap,
            "evicted" => EventKind::Evicted { id: text("id").into() },
            "healed" => EventKind::Healed,
            _ => return None,
        };
        Some(Self {
            at: Duration::from_nanos(number("at")?),
            who: text("who").into(),
            name: text("name").into(),
            claim: number("claim").unwrap_or(0),
            what,
        })
    }
}

fn kind(word: &str) -> Option<Kind> {
    [Kind::Mutex, Kind::RwLock, Kind::Semaphore].into_iter().find(|kind| kind.as_str() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_was_saved_is_read_again() {
        let whats = [
            EventKind::Asked { kind: Kind::Semaphore, weight: 2, capacity: 5 },
            EventKind::Stands,
            EventKind::StandsBehind,
            EventKind::StandsUntilGranted,
            EventKind::Granted { token: 64, told: Some(5), id: "4f2a-7".into() },
            EventKind::Granted { token: 64, told: None, id: "".into() },
            EventKind::Refused,
            EventKind::Failed,
            EventKind::Cancelled,
            EventKind::Lightened { weight: 1 },
            EventKind::LetGo,
            EventKind::Lost,
            EventKind::Wrote { token: 64, accepted: false },
            EventKind::Resizing { to: 3 },
            EventKind::Resized { to: 3 },
            EventKind::Fault { act: "it rains".into() },
            EventKind::Overlap,
            EventKind::Evicted { id: "4f2a-7".into() },
            EventKind::Healed,
        ];
        for what in whats {
            let at = Duration::from_nanos(12_345);
            let event = Event { at, who: "client 1".into(), name: "stock".into(), claim: 3, what };
            assert_eq!(Event::from_json(&event.to_json()), Some(event));
        }
        assert_eq!(Event::from_json(&serde_json::json!({ "at": 1, "what": "danced" })), None);
    }
}
