//! The program's own code in a simulation: it runs where the world runs, because a thread would run at any time.

use std::io;

/// Runs one piece of the program's code.
#[derive(Clone, Debug, Default)]
pub struct Aside(());

impl Aside {
    /// Runs `work` in this task.
    ///
    /// # Errors
    /// None.
    pub async fn run<T, F>(&self, work: impl FnOnce() -> F + Send + 'static) -> io::Result<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        Ok(work().await)
    }
}
