//! The name of a lock: any UTF-8 without control characters, never rewritten.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The name of a lock. Two names are the same lock if and only if their bytes are the same.
///
/// ```
/// use tidelock::Name;
/// let name = Name::new("stock/42 {eu} 🚂")?;
/// assert_eq!(&*name, "stock/42 {eu} 🚂");
/// assert!(Name::new("two\nlines").is_err());
/// # Ok::<(), tidelock::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The longest name, in bytes of UTF-8.
    pub const MAX_BYTES: usize = 512;

    /// The name, or what is wrong with it. [`Name::new`] makes an error of that.
    pub(crate) fn checked(name: &str) -> Result<Self, String> {
        let wrong = if name.is_empty() {
            "a lock's name cannot be empty".to_owned()
        } else if name.len() > Self::MAX_BYTES {
            format!("a lock's name must have at most {} bytes, this one has {}", Self::MAX_BYTES, name.len())
        } else if let Some(at) = name.find(char::is_control) {
            format!("a lock's name must not have control characters; {name:?} has one at byte {at}")
        } else {
            return Ok(Self(name.into()));
        };
        Err(wrong)
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Name {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn anything_printable_is_a_name() {
        for name in ["a", "a/b", "}{", ".", "..", "stock:42", "🚂", "' OR 1=1 --", " ", &"x".repeat(512)] {
            assert_eq!(Name::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn empty_huge_and_control_characters_are_refused() {
        for name in ["", "\0", "a\nb", "\u{85}", "\u{7f}", &"x".repeat(513), &"é".repeat(257)] {
            assert_eq!(Name::new(name).unwrap_err().kind(), ErrorKind::InvalidName, "{name:?}");
        }
    }
}
