//! Lines as operators see them: which claims hold or wait, and for how long; and the names in use.

use tidelock_core::{ClaimId, ClaimInfo, Line, Name, Result, Token};
use zookeeper_client::{Error as Said, Stat};

use crate::link::Read;
use crate::listing::Listing;
use crate::nodes::{self, token};
use crate::open_session::OpenSession;

/// How many nodes one request reads.
const PAGE: usize = 500;

impl OpenSession {
    pub(crate) async fn inspect(&self, name: &Name) -> Result<Line> {
        let line = self.nodes.line(name);
        // Sync first: our server may not know yet of a grant made through another server.
        let listing = match self.list_latest(name).await {
            Ok(listed) => Listing::of(listed),
            Err(Said::NoNode) => return Ok(Line::default()),
            Err(error) => return Err(self.trouble(&error)),
        };
        let seen = self.see(name, listing).await.map_err(|error| self.trouble(&error))?;
        let paths = seen.listing.standing.iter().map(|standing| format!("{line}/{}", standing.node));
        let read = self.read_pages(paths.collect()).await?;
        let held: Vec<ClaimId> = seen.line.held().map(|claim| claim.id).collect();
        let mut claims = Vec::new();
        for (standing, read) in seen.listing.standing.iter().zip(read) {
            let Some((label, stat)) = read else { continue }; // it has left meanwhile
            let token = held.contains(&standing.id).then(|| token(stat.czxid)).transpose()?;
            claims.push(self.claim_info(standing.id, standing.weight, token, &label, &stat));
        }
        Ok(match seen.line.in_use().filter(|_| !claims.is_empty()) {
            None => Line::default(),
            Some((kind, capacity)) => Line::new(kind, capacity, claims),
        })
    }

    fn claim_info(
        &self,
        id: ClaimId,
        weight: tidelock_core::Weight,
        token: Option<Token>,
        label: &[u8],
        stat: &Stat,
    ) -> ClaimInfo {
        let since = self.server_time.since(stat.ctime, self.clock.now());
        ClaimInfo::new(id, weight, token, String::from_utf8_lossy(label).into_owned(), Some(since))
    }

    /// The names whose line has a claim, all as one page.
    pub(crate) async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        let listed = self.link.list_latest(self.nodes.root()).await;
        let (children, _) = listed.map_err(|error| self.trouble(&error))?;
        let mut names: Vec<Name> = children.iter().filter_map(|child| nodes::name(child)).collect();
        names.retain(|name| name.starts_with(prefix) && after.is_none_or(|after| name > after));
        names.sort_unstable();
        let read = self.read_pages(names.iter().map(|name| self.nodes.line(name)).collect()).await?;
        let is_in_use = |read: Option<(Vec<u8>, Stat)>| read.is_some_and(|(_, stat)| stat.num_children > 0);
        let names = names.into_iter().zip(read);
        Ok(names.filter_map(|(name, read)| is_in_use(read).then_some(name)).collect())
    }

    /// The data of all these nodes. All requests are under way at once.
    async fn read_pages(&self, paths: Vec<String>) -> Result<Read> {
        let pages: Vec<_> = paths.chunks(PAGE).map(|page| self.link.read_all(page.to_vec())).collect();
        let mut read = Vec::with_capacity(paths.len());
        for page in pages {
            read.extend(page.await.map_err(|error| self.trouble(&error))?);
        }
        Ok(read)
    }
}
