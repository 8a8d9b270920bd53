//! One thing that happened in a trial, as its own client saw it.
//!
//! An event is recorded on the safe side: a grant after it was given, an end of trust before the claim is let go. So
//! what the history shows as held was surely held, and two holds that overlap in it did overlap.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tidelock::Kind;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, since the trial began. Events of the same moment stand in the order in which they happened.
    pub at: Duration,
    /// Which client.
    pub who: Arc<str>,
    /// Which name, or which resource was written to; empty for what concerns all.
    pub name: Arc<str>,
    /// Which claim; the number is the history's own.
    pub claim: u64,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum What {
    /// The client asks for so much of so much.
    Asked {
        /// The kind of lock that the name has to be.
        kind: Kind,
        /// Of the capacity.
        weight: u32,
        /// Of the line, as the client believes.
        capacity: u32,
    },
    /// The store's line shows that the claim waits.
    Stands,
    /// The client was granted it.
    Granted {
        /// Under this token.
        token: u64,
        /// The capacity of the line, as it was told with the grant; `None` where nobody listened.
        told: Option<u32>,
        /// What the store calls the claim; empty where that is not known.
        id: Arc<str>,
    },
    /// It was not free, or patience ended.
    Refused,
    /// The client got an error; what became of the claim is not known to it.
    Failed,
    /// The client dropped what it was waiting with.
    Cancelled,
    /// The client is about to make the claim lighter.
    Lightened {
        /// It weighs so much from here on.
        weight: u32,
    },
    /// The client lets it go, and relies on it no more.
    LetGo,
    /// The client knows that it is lost.
    Lost,
    /// The resource was written to.
    Wrote {
        /// Under this token.
        token: u64,
        /// Or refused by the fence.
        accepted: bool,
    },
    /// A change of capacity is asked for.
    Resizing {
        /// To this.
        to: u32,
    },
    /// That change is made.
    Resized {
        /// To this.
        to: u32,
    },
    /// The trial does something to the server. Places in line may be gone.
    Fault {
        /// What it does.
        act: String,
    },
    /// Whoever holds now may go on believing so: an overlap that was declared. Of one claim, where it names one.
    Overlap,
    /// An operator is about to take the claim that the store calls so out of the line.
    Evicted {
        /// As in [`What::Granted`].
        id: Arc<str>,
    },
    /// Everything works again.
    Healed,
}

impl What {
    /// Whether it is noted before a request is sent, of which others may then see something.
    pub(crate) fn is_announced(&self) -> bool {
        matches!(self, Self::Asked { .. } | Self::Resizing { .. } | Self::Evicted { .. })
    }

    /// What happened, as a sentence about a client.
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
            Self::Granted { token, .. } => format!("is granted, token {token}"),
            Self::Refused => "is refused".into(),
            Self::Failed => "gets an error".into(),
            Self::Cancelled => "gives up waiting".into(),
            Self::Lightened { weight } => format!("makes its claim as light as {weight}"),
            Self::LetGo => "lets go".into(),
            Self::Lost => "knows that it has lost it".into(),
            Self::Wrote { token, accepted: true } => format!("writes under token {token}"),
            Self::Wrote { token, accepted: false } => format!("is refused a write under token {token}"),
            Self::Resizing { to } => format!("asks for a capacity of {to}"),
            Self::Resized { to } => format!("has made the capacity {to}"),
            Self::Fault { act } => format!("fault: {act}"),
            Self::Overlap => "whoever holds may go on believing so".into(),
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
    /// The event as a saved history has it.
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
            What::Asked { kind, weight, capacity } => {
                add("kind", json!(kind.as_str()));
                add("weight", json!(weight));
                add("capacity", json!(capacity));
            }
            What::Granted { token, told, id } => {
                add("token", json!(token));
                if let Some(told) = told {
                    add("told", json!(told));
                }
                if !id.is_empty() {
                    add("id", json!(&**id));
                }
            }
            What::Evicted { id } => add("id", json!(&**id)),
            What::Lightened { weight } => add("weight", json!(weight)),
            What::Wrote { token, accepted } => {
                add("token", json!(token));
                add("accepted", json!(accepted));
            }
            What::Resizing { to } | What::Resized { to } => add("capacity", json!(to)),
            What::Fault { act } => add("act", json!(act)),
            _ => {}
        }
        event
    }

    /// What a saved history has for an event. `None`: that is none.
    #[must_use]
    pub fn from_json(event: &Value) -> Option<Self> {
        let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
        let number = |key: &str| event.get(key).and_then(Value::as_u64);
        let small = |key: &str| number(key).and_then(|number| u32::try_from(number).ok());
        let what = match text("what") {
            "asked" => What::Asked {
                kind: kind(text("kind"))?,
                weight: small("weight")?,
                capacity: small("capacity")?,
            },
            "stands" => What::Stands,
            "granted" => {
                What::Granted { token: number("token")?, told: small("told"), id: text("id").into() }
            }
            "refused" => What::Refused,
            "failed" => What::Failed,
            "cancelled" => What::Cancelled,
            "lightened" => What::Lightened { weight: small("weight")? },
            "let go" => What::LetGo,
            "lost" => What::Lost,
            "wrote" => What::Wrote { token: number("token")?, accepted: event.get("accepted")?.as_bool()? },
            "resizing" => What::Resizing { to: small("capacity")? },
            "resized" => What::Resized { to: small("capacity")? },
            "fault" => What::Fault { act: text("act").to_owned() },
            "overlap" => What::Overlap,
            "evicted" => What::Evicted { id: text("id").into() },
            "healed" => What::Healed,
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
            What::Asked { kind: Kind::Semaphore, weight: 2, capacity: 5 },
            What::Stands,
            What::Granted { token: 64, told: Some(5), id: "4f2a-7".into() },
            What::Granted { token: 64, told: None, id: "".into() },
            What::Refused,
            What::Failed,
            What::Cancelled,
            What::Lightened { weight: 1 },
            What::LetGo,
            What::Lost,
            What::Wrote { token: 64, accepted: false },
            What::Resizing { to: 3 },
            What::Resized { to: 3 },
            What::Fault { act: "it rains".into() },
            What::Overlap,
            What::Evicted { id: "4f2a-7".into() },
            What::Healed,
        ];
        for what in whats {
            let at = Duration::from_nanos(12_345);
            let event = Event { at, who: "client 1".into(), name: "stock".into(), claim: 3, what };
            assert_eq!(Event::from_json(&event.to_json()), Some(event));
        }
        assert_eq!(Event::from_json(&serde_json::json!({ "at": 1, "what": "danced" })), None);
    }
}
