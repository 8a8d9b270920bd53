//! Looking for claims that may or may not stand in line.
//!
//! A join that was dropped or timed out may have been done, or may yet be done. So its claim is looked for in a list
//! that is requested later. In a crowd thousands are dropped at once. One list of a name serves all claims that are
//! wanted when it is sent; claims that are added while it is under way share the next one.

use std::sync::Arc;

use tidelock_core::{ClaimId, Name};
use tokio::sync::oneshot;
use zookeeper_client::Error as Said;

use crate::listing::Listing;
use crate::open_session::OpenSession;
use crate::searches::Found;

impl OpenSession {
    /// Looks for a claim, after every request that was sent for it before. The search goes on even if the returned
    /// future is dropped.
    pub(crate) fn search(
        self: &Arc<Self>,
        name: &Name,
        id: ClaimId,
    ) -> impl Future<Output = Result<Arc<Found>, Said>> + Send + use<> {
        let (found, finding) = oneshot::channel();
        if self.searches.enter(name, (id, found)) {
            self.runtime.spawn(self.clone().search_on(name.clone()));
        }
        async move { finding.await.unwrap_or(Err(Said::ClientClosed)) }
    }

    async fn search_on(self: Arc<Self>, name: Name) {
        let line = self.nodes.line(&name);
        let searching = Searching { session: &self, name: &name };
        loop {
            let wanted = self.searches.next(&name);
            if wanted.is_empty() {
                return std::mem::forget(searching);
            }
            // Drop unsent requests: they must not be done after the list.
            wanted.iter().for_each(|(id, _)| self.batcher.retract(*id));
            let found = match self.link.list_latest(&line).await {
                Ok((children, stat)) => self.found(&name, Listing::of((children, stat, 0))).await,
                Err(Said::NoNode) => Ok(Found::default()), // the line is gone
                Err(error) => Err(error),
            };
            let found = found.map(Arc::new);
            for (_, waiting) in wanted {
                drop(waiting.send(found.clone())); // the receiver may be gone
            }
        }
    }

    async fn found(&self, name: &Name, listing: Listing) -> Result<Found, Said> {
        let seen = self.see(name, listing).await?;
        let held = seen.line.held().map(|claim| claim.id).collect();
        Ok(Found::new(seen.listing.standing, held))
    }
}

/// A search of a name. If a panic ends it, the waiting tasks are told, and the next search can begin.
struct Searching<'a> {
    session: &'a OpenSession,
    name: &'a Name,
}

impl Drop for Searching<'_> {
    fn drop(&mut self) {
        self.session.searches.end(self.name);
    }
}
