//! Forgets a leave: one in seven is confirmed, and not carried out.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use tidelock_core::backend::{Layer, Leave, Left, Reply, Session};
use tidelock_core::{ClaimId, Name};

use crate::ManualTime;
use crate::subjects::Bend;

#[derive(Debug, Default)]
struct ForgetsALeave(AtomicU64);

pub(super) fn bend(_: &ManualTime) -> Bend {
    super::layer::each(ForgetsALeave::default)
}

#[async_trait]
impl Layer for ForgetsALeave {
    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        if self.0.fetch_add(1, Ordering::Relaxed) % 7 == 6 {
            return Box::pin(ready(Ok(Left::Held)));
        }
        to.leave(name, id, how)
    }
}
