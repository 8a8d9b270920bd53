//! A client in a process of its own, which can be killed and stopped as the system does it.
//!
//! The child connects, says that it is ready, and then does what it is told: an order is a line on its standard
//! input, and each is answered by a line on its standard output. It holds one lock at a time. When its input ends, so
//! does it, at once and without giving anything back.

mod order;
mod parent;
mod running;
mod serve;

pub use parent::Child;
pub(crate) use running::Running;
pub use serve::serve_as_child;
