//! Something that is done once, on the keeper's runtime, for everyone who asks for it meanwhile.
//!
//! Whoever asked first may lose interest: it is done all the same, and the others are not kept waiting by a future
//! that nobody polls.

use std::future::Future;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::keeper;
use crate::{Error, ErrorKind, Result, shield};

/// The promise of a result.
#[derive(Clone, Debug)]
pub(crate) struct Pledge<T> {
    told: watch::Receiver<Option<Result<T>>>,
    work: Option<AbortHandle>,
}

impl<T: Clone + Send + Sync + 'static> Pledge<T> {
    /// Begins the work.
    pub(crate) fn begin(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<Self> {
        let (tell, told) = watch::channel(None);
        let task = keeper::handle()?.spawn(async move {
            let result = work.await;
            tell.send_replace(Some(result));
        });
        Ok(Self { told, work: Some(task.abort_handle()) })
    }

    /// What needs no work.
    pub(crate) fn kept(result: T) -> Self {
        Self { told: watch::channel(Some(Ok(result))).1, work: None }
    }

    /// Its result.
    pub(crate) async fn result(mut self) -> Result<T> {
        match shield::around(self.told.wait_for(Option::is_some)).await {
            Ok(result) => result.clone().unwrap_or_else(|| Err(failed_inside())),
            Err(_) => Err(failed_inside()),
        }
    }

    /// What it has come to, if that is no error.
    pub(crate) fn outcome(&self) -> Option<T> {
        self.told.borrow().clone()?.ok()
    }

    /// Whether it is still under way.
    pub(crate) fn is_under_way(&self) -> bool {
        self.told.borrow().is_none() && self.told.has_changed().is_ok()
    }

    /// Whether it has come to an error, or to nothing.
    pub(crate) fn has_failed(&self) -> bool {
        !self.is_under_way() && !matches!(&*self.told.borrow(), Some(Ok(_)))
    }

    /// Drops the work where it stands.
    pub(crate) fn give_up(&self) {
        if let Some(work) = &self.work {
            work.abort();
        }
    }
}

/// A backend has panicked.
pub(crate) fn failed_inside() -> Error {
    Error::new(ErrorKind::Protocol, "the backend failed inside; that is a defect of it")
}
