//! Where the next sweep begins.

use crate::sql::Key;

/// Where the sweep continues: behind this key.
#[derive(Debug, Default)]
pub(crate) struct Sweep(std::sync::Mutex<Option<Vec<u8>>>);

impl Sweep {
    pub(crate) fn key(&self) -> Key {
        let place = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Key::of_bytes(place.as_deref().unwrap_or_default())
    }

    /// The last key of a full page; `None` starts again.
    pub(crate) fn go_on(&self, last: Option<Vec<u8>>) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = last;
    }
}
