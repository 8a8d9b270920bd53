//! A subject whose store is a server.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidelock_core::{Locks, Options};

use crate::Result;
use crate::bare_hand_off::BareHandOff;
use crate::count::Counts;
use crate::place::Place;
use crate::site::Site;
use crate::subject::{Load, Subject, Twin};

/// A server, and the namespace of this run.
pub struct Remote<S: Site> {
    place: Place,
    site: S,
    /// The number of hand-offs so far: each has its own names.
    hand_offs: AtomicUsize,
    /// `None` if nothing is counted: then the server has no extra work.
    meter: Option<S::Meter>,
}

impl<S: Site> Remote<S> {
    /// The server that the command line names.
    ///
    /// # Errors
    /// If it names none, or that one does not answer.
    pub async fn open(place: Place) -> Result<Self> {
        let site = S::open(place.url(S::LIKE)?, place.namespace()).await?;
        Ok(Self { place, site, hand_offs: 0.into(), meter: None })
    }
}

impl<S: Site> Subject for Remote<S> {
    type Bare = S::Bare;
    type BareHandOff = BareHandOff<S::Signal>;
    type Stock = S::Stock;

    fn name(&self) -> &'static str {
        S::NAME
    }

    fn twin(&self) -> &'static str {
        S::TWIN
    }

    fn remarks(&self) -> Vec<String> {
        S::REMARKS.iter().map(ToString::to_string).collect()
    }

    fn flags(&self) -> Result<Vec<String>, &'static str> {
        Ok(self.place.flags())
    }

    async fn client(&self, options: Options) -> Result<Arc<dyn Locks>> {
        S::client(self.place.url(S::LIKE)?, options.namespace(self.place.namespace())).await
    }

    async fn bare_own(&self, tasks: usize) -> Result<Vec<Twin<S::Bare>>> {
        let mut twins = vec![Twin { called: S::TWIN, tasks: self.site.bare(tasks).await? }];
        twins.extend(self.site.others(tasks).await?);
        Ok(twins)
    }

    async fn bare_hot(&self, _: usize) -> Result<Vec<S::Bare>> {
        self.site.bare(1).await
    }

    async fn bare_handoff(&self) -> Result<[BareHandOff<S::Signal>; 2]> {
        self.site.hand_off(self.hand_offs.fetch_add(1, Ordering::Relaxed)).await
    }

    async fn bare_lock(&self) -> Result<Option<S::Bare>> {
        Ok(None)
    }

    async fn stock(&self, number: u32) -> Result<S::Stock> {
        self.site.stock(number).await
    }

    async fn counted(&self) -> Result<Self> {
        let counted = Self::open(self.place.clone()).await?;
        let meter = Some(counted.site.meter().await?);
        Ok(Self { meter, ..counted })
    }

    async fn counts(&self) -> Result<Counts> {
        match &self.meter {
            Some(meter) => self.site.counts(meter).await,
            None => Ok(Counts::default()),
        }
    }

    async fn load(&self) -> Result<Option<Load>> {
        self.site.load().await
    }

    async fn clean(&self) -> Result<()> {
        self.site.clean(self.place.namespace()).await
    }
}

impl<S: Site> fmt::Debug for Remote<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remote({:?})", self.site)
    }
}
