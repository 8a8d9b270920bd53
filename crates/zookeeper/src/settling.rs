//! Decides whether a claim that has joined stays where it stands, leaves, or stands in line anew with the size in use.

use std::sync::Arc;

use tidelock_core::backend::{Claim, Grant, Patience};
use tidelock_core::{Error, ErrorKind, Kind, Name, Result, Weight};
use tidelock_model::{Place, place, touches};
use zookeeper_client::{Error as Said, MultiWriteError};

use crate::link::Change;
use crate::listing::{LineView, Listed, Listing};
use crate::open_session::OpenSession;
use crate::own_claims::Usage;
use crate::request::{Action, Answer};

/// The decision about a claim that stands in line.
enum Verdict {
    Stays,
    Gone,
    /// It stands elsewhere by now: list again to see where.
    Elsewhere,
    /// It must not stand here.
    Refused(Error),
    Anew(Anew),
}

/// The claim leaves and joins with another size, in one transaction.
struct Anew {
    size: Weight,
    /// Only while this node exists, so that the line has that size. None: the claim is the first, and sets its own
    /// size.
    beside: Option<String>,
}

impl OpenSession {
    /// Finds the place of a claim that stands in line, and whether it may stay there.
    pub(crate) async fn settle(
        self: &Arc<Self>,
        claim: &Claim,
        patience: Patience,
        mut listed: Result<Listed, Said>,
    ) -> Result<tidelock_core::backend::Place> {
        let (mut was_beside_another, mut was_elsewhere) = (false, false);
        loop {
            let listing = match listed {
                Ok(listed) => Listing::of(listed),
                Err(Said::NoNode) => return Ok(self.is_gone(claim)),
                Err(error) => return Err(self.trouble(&error)),
            };
            let seen = self.see(&claim.name, listing).await.map_err(|error| self.trouble(&error))?;
            match self.verdict(claim, &seen, was_beside_another) {
                Verdict::Stays => return self.place(claim, patience, &seen).await,
                Verdict::Elsewhere if !std::mem::replace(&mut was_elsewhere, true) => {
                    listed = self.list(&claim.name).await;
                }
                Verdict::Gone | Verdict::Elsewhere => return Ok(self.is_gone(claim)),
                Verdict::Refused(why) => {
                    self.step_back(claim).await?;
                    return Err(why);
                }
                Verdict::Anew(anew) => {
                    was_beside_another |= anew.beside.is_some();
                    listed = self.stand_anew(claim, anew).await?;
                }
            }
        }
    }

    fn verdict(&self, claim: &Claim, seen: &LineView, was_beside_another: bool) -> Verdict {
        if let Err(why) = self.may_be_used(&claim.name, seen) {
            return Verdict::Refused(why);
        }
        let Some(first) = seen.listing.standing.first() else { return Verdict::Gone };
        if seen
            .listing
            .find(claim.id)
            .is_some_and(|mine| self.own_claims.stands_elsewhere(claim.id, &mine.node))
        {
            return Verdict::Elsewhere;
        }
        match place(&seen.line, claim.id) {
            Place::Absent => Verdict::Gone,
            // It declared a size that this client remembered, but the line was empty since.
            Place::Held | Place::Stranded if !was_beside_another && self.has_borrowed(claim, seen) => {
                Verdict::Anew(Anew { size: claim.capacity, beside: None })
            }
            Place::Held | Place::Waiting => Verdict::Stays,
            Place::AnotherKind(kind) => Verdict::Refused(Error::other_kind(kind)),
            Place::AnotherSize(size) if claim.weight <= size => {
                Verdict::Anew(Anew { size, beside: Some(first.node.clone()) })
            }
            Place::AnotherSize(size) => Verdict::Refused(Error::too_heavy(size)),
            Place::Stranded => {
                let size = seen.line.in_use().map_or(claim.capacity, |(_, size)| size);
                Verdict::Refused(Error::too_heavy(size))
            }
        }
    }

    /// Whether the claim is the first in line and declares a size that its caller did not ask for.
    fn has_borrowed(&self, claim: &Claim, seen: &LineView) -> bool {
        let is_borrowed = |first: &tidelock_model::ShownClaim| {
            first.id == claim.id
                && first.declared != claim.capacity
                && seen.line.size(first) == first.declared
        };
        claim.kind == Kind::Semaphore
            && seen.line.claims.first().is_some_and(is_borrowed)
            && seen
                .listing
                .find(claim.id)
                .is_some_and(|mine| self.own_claims.held(claim.id, &mine.node).is_none())
    }

    /// Whether a claim that cannot wait may join this line, as it was seen.
    pub(crate) fn may_come(&self, claim: &Claim, seen: &LineView) -> Result<()> {
        self.may_be_used(&claim.name, seen)?;
        match seen.line.in_use() {
            Some((kind, _)) if kind != claim.kind => Err(Error::other_kind(kind)),
            Some((_, size)) if claim.weight > size => Err(Error::too_heavy(size)),
            None if claim.weight > claim.capacity => Err(Error::too_heavy(claim.capacity)),
            _ => Ok(()),
        }
    }

    /// Whether this path is a line, and short enough for others to list.
    fn may_be_used(&self, name: &Name, seen: &LineView) -> Result<()> {
        let wrong = |kind, message: String| Err(Error::new(kind, message));
        if let Some(strange) = &seen.listing.strange {
            let line = self.nodes.line(name);
            return wrong(
                ErrorKind::Protocol,
                format!("{line}/{strange} is not a node of Tidelock: something else uses this path"),
            );
        }
        if seen.listing.is_too_long {
            let many = seen.listing.standing.len();
            return wrong(
                ErrorKind::Unavailable,
                format!(
                    "{many} claims stand in line already; with more, clients could not list the line (jute.maxbuffer)"
                ),
            );
        }
        if seen.is_worn() {
            return wrong(
                ErrorKind::Unavailable,
                "a thousand million claims have come since the first in line, or since the semaphore was resized, and \
                 the server's numbers for them soon run over; release the first one, or let the line be empty for two \
                 minutes"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Moves a claim. The line must be listed again, whatever the reply. After an unknown outcome the claim is not
    /// known to stand anywhere.
    async fn stand_anew(
        self: &Arc<Self>,
        claim: &Claim,
        Anew { size, beside }: Anew,
    ) -> Result<Result<Listed, Said>> {
        let line = self.nodes.line(&claim.name);
        let Some(old) = self.own_claims.stands_anew(&claim.name, claim.id) else {
            return Ok(self.list(&claim.name).await); // its turn was seen meanwhile, or it is gone
        };
        let mut nodes: Vec<_> = beside.iter().map(|node| Change::Check(format!("{line}/{node}"))).collect();
        nodes.extend(old.nodes.iter().rev().map(|node| Change::Delete(format!("{line}/{node}"))));
        nodes.extend(self.nodes_of(claim, size, &line));
        let sent = self.clock.now();
        let asking = Action::Join { nodes, is_listed: true };
        let Answer { made, listing } = self.gather(claim.id, &claim.name, asking).await;
        match made {
            Ok(made) => {
                self.made(claim, &line, &made).await?;
                self.lease.answered(sent, self.clock.now());
                self.remember(claim, size);
            }
            // The first in line has left, or this claim was evicted.
            Err(MultiWriteError::OperationFailed { source: Said::NoNode, .. }) => {
                self.stands_at(claim, old.nodes, old.token);
            }
            Err(error) => return Err(self.trouble(&error.into())),
        }
        Ok(match listing {
            Some(listing) => listing.answered().await,
            None => self.list(&claim.name).await,
        })
    }

    /// Remembers the line's size. This client declares it next time, so that it need not stand in line twice.
    pub(crate) fn remember(&self, claim: &Claim, size: Weight) {
        if claim.kind == Kind::Semaphore {
            self.own_claims.set_size(&claim.name, Some(size).filter(|size| *size != claim.capacity));
        }
    }

    /// The size to declare, unless the claim creates the line.
    pub(crate) fn declared(&self, claim: &Claim) -> Weight {
        let size = if claim.kind == Kind::Semaphore { self.own_claims.size(&claim.name) } else { None };
        size.unwrap_or(claim.capacity)
    }

    async fn place(
        self: &Arc<Self>,
        claim: &Claim,
        patience: Patience,
        seen: &LineView,
    ) -> Result<tidelock_core::backend::Place> {
        let mine = seen.line.each().find(|(mine, _)| mine.id == claim.id);
        if let Some((mine, true)) = mine {
            let standing = seen.listing.find(claim.id);
            if standing.and_then(|at| self.own_claims.hold(&claim.name, claim.id, &at.node)).is_none() {
                return Ok(tidelock_core::backend::Place::Gone); // it has left meanwhile
            }
            self.seems_alone(&claim.name, seen);
            if touches(&seen.line, claim.id) {
                self.touch(&claim.name, &seen.listing, claim.id);
            }
            let capacity = seen.line.size(mine);
            self.remember(claim, capacity);
            let Some(token) = self.own_claims.token(claim.id) else {
                return Ok(tidelock_core::backend::Place::Gone);
            };
            return Ok(tidelock_core::backend::Place::Held {
                grant: Grant { token, capacity },
                until: self.lease.until(),
            });
        }
        if patience == Patience::Now {
            self.step_back(claim).await?;
            return Ok(tidelock_core::backend::Place::Refused);
        }
        self.arm(&claim.name, seen);
        Ok(self.waits())
    }

    /// A line with one claim that was never resized is most likely used by this client alone, unless other clients were
    /// seen to assume the same.
    fn seems_alone(&self, name: &Name, seen: &LineView) {
        let stat = &seen.listing.stat;
        let was_resized = stat.version % 2 != 0;
        let is_alone = seen.listing.standing.len() == 1 && !was_resized;
        if is_alone && self.own_claims.usage(name) == Some(Usage::Shared) {
            self.own_claims.set_usage(name, Usage::Alone(stat.version));
        }
    }

    /// The claim was evicted already.
    pub(crate) fn is_gone(self: &Arc<Self>, claim: &Claim) -> tidelock_core::backend::Place {
        self.has_left(&claim.name, claim.id);
        tidelock_core::backend::Place::Gone
    }

    /// Takes the claim out of the line again.
    pub(crate) async fn step_back(self: &Arc<Self>, claim: &Claim) -> Result<()> {
        self.clone().leave(claim.name.clone(), claim.id).await?;
        Ok(())
    }
}
