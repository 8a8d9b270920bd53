//! Tidelock in the process's own memory: for tests, demos, and everything that fits in one process.

mod clock;
mod faults;
mod lease;
mod line;
mod mishap;
mod news;
mod row;
mod session;
mod slab;
mod store;
mod sync;
mod table;

pub use clock::Clock;
pub use faults::Faults;
pub use store::Store;
pub use tidelock::*;
