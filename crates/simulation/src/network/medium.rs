//! The network as what is between clients and their lines.

use std::sync::Arc;

use tidelock_core::backend::{Backend, Moment};

use super::Network;
use crate::medium::Medium;
use crate::plan::Fault;

impl Medium for Network {
    fn backend(self: Arc<Self>, client: usize) -> Arc<dyn Backend> {
        Self::backend(&self, client)
    }

    fn begin(self: Arc<Self>, number: usize, fault: &Fault, until: Moment) {
        Self::begin(&self, number, fault, until);
    }

    fn end(self: Arc<Self>, number: usize) {
        Self::end(&self, number);
    }

    fn left(&self) -> (Vec<String>, usize) {
        self.left()
    }

    fn has_sessions(&self) -> bool {
        self.has_sessions()
    }
}
