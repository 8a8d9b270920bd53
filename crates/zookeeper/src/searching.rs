//! Looking for claims of which it is not known whether they stand anywhere.
//!
//! A join that was dropped or timed out may still have been done, or may yet be. So it is looked for in a list that was
//! asked for later. In a crowd thousands are dropped at once: one list of a name serves all who are looked for by then,
//! and while one is under way, those who come wait for the next one together.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tidelock::{ClaimId, Name};
use tokio::sync::oneshot;
use zookeeper_client::Error as Said;

use crate::listing::{Listing, Standing};
use crate::session::Desk;

/// What a search has found: the line, as it was behind everything that was asked for before.
#[derive(Default)]
pub(crate) struct Found {
    standing: Vec<Standing>,
    places: HashMap<ClaimId, usize>,
    /// Those in front who have their turn.
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

/// Somebody who is looked for, and whoever waits for it.
type Wanted = (ClaimId, oneshot::Sender<Result<Arc<Found>, Said>>);

/// The names that are searched, and who is to be looked for next there.
#[derive(Default)]
pub(crate) struct Searches(Mutex<HashMap<Name, Vec<Wanted>>>);

impl Searches {
    /// Says whether a search of that name has to begin.
    fn enter(&self, name: &Name, wanted: Wanted) -> bool {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = !names.contains_key(name);
        names.entry(name.clone()).or_default().push(wanted);
        is_new
    }

    fn end(&self, name: &Name) {
        let ended = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        drop(ended); // whoever waits is woken where no lock is held
    }

    /// Who is to be looked for now. Nobody: the search of that name is over.
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
    /// Looks for a claim behind everything that was asked for it before. It goes on whether anybody waits for it or not.
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
            self.lane.retract(|part| ids.contains(&part.id)); // what was not sent yet will not come behind the list
            let found = match self.link.list_latest(&line).await {
                Ok((children, stat)) => self.found(&name, Listing::of((children, stat, 0))).await,
                Err(Said::NoNode) => Ok(Found::default()), // nobody stands there
                Err(error) => Err(error),
            };
            let found = found.map(Arc::new);
            for (_, waiting) in wanted {
                drop(waiting.send(found.clone())); // it may be that nobody waits for it any more
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

/// A search of a name. If it ends before its time, by a panic, whoever waits is told, and the next one can begin.
struct Searching<'a> {
    desk: &'a Desk,
    name: &'a Name,
}

impl Drop for Searching<'_> {
    fn drop(&mut self) {
        self.desk.searches.end(self.name);
    }
}
