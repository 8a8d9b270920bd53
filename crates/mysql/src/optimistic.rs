//! Updates without a lock: read, change, and write only if nobody else has written meanwhile; otherwise again.

use std::fmt;
use std::time::Duration;

use crate::link::at_random;

/// The first pause before another try.
const FIRST: Duration = Duration::from_micros(500);
const LONGEST: Duration = Duration::from_millis(50);

/// Why an optimistic update did not succeed.
#[derive(Debug)]
pub enum OptimisticError<E> {
    /// Somebody else was faster, each time. Where that is common, a lock is cheaper.
    Lost {
        /// How many tries were lost.
        tries: u32,
    },
    /// The attempt itself ended with this error.
    Attempt(E),
}

impl<E: fmt::Display> fmt::Display for OptimisticError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { tries } => {
                write!(
                    f,
                    "somebody else changed the row each time, {tries} times; where that is common, take a lock"
                )
            }
            Self::Attempt(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for OptimisticError<E> {}

/// Calls `attempt` until it returns `Some`, at most `tries` times, with random and growing pauses. An attempt reads a
/// row, and ends with `UPDATE … WHERE id = ? AND version = ?`; if that changed no row, it returns `None`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use tidelock_mysql::optimistic;
/// let mut rows = [0, 0, 1].into_iter(); // as rows_affected() of the UPDATE
/// let done: Result<_, tidelock_mysql::OptimisticError<std::io::Error>> =
///     optimistic(10, || std::future::ready(Ok((rows.next() == Some(1)).then_some("sold")))).await;
/// assert_eq!(done.unwrap(), "sold");
/// # }
/// ```
///
/// # Errors
/// [`OptimisticError::Lost`] if every try was lost; or the attempt's own error.
///
/// # Cancel safety
/// As of `attempt`: nothing is kept between two tries.
pub async fn optimistic<T, E, F: Future<Output = Result<Option<T>, E>>>(
    tries: u32,
    mut attempt: impl FnMut() -> F,
) -> Result<T, OptimisticError<E>> {
    let mut pause = FIRST;
    for number in 0..tries {
        if number > 0 {
            tokio::time::sleep(at_random(pause)).await;
            pause = (pause * 2).min(LONGEST);
        }
        if let Some(done) = attempt().await.map_err(OptimisticError::Attempt)? {
            return Ok(done);
        }
    }
    Err(OptimisticError::Lost { tries })
}
