//! Joining a line.
//!
//! A join creates the claim's node and lists the line in one round trip, which shows whose turn it is. If there is no
//! line, it is created together with its first claim in one transaction, and that claim is held without a look. If
//! another claim of ours already waits there with a watch, a later one waits behind it without a look.

use std::sync::Arc;

use tidelock_core::backend::{Claim, Grant, Patience, Place};
use tidelock_core::{Error, ErrorKind, Kind, Result, Token, Weight};
use zookeeper_client::{Error as Said, MultiWriteError};

use crate::link::{Change, Made};
use crate::listing::{Listed, Listing};
use crate::nodes::{beginnings, token};
use crate::open_session::OpenSession;
use crate::own_claims::{JoinStart, Usage};
use crate::request::{Action, Answer};

/// Why a claim that cannot wait must not stand in a line.
enum Unfree {
    Taken,
    Otherwise(Error),
}

impl OpenSession {
    pub(crate) async fn join(self: &Arc<Self>, claim: &Claim, patience: Patience) -> Result<Place> {
        let _under_way = self.joins.begin(claim.id).await;
        match self.own_claims.begin(&claim.name, claim.id, self.nodes.bytes(claim)) {
            JoinStart::Void => Ok(Place::Gone),
            JoinStart::Full => Err(self.turned_away(claim, full())),
            JoinStart::New if patience == Patience::Now => self.stand_if_free(claim).await,
            JoinStart::New => self.stand(claim, patience).await,
            JoinStart::Asked => self.find_again(claim, patience).await,
            JoinStart::Stands(_) => {
                let listing = self.list(&claim.name);
                self.settle(claim, patience, listing.await).await
            }
        }
    }

    /// A claim that cannot wait looks first. A server that is behind the others may show claims that have left, so a
    /// claim is refused only after the server has caught up.
    async fn stand_if_free(self: &Arc<Self>, claim: &Claim) -> Result<Place> {
        let refusal = match self.looks_free(claim, self.list(&claim.name).await).await? {
            Some(_) => self.looks_free(claim, self.list_latest(&claim.name).await).await?,
            None => None,
        };
        match refusal {
            None => self.stand(claim, Patience::Now).await,
            Some(Unfree::Taken) => {
                self.own_claims.refuse(&claim.name, claim.id);
                Ok(Place::Refused)
            }
            Some(Unfree::Otherwise(why)) => Err(self.turned_away(claim, why)),
        }
    }

    /// Why a claim that cannot wait must not stand in the listed line. None: it may.
    async fn looks_free(
        self: &Arc<Self>,
        claim: &Claim,
        listed: Result<Listed, Said>,
    ) -> Result<Option<Unfree>> {
        match listed {
            Ok(listed) => {
                self.own_claims.has_line(&claim.name);
                let seen =
                    self.see(&claim.name, Listing::of(listed)).await.map_err(|error| self.trouble(&error))?;
                if let Err(why) = self.may_come(claim, &seen) {
                    return Ok(Some(Unfree::Otherwise(why)));
                }
                if !seen.line.has_room(claim.weight) {
                    return Ok(Some(Unfree::Taken));
                }
                self.remember(claim, seen.line.in_use().map_or(claim.capacity, |(_, size)| size));
            }
            Err(Said::NoNode) => self.own_claims.has_no_line(&claim.name),
            Err(error) => return Err(self.refused(claim, &error)),
        }
        Ok(None)
    }

    /// A name that is new to this client most likely has no line yet. A name that no other client used lately is most
    /// likely still used by this client alone.
    async fn stand(self: &Arc<Self>, claim: &Claim, patience: Patience) -> Result<Place> {
        let line = self.nodes.line(&claim.name);
        // The size it declares counts only if it is the first.
        let cannot_be_first = claim.weight > claim.capacity;
        loop {
            let place = match self.own_claims.usage(&claim.name) {
                None if !cannot_be_first => self.stand_first(claim, &line).await?,
                Some(Usage::Alone(version)) if claim.kind != Kind::Semaphore => {
                    self.stand_alone(claim, patience, &line, version).await?
                }
                _ => self.stand_behind(claim, patience, &line).await?,
            };
            match place {
                Some(place) => return Ok(place),
                None if cannot_be_first => {
                    return Err(self.turned_away(claim, Error::too_heavy(claim.capacity)));
                }
                None => {}
            }
        }
    }

    /// Stands in a line that no other client has used lately. The claim's transaction also writes empty data to the
    /// line, if its data are still the version this client has seen; the reply tells how many stand there. This is not
    /// done for semaphores: their data may be a capacity, and are watched. None: another client has written, or there
    /// is no line.
    ///
    /// The line is written twice, so that its version stays even while it was never resized. A resize makes the version
    /// odd for good. Reason: the server deletes empty lines, and the versions of the next line begin anew. A resized
    /// line must not be taken for the one that was seen, because the write would erase its capacity.
    async fn stand_alone(
        self: &Arc<Self>,
        claim: &Claim,
        patience: Patience,
        line: &str,
        version: i32,
    ) -> Result<Option<Place>> {
        let mut nodes = self.nodes_of(claim, claim.capacity, line);
        let own = nodes.len();
        for version in [version, version.wrapping_add(1)] {
            nodes.push(Change::Write(line.to_owned(), String::new(), version));
        }
        let sent = self.clock.now();
        match self.gather(claim.id, &claim.name, Action::Join { nodes, is_listed: false }).await.made {
            Ok(made) => {
                let token = self.made(claim, line, &made).await?;
                self.lease.answered(sent, self.clock.now());
                if let Some(stat) = made.line.filter(|stat| usize::try_from(stat.num_children) == Ok(own)) {
                    self.own_claims.set_usage(&claim.name, Usage::Alone(stat.version));
                    return Ok(Some(self.holds_alone(claim, token)));
                }
                self.own_claims.set_usage(&claim.name, Usage::Shared);
                let listed = self.list(&claim.name).await;
                self.settle(claim, patience, listed).await.map(Some)
            }
            Err(MultiWriteError::OperationFailed { source: Said::NoNode, .. }) => {
                self.own_claims.has_no_line(&claim.name);
                Ok(None)
            }
            Err(MultiWriteError::OperationFailed { source: Said::BadVersion, .. }) => {
                self.own_claims.set_usage(&claim.name, Usage::Contended);
                Ok(None)
            }
            Err(error) => Err(self.refused(claim, &error.into())),
        }
    }

    fn holds_alone(&self, claim: &Claim, token: Token) -> Place {
        self.own_claims.holds_alone(&claim.name, claim.id);
        let grant = Grant { token, capacity: claim.capacity };
        Place::Held { grant, until: self.lease.until() }
    }

    /// Stands in an existing line. None: the line is gone.
    async fn stand_behind(
        self: &Arc<Self>,
        claim: &Claim,
        patience: Patience,
        line: &str,
    ) -> Result<Option<Place>> {
        let declared = self.declared(claim);
        let sent = self.clock.now();
        let has_patience = patience == Patience::Wait;
        let standing = Action::Behind { claim: claim.clone(), declared, has_patience };
        let Answer { made, listing } = self.gather(claim.id, &claim.name, standing).await;
        match made.map_err(|error| (Said::from(error.clone()), error)) {
            Ok(made) => self.made(claim, line, &made).await?,
            Err((Said::NoNode, _)) => {
                self.own_claims.has_no_line(&claim.name);
                return Ok(None);
            }
            Err((Said::BadVersion, _)) => {
                self.own_claims.has_changed(&claim.name);
                return Box::pin(self.stand_behind(claim, patience, line)).await;
            }
            Err((_, error)) => return Err(self.refused(claim, &error.into())),
        };
        self.lease.answered(sent, self.clock.now());
        let listed = match listing {
            None if self.own_claims.waited_before(claim, declared).is_some() => {
                return Ok(Some(self.waits()));
            }
            None => self.list(&claim.name).await,
            Some(listing) => listing.answered().await,
        };
        self.settle(claim, patience, listed).await.map(Some)
    }

    pub(crate) fn waits(&self) -> Place {
        Place::Waiting { until: self.lease.until(), look_in: self.lease.ttl }
    }

    /// Creates the line, with this claim as its first. None: try again.
    async fn stand_first(self: &Arc<Self>, claim: &Claim, line: &str) -> Result<Option<Place>> {
        let mut nodes = vec![Change::Line(line.to_owned())];
        nodes.extend(self.nodes_of(claim, claim.capacity, line));
        let sent = self.clock.now();
        match self.gather(claim.id, &claim.name, Action::Join { nodes, is_listed: false }).await.made {
            Ok(made) => {
                let token = self.made(claim, line, &made).await?;
                self.lease.answered(sent, self.clock.now());
                self.own_claims.set_usage(&claim.name, Usage::Alone(0));
                Ok(Some(self.holds_alone(claim, token)))
            }
            Err(MultiWriteError::OperationFailed { index: 0, source: Said::NodeExists }) => {
                self.own_claims.has_line(&claim.name);
                Ok(None)
            }
            Err(MultiWriteError::OperationFailed { index: 0, source: Said::NoNode }) => {
                // The namespace's node was deleted. It cannot be created again without the node of the URL's path.
                self.link.make_root(self.nodes.root()).await.map_err(|error| self.refused(claim, &error))?;
                Ok(None)
            }
            Err(error) => Err(self.refused(claim, &error.into())),
        }
    }

    pub(crate) fn nodes_of(&self, claim: &Claim, declared: Weight, line: &str) -> Vec<Change> {
        let node = |beginning: String| Change::Node(format!("{line}/{beginning}"), self.label.clone());
        beginnings(claim, declared).into_iter().map(node).collect()
    }

    /// Records the nodes of a claim, and its token: the transaction that created them. If that does not fit a token,
    /// the claim steps back before the error is returned: an error other than an unknown outcome promises that the
    /// claim has no nodes.
    pub(crate) async fn made(self: &Arc<Self>, claim: &Claim, line: &str, made: &Made) -> Result<Token> {
        let token = match token(made.order) {
            Ok(token) => token,
            Err(why) => {
                self.step_back(claim).await?;
                return Err(why);
            }
        };
        let node = |path: &String| path.strip_prefix(line)?.strip_prefix('/').map(str::to_owned);
        self.stands_at(claim, made.paths.iter().filter_map(node).collect(), token);
        Ok(token)
    }

    pub(crate) fn stands_at(&self, claim: &Claim, nodes: Vec<String>, token: Token) {
        if self.own_claims.stands(&claim.name, claim.id, nodes, token) {
            self.signals.look(&claim.name);
        }
    }

    /// An earlier join got no reply: finds out whether the claim stands in line.
    async fn find_again(self: &Arc<Self>, claim: &Claim, patience: Patience) -> Result<Place> {
        let found = self.search(&claim.name, claim.id).await.map_err(|error| self.trouble(&error))?;
        let Some(standing) = found.find(claim.id) else {
            if self.own_claims.comes_again(&claim.name, claim.id) {
                self.signals.look(&claim.name);
            }
            return match patience {
                Patience::Now => self.stand_if_free(claim).await,
                Patience::Wait => self.stand(claim, patience).await,
            };
        };
        let nodes: Vec<String> = standing.nodes().cloned().collect();
        let line = self.nodes.line(&claim.name);
        let first = format!("{line}/{}", nodes[0]);
        let stat = self.link.stat(&first).await.map_err(|error| self.trouble(&error))?;
        let Some(stat) = stat else { return Ok(self.is_gone(claim)) };
        let token = match token(stat.czxid) {
            Ok(token) => token,
            Err(why) => {
                self.step_back(claim).await?;
                return Err(why);
            }
        };
        self.stands_at(claim, nodes, token);
        let listed = self.list(&claim.name).await;
        self.settle(claim, patience, listed).await
    }

    /// An error of the request that creates the claim's nodes. If the server itself reports the error, no node was
    /// created.
    fn refused(&self, claim: &Claim, error: &Said) -> Error {
        let error = self.trouble(error);
        match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Lost => error,
            _ => self.turned_away(claim, error),
        }
    }

    pub(crate) fn turned_away(&self, claim: &Claim, why: Error) -> Error {
        self.own_claims.nowhere(&claim.name, claim.id);
        why
    }
}

fn full() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "this client has as many claims as ZooKeeper can delete when a session ends (a megabyte of paths, \
         jute.maxbuffer); release some, or connect another client",
    )
}
