//! Tidelock core (documentation follows).

mod alarm;
mod backend;
mod clock;
mod error;
mod line;
mod name;
mod options;

pub use alarm::{Alarms, Sleep};
pub use backend::{Backend, Claim, Grant, Place, Renewal, Reply, Session, Shard, Sight, Signals};
pub use clock::{Clock, Moment, boot_clock};
pub use error::{Error, ErrorKind, Result};
pub use line::{Line, Stander};
pub use name::Name;
pub use options::Options;
pub use tidelock_model::{ClaimId, Kind, Leave, Left, Patience, SessionId, Token, Weight};
