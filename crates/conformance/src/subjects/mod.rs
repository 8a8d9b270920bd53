//! The subjects that the suite brings with it.

mod memory;
#[cfg(feature = "redis")]
mod redis;
mod remote;
mod seam;
#[cfg(feature = "zookeeper")]
mod zookeeper;

pub use memory::{memory, memory_in_real_time};
#[cfg(feature = "redis")]
pub use redis::Redis;
pub use remote::{Control, Program, Remote, Site};
pub use seam::{Bend, Seam};
#[cfg(feature = "zookeeper")]
pub use zookeeper::ZooKeeper;
