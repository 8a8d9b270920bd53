//! The requests to the keeper.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::Result;
use crate::backend::{Left, Reply};
use crate::limit::Limit;
use crate::registry::Entry;

/// A request to the keeper.
pub(crate) enum Request {
    /// See a leave through. Without a reply to wait for, the leave is sent again.
    SeeThrough { entry: Arc<Entry>, reply: Option<Reply<Left>> },
    /// Give everything back and end.
    Close { by: Limit, done: oneshot::Sender<Result<()>> },
}
