//! Processor time: the cost of an operation, however busy the machine is otherwise.

use rustix::time::{ClockId, clock_gettime};

use crate::Result;
use crate::subject::Subject;

/// In seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Of this process.
    pub(crate) here: f64,
    /// Of the server, if there is one.
    pub(crate) at_the_server: Option<f64>,
}

impl Effort {
    pub(crate) async fn so_far<S: Subject>(subject: &S) -> Result<Self> {
        let here = clock_gettime(ClockId::ProcessCPUTime);
        let here = here.tv_sec as f64 + here.tv_nsec as f64 / 1e9;
        Ok(Self { here, at_the_server: subject.load().await?.map(|load| load.cpu) })
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        let at_the_server = self.at_the_server.zip(earlier.at_the_server).map(|(now, then)| now - then);
        Self { here: self.here - earlier.here, at_the_server }
    }

    /// The effort for each of this many operations.
    pub(crate) fn per(self, operations: f64) -> Self {
        let at_the_server = self.at_the_server.map(|seconds| seconds / operations);
        Self { here: self.here / operations, at_the_server }
    }
}
