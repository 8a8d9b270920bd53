//! The subjects that are at hand.

mod memory;
mod remote;
mod seam;

pub use memory::{memory, memory_in_real_time};
pub use remote::{Control, Program, Remote, Site};
pub use seam::{Bend, Seam};
