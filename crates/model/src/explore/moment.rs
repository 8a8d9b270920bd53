//! One operation with the state before and after it: the input of a check.

use super::witness::Witness;
use crate::{Claim, ClaimId, Event, Line, Op, Refusal, World};

/// One operation and what it did.
#[derive(Debug)]
pub(crate) struct Moment<'a> {
    pub(crate) op: &'a Op<()>,
    pub(crate) before: &'a World<()>,
    pub(crate) after: &'a World<()>,
    pub(crate) events: &'a [Event<()>],
    /// What was known before, and what after.
    pub(crate) knew: &'a Witness,
    pub(crate) knows: &'a Witness,
}

impl<'a> Moment<'a> {
    pub(crate) fn old_line(&self) -> Option<&'a Line> {
        self.before.line(&())
    }

    pub(crate) fn new_line(&self) -> Option<&'a Line> {
        self.after.line(&())
    }

    /// The claims in line before the operation.
    pub(crate) fn stood(&self) -> &'a [Claim] {
        self.old_line().map_or(&[], |line| &line.claims)
    }

    /// The claims in line after it.
    pub(crate) fn stand(&self) -> &'a [Claim] {
        self.new_line().map_or(&[], |line| &line.claims)
    }

    pub(crate) fn was(&self, id: ClaimId) -> Option<&'a Claim> {
        self.stood().iter().find(|claim| claim.id == id)
    }

    pub(crate) fn is(&self, id: ClaimId) -> Option<&'a Claim> {
        self.stand().iter().find(|claim| claim.id == id)
    }

    /// The claims that hold now and did not before.
    pub(crate) fn granted(&self) -> impl Iterator<Item = &'a Claim> {
        let old = self.stood();
        let held = move |id| old.iter().any(|claim| claim.id == id && claim.token.is_some());
        self.stand().iter().filter(move |claim| claim.token.is_some() && !held(claim.id))
    }

    /// Whether this operation must take the claim out.
    pub(crate) fn takes_out(&self, claim: &Claim) -> bool {
        let left = matches!(self.op, Op::Leave { id, .. } if *id == claim.id);
        left || self.knows.until(claim.id.session).is_none()
    }

    pub(crate) fn refusal(&self) -> Option<Refusal> {
        match self.events.first() {
            Some(Event::Refused { why, .. }) => Some(*why),
            _ => None,
        }
    }

    pub(crate) fn nothing_changed(&self) -> bool {
        self.before == self.after
    }
}
