//! What users are told of a mistake, in the same words by every backend.

use tidelock_model::Refusal;

use crate::{ClaimId, Error, ErrorKind, Kind, Weight};

impl Error {
    /// What a refusal of the rule's is to whoever asked, in words. `None` for those that are answers: busy, void, and no
    /// line.
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

    /// The session is not there any more.
    #[must_use]
    pub fn session_over() -> Self {
        Self::new(ErrorKind::Lost, "its session is over: it was not renewed in time, or was closed")
    }

    /// The name is in use as this kind of lock.
    #[must_use]
    pub fn other_kind(used: Kind) -> Self {
        let wrong = format!("this name is in use as a {used}, and can be nothing else until nobody uses it");
        Self::new(ErrorKind::KindMismatch, wrong)
    }

    /// More was asked for than the line can ever give.
    #[must_use]
    pub fn too_heavy(all: Weight) -> Self {
        let wrong = format!("more permits were asked for than there are: it has {all} in all");
        Self::new(ErrorKind::InvalidPermits, wrong)
    }

    /// A resize was based on another size than the line has.
    #[must_use]
    pub fn other_size(now: Weight) -> Self {
        let wrong = format!("it has been resized meanwhile: it has {now} permits now");
        Self::new(ErrorKind::Conflict, wrong)
    }

    /// After the resize somebody who waits could never have their turn.
    #[must_use]
    pub fn strands() -> Self {
        let wrong = "somebody waits for more permits than that, and would wait for ever";
        Self::new(ErrorKind::InvalidPermits, wrong)
    }

    /// The claim weighs less than it was to be made.
    #[must_use]
    pub fn heavier(weighs: Weight) -> Self {
        let wrong = format!("the claim weighs {weighs}, so it cannot be made lighter to more than that");
        Self::new(ErrorKind::InvalidPermits, wrong)
    }

    /// The claim that this is about has left the line, or its lifetime is over there.
    #[must_use]
    pub fn not_in_line(claim: ClaimId) -> Self {
        Self::new(ErrorKind::Conflict, format!("claim {claim} is not in line any more"))
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
