//! The errors for bad names, refusals and silence, the same in every backend.

use tidelock_model::Refusal;

use crate::{ClaimId, Error, ErrorKind, Kind, Name, Result, Weight};

impl Name {
    /// Takes `name` as it is: 1 to 512 bytes of UTF-8 without control characters.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidName`] says what is wrong with it.
    pub fn new(name: &str) -> Result<Self> {
        Self::checked(name).map_err(|wrong| Error::new(ErrorKind::InvalidName, wrong))
    }
}

impl Error {
    /// The error for a refusal by the rule. `None` for refusals that are answers: busy, void, and no line.
    #[must_use]
    pub fn of_refusal(why: Refusal) -> Option<Self> {
        match why {
            Refusal::SessionOver => Some(Self::session_over()),
            Refusal::Kind(used) => Some(Self::other_kind(used)),
            Refusal::Capacity(now) => Some(Self::other_size(now)),
            Refusal::TooHeavy(all) => Some(Self::too_heavy(all)),
            Refusal::Strands(_) => Some(Self::strands()),
            Refusal::Heavier(weighs) => Some(Self::heavier(weighs)),
            _ => None,
        }
    }

    /// The session has ended.
    #[must_use]
    pub fn session_over() -> Self {
        Self::new(ErrorKind::Lost, "its session has ended: it was not renewed in time, or was closed")
    }

    /// `place` did not answer in time: `the store`, or more precisely, `Redis at 127.0.0.1:6379`. The sentence is the same
    /// whether a backend's time limit ends first or core's.
    #[must_use]
    pub fn no_answer(place: &str) -> Self {
        let wrong = format!("{place} did not answer in time; check that it is up and can be reached");
        Self::new(ErrorKind::Timeout, wrong)
    }

    /// The name is in use as another kind of lock: this one.
    #[must_use]
    pub fn other_kind(used: Kind) -> Self {
        let wrong =
            format!("this name is in use as a {used}; use another name, or wait until nobody uses it");
        Self::new(ErrorKind::KindMismatch, wrong)
    }

    /// The request is for more than the line can ever give.
    #[must_use]
    pub fn too_heavy(all: Weight) -> Self {
        let wrong = format!("the request is for more permits than there are: the semaphore has {all}");
        Self::new(ErrorKind::InvalidPermits, wrong).for_size(all)
    }

    /// The line no longer has the size that a resize was based on.
    #[must_use]
    pub fn other_size(now: Weight) -> Self {
        let wrong = format!("it was resized in the meantime, and has {now} permits now");
        Self::new(ErrorKind::Conflict, wrong)
    }

    /// After the resize a waiter could never get its turn.
    #[must_use]
    pub fn strands() -> Self {
        let wrong = "a waiter needs more permits than that, and would wait for ever";
        Self::new(ErrorKind::InvalidPermits, wrong)
    }

    /// The claim is already lighter than the request would make it.
    #[must_use]
    pub fn heavier(weighs: Weight) -> Self {
        let wrong = format!("the claim weighs {weighs}, and cannot be made heavier");
        Self::new(ErrorKind::InvalidPermits, wrong)
    }

    /// The claim of the request has left the line, or its lease has ended.
    #[must_use]
    pub fn not_in_line(claim: ClaimId) -> Self {
        Self::new(ErrorKind::Conflict, format!("claim {claim} is no longer in line"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionId;

    #[test]
    fn a_refusal_is_of_the_same_kind_in_words_and_without() {
        let claim = ClaimId { session: SessionId::from_bits(7), number: 1 };
        for why in [
            Refusal::SessionOver,
            Refusal::Void,
            Refusal::Kind(Kind::Mutex),
            Refusal::TooHeavy(Weight::ONE),
            Refusal::Busy,
            Refusal::NoLine,
            Refusal::Capacity(Weight::MAX),
            Refusal::Strands(claim),
            Refusal::Heavier(Weight::ONE),
        ] {
            assert_eq!(
                Error::of_refusal(why).map(|error| error.kind()),
                ErrorKind::of_refusal(why),
                "{why:?}"
            );
        }
    }
}
