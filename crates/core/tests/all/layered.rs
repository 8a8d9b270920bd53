//! A client whose store has a layer in front of it.

use std::sync::Arc;

use tidelock_core::backend::{Layer, Layered};
use tidelock_core::{Locks, Options, Result};
use tidelock_memory::Store;

/// Attaches a client to `store`. Its requests and its signals pass through `layer`.
pub(crate) fn attach(store: &Store, layer: Arc<dyn Layer>, options: Options) -> Result<Arc<dyn Locks>> {
    tidelock_core::backend::attach(Arc::new(Layered::new(Arc::new(store.clone()), layer)), options)
}
