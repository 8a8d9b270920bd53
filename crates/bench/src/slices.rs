//! Turns: every side of a comparison once, then all of them again.

use crate::Result;

/// Takes a turn to warm up, then so many that count. A turn runs each side once, for a slice.
pub(crate) async fn turns<T>(slices: usize, mut turn: impl AsyncFnMut() -> Result<T>) -> Result<Vec<T>> {
    turn().await?;
    let mut results = Vec::with_capacity(slices);
    for _ in 0..slices {
        results.push(turn().await?);
    }
    Ok(results)
}
