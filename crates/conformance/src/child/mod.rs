//! A client in a process of its own, which the system can kill and stop.
//!
//! The child connects, reports that it is ready, and then carries out orders. An order is a line on its standard
//! input, and each is answered by a line on its standard output. It holds one lock at a time. When its input ends, the
//! child ends at once and gives nothing back.

mod order;
mod parent;
mod running;
mod serve;

pub use parent::Child;
pub(crate) use running::Running;
pub use serve::serve_as_child;
