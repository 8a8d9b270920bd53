//! One thing that happened in a trial, as its own client saw it.
//!
//! An event is recorded on the safe side: a grant after it was given, an end of trust before the claim is let go. So
//! what the history shows as held was surely held, and two holds that overlap in it did overlap.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

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
    /// Whoever holds now may go on believing so: an overlap that was declared.
    Overlap,
    /// Everything works again.
    Healed,
}

impl What {
    /// What happened, as a sentence about a client.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Asked { weight, capacity } if *capacity == tidelock::Weight::MAX.get() => {
                if weight == capacity { "asks to write".into() } else { "asks to read".into() }
            }
            Self::Asked { capacity: 1, .. } => "asks".into(),
            Self::Asked { weight, capacity } => format!("asks for {weight} of {capacity}"),
            Self::Stands => "stands in line".into(),
            Self::Granted { token } => format!("is granted, token {token}"),
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
            What::Asked { weight, capacity } => {
                add("weight", json!(weight));
                add("capacity", json!(capacity));
            }
            What::Granted { token } => add("token", json!(token)),
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
}
