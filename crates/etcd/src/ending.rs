//! What others do to a session: they end it, or evict a claim of it.
//!
//! An operator can revoke its lease. So can, before etcd 3.4.25 and 3.5.8, a member that led the others, was stopped, and
//! goes on. The next renewal finds that out, but until then the holder and the next one both believe that they hold. The
//! session's label is on the lease too: a watch on it tells at once. The keys of its void claims lie beside it, and an
//! eviction by `Locks::evict` makes one. Only a key that was deleted by hand is not noticed before the next renewal.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{EventType, GetOptions, KeyValue, ResponseHeader, WatchOptions};
use tidelock_core::{ClaimId, Name};

use crate::asked::{Asked, FIRST_WATCH};
use crate::keys::void_number;
use crate::link::Failed;
use crate::open_session::OpenSession;

/// The pause between two streams.
const PAUSE: Duration = Duration::from_secs(1);

impl OpenSession {
    /// Tells core when the session has ended, or a claim was evicted. Runs as long as the session.
    pub(crate) async fn tell_the_end(self: Arc<Self>) {
        let label_is_gone = async {
            // An error: renewals tell what is wrong.
            while !self.watch_own().await.is_ok_and(|is_over| is_over) {
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::select! {
            () = label_is_gone => {}
            () = self.link.meets_another_store() => {}
        }
        self.signals.over();
    }

    /// Watches the keys that lie beside all lines until the stream breaks. Returns whether the label is gone.
    async fn watch_own(self: &Arc<Self>) -> Result<bool, Failed> {
        let (all, label) = (self.keys.voids(self.id), self.keys.label(self.id));
        let found = self.link.get(&all, GetOptions::new().with_prefix()).await?;
        if found.kvs().iter().all(|key| key.key() != label.as_bytes()) {
            return Ok(true);
        }
        found.kvs().iter().for_each(|key| self.may_be_evicted(key));
        let from = found.header().map_or(0, ResponseHeader::revision) + 1;
        let mut asked = Asked::default();
        asked.asks(FIRST_WATCH, &*all, from);
        let options = WatchOptions::new().with_prefix().with_watch_id(FIRST_WATCH).with_start_revision(from);
        let (connection, opened) = self
            .link
            .ask_on(|client| async move { client.watch_client().watch(all, Some(options)).await })
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
                    asked.admits(&answer).map_err(|said| self.link.failed(said))?;
                    self.link.shows(answer.header(), 0)?;
                    if answer.created() {
                        asked.is_set(FIRST_WATCH);
                    }
                    for (what, key) in
                        answer.events().iter().filter_map(|event| Some((event.event_type(), event.kv()?)))
                    {
                        match what {
                            EventType::Put => self.may_be_evicted(key),
                            EventType::Delete if key.key() == label.as_bytes() => return Ok(true),
                            EventType::Delete => {}
                        }
                    }
                }
                Ok(None) | Err(_) => {
                    self.link.doubt(&connection);
                    return Ok(false);
                }
            }
        }
    }

    /// A void claim of ours has a key. If somebody else made it, that says from which line the claim was evicted.
    fn may_be_evicted(self: &Arc<Self>, key: &KeyValue) {
        let number = void_number(key.key(), &self.keys.voids(self.id));
        let name = std::str::from_utf8(key.value()).ok().and_then(|name| Name::new(name).ok());
        let Some((number, name)) = number.zip(name) else { return };
        let id = ClaimId { session: self.id, number };
        let news = self.own_claims.is_evicted(&name, id, key.mod_revision());
        self.tell(&name, news);
    }
}
