//! The subjects that are at hand.

mod memory;
mod seam;

pub use memory::memory;
pub use seam::{Bend, Seam};
