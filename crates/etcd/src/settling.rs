//! Decides whether a claim that has joined stays where it stands, leaves, or stands in line anew with the size in use.

use std::sync::Arc;

use etcd_client::{Compare, CompareOp, TxnOp};
use tidelock_core::backend::{Claim, Grant, Leave, Patience, Place};
use tidelock_core::{ClaimId, Error, Result, Token, Weight};
use tidelock_model::{Place as Shown, ShownLine, place};

use crate::joining::may_be_used;
use crate::line_view::LineView;
use crate::open_session::OpenSession;
use crate::own_claims::{Stage, Stands};
use crate::request::Action;

/// The decision about a claim that stands in line.
enum Verdict {
    Held(Weight),
    Waits,
    Gone,
    /// It stands elsewhere by now: read the line again.
    Elsewhere,
    /// It must not stand here.
    Refused(Error),
    /// It leaves and joins with this size, in one transaction, as long as the line's first claim stands.
    Anew(Weight, ClaimId),
}

impl OpenSession {
    /// Finds the place of a claim that stands in line, and whether it may stay there. `view` is the line at that revision,
    /// if it was read.
    pub(crate) async fn settle(
        self: &Arc<Self>,
        claim: &Claim,
        patience: Patience,
        mut revision: i64,
        mut view: Option<LineView>,
    ) -> Result<Place> {
        let mut was_elsewhere = false;
        loop {
            let (seen, shown) = match view.take() {
                Some(view) => {
                    let shown = self.own_claims.shown(&view);
                    (view, shown)
                }
                None => match self.line_at(claim, revision).await? {
                    None if patience == Patience::Wait => return Ok(self.waits()),
                    None => {
                        view = Some(self.read_again(claim).await?);
                        continue;
                    }
                    Some(seen) => seen,
                },
            };
            match self.verdict(claim, &seen, &shown) {
                Verdict::Held(capacity) => {
                    let order = seen.place(claim.id).unwrap_or_default();
                    let held = self.own_claims.hold(&claim.name, claim.id, order);
                    self.shows(&claim.name, &seen); // others of ours may wait behind it
                    return Ok(match held {
                        Some(token) => Place::Held { grant: Grant { token, capacity }, until: self.until() },
                        None => Place::Gone, // it has left meanwhile
                    });
                }
                Verdict::Waits if patience == Patience::Now => {
                    self.step_back(claim).await?;
                    return Ok(Place::Refused);
                }
                Verdict::Waits => {
                    self.arm(claim, &seen);
                    return Ok(self.waits());
                }
                Verdict::Elsewhere if !std::mem::replace(&mut was_elsewhere, true) => {
                    view = Some(self.read_again(claim).await?);
                }
                Verdict::Gone | Verdict::Elsewhere => return Ok(self.is_gone(claim)),
                Verdict::Refused(why) => {
                    self.step_back(claim).await?;
                    return Err(why);
                }
                Verdict::Anew(size, first) => {
                    (revision, view) = self.stand_anew(claim, size, first, seen.revision).await?;
                }
            }
        }
    }

    fn verdict(&self, claim: &Claim, seen: &LineView, shown: &ShownLine) -> Verdict {
        if let Err(why) = may_be_used(seen) {
            return Verdict::Refused(why);
        }
        let (Some(mine), Some(first)) = (shown.claim(claim.id), shown.claims.first()) else {
            return Verdict::Gone;
        };
        let stands = match self.own_claims.stage(claim.id) {
            Some(Stage::Stands(Stands { order, .. })) => order == mine.order,
            _ => false,
        };
        if !stands {
            return Verdict::Elsewhere;
        }
        match place(shown, claim.id) {
            Shown::Absent => Verdict::Gone,
            Shown::Held => Verdict::Held(shown.size(mine)),
            Shown::Waiting => Verdict::Waits,
            Shown::AnotherKind(kind) => Verdict::Refused(Error::other_kind(kind)),
            Shown::AnotherSize(size) if claim.weight <= size => Verdict::Anew(size, first.id),
            Shown::AnotherSize(size) => Verdict::Refused(Error::too_heavy(size)),
            Shown::Stranded => {
                let size = shown.in_use().map_or(claim.capacity, |(_, size)| size);
                Verdict::Refused(Error::too_heavy(size))
            }
        }
    }

    /// Moves a claim, as the line was `seen`. Returns the line's revision after that, and the line if it was read.
    async fn stand_anew(
        self: &Arc<Self>,
        claim: &Claim,
        size: Weight,
        first: ClaimId,
        seen: i64,
    ) -> Result<(i64, Option<LineView>)> {
        let read = async || {
            let view = self.read_again(claim).await?;
            Ok((view.revision, Some(view)))
        };
        let Some(Stage::Stands(old)) = self.own_claims.stage(claim.id) else { return read().await };
        let view = self.read_again(claim).await?;
        let Some(standing) = view.find(claim.id).copied() else { return Ok((view.revision, Some(view))) };
        if !self.own_claims.moves(&claim.name, claim.id) {
            return read().await; // its turn was seen meanwhile, or it is leaving
        }
        let keys = self.keys.of_claim(claim, standing.declared);
        let order = i64::try_from(old.order).unwrap_or(i64::MAX);
        let stood = Compare::create_revision(keys[0].clone(), CompareOp::Equal, order);
        // It may be carried out long after it was given up. If the size was changed meanwhile, the claim may have its turn.
        let same_size = Compare::mod_revision(self.keys.resizes(&claim.name), CompareOp::Less, seen + 1);
        let when = vec![self.stands_there(&claim.name, first), stood, same_size.with_prefix()];
        let mut changes: Vec<TxnOp> = keys.into_iter().map(|key| TxnOp::delete(key, None)).collect();
        changes.extend(self.puts(claim, size));
        let answer = self.gather(claim.id, &claim.name, Action::Join { when, changes, is_read: true }).await;
        let answer = match answer {
            Ok(answer) if answer.is_done => {
                return Ok((answer.revision, answer.view(self.keys.line(&claim.name).len())));
            }
            Ok(answer) => answer,
            // Where it stands is not known, even if this was refused: an earlier move of it may have arrived meanwhile.
            Err(failed) => return Err(self.noted(failed.error).perhaps_done()),
        };
        // The first in line has left, or this claim was evicted, or an earlier move of it has arrived meanwhile.
        let view = self.view(&claim.name, &answer).map_err(Error::perhaps_done)?;
        if let Some((order, token)) =
            view.place(claim.id).and_then(|order| Some((order, Token::from_order(order)?)))
        {
            let news = self.own_claims.stands(&claim.name, claim.id, order, token);
            self.tell(&claim.name, news);
        }
        Ok((answer.revision, Some(view)))
    }

    /// Reads the line of a claim that was made. An error says nothing of the claim: it has to be taken out again.
    pub(crate) async fn read_again(self: &Arc<Self>, claim: &Claim) -> Result<LineView> {
        self.read_line(&claim.name).await.map_err(Error::perhaps_done)
    }

    /// Takes the claim out of the line again. What was decided stands, whether this is answered or not: then the keeper
    /// tries once more, and a renewal that finds the claim there does too.
    pub(crate) async fn step_back(self: &Arc<Self>, claim: &Claim) -> Result<()> {
        match self.clone().leave(claim.name.clone(), claim.id, Leave::Done).await {
            Err(error) if !error.can_retry() => Err(error.perhaps_done()),
            Err(_) => {
                let (session, name, id) = (self.clone(), claim.name.clone(), claim.id);
                self.runtime.spawn(async move { session.leave_in_the_background(name, id) });
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }
}
