//! The keys and channels of a namespace.
//!
//! `tidelock:{stock:42}:held` and its siblings `line` and `wait`: the name between the braces is the hash tag, so all
//! keys of a name lie in one slot. Characters that could be confused with the tag's braces or with a separator are
//! escaped.

use redis::Cmd;
use tidelock_core::backend::{escape, unescape};
use tidelock_core::{Name, SessionId};

/// The parts of a line that have their own keys, in the order in which the scripts take them.
pub(crate) const PARTS: [&str; 3] = ["held", "line", "wait"];

/// A namespace, as the prefix of keys.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// `tidelock:{`
    base: String,
    /// `tidelock:`; a channel is this and the hex of a session.
    pub(crate) channels: String,
}

impl Keys {
    pub(crate) fn of(namespace: &str) -> Self {
        let channels = format!("{}:", escape(namespace, |c| "{}:".contains(c)));
        Self { base: format!("{channels}{{"), channels }
    }

    /// The channel on which a client gets its news.
    pub(crate) fn channel(&self, session: SessionId) -> String {
        format!("{}{session}", self.channels)
    }

    /// One key of a name.
    pub(crate) fn key(&self, name: &Name, part: &str) -> String {
        let mut key = String::with_capacity(self.base.len() + name.len() + 2 + part.len());
        key.push_str(&self.base);
        key.push_str(&tag(name));
        key.push_str("}:");
        key.push_str(part);
        key
    }

    /// Adds the keys of a name to a command.
    pub(crate) fn put(&self, command: &mut Cmd, name: &Name) {
        let mut key = self.key(name, "");
        let end = key.len();
        for part in PARTS {
            key.truncate(end);
            key.push_str(part);
            command.arg(key.as_str());
        }
    }

    /// The SCAN pattern for the names that begin with `prefix`.
    pub(crate) fn pattern(&self, prefix: &str) -> String {
        let mut pattern = String::new();
        for c in self.base.chars().chain(tag(prefix).chars()) {
            if r"*?[]\^-".contains(c) {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        pattern + "*}:held"
    }

    /// The name that has this key as its `held`.
    pub(crate) fn name(&self, key: &str) -> Option<Name> {
        let tag = key.strip_prefix(&self.base)?.strip_suffix("}:held")?;
        Name::new(&unescape(tag)?).ok()
    }
}

/// The cluster slot of this name's keys.
#[cfg(feature = "cluster")]
pub(crate) fn slot(name: &Name) -> u16 {
    crc16::State::<crc16::XMODEM>::calculate(tag(name).as_bytes())
}

/// A name as it stands between the braces. It is escaped because the first `}` would end the tag.
fn tag(name: &str) -> String {
    escape(name, |c| "{}".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn plain_names_are_readable() {
        let keys = Keys::of("tidelock");
        assert_eq!(keys.key(&name("stock:42"), "held"), "tidelock:{stock:42}:held");
        assert_eq!(keys.channel(SessionId::from_bits(255)), "tidelock:00000000000000ff");
    }

    #[test]
    fn no_name_breaks_its_tag_and_each_is_found_again() {
        let keys = Keys::of("ti:de{lock}");
        for text in ["}", "{", "}{", "a}:held", "%7D", "é 🚂", "a:{b}:held"] {
            let key = keys.key(&name(text), "held");
            assert_eq!(key.matches('{').count(), 1, "{key}");
            assert_eq!(key.matches('}').count(), 1, "{key}");
            assert_eq!(keys.name(&key), Some(name(text)));
        }
        assert_eq!(keys.name("tidelock:{a}:held"), None);
    }

    #[test]
    fn a_prefix_matches_nothing_but_itself() {
        assert_eq!(Keys::of("t").pattern("a*[b]"), r"t:{a\*\[b\]*}:held");
    }
}
