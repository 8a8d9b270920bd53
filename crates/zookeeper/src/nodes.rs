//! The names of nodes.
//!
//! `/tidelock/stock:42` is the line of `stock:42`, and `m-00000000000000ff-7-1-1-0000000005` a claim in it: a mutex's,
//! number 7 of the session ff, with weight 1 and capacity 1. The server has added the last number. Characters that it
//! forbids in a path are escaped.

use tidelock_core::backend::{Claim, escape, unescape};
use tidelock_core::{ClaimId, Error, ErrorKind, Kind, Name, Result, SessionId, Token, Weight};

/// A namespace: the beginning of our paths.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    root: String,
    /// The length of the path above the root.
    above: usize,
}

/// The longest sequence that the server appends to a claim's node. It may have a minus.
const SEQUENCE: usize = "-2147483648".len();
/// The length field that the server writes before each path.
const LENGTH: usize = 4;

impl Nodes {
    pub(crate) fn of(namespace: &str) -> Self {
        Self { root: format!("/{}", element(namespace)), above: 0 }
    }

    /// The same namespace below another node.
    pub(crate) fn below(self, path: &str) -> Self {
        Self { above: path.len(), ..self }
    }

    /// The bytes that a claim's paths take in the server's list of the session's nodes.
    pub(crate) fn bytes(&self, claim: &Claim) -> usize {
        // A semaphore's claim may later declare another size than its caller asked for.
        let declared = if claim.kind == Kind::Semaphore { Weight::MAX } else { claim.capacity };
        let line = self.above + self.line(&claim.name).len() + "/".len();
        let node = |beginning: &String| LENGTH + line + beginning.len() + SEQUENCE;
        beginnings(claim, declared).iter().map(node).sum()
    }

    /// The node above all names.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// The node that is a name's line.
    pub(crate) fn line(&self, name: &str) -> String {
        format!("{}/{}", self.root, element(name))
    }

    /// The name and the node of a path: `/tidelock/NAME/NODE`.
    pub(crate) fn take_apart<'a>(&self, path: &'a str) -> Option<(Name, &'a str)> {
        let (line, node) = path.strip_prefix(&self.root)?.strip_prefix('/')?.split_once('/')?;
        Some((name(line)?, node))
    }
}

/// The name whose line this child of the root is.
pub(crate) fn name(child: &str) -> Option<Name> {
    Name::new(&unescape(child)?).ok()
}

/// A text as one element of a path. The Java server reads UTF-16 and refuses characters that need two units.
fn element(text: &str) -> String {
    if matches!(text, "." | "..") {
        return text.replace('.', "%2E");
    }
    escape(
        text,
        |c| matches!(c, '/' | '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..),
    )
}

/// One node of a claim, parsed from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) id: ClaimId,
    pub(crate) kind: Kind,
    pub(crate) weight: Weight,
    /// The capacity that its client declared.
    pub(crate) capacity: Weight,
    /// How many children its line had had before. It overflows at 2^31, so it is compared by difference.
    pub(crate) sequence: i32,
}

impl Node {
    /// None: the node is not one of ours.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(6, '-'); // the sequence may begin with a minus of its own
        let kind = match parts.next()? {
            "m" => Kind::Mutex,
            "r" => Kind::RwLock,
            "s" => Kind::Semaphore,
            _ => return None,
        };
        let session = parts.next().filter(|hex| hex.len() == 16)?;
        let session = SessionId::from_bits(u64::from_str_radix(session, 16).ok()?);
        let id = ClaimId { session, number: parts.next()?.parse().ok()? };
        let weight = Weight::new(parts.next()?.parse().ok()?)?;
        let capacity = Weight::new(parts.next()?.parse().ok()?)?;
        Some(Self { id, kind, weight, capacity, sequence: parts.next()?.parse().ok()? })
    }
}

/// The names of a claim's nodes without the sequence, which the server appends. A writer has two nodes: a reader's
/// part, and the rest.
pub(crate) fn beginnings(claim: &Claim, declared: Weight) -> Vec<String> {
    let kind = match claim.kind {
        Kind::Mutex => "m",
        Kind::RwLock => "r",
        _ => "s",
    };
    let beginning = |weight: u32| format!("{kind}-{}-{weight}-{declared}-", claim.id);
    match (claim.kind, claim.weight.get()) {
        (Kind::RwLock, 2..) => vec![beginning(1), beginning(claim.weight.get() - 1)],
        (_, weight) => vec![beginning(weight)],
    }
}

/// Sequences overflow, so they are compared by difference: less than half the range ahead is later.
pub(crate) fn is_before(sequence: i32, other: i32) -> bool {
    sequence.wrapping_sub(other) < 0
}

/// A token holds a transaction number below 2^48: enough for 65 535 elections.
pub(crate) fn token(czxid: i64) -> Result<Token> {
    let order = u64::try_from(czxid).ok().and_then(Token::from_order);
    order.ok_or_else(|| {
        let wrong = format!(
            "transaction {czxid:#x} does not fit a token: this ensemble has had more than 65535 elections"
        );
        Error::new(ErrorKind::Unsupported, wrong)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn plain_names_are_readable() {
        let nodes = Nodes::of("tidelock");
        assert_eq!(nodes.line("stock:42"), "/tidelock/stock:42");
        assert_eq!(nodes.line("a/b"), "/tidelock/a%2Fb");
    }

    #[test]
    fn whatever_a_path_forbids_is_escaped_and_comes_back() {
        let nodes = Nodes::of("a/b");
        for text in [
            ".",
            "..",
            "a/b",
            "...",
            "%",
            "🚂",
            "é",
            "\u{e000}",
            "\u{fffd}",
            "\u{f8ff}",
            "\u{ffef}",
            "zookeeper",
        ] {
            let path = nodes.line(text);
            assert_eq!(path.matches('/').count(), 2, "{path}");
            assert!(
                !path.chars().any(|c| c > '\u{ffef}' || ('\u{e000}'..='\u{f8ff}').contains(&c)),
                "{path}"
            );
            let (back, node) =
                nodes.take_apart(&format!("{path}/x")).map(|(name, node)| (name, node.to_owned())).unwrap();
            assert_eq!((back, node.as_str()), (plain(text), "x"));
            assert!(!path.ends_with("/.") && !path.ends_with("/.."));
        }
    }

    #[test]
    fn a_node_says_what_its_claim_is() {
        let id = ClaimId { session: SessionId::from_bits(255), number: 7 };
        let writer = Claim::new(id, plain("n"), Kind::RwLock, Weight::MAX, Weight::MAX);
        let parts = beginnings(&writer, writer.capacity);
        assert_eq!(parts[0], "r-00000000000000ff-7-1-2147483647-");
        let node = |part: &str, sequence: &str| Node::parse(&format!("{part}{sequence}")).unwrap();
        assert_eq!(node(&parts[0], "0000000005").sequence, 5);
        assert_eq!(node(&parts[1], "-2147483648").sequence, i32::MIN);
        assert_eq!(node(&parts[0], "1").weight.get() + node(&parts[1], "2").weight.get(), Weight::MAX.get());
        assert_eq!(node(&parts[0], "1").id, id);
    }

    #[test]
    fn another_recipes_node_is_not_ours() {
        for other in [
            "_c_b9-lock-0000000001",
            "lock-0000000001",
            "m-ff-7-1-1-0000000005",
            "m-00000000000000ff-7-0-1-5",
            "",
        ] {
            assert_eq!(Node::parse(other), None, "{other}");
        }
    }

    #[test]
    fn transactions_are_tokens_until_they_do_not_fit() {
        assert_eq!(token(7).unwrap().get(), 7 << 5);
        assert_eq!(token((1 << 48) - 1).unwrap().store_order(), (1 << 48) - 1);
        for czxid in [1 << 48, -1] {
            assert_eq!(token(czxid).unwrap_err().kind(), ErrorKind::Unsupported);
        }
    }
}
