//! What clients of Tidelock's locks did and saw, as a history, and whether it keeps the contract as a whole.
//!
//! A [`History`] is a list of [`Event`]s, each as its own client saw it. [`History::check`] returns a [`Violation`] for
//! each [`Promise`] that they break, with the shortest window of events that shows it, and [`timeline()`] draws that
//! window. The conformance suite and the simulation record histories, each in its own way. This crate knows no store,
//! no clock and no client, only the model's kinds, weights and tokens.
//!
//! ```
//! use std::time::Duration;
//! use tidelock_history::{Event, EventKind, History, Promise, Want, timeline};
//!
//! let (kind, weight, capacity) = (Want::Lock.kind(), Want::Lock.weight(), Want::Lock.capacity());
//! let event = |at, claim: u64, what| Event {
//!     at: Duration::from_millis(at),
//!     who: format!("client {claim}").into(),
//!     name: "stock".into(),
//!     claim,
//!     what,
//! };
//! let history = History {
//!     backend: "one that grants twice".into(),
//!     trial: "by hand".into(),
//!     seed: 0,
//!     ttl: Duration::from_secs(15),
//!     linger: Duration::ZERO,
//!     bound: Duration::from_secs(18),
//!     events: vec![
//!         event(0, 1, EventKind::Asked { kind, weight, capacity }),
//!         event(1, 1, EventKind::Granted { token: 32, told: None, id: "".into() }),
//!         event(2, 2, EventKind::Asked { kind, weight, capacity }),
//!         event(3, 2, EventKind::Granted { token: 64, told: None, id: "".into() }),
//!     ],
//! };
//! let broken = history.check();
//! assert_eq!(broken[0].promise, Promise::Exclusion);
//! assert_eq!((broken[0].from, broken[0].to), (1, 3));
//! println!("{}\n{}", broken[0].sentence, timeline(&history.events, Some(&broken[0])));
//! ```
//!
//! Each check reads the events once, in order, and keeps its state in ordered maps: O(n log n) in all, as long as only
//! a few different weights meet on one name. A check reports a violation only if the delay between an event and its
//! recording cannot explain it. So a history without a violation proves nothing, and one with a violation proves that
//! the promise was broken.
//!
//! # A saved history
//!
//! One JSON object. `format` is `"tidelock history 1"`. `backend`, `trial` and `seed` say what was played and how to
//! replay it. `ttl` is how long claims lived, in nanoseconds like all times. `linger` is for how long a
//! client may pass a hold on among its own tasks; absent means zero. `why` is the trial's own failure.
//! `broken` is absent, or describes the promise that the history breaks: `promise`, `sentence`, `name`, the `claims`
//! involved, and the positions `from` and `to` in `events` between which it happens. Each event has `at` (nanoseconds
//! since the trial began), `who`, `what`, and where they apply `name`, `claim`, `kind`, `weight`, `capacity`, `token`,
//! `told`, `id`, `accepted`, `act`. The words for `what` are those of [`EventKind::word`].

mod conflicts;
mod event;
mod exclusion;
mod excused;
pub mod faulty;
mod fence;
mod history;
mod kept;
mod order;
mod passes;
mod progress;
mod promise;
mod sizes;
mod sums;
mod timeline;
mod tokens;
mod turns;
mod violation;
mod want;

pub use event::{Event, EventKind};
pub use history::History;
pub use promise::Promise;
pub use timeline::timeline;
pub use violation::Violation;
pub use want::Want;
