//! Turns: every side of a comparison runs once, then all of them again.

use crate::Result;

/// Runs one turn to warm up, then this many turns that count. A turn runs each side once, for a slice.
pub(crate) async fn turns<T>(slices: usize, mut turn: impl AsyncFnMut() -> Result<T>) -> Result<Vec<T>> {
    turn().await?;
    let mut results = Vec::with_capacity(slices);
    for _ in 0..slices {
        results.push(turn().await?);
    }
    Ok(results)
}
