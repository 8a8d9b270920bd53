//! Standing in line.
//!
//! The node and the list of who stands there are asked for together: one round trip says whose turn it is. A line that
//! there is not is made with its first claim, in one transaction, and that claim is held without a look. And where
//! somebody of ours waits already, and is told when the line goes on, whoever comes later waits behind without a look.

use std::sync::Arc;

use tidelock::{Claim, Error, ErrorKind, Grant, Kind, Name, Patience, Place, Result, Token, Weight};
use tidelock_model::touches;
use zookeeper_client::{Error as Said, MultiWriteError};

use crate::books::{Before, Usage};
use crate::gathering::{Answer, What};
use crate::link::{Change, Made};
use crate::listing::Listing;
use crate::nodes::beginnings;
use crate::resized::Resized;
use crate::session::Desk;
use crate::watching::Seen;

impl Desk {
    pub(crate) async fn join(self: &Arc<Self>, claim: &Claim, patience: Patience) -> Result<Place> {
        match self.books.begin(&claim.name, claim.id) {
            Before::Void => Ok(Place::Gone),
            Before::New if patience == Patience::Now => self.stand_if_free(claim).await,
            Before::New => self.stand(claim, patience).await,
            Before::Asked => self.find_again(claim, patience).await,
            Before::Stands(_) => {
                let listing = self.link.list(&self.nodes.line(&claim.name));
                self.settle(claim, patience, listing.await).await
            }
        }
    }

    /// Somebody who cannot wait looks first.
    async fn stand_if_free(self: &Arc<Self>, claim: &Claim) -> Result<Place> {
        match self.link.list(&self.nodes.line(&claim.name)).await {
            Ok(listed) => {
                self.books.has_line(&claim.name);
                let seen = self.see(&claim.name, Listing::of(listed)).await?;
                if let Err(why) = self.admit(claim, &seen) {
                    self.books.nowhere(&claim.name, claim.id);
                    return Err(why);
                }
                let used: u64 = seen.line.claims.iter().map(|claim| u64::from(claim.weight.get())).sum();
                let is_used = !seen.line.claims.is_empty();
                if is_used && used + u64::from(claim.weight.get()) > u64::from(seen.line.capacity.get()) {
                    self.books.nowhere(&claim.name, claim.id);
                    return Ok(Place::Refused);
                }
            }
            Err(Said::NoNode) => self.books.has_no_line(&claim.name),
            Err(error) => return Err(self.refused(claim, &error)),
        }
        self.stand(claim, Patience::Now).await
    }

    /// A name that is new here most likely has no line yet; and where nobody else was, nobody else is.
    async fn stand(self: &Arc<Self>, claim: &Claim, patience: Patience) -> Result<Place> {
        let line = self.nodes.line(&claim.name);
        // What it declares counts only if it is the first.
        let cannot_be_first = claim.weight > claim.capacity;
        loop {
            let place = match self.books.usage(&claim.name) {
                None if !cannot_be_first => self.stand_first(claim, &line).await?,
                Some(Usage::Alone(version)) if claim.kind != Kind::Semaphore => {
                    self.stand_alone(claim, patience, &line, version).await?
                }
                _ => self.stand_behind(claim, patience, &line).await?,
            };
            match place {
                Some(place) => return Ok(place),
                None if cannot_be_first => {
                    return Err(self.turned_away(claim, too_heavy(claim.weight, claim.capacity)));
                }
                None => {}
            }
        }
    }

    /// Stands in a line that nobody else has used lately. Nothing is written to it behind the claim, which answers how
    /// many stand there, if its data are still those that this client has seen. A semaphore's are watched, and may be a
    /// capacity: so not there. None: somebody has written, or there is no line.
    async fn stand_alone(
        self: &Arc<Self>,
        claim: &Claim,
        patience: Patience,
        line: &str,
        version: i32,
    ) -> Result<Option<Place>> {
        let mut nodes = self.nodes_of(claim, line);
        let own = nodes.len();
        nodes.push(Change::Write(line.to_owned(), String::new(), version));
        let sent = self.clock.now();
        match self.gather(claim.id, &claim.name, What::Join { nodes, listed: None }).await.made {
            Ok(made) => {
                let token = self.made(claim, line, &made)?;
                self.lease.answered(sent);
                if let Some(stat) = made.line.filter(|stat| usize::try_from(stat.num_children) == Ok(own)) {
                    self.books.set_usage(&claim.name, Usage::Alone(stat.version));
                    return Ok(Some(self.holds_alone(claim, token)));
                }
                self.books.set_usage(&claim.name, Usage::Shared);
                let listed = self.link.list(line).await;
                self.settle(claim, patience, listed).await.map(Some)
            }
            Err(MultiWriteError::OperationFailed { source: Said::NoNode, .. }) => {
                self.books.has_no_line(&claim.name);
                Ok(None)
            }
            Err(MultiWriteError::OperationFailed { source: Said::BadVersion, .. }) => {
                self.books.set_usage(&claim.name, Usage::Contended);
                Ok(None)
            }
            Err(error) => Err(self.refused(claim, &error.into())),
        }
    }

    fn holds_alone(&self, claim: &Claim, token: Token) -> Place {
        self.books.hold(&claim.name, claim.id);
        let grant = Grant { token, capacity: claim.capacity };
        Place::Held { grant, until: self.lease.until() }
    }

    /// Stands in a line that there is. None: there is none any more.
    async fn stand_behind(
        self: &Arc<Self>,
        claim: &Claim,
        patience: Patience,
        line: &str,
    ) -> Result<Option<Place>> {
        let needs_no_look = patience == Patience::Wait && self.books.is_waited_before(claim);
        let sent = self.clock.now();
        let listed = (!needs_no_look).then(|| line.to_owned());
        let standing = What::Join { nodes: self.nodes_of(claim, line), listed };
        let Answer { made, listing } = self.gather(claim.id, &claim.name, standing).await;
        match made {
            Ok(made) => self.made(claim, line, &made)?,
            Err(error) if Said::from(error.clone()) == Said::NoNode => {
                self.books.has_no_line(&claim.name);
                return Ok(None);
            }
            Err(error) => return Err(self.refused(claim, &error.into())),
        };
        self.lease.answered(sent);
        let listed = match listing {
            None if self.books.is_waited_before(claim) => return Ok(Some(self.waits())),
            None => self.link.list(line).await,
            Some(listing) => listing.await,
        };
        self.settle(claim, patience, listed).await.map(Some)
    }

    fn waits(&self) -> Place {
        Place::Waiting { until: self.lease.until(), look_in: self.lease.ttl }
    }

    /// Makes the line, and stands in it as its first. None: that has to be tried again.
    async fn stand_first(self: &Arc<Self>, claim: &Claim, line: &str) -> Result<Option<Place>> {
        let mut nodes = vec![Change::Line(line.to_owned())];
        nodes.extend(self.nodes_of(claim, line));
        let sent = self.clock.now();
        match self.gather(claim.id, &claim.name, What::Join { nodes, listed: None }).await.made {
            Ok(made) => {
                let token = self.made(claim, line, &made)?;
                self.lease.answered(sent);
                self.books.set_usage(&claim.name, Usage::Alone(0));
                Ok(Some(self.holds_alone(claim, token)))
            }
            Err(MultiWriteError::OperationFailed { index: 0, source: Said::NodeExists }) => {
                self.books.has_line(&claim.name);
                Ok(None)
            }
            Err(MultiWriteError::OperationFailed { index: 0, source: Said::NoNode }) => {
                // Somebody has deleted the namespace. Without the node of the URL's path it cannot be made again.
                self.link.make_root(self.nodes.root()).await.map_err(|error| self.refused(claim, &error))?;
                Ok(None)
            }
            Err(error) => Err(self.refused(claim, &error.into())),
        }
    }

    fn nodes_of(&self, claim: &Claim, line: &str) -> Vec<Change> {
        let node = |beginning: String| Change::Node(format!("{line}/{beginning}"), self.label.clone());
        beginnings(claim).into_iter().map(node).collect()
    }

    /// Takes down what nodes a claim has, and the transaction that made them, which is its token.
    fn made(&self, claim: &Claim, line: &str, made: &Made) -> Result<Token> {
        let node = |path: &String| path.strip_prefix(line)?.strip_prefix('/').map(str::to_owned);
        let token = token(made.order)?;
        self.books.stands(claim.id, made.paths.iter().filter_map(node).collect(), token);
        Ok(token)
    }

    /// It was asked for before, and the answer was lost: it stands there, or it does not.
    async fn find_again(self: &Arc<Self>, claim: &Claim, patience: Patience) -> Result<Place> {
        let line = self.nodes.line(&claim.name);
        self.lane.retract(|part| part.id == claim.id); // what was not sent yet will not come behind the list
        let listed = match self.link.list_latest(&line).await {
            Ok(listed) => listed,
            Err(Said::NoNode) => return self.stand(claim, patience).await,
            Err(error) => return Err(self.trouble(&error)),
        };
        let nodes: Vec<String> = match Listing::of(listed.clone()).find(claim.id) {
            Some(standing) => standing.nodes().cloned().collect(),
            None if patience == Patience::Now => return self.stand_if_free(claim).await,
            None => return self.stand(claim, patience).await,
        };
        let first = format!("{line}/{}", nodes[0]);
        let stat = self.link.stat(&first).await.map_err(|error| self.trouble(&error))?;
        let Some(stat) = stat else { return Ok(self.is_gone(claim)) };
        self.books.stands(claim.id, nodes, token(stat.czxid)?);
        self.settle(claim, patience, Ok(listed)).await
    }

    /// It stands in line: where, and may it?
    async fn settle(
        self: &Arc<Self>,
        claim: &Claim,
        patience: Patience,
        mut listed: Result<(Vec<String>, zookeeper_client::Stat), Said>,
    ) -> Result<Place> {
        loop {
            let listing = match listed {
                Ok(listed) => Listing::of(listed),
                Err(Said::NoNode) => return Ok(self.is_gone(claim)),
                Err(error) => return Err(self.trouble(&error)),
            };
            let seen = self.see(&claim.name, listing).await?;
            if let Err(why) = self.admit(claim, &seen) {
                self.step_back(claim).await?;
                return Err(why);
            }
            if seen.listing.find(claim.id).is_none() {
                return Ok(self.is_gone(claim));
            }
            if self.write_down(claim, &seen).await? {
                return self.place(claim, patience, &seen).await;
            }
            listed = self.link.list(&self.nodes.line(&claim.name)).await;
        }
    }

    /// Somebody has evicted it already.
    fn is_gone(&self, claim: &Claim) -> Place {
        self.books.forget(&claim.name, claim.id);
        Place::Gone
    }

    async fn place(self: &Arc<Self>, claim: &Claim, patience: Patience, seen: &Seen) -> Result<Place> {
        if seen.line.held().any(|held| held.id == claim.id) {
            self.books.hold(&claim.name, claim.id);
            self.seems_alone(&claim.name, seen);
            if touches(&seen.line, claim.id) {
                self.touch(&claim.name, &seen.listing, claim.id);
            }
            let Some(token) = self.books.token(claim.id) else { return Ok(Place::Gone) };
            let grant = Grant { token, capacity: seen.line.capacity };
            return Ok(Place::Held { grant, until: self.lease.until() });
        }
        if patience == Patience::Now {
            self.step_back(claim).await?;
            return Ok(Place::Refused);
        }
        self.arm(&claim.name, seen);
        Ok(self.waits())
    }

    /// A line with one claim in it and no data is most likely used by this client alone, unless others were seen to be
    /// as sure of that.
    fn seems_alone(&self, name: &Name, seen: &Seen) {
        let stat = &seen.listing.stat;
        let is_alone = seen.listing.standing.len() == 1 && stat.data_length == 0;
        if is_alone && self.books.usage(name) == Some(Usage::Shared) {
            self.books.set_usage(name, Usage::Alone(stat.version));
        }
    }

    /// Whether it may stand in this line.
    fn admit(&self, claim: &Claim, seen: &Seen) -> Result<()> {
        let wrong = |kind, message: String| Err(Error::new(kind, message));
        if let Some(strange) = &seen.listing.strange {
            let line = self.nodes.line(&claim.name);
            return wrong(
                ErrorKind::Protocol,
                format!("{line}/{strange} is not Tidelock's: something else uses this path"),
            );
        }
        if seen.listing.is_too_long {
            let many = seen.listing.standing.len();
            return wrong(
                ErrorKind::Unavailable,
                format!(
                    "{many} stand in line already, and with more of them others could not list it (jute.maxbuffer)"
                ),
            );
        }
        let kind = seen.listing.kind(Some(claim.id)).unwrap_or(claim.kind);
        if kind != claim.kind {
            return wrong(
                ErrorKind::KindMismatch,
                format!("it is in use as a {kind}, and not as a {}", claim.kind),
            );
        }
        let capacity = if seen.line.claims.is_empty() { claim.capacity } else { seen.line.capacity };
        match claim.weight > capacity && self.books.held(claim.id).is_none() {
            true => Err(too_heavy(claim.weight, capacity)),
            false => Ok(()),
        }
    }

    /// Whoever declares another capacity than the line has writes down what it has: the others, by whom it is known,
    /// may leave first. False: they have, or somebody else has written. Then it has to be looked at again.
    async fn write_down(&self, claim: &Claim, seen: &Seen) -> Result<bool> {
        let Some(position) = seen.listing.standing.iter().position(|standing| standing.id == claim.id) else {
            return Ok(true);
        };
        let mine = &seen.listing.standing[position];
        let written = seen.resized.filter(|written| seen.listing.is_in_force(written));
        let is_covered =
            written.is_some_and(|written| crate::listing::is_before(mine.sequence, written.before));
        let Some(older) = position.checked_sub(1).map(|ahead| &seen.listing.standing[ahead]) else {
            return Ok(true);
        };
        if mine.capacity == seen.line.capacity || is_covered {
            return Ok(true);
        }
        let held = written.map_or(seen.listing.standing[0].sequence, |written| written.held);
        let capacity = Resized { capacity: seen.line.capacity, before: mine.sequence.wrapping_add(1), held };
        let line = self.nodes.line(&claim.name);
        let check = Change::Check(format!("{line}/{}", older.node));
        let write = Change::Write(line, capacity.text(), seen.listing.stat.version);
        match self.link.transact(vec![check, write]).await.map_err(Said::from) {
            Ok(_) => Ok(true),
            Err(Said::NoNode | Said::BadVersion) => Ok(false),
            Err(error) => Err(self.trouble(&error)),
        }
    }

    /// It does not stand here after all.
    async fn step_back(self: &Arc<Self>, claim: &Claim) -> Result<()> {
        self.clone().leave(claim.name.clone(), claim.id).await?;
        Ok(())
    }

    /// An error of the request that would have made it. What the server said itself says that nothing was made.
    fn refused(&self, claim: &Claim, error: &Said) -> Error {
        let error = self.trouble(error);
        match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Lost => error,
            _ => self.turned_away(claim, error),
        }
    }

    fn turned_away(&self, claim: &Claim, why: Error) -> Error {
        self.books.nowhere(&claim.name, claim.id);
        why
    }
}

/// Tokens are orders of the store below 2^48: transactions of 65 535 elections.
pub(crate) fn token(czxid: i64) -> Result<Token> {
    let order = u64::try_from(czxid).ok().and_then(Token::from_order);
    order.ok_or_else(|| {
        let wrong = format!(
            "transaction {czxid:#x} does not fit a token: this ensemble has had more than 65535 elections"
        );
        Error::new(ErrorKind::Unsupported, wrong)
    })
}

fn too_heavy(weight: Weight, capacity: Weight) -> Error {
    let wrong = format!("{weight} permits can never be had: there are {capacity}");
    Error::new(ErrorKind::InvalidPermits, wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transactions_are_tokens_until_they_do_not_fit() {
        assert_eq!(token(7).unwrap().get(), 7 << 5);
        assert_eq!(token((1 << 48) - 1).unwrap().store_order(), (1 << 48) - 1);
        for czxid in [1 << 48, -1] {
            assert_eq!(token(czxid).unwrap_err().kind(), ErrorKind::Unsupported);
        }
    }
}
