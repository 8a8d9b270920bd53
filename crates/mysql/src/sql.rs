//! The statements, one file each, and how the values get into them.
//!
//! All values are numbers or bytes in hexadecimal digits, so nothing in a name can be read as SQL. The clock is the one
//! expression [`NOW`]; tests put another one in its place.

use std::fmt::{Display, Write as _};

use tidelock_core::{Kind, Name, SessionId};

/// The tables, for those who create them by hand: see `Store::migrate`. Every statement can be repeated.
pub const MIGRATION: &str = include_str!("sql/migration.sql");

/// The server's clock, in microseconds since 1970, whatever the time zone of the connection.
pub(crate) const NOW: &str = "CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS UNSIGNED)";

/// How many slots there are: as many transactions can be open under locks at the same time.
pub(crate) const SLOTS: u32 = 4_096;

/// The version of the tables that this crate needs.
pub(crate) const VERSION: u64 = 1;

macro_rules! statements {
    ($($name:ident = $file:literal;)*) => {
        $(pub(crate) const $name: &str = include_str!(concat!("sql/", $file, ".sql"));)*
        /// For tests that look for a text in them.
        #[cfg(test)]
        pub(crate) const ALL: &[&str] = &[$($name),*];
    };
}

statements! {
    SETTINGS = "settings";
    TAKE_AGAIN = "take_again";
    TAKE_FREE = "take_free";
    FLOOR = "floor";
    TAKE_FREE_ROW = "take_free_row";
    TAKE_FREE_ONE = "take_free_one";
    TAKEN = "taken";
    TAKE_FREE_RETURNING = "take_free_returning";
    SPILL_OWN = "spill_own";
    UNSPILL = "unspill";
    BEHIND = "behind";
    PASS = "pass";
    PASS_ONE = "pass_one";
    WAIT_IN_ROW = "wait_in_row";
    WAIT_NO_MORE = "wait_no_more";
    HAND_ON = "hand_on";
    HANDED_ON = "handed_on";
    HOLDS_NOW = "holds_now";
    LEAVE_ONLY = "leave_only";
    LEAVE_ONLY_WHICH = "leave_only_which";
    LOCK_LINES = "lock_lines";
    BEGIN = "begin";
    BEGIN_NEW = "begin_new";
    SPILL = "spill";
    LEAVE = "leave";
    LEAVE_OTHER = "leave_other";
    VOID = "void";
    VOID_OTHER = "void_other";
    TELL = "tell";
    BURY = "bury";
    BURY_HOLDERS = "bury_holders";
    LIGHTEN = "lighten";
    RESIZE = "resize";
    COUNT = "count";
    GRANT_NEXT = "grant_next";
    GRANT = "grant";
    GRANTED = "granted";
    BEFORE_JOINS = "before_joins";
    JOIN = "join";
    QUEUE = "queue";
    END = "end";
    LOOK = "look";
    DEAD_CLAIMS = "dead_claims";
    CLAMP = "clamp";
    OPEN = "open";
    RENEW = "renew";
    ONLY_HOLDER = "only_holder";
    OWN_CLAIMS = "own_claims";
    FIND_VOID = "find_void";
    DROP_CLAIMS = "drop_claims";
    SLOT = "slot";
    CLOSE = "close";
    INSIDE = "inside";
    WHICH_STORE = "which_store";
    WHICH_SERVER = "which_server";
    HAS_ENDED = "has_ended";
    INSPECT = "inspect";
    NAMES = "names";
    GRANTED_TO_ME = "granted_to_me";
    LISTEN = "listen";
    RINGS = "rings";
    CHECK = "check";
    FIND_SWEPT = "find_swept";
    DROP_IDLE = "drop_idle";
    FIND_DEAD = "find_dead";
    DROP_DEAD = "drop_dead";
    DROP_VOID = "drop_void";
}

/// Appends a statement with its values. A value's place is its name in braces; comments are left out.
pub(crate) fn put(text: &mut String, statement: &str, values: &[(&str, &dyn Display)]) {
    for line in statement.lines().filter(|line| !line.starts_with("--")) {
        let mut rest = line;
        while let Some(open) = rest.find('{') {
            let close = rest[open..].find('}').map_or(rest.len(), |at| open + at);
            text.push_str(&rest[..open]);
            let wanted = &rest[open + 1..close];
            match values.iter().find(|(name, _)| *name == wanted) {
                Some((_, value)) => {
                    let _ = write!(text, "{value}");
                }
                None if wanted == "now" => text.push_str(NOW),
                None if wanted.starts_with("counts ") => {
                    text.push_str(&counts(&wanted["counts ".len()..]));
                }
                None => debug_assert!(false, "no value for {wanted} in {statement}"),
            }
            rest = rest.get(close + 1..).unwrap_or_default();
        }
        text.push_str(rest);
        text.push('\n');
    }
}

/// Whether a claim has not left: the user's transaction that it is inside, if there is one, was not committed. `claim` is
/// what a statement calls the table.
pub(crate) fn counts(claim: &str) -> String {
    format!(
        "({claim}.slot = 0 OR {claim}.mark = (SELECT t.stamp FROM tidelock_slot t WHERE t.slot = {claim}.slot))"
    )
}

/// The key of a name in the tables: the namespace, a zero byte, and the name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(String);

impl Key {
    /// Appends a byte range's bound: the key and anything behind it.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = String::with_capacity(bytes.len() * 2 + 3);
        hex.push_str("x'");
        for byte in bytes {
            hex.extend([byte >> 4, byte & 15].map(|digit| char::from(DIGITS[usize::from(digit)])));
        }
        hex.push('\'');
        Self(hex)
    }
}

impl Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A namespace: the first part of all its keys.
#[derive(Clone, Debug)]
pub(crate) struct Namespace(Vec<u8>);

impl Namespace {
    /// Neither namespaces nor names contain a zero byte.
    pub(crate) fn of(namespace: &str) -> Self {
        let mut bytes = namespace.as_bytes().to_vec();
        bytes.push(0);
        Self(bytes)
    }

    pub(crate) fn key(&self, name: &Name) -> Key {
        self.after(name.as_str())
    }

    /// The least key of all names that begin with `prefix`; also the key of that name itself.
    pub(crate) fn after(&self, prefix: &str) -> Key {
        Key::of_bytes(&[&self.0, prefix.as_bytes()].concat())
    }

    /// A key before all names that begin with `prefix`. A name has no zero byte, and neither has a prefix.
    pub(crate) fn before(&self, prefix: &str) -> Key {
        let mut bytes = [&self.0, prefix.as_bytes()].concat();
        // The greatest text that is less: the last byte one less, and the greatest bytes behind it.
        if let Some(last) = bytes.last_mut() {
            if *last == 0 {
                bytes.pop();
            } else {
                *last -= 1;
                bytes.push(0xff);
            }
        }
        Key::of_bytes(&bytes)
    }

    /// A key behind all names that begin with `prefix`. No byte of a UTF-8 text is 0xff.
    pub(crate) fn behind(&self, prefix: &str) -> Key {
        Key::of_bytes(&[&self.0, prefix.as_bytes(), &[0xff]].concat())
    }

    /// The name of a key in this namespace.
    pub(crate) fn name(&self, key: &[u8]) -> Option<Name> {
        let name = key.strip_prefix(self.0.as_slice())?;
        std::str::from_utf8(name).ok().and_then(|name| Name::new(name).ok())
    }
}

/// Values with commas between.
pub(crate) fn list<T: Display>(values: impl IntoIterator<Item = T>) -> String {
    let mut text = String::new();
    for value in values {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{value}");
    }
    text
}

/// A session's id as a number.
pub(crate) fn id(session: SessionId) -> u64 {
    session.get()
}

/// The number of a kind in the tables.
pub(crate) const fn kind(kind: Kind) -> u8 {
    match kind {
        Kind::Mutex => 1,
        Kind::RwLock => 2,
        _ => 3,
    }
}

/// The kind with that number; `None` for a line that was never used.
pub(crate) const fn kind_of(number: u64) -> Option<Kind> {
    match number {
        1 => Some(Kind::Mutex),
        2 => Some(Kind::RwLock),
        3 => Some(Kind::Semaphore),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_get_to_their_places_and_comments_stay_out() {
        let mut text = String::new();
        put(&mut text, "-- what {it} does\nSELECT {a}, {b}\nFROM {a};", &[("a", &1), ("b", &"x''")]);
        assert_eq!(text, "SELECT 1, x''\nFROM 1;\n");
    }

    #[test]
    fn a_name_is_bytes_in_hex_and_comes_back() {
        let namespace = Namespace::of("shop");
        let name = Name::new("a'; DROP TABLE x; -- é").unwrap();
        let key = namespace.key(&name).to_string();
        assert!(key.starts_with("x'73686f700061273b"), "{key}");
        assert!(key[2..key.len() - 1].bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");
        let bytes = [b"shop\0".as_slice(), name.as_str().as_bytes()].concat();
        assert_eq!(namespace.name(&bytes), Some(name));
        assert_eq!(Namespace::of("sho").name(&bytes), None);
    }
}
