//! Escapes text for stores that forbid some characters: each forbidden byte becomes `%` and two hex digits.
//!
//! It is reversible and never maps two texts to one. A text without forbidden characters and `%` stays as it is.

/// `text` with every `%`, and every character for which `is_forbidden` is true, written in hex.
///
/// ```
/// use tidelock_core::backend::{escape, unescape};
/// let key = escape("50% of {é}", |c| "{}".contains(c));
/// assert_eq!(key, "50%25 of %7Bé%7D");
/// assert_eq!(unescape(&key).as_deref(), Some("50% of {é}"));
/// ```
#[must_use]
pub fn escape(text: &str, is_forbidden: impl Fn(char) -> bool) -> String {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '%' && !is_forbidden(c) {
            escaped.push(c);
            continue;
        }
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            escaped.extend(['%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
    escaped
}

/// The text that was given to [`escape`]; `None` if `escape` cannot have produced this.
#[must_use]
pub fn unescape(escaped: &str) -> Option<String> {
    String::from_utf8(unescaped(escaped, digit)?).ok()
}

/// The bytes of a text in which every `%` and two digits is one. `None` if a `%` is followed by what is no `digit`.
pub(crate) fn unescaped(text: &str, digit: impl Fn(u8) -> Option<u8>) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' { digit(rest.next()?)? << 4 | digit(rest.next()?)? } else { byte });
    }
    Some(bytes)
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_escaped_comes_back() {
        for text in ["", "a", "%", "%25", "a/b", "..", "}{", "é%🚂", "100%7D"] {
            for forbidden in ["", "/.", "{}", "é🚂a"] {
                let escaped = escape(text, |c: char| forbidden.contains(c));
                assert!(!escaped.contains(|c: char| forbidden.contains(c) && !c.is_ascii()), "{escaped}");
                assert_eq!(unescape(&escaped).as_deref(), Some(text));
            }
        }
    }

    #[test]
    fn what_cannot_have_been_escaped_is_nobodys() {
        for wrong in ["%", "%2", "%zz", "%c3", "%C3", "%FF"] {
            assert_eq!(unescape(wrong), None, "{wrong}");
        }
    }
}
