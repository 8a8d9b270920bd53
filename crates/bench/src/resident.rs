//! The memory of this process, as the system reports it.

use crate::Result;

/// Its resident memory in bytes.
pub(crate) fn resident() -> Result<f64> {
    const FILE: &str = "/proc/self/status";
    let status = std::fs::read_to_string(FILE).map_err(|error| format!("cannot read {FILE}: {error}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line
        .and_then(|line| line.trim().strip_suffix(" kB"))
        .ok_or("this system does not report the resident memory")?;
    Ok(kib.trim().parse::<f64>()? * 1024.0)
}
