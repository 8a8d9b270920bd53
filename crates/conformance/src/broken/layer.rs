//! Puts a fault in front of the memory backend.

use std::sync::Arc;

use tidelock_core::backend::Layer;

use crate::subjects::Bend;

/// A new layer for each client.
pub(super) fn each<L: Layer>(make: impl Fn() -> L + Send + Sync + 'static) -> Bend {
    Arc::new(move |_| Arc::new(make()))
}

/// One layer for all clients of a stage.
pub(super) fn shared<L: Layer>(layer: L) -> Bend {
    let layer: Arc<dyn Layer> = Arc::new(layer);
    Arc::new(move |_| layer.clone())
}
