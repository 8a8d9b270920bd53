//! The cost of the memory backend, compared with tokio's own locks.

mod memory;

use std::process::ExitCode;

use crate::memory::Memory;

fn main() -> ExitCode {
    tidelock_bench::main(async |place| {
        place.refuse_url()?;
        Ok(Memory::new())
    })
}
