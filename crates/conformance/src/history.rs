//! The history of a trial: recorded here, by a [`Recorder`] and its [`Witness`], and checked by the crate
//! [`tidelock_history`], whose page also says what is in a saved one.

pub use tidelock_history::{Event, EventKind, History, Promise, Violation, faulty, timeline};

pub(crate) use crate::recorder::Author;
pub use crate::recorder::Recorder;
pub use crate::witness::Witness;
