//! The names of keys.
//!
//! `tidelock/stock:42/` is the line of `stock:42`, and `tidelock/stock:42/00000000000000ff-7-m` a claim in it: the one in
//! slot 7 of the session ff, for a mutex. Its value is the claim's number. A name's `/` is escaped, so no line's keys
//! begin like another's. A writer has a second key, with a `+` at its end: the rest, beside a reader's part. `…/size-SESSION`
//! is a resize, kept on the lease of each session that stood there. `tidelock//SESSION/label` is a session's label, and
//! `tidelock//SESSION/7` says that no join of claim 7 may take effect any more; no line is named so, because no name is
//! empty.
//!
//! The members keep each key that ever was until the next compaction, and go through all of them when they read a line. So
//! a claim takes the key of one that has left: its [`Slot`] is the lower part of its number.

use std::fmt::Write;

use tidelock_core::backend::{Claim, escape, unescape};
use tidelock_core::{ClaimId, Kind, Name, SessionId, Weight};

/// The keys of one namespace.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    root: String,
}

/// What tells the keys of a session's claims in one line apart. At any time, one claim at most has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot {
    pub(crate) session: SessionId,
    pub(crate) number: u64,
}

/// How many slots a session has in one line.
pub(crate) const SLOTS: u64 = 1 << 20;

/// What one claim's key says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClaimKey {
    pub(crate) slot: Slot,
    pub(crate) kind: Kind,
    /// The capacity that its client declared.
    pub(crate) declared: Weight,
    /// How much of it this key takes.
    pub(crate) weight: Weight,
    /// Whether this is the rest of a writer.
    pub(crate) is_rest: bool,
}

/// A key in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKey {
    Claim(ClaimKey),
    /// A resize, kept for the claims of this session.
    Resized(SessionId),
}

impl Keys {
    /// The keys of a namespace, below a prefix: empty, or `a/b/`.
    pub(crate) fn of(prefix: &str, namespace: &str) -> Self {
        Self { root: format!("{prefix}{}/", element(namespace)) }
    }

    /// What all keys of the namespace begin with.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// What all keys of a line begin with.
    pub(crate) fn line(&self, name: &str) -> String {
        format!("{}{}/", self.root, element(name))
    }

    /// What the keys of a claim begin with, and those of all claims that ever had its slot.
    pub(crate) fn claim(&self, name: &str, id: impl Into<Slot>) -> String {
        let Slot { session, number } = id.into();
        format!("{}{session}-{number}-", self.line(name))
    }

    /// What the keys of all claims of a session in a line begin with.
    pub(crate) fn claims(&self, name: &str, session: SessionId) -> String {
        format!("{}{session}-", self.line(name))
    }

    /// The keys of a claim that declares this capacity: one, or a writer's two.
    pub(crate) fn of_claim(&self, claim: &Claim, declared: Weight) -> Vec<String> {
        let mut key = self.claim(&claim.name, claim.id);
        match claim.kind {
            Kind::Mutex => key.push('m'),
            Kind::RwLock => key.push('r'),
            _ => drop(write!(key, "s{declared}.{}", claim.weight)),
        }
        let rest = (claim.kind == Kind::RwLock && claim.weight > Weight::ONE).then(|| format!("{key}+"));
        std::iter::once(key).chain(rest).collect()
    }

    /// What the keys of all resizes of a line begin with.
    pub(crate) fn resizes(&self, name: &str) -> String {
        format!("{}{RESIZED}", self.line(name))
    }

    /// The key of a resize, for the claims of this session.
    pub(crate) fn resized(&self, name: &str, session: SessionId) -> String {
        format!("{}{session}", self.resizes(name))
    }

    /// The key that says that a claim is void.
    pub(crate) fn void(&self, id: ClaimId) -> String {
        format!("{}{}", self.voids(id.session), id.number)
    }

    /// What the keys of all void claims of a session begin with.
    pub(crate) fn voids(&self, session: SessionId) -> String {
        format!("{}/{session}/", self.root)
    }

    /// The key of a session's label.
    pub(crate) fn label(&self, session: SessionId) -> String {
        format!("{}label", self.voids(session))
    }

    /// The name and the rest of a key: `tidelock/NAME/REST`.
    pub(crate) fn take_apart<'a>(&self, key: &'a [u8]) -> Option<(Name, &'a str)> {
        let (line, rest) = std::str::from_utf8(key).ok()?.strip_prefix(&self.root)?.split_once('/')?;
        Some((Name::new(&unescape(line)?).ok()?, rest))
    }
}

const RESIZED: &str = "size-";

impl LineKey {
    /// What the rest of a key, behind its line, is. None: it is not one of ours.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(session) = text.strip_prefix(RESIZED) {
            return Some(Self::Resized(self::session(session)?));
        }
        let mut parts = text.splitn(3, '-');
        let slot = Slot { session: session(parts.next()?)?, number: parts.next()?.parse().ok()? };
        let what = parts.next()?;
        let (what, is_rest) = match what.strip_suffix('+') {
            Some("r") => ("r", true),
            Some(_) => return None,
            None => (what, false),
        };
        let (kind, declared, weight) = match what {
            "m" => (Kind::Mutex, Weight::ONE, Weight::ONE),
            "r" if is_rest => (Kind::RwLock, Weight::MAX, Weight::new(Weight::MAX.get() - 1)?),
            "r" => (Kind::RwLock, Weight::MAX, Weight::ONE),
            permits => {
                let (declared, weight) = permits.strip_prefix('s')?.split_once('.')?;
                (Kind::Semaphore, Weight::new(declared.parse().ok()?)?, Weight::new(weight.parse().ok()?)?)
            }
        };
        Some(Self::Claim(ClaimKey { slot, kind, declared, weight, is_rest }))
    }
}

impl ClaimKey {
    /// Whose key it is, by its value. None: it is not one of ours.
    pub(crate) fn id(&self, value: &[u8]) -> Option<ClaimId> {
        let number = std::str::from_utf8(value).ok()?.parse().ok()?;
        let id = ClaimId { session: self.slot.session, number };
        (Slot::from(id) == self.slot).then_some(id)
    }
}

impl From<ClaimId> for Slot {
    fn from(id: ClaimId) -> Self {
        Self { session: id.session, number: id.number % SLOTS }
    }
}

/// The number of a void claim, from its key behind [`Keys::voids`].
pub(crate) fn void_number(key: &[u8], voids: &str) -> Option<u64> {
    std::str::from_utf8(key).ok()?.strip_prefix(voids)?.parse().ok()
}

fn session(hex: &str) -> Option<SessionId> {
    if hex.len() != 16 {
        return None;
    }
    u64::from_str_radix(hex, 16).ok().map(SessionId::from_bits)
}

/// A text as one element of a key.
fn element(text: &str) -> String {
    escape(text, |c| c == '/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> ClaimId {
        ClaimId { session: SessionId::from_bits(255), number }
    }

    fn keys_of(kind: Kind, weight: Weight, capacity: Weight) -> Vec<String> {
        let name = Name::new("n").unwrap();
        let claim = Claim::new(id(7), name, kind, weight, capacity);
        Keys::of("", "tidelock").of_claim(&claim, capacity)
    }

    #[test]
    fn names_are_readable_and_no_line_begins_like_another() {
        let keys = Keys::of("app/", "tidelock");
        assert_eq!(keys.line("stock:42"), "app/tidelock/stock:42/");
        assert_eq!(keys.line("a/b"), "app/tidelock/a%2Fb/");
        for name in ["a", "a/b", "..", "%", "é 🚂", "size-"] {
            let key = format!("{}x", keys.line(name));
            let (back, rest) = keys.take_apart(key.as_bytes()).unwrap();
            assert_eq!((back.as_str(), rest), (name, "x"));
        }
        assert_eq!(keys.take_apart(keys.void(id(7)).as_bytes()), None);
    }

    #[test]
    fn a_key_says_what_its_claim_is() {
        let [permits] = [Weight::new(2), Weight::new(5)]
            .map(Option::unwrap)
            .windows(2)
            .map(|w| keys_of(Kind::Semaphore, w[0], w[1]))
            .collect::<Vec<_>>()
            .try_into()
            .unwrap();
        assert_eq!(permits, ["tidelock/n/00000000000000ff-7-s5.2"]);
        for (kind, weight, capacity, count) in [
            (Kind::Mutex, Weight::ONE, Weight::ONE, 1),
            (Kind::RwLock, Weight::ONE, Weight::MAX, 1),
            (Kind::RwLock, Weight::MAX, Weight::MAX, 2),
        ] {
            let made = keys_of(kind, weight, capacity);
            assert_eq!(made.len(), count);
            let mut sum = 0;
            for key in made {
                let (_, rest) = Keys::of("", "tidelock")
                    .take_apart(key.as_bytes())
                    .map(|(name, rest)| (name, rest.to_owned()))
                    .unwrap();
                let Some(LineKey::Claim(parsed)) = LineKey::parse(&rest) else { panic!("{rest}") };
                assert_eq!((parsed.id(b"7"), parsed.kind, parsed.declared), (Some(id(7)), kind, capacity));
                assert_eq!((parsed.id(b"8"), parsed.id(b"")), (None, None));
                assert_eq!(parsed.id(b"1048583"), Some(id(SLOTS + 7)));
                sum += parsed.weight.get();
            }
            assert_eq!(sum, weight.get());
        }
        assert_eq!(
            LineKey::parse("size-00000000000000ff"),
            Some(LineKey::Resized(SessionId::from_bits(255)))
        );
    }

    #[test]
    fn anothers_key_is_not_ours() {
        for other in [
            "",
            "m",
            "ff-7-m",
            "00000000000000ff-7-x",
            "00000000000000ff-7-m+",
            "00000000000000ff-7-s0.1",
            "size-1",
        ] {
            assert_eq!(LineKey::parse(other), None, "{other}");
        }
    }
}
