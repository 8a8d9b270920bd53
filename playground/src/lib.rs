//! The playground: locks being fought for, in the browser.
//!
//! A [`Run`] is a function of its [`Settings`]: the same link shows the same events, here and in the page. Tidelock's
//! line in it is the model's `World`; every naive policy is the playground's own. A [`Search`] tries every order of a
//! few clients' operations. `shell` is what the page calls.

mod arrivals;
mod client;
mod cohort;
mod draw;
mod ids;
mod lessons;
mod machine;
mod policy;
mod program;
mod record;
mod resource;
mod run;
mod search;
mod seen;
mod server;
mod settings;
mod shell;
mod view;
mod why;

pub use client::{Client, Doing};
pub use cohort::{Cohort, MOST_PASSES, Reason, Turn};
pub use lessons::{Lesson, filled, lessons};
pub use machine::{Counters, Machine, Message};
pub use policy::{POLICIES, Policy};
pub use program::{Do, Op, Program};
pub use record::{Event, Kind, NONE, Record, Shade, Span};
pub use resource::{Resource, Verdict};
pub use run::{Figures, Run};
pub use search::{Allowed, Promise, Search};
pub use server::{Key, Members, Server};
pub use settings::{ACTS, Act, Action, Arrival, Choice, Flavour, Settings, VERSION, Work};
pub use shell::{Hunt, Play, changed, policies, told, with_action};
