//! The memory backend, measured beside tokio's own locks.

mod memory;

use std::process::ExitCode;

use crate::memory::Memory;

fn main() -> ExitCode {
    tidelock_bench::main(async |place| {
        place.refuse_url()?;
        Ok(Memory::new())
    })
}
