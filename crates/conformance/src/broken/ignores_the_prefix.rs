//! Lists every name, whatever prefix was asked for.

use std::sync::Arc;

use async_trait::async_trait;
use tidelock_core::backend::{Layer, Session};
use tidelock_core::{Name, Result};

use crate::ManualTime;
use crate::subjects::Bend;

#[derive(Debug)]
struct IgnoresThePrefix;

pub(super) fn bend(_: &ManualTime) -> Bend {
    super::layer::each(|| IgnoresThePrefix)
}

#[async_trait]
impl Layer for IgnoresThePrefix {
    async fn names(&self, to: &Arc<dyn Session>, _: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        to.names("", after).await
    }
}
