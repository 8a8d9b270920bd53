//! A session that a client has opened.

use std::sync::Weak;

use tidelock_core::SessionId;
use tidelock_core::backend::Session;

pub(super) struct Sitting {
    pub(super) id: SessionId,
    pub(super) client: usize,
    /// Gone as soon as the client has it no more.
    pub(super) session: Weak<dyn Session>,
}

impl Sitting {
    pub(super) fn lasts(&self) -> bool {
        self.session.strong_count() > 0
    }
}
