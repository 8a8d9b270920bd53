//! Work that is done once, on the keeper's runtime, for all callers that ask for it in the meantime.
//!
//! The first caller may lose interest: the work is done all the same, and a future that nobody polls does not delay
//! the other callers.

use std::future::Future;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::keeper;
use crate::{Error, ErrorKind, Result, shield};

/// Each handle leads to the same result.
#[derive(Clone, Debug)]
pub(crate) struct SharedTask<T> {
    reported: watch::Receiver<Option<Result<T>>>,
    work: Option<AbortHandle>,
}

impl<T: Clone + Send + Sync + 'static> SharedTask<T> {
    /// Begins the work.
    pub(crate) fn begin(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<Self> {
        let (report, reported) = watch::channel(None);
        let task = keeper::handle()?.spawn(async move {
            let result = work.await;
            report.send_replace(Some(result));
        });
        Ok(Self { reported, work: Some(task.abort_handle()) })
    }

    /// A result that needs no work.
    pub(crate) fn done(result: T) -> Self {
        Self { reported: watch::channel(Some(Ok(result))).1, work: None }
    }

    /// Its result.
    pub(crate) async fn result(mut self) -> Result<T> {
        match shield::around(self.reported.wait_for(Option::is_some)).await {
            Ok(result) => result.clone().unwrap_or_else(|| Err(failed_inside())),
            Err(_) => Err(failed_inside()),
        }
    }

    /// Whether it is still under way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.reported.borrow().is_none() && self.reported.has_changed().is_ok()
    }

    /// Whether it ended with an error or without a result.
    pub(crate) fn has_failed(&self) -> bool {
        !self.is_under_way() && !matches!(&*self.reported.borrow(), Some(Ok(_)))
    }

    /// Cancels the work.
    pub(crate) fn cancel(&self) {
        if let Some(work) = &self.work {
            work.abort();
        }
    }
}

/// The error for a backend that has panicked.
pub(crate) fn failed_inside() -> Error {
    Error::new(ErrorKind::Protocol, "the backend panicked; this is a bug in the backend")
}
