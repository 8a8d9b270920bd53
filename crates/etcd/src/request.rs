//! A join or a leave, as it is sent together with others, and its answer.

use etcd_client::{Compare, GetResponse, KeyValue, Txn, TxnOp, TxnOpResponse, TxnResponse};
use tidelock_core::backend::Batchable;
use tidelock_core::{ClaimId, Name, Token};
use tokio::sync::oneshot;

use crate::line_view::LineView;
use crate::link::Failed;

/// A join, or a leave.
pub(crate) struct Request {
    pub(crate) id: ClaimId,
    pub(crate) name: Name,
    pub(crate) action: Action,
    pub(crate) answer: oneshot::Sender<Result<Answer, Failed>>,
    /// Another claim of ours, which may have its turn when this one has left.
    pub(crate) next: Option<ClaimId>,
    /// From when it is sent until it is answered.
    pub(crate) under_way: Option<UnderWay>,
    /// What the server said when it was sent before, if it may have been carried out then.
    pub(crate) doubt: Option<Failed>,
}

/// A join that is on its way. If this is dropped before it was answered, its outcome is unknown: its runtime has ended.
pub(crate) struct UnderWay(Option<Arrives>);

/// Called with where the claim stands, or None if its answer says nothing about it, and with whether the join is sure not
/// to arrive later.
type Arrives = Box<dyn FnOnce(Option<(u64, Token)>, bool) + Send>;

impl UnderWay {
    pub(crate) fn until(arrives: impl FnOnce(Option<(u64, Token)>, bool) + Send + 'static) -> Self {
        Self(Some(Box::new(arrives)))
    }

    /// It was answered.
    pub(crate) fn arrives(mut self, place: Option<(u64, Token)>, is_sure: bool) {
        self.ends(place, is_sure);
    }

    fn ends(&mut self, place: Option<(u64, Token)>, is_sure: bool) {
        if let Some(arrives) = self.0.take() {
            arrives(place, is_sure);
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.ends(None, false);
    }
}

pub(crate) enum Action {
    /// If all of this is so, puts these keys and reads the line; otherwise reads the line and whether the claim is void.
    Join { when: Vec<Compare>, changes: Vec<TxnOp>, is_read: bool },
    /// Deletes these keys, if all of this is so; otherwise makes those other changes.
    Leave { when: Vec<Compare>, changes: Vec<TxnOp>, otherwise: Vec<TxnOp>, is_read: bool },
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
    /// The key of the next claim of ours, if it was looked at and stands there.
    pub(crate) next: Option<KeyValue>,
    /// The same request was sent before, and may have been carried out then: this is what the server said.
    pub(crate) doubt: Option<Failed>,
}

impl Answer {
    /// The line is read first, and then the claim's void key. `has_next`: last of all, the next claim of ours is.
    pub(crate) fn of(answer: &TxnResponse, revision: i64, has_next: bool) -> Self {
        let is_done = answer.succeeded();
        let mut all =
            Self { is_done, revision, deleted: 0, line: None, is_void: false, next: None, doubt: None };
        let (mut parts, mut is_first) = (answer.op_responses(), true);
        if has_next && let Some(TxnOpResponse::Get(mut get)) = parts.pop() {
            all.next = get.take_kvs().into_iter().next();
        }
        for part in parts {
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

    /// Where the next claim of ours stands, if it does.
    pub(crate) fn next_stands(&self, next: ClaimId) -> Option<u64> {
        let key = self.next.as_ref().filter(|key| key.value() == next.number.to_string().as_bytes())?;
        Some(key.create_revision().unsigned_abs())
    }

    /// The line as it was read.
    pub(crate) fn view(&self, skip: usize) -> Option<LineView> {
        self.line.as_ref().map(|keys| LineView::of(keys, skip, self.revision))
    }
}

impl Request {
    pub(crate) fn txn(&self, is_watched: bool, read: impl Fn() -> Vec<TxnOp>, next: Option<&TxnOp>) -> Txn {
        let (when, mut changes, is_read, otherwise) = match &self.action {
            // A claim that stands already must be found, and may be void.
            Action::Join { when, changes, is_read } => {
                (when, changes.clone(), *is_read && !is_watched, read())
            }
            Action::Leave { when, changes, otherwise, is_read } => {
                // What stood there before.
                let before: Vec<_> = if *is_read { read().drain(..1).collect() } else { Vec::new() };
                let around = |changes: &[TxnOp]| -> Vec<TxnOp> {
                    before.iter().chain(changes).chain(next).cloned().collect()
                };
                (when, around(changes), false, around(otherwise))
            }
        };
        if is_read {
            changes.extend(read().drain(..1));
        }
        Txn::new().when(when.clone()).and_then(changes).or_else(otherwise)
    }
}

impl Request {
    /// What a join changes first. It stands beside the parts of a batch, where it is never carried out: a server whose
    /// database is full refuses what puts keys, but does not see those that the parts put.
    pub(crate) fn first_change(&self) -> Option<TxnOp> {
        match &self.action {
            Action::Join { changes, .. } => changes.first().cloned(),
            Action::Leave { .. } => None,
        }
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
