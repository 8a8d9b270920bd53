//! Tidelock's contract as trials that anyone can run against a backend, and that can fail.
//!
//! A [`Subject`] is a backend under trial: it says how to open clients, and what can be done to its server. [`run`]
//! plays every trial on it and returns a [`Report`]. Everything that happens in a trial is recorded, and the history
//! is checked as a whole: see [`history`].
//!
//! A backend that works inside one process is a [`Seam`](subjects::Seam): all faults are injected between core and the
//! backend, and time is turned by hand. Its author only has to say how to create one.
//!
//! ```
//! use tidelock_conformance::{Settings, run, subjects};
//!
//! let settings = Settings { filter: Some("bad_names".into()), ..Settings::default() };
//! let report = run(subjects::memory(), &settings);
//! assert!(report.passed());
//! ```

mod ability;
mod act;
mod any_guard;
pub mod broken;
pub mod callers;
mod child;
mod client;
mod crowd;
mod failure;
pub mod history;
mod hold;
mod lessons;
mod local_lines;
pub mod program;
mod proof;
mod proxy;
mod recorder;
pub mod report;
mod resource;
mod retelling;
mod runner;
pub mod runtimes;
pub mod scene;
pub mod sequences;
mod settings;
mod shortage;
mod signal;
mod stage;
mod stalls;
mod storm;
mod subject;
pub mod subjects;
mod time;
mod trial;
mod trials;
mod waiter;
mod wire;
mod wires;
mod witness;

pub use ability::Ability;
pub use act::{Act, Seat, Whom};
pub use child::{Child, serve_as_child};
pub use client::Client;
pub use failure::{Failure, Outcome};
pub use hold::Hold;
pub use lessons::LESSONS;
pub use proof::{Proof, prove};
pub use proxy::{Proxy, Way};
pub use report::Report;
pub use resource::Resource;
pub use retelling::Retelling;
pub use runner::{run, run_with};
pub use settings::Settings;
pub use stage::Stage;
pub use storm::{Counts as StormCounts, Damage, Role, Round, Storm, serve_as_player, storm};
pub use subject::{Belief, Can, Cost, Counts, Mishap, Server, Subject, Wrong};
pub use tidelock_history::Want;
pub use tidelock_model::Dice;
pub use time::{ManualTime, RealTime, Time};
pub use trial::Trial;
pub use trials::{ELSEWHERE, ONLY_SERVERS, all as trials};
pub use waiter::Waiter;
