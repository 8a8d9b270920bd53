//! The end of a session that somebody else ends.
//!
//! An operator can revoke its lease. So can, before etcd 3.4.25 and 3.5.8, a member that led the others, was stopped, and
//! goes on. The next renewal finds that out, but until then the holder and the next one both believe that they hold. The
//! session's label is on the lease too: a watch on it tells at once.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{EventType, GetOptions, ResponseHeader, WatchOptions};

use crate::link::Failed;
use crate::open_session::OpenSession;

/// The pause between two streams.
const PAUSE: Duration = Duration::from_secs(1);

impl OpenSession {
    /// Tells core when the session has ended. Runs as long as the session.
    pub(crate) async fn tell_the_end(self: Arc<Self>) {
        loop {
            // An error: renewals tell what is wrong.
            if self.watch_label().await.is_ok_and(|is_over| is_over) {
                return self.signals.over();
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Watches the label until the stream breaks. Returns whether the label is gone.
    async fn watch_label(self: &Arc<Self>) -> Result<bool, Failed> {
        let label = self.keys.label(self.id);
        let found = self.link.get(&label, GetOptions::new().with_count_only()).await?;
        if found.count() == 0 {
            return Ok(true);
        }
        let from = found.header().map_or(0, ResponseHeader::revision) + 1;
        let options = WatchOptions::new().with_start_revision(from);
        let (connection, opened) = self
            .link
            .ask_on(|client| async move { client.watch_client().watch(label, Some(options)).await })
            .await;
        let (_sender, mut answers) = opened?.split();
        loop {
            let answer = tokio::select! {
                answer = answers.message() => answer,
                () = connection.given_up() => return Ok(false),
            };
            match answer {
                Ok(Some(answer)) if answer.canceled() => return Ok(false),
                Ok(Some(answer)) => {
                    if answer.events().iter().any(|event| event.event_type() == EventType::Delete) {
                        return Ok(true);
                    }
                }
                Ok(None) | Err(_) => {
                    self.link.doubt(&connection);
                    return Ok(false);
                }
            }
        }
    }
}
