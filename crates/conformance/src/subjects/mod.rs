//! The subjects that the suite brings with it.

mod memory;
mod remote;
mod seam;

pub use memory::{memory, memory_in_real_time};
pub use remote::{Control, Program, Remote, Site};
pub use seam::{Bend, Seam};
