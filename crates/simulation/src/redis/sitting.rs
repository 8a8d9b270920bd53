//! A session of a client, as long as the client has it.

use tidelock_core::SessionId;

#[derive(Debug)]
pub(super) struct Sitting {
    pub(super) id: SessionId,
    pub(super) client: usize,
}
