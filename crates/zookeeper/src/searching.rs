//! Looking for claims that may or may not stand in line.
//!
//! A join that was dropped or timed out may have been done, or may yet be done. So its claim is looked for in a list
//! that is requested later. In a crowd thousands are dropped at once. One list of a name serves all claims that are
//! wanted when it is sent; claims that are added while it is under way share the next one.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tidelock_core::{ClaimId, Name};
use tokio::sync::oneshot;
use zookeeper_client::Error as Said;

use crate::listing::{Listing, Standing};
use crate::session::Desk;

/// The result of a search: the line, as it was after every earlier request.
#[derive(Default)]
pub(crate) struct Found {
    standing: Vec<Standing>,
    places: HashMap<ClaimId, usize>,
    /// The claims in front that have their turn.
    held: HashSet<ClaimId>,
}

impl Found {
    pub(crate) fn find(&self, id: ClaimId) -> Option<&Standing> {
        self.places.get(&id).map(|place| &self.standing[*place])
    }

    pub(crate) fn is_held(&self, id: ClaimId) -> bool {
        self.held.contains(&id)
    }
}

/// A claim that is looked for, and the channel for the result.
type Wanted = (ClaimId, oneshot::Sender<Result<Arc<Found>, Said>>);

/// The names that are being searched, and the claims to look for next there.
#[derive(Default)]
pub(crate) struct Searches(Mutex<HashMap<Name, Vec<Wanted>>>);

impl Searches {
    /// Returns whether a search of that name has to begin.
    fn enter(&self, name: &Name, wanted: Wanted) -> bool {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !names.contains_key(name);
        names.entry(name.clone()).or_default().push(wanted);
        is_new
    }

    fn end(&self, name: &Name) {
        let ended = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        drop(ended); // the waiting tasks are woken after the lock is released
    }

    /// The claims to look for now. Empty: the search of that name is over.
    fn next(&self, name: &Name) -> Vec<Wanted> {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = names.get_mut(name).map(std::mem::take).unwrap_or_default();
        if next.is_empty() {
            names.remove(name);
        }
        next
    }
}

impl fmt::Debug for Searches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Searches")
    }
}

impl Desk {
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
        let searching = Searching { desk: &self, name: &name };
        loop {
            let wanted = self.searches.next(&name);
            if wanted.is_empty() {
                return std::mem::forget(searching);
            }
            let ids: HashSet<ClaimId> = wanted.iter().map(|(id, _)| *id).collect();
            self.lane.retract(|part| ids.contains(&part.id)); // drop unsent parts: they must not be done after the list
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
        let places = seen.listing.standing.iter().enumerate().map(|(place, standing)| (standing.id, place));
        Ok(Found { places: places.collect(), held, standing: seen.listing.standing })
    }
}

/// A search of a name. If a panic ends it, the waiting tasks are told, and the next search can begin.
struct Searching<'a> {
    desk: &'a Desk,
    name: &'a Name,
}

impl Drop for Searching<'_> {
    fn drop(&mut self) {
        self.desk.searches.end(self.name);
    }
}
