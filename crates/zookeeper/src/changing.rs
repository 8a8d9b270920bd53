//! Making a claim lighter, and a semaphore larger or smaller, while they are in use.

use std::sync::Arc;

use tidelock_core::backend::Claim;
use tidelock_core::{ClaimId, Error, ErrorKind, Kind, Name, Result, Weight};
use zookeeper_client::{Error as Said, MultiWriteError};

use crate::link::Change;
use crate::listing::{LineView, Listing};
use crate::open_session::OpenSession;
use crate::own_claims::{Stage, Stands};
use crate::resized::Resized;

impl OpenSession {
    /// A writer becomes a reader by deleting its second node.
    pub(crate) async fn lighten(self: &Arc<Self>, claim: &Claim, weight: Weight) -> Result<()> {
        let gone = || Err(Error::not_in_line(claim.id));
        let Some(Stage::Stands(Stands { nodes, is_held: true, .. })) = self.own_claims.stage(claim.id) else {
            return gone();
        };
        let line = self.nodes.line(&claim.name);
        if let ([base, rest], Weight::ONE) = (nodes.as_slice(), weight) {
            let check = Change::Check(format!("{line}/{base}"));
            let delete = Change::Delete(format!("{line}/{rest}"));
            return match self.link.transact(vec![check, delete]).await {
                // It was deleted already, and the reply was lost.
                Ok(_) | Err(MultiWriteError::OperationFailed { index: 1, source: Said::NoNode }) => {
                    self.is_lighter(&claim.name, claim.id);
                    Ok(())
                }
                Err(MultiWriteError::OperationFailed { index: 0, source: Said::NoNode }) => gone(),
                Err(error) => Err(self.trouble(&error.into())),
            };
        }
        let listed = match self.list(&claim.name).await {
            Ok(listed) => Listing::of(listed),
            Err(Said::NoNode) => return gone(),
            Err(error) => return Err(self.trouble(&error)),
        };
        match listed.find(claim.id).map(|standing| standing.weight) {
            None => gone(),
            Some(now) if weight == now => Ok(()),
            Some(now) if weight > now => Err(Error::heavier(now)),
            Some(_) => Err(Error::new(
                ErrorKind::Unsupported,
                "in ZooKeeper only a writer can be made lighter: it becomes a reader",
            )),
        }
    }

    fn is_lighter(&self, name: &Name, id: ClaimId) {
        if self.own_claims.lightened(name, id) {
            self.signals.look(name);
        }
    }

    /// Writes the new capacity to the line, as long as a claim stands there. A claim that came during the write
    /// declares the old capacity, and may have been let in by it. So the capacity is written once more, to cover such
    /// claims too.
    pub(crate) async fn resize(self: &Arc<Self>, name: &Name, from: Weight, to: Weight) -> Result<()> {
        let line = self.nodes.line(name);
        let mut written: Option<Resized> = None;
        loop {
            let listing = match self.link.list_latest(&line).await {
                Ok((children, stat)) => Listing::of((children, stat, 0)),
                Err(Said::NoNode) => return Ok(()),
                Err(error) => return Err(self.trouble(&error)),
            };
            let seen = self.see(name, listing).await.map_err(|error| self.trouble(&error))?;
            let Some(last) = seen.listing.standing.last() else { return Ok(()) };
            match written {
                None => may_resize(&seen, from, to)?,
                Some(written) if seen.resized != Some(written) || is_of_size(&seen, to) => return Ok(()),
                Some(_) => {}
            }
            let held = written.map_or_else(|| held_before(&seen), |written| written.held);
            let resized = Resized { capacity: to, before: last.sequence.wrapping_add(1), held };
            let resized = seen.resized.map_or(resized, |before| resized.with_all_of(&before));
            let mut changes = vec![Change::Check(format!("{line}/{}", last.node))];
            let write = |version| Change::Write(line.clone(), resized.text(), version);
            let version = seen.listing.stat.version;
            changes.push(write(version));
            if version % 2 != 0 {
                changes.push(write(version.wrapping_add(1))); // it stays odd: see `stand_alone`
            }
            match self.link.transact(changes).await.map_err(Said::from) {
                // Claims that came since then could see the first write.
                Ok(_) if written.is_some() => return Ok(()),
                Ok(_) => written = Some(resized),
                Err(Said::NoNode | Said::BadVersion) => {} // a claim left, or another client wrote: look again
                Err(error) => return Err(self.trouble(&error)),
            }
        }
    }
}

/// Whether all permits in the line have that size.
fn is_of_size(seen: &LineView, to: Weight) -> bool {
    let mut permits = seen.line.claims.iter().filter(|claim| claim.kind == Kind::Semaphore);
    permits.all(|claim| seen.line.size(claim) == to)
}

fn may_resize(seen: &LineView, from: Weight, to: Weight) -> Result<()> {
    let Some((kind, size)) = seen.line.in_use() else { return Ok(()) };
    if kind != Kind::Semaphore {
        return Err(Error::other_kind(kind));
    }
    if size != from {
        return Err(Error::other_size(size));
    }
    match seen.line.stranded_by(to) {
        Some(_) => Err(Error::strands()),
        None => Ok(()),
    }
}

/// The sequence after the last claim that has its turn.
fn held_before(seen: &LineView) -> i32 {
    let standing = &seen.listing.standing;
    match standing[..seen.line.held_in_front()].last() {
        Some(last) => last.sequence.wrapping_add(1),
        None => standing.first().map_or(0, |first| first.sequence),
    }
}
