//! What a world needs of what is between its clients and its lines.

use std::sync::Arc;

use tidelock_core::backend::{Backend, Moment};

use super::Servers;
use super::heard::Heard;
use super::sitting::Sitting;
use crate::medium::Medium;
use crate::plan::Fault;
use crate::time::lock;

impl Medium for Servers {
    fn backend(self: Arc<Self>, client: usize) -> Arc<dyn Backend> {
        Arc::new(Heard::backend(self, client))
    }

    fn begin(self: Arc<Self>, number: usize, fault: &Fault, until: Moment) {
        Self::begin_fault(&self, number, fault, until);
    }

    fn end(self: Arc<Self>, number: usize) {
        Self::end_fault(&self, number);
    }

    fn left(&self) -> (Vec<String>, usize) {
        let now = self.ticks();
        let names = lock(&self.state).lines.values().flat_map(|lines| lines.in_use(now)).collect();
        (names, 0)
    }

    fn has_sessions(&self) -> bool {
        lock(&self.sessions).iter().any(Sitting::lasts)
    }
}
