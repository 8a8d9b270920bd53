//! A join or a leave, as it is sent together with others, and its answer.

use etcd_client::{Compare, GetResponse, KeyValue, Txn, TxnOp, TxnOpResponse, TxnResponse};
use tidelock_core::backend::Batchable;
use tidelock_core::{ClaimId, Name};
use tokio::sync::oneshot;

use crate::line_view::LineView;
use crate::link::Failed;

/// A join, or a leave.
pub(crate) struct Request {
    pub(crate) id: ClaimId,
    pub(crate) name: Name,
    pub(crate) action: Action,
    pub(crate) answer: oneshot::Sender<Result<Answer, Failed>>,
}

pub(crate) enum Action {
    /// If all of this is so, puts these keys and reads the line; otherwise reads the line and whether the claim is void.
    Join { when: Vec<Compare>, changes: Vec<TxnOp>, is_read: bool },
    /// Deletes these keys.
    Leave { when: Vec<Compare>, changes: Vec<TxnOp>, is_read: bool },
}

/// The answer to one request: all of it at one revision.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Whether its compares held, and its changes were made.
    pub(crate) is_done: bool,
    pub(crate) revision: i64,
    /// How many keys of the claim it deleted.
    pub(crate) deleted: i64,
    /// The keys of the line, if they were read.
    pub(crate) line: Option<Vec<KeyValue>>,
    /// Whether the claim is void.
    pub(crate) is_void: bool,
}

impl Answer {
    /// The line is read first, and then the claim's void key.
    pub(crate) fn of(answer: &TxnResponse, revision: i64) -> Self {
        let mut all = Self { is_done: answer.succeeded(), revision, deleted: 0, line: None, is_void: false };
        let mut is_first = true;
        for part in answer.op_responses() {
            match part {
                TxnOpResponse::Delete(delete) if std::mem::take(&mut is_first) => {
                    all.deleted = delete.deleted();
                }
                TxnOpResponse::Get(get) => all.read(get),
                _ => {}
            }
        }
        all
    }

    fn read(&mut self, mut get: GetResponse) {
        let keys = get.take_kvs();
        match self.line {
            None => self.line = Some(keys),
            Some(_) => self.is_void = !keys.is_empty(),
        }
    }

    /// The line as it was read.
    pub(crate) fn view(&self, skip: usize) -> Option<LineView> {
        self.line.as_ref().map(|keys| LineView::of(keys, skip, self.revision))
    }
}

impl Request {
    pub(crate) fn txn(&self, is_watched: bool, read: impl Fn() -> Vec<TxnOp>) -> Txn {
        let (when, mut changes, is_read, otherwise) = match &self.action {
            // A claim that stands already must be found, and may be void.
            Action::Join { when, changes, is_read } => {
                (when, changes.clone(), *is_read && !is_watched, read())
            }
            Action::Leave { when, changes, is_read } => {
                // What stood there before.
                let before = if *is_read { read().drain(..1).collect() } else { Vec::new() };
                (when, before.into_iter().chain(changes.clone()).collect(), false, Vec::new())
            }
        };
        if is_read {
            changes.extend(read().drain(..1));
        }
        Txn::new().when(when.clone()).and_then(changes).or_else(otherwise)
    }
}

impl Batchable for Request {
    fn name(&self) -> &Name {
        &self.name
    }

    fn claim(&self) -> ClaimId {
        self.id
    }

    fn is_join(&self) -> bool {
        matches!(self.action, Action::Join { .. })
    }

    /// A join whose caller is gone is not sent. A leave is always sent, even if nothing waits for its reply.
    fn is_wanted(&self) -> bool {
        !self.is_join() || !self.answer.is_closed()
    }
}
