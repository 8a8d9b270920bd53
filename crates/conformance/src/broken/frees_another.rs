//! Frees another's claim on a repeated leave: it frees the name, not the claim.

use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::backend::{Layer, Leave, Left, Reply, Session};
use tidelock_core::{ClaimId, Name};

use crate::ManualTime;
use crate::subjects::Bend;

#[derive(Debug)]
struct FreesAnother;

pub(super) fn bend(_: &ManualTime) -> Bend {
    super::layer::each(|| FreesAnother)
}

#[async_trait]
impl Layer for FreesAnother {
    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let (session, name, reply) = (to.clone(), name.clone(), to.leave(name, id, how));
        Box::pin(async move {
            let left = reply.await?;
            if left == Left::Absent
                && let Some(holder) = session.line(&name).await?.holders().next()
            {
                return session.leave(&name, holder.id, Leave::Done).await;
            }
            Ok(left)
        })
    }
}
