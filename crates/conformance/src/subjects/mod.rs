//! The subjects that are at hand.

mod memory;
mod seam;

pub use memory::{memory, memory_in_real_time};
pub use seam::{Bend, Seam};
