//! A line as the children of its node show it.

use tidelock_core::{ClaimId, Kind, Token, Weight};
use tidelock_model::{ShownClaim, ShownLine, Watch};
use zookeeper_client::Stat;

use crate::nodes::Node;
use crate::resized::Resized;
use crate::watch::Target;

/// The longest list of children that other clients can read: a packet of the Java client has a megabyte by default.
const LONGEST: usize = 1_000_000;

/// How far apart the sequences in a line may be.
const MOST_APART: i32 = 1 << 30;

/// The children of a line, and the stamp of our own claims when the list was requested.
pub(crate) type Listed = (Vec<String>, Stat, u64);

/// One list of a line's children.
#[derive(Debug)]
pub(crate) struct Listing {
    /// In the order of arrival.
    pub(crate) standing: Vec<Standing>,
    pub(crate) stat: Stat,
    /// The stamp of our own claims when the list was requested: [`OwnLine::stamp`](tidelock_core::backend::OwnLine::stamp).
    pub(crate) stamp: u64,
    /// A child that is not one of ours.
    pub(crate) strange: Option<String>,
    pub(crate) is_too_long: bool,
}

/// A line as it was seen.
#[derive(Debug)]
pub(crate) struct LineView {
    pub(crate) listing: Listing,
    pub(crate) resized: Option<Resized>,
    pub(crate) line: ShownLine,
}

/// One claim in the line.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) id: ClaimId,
    pub(crate) kind: Kind,
    pub(crate) weight: Weight,
    pub(crate) capacity: Weight,
    pub(crate) sequence: i32,
    pub(crate) node: String,
    /// The second node of a writer.
    pub(crate) more: Vec<String>,
}

impl Standing {
    /// All its nodes. The last one is deleted when the claim gets lighter.
    pub(crate) fn nodes(&self) -> impl DoubleEndedIterator<Item = &String> {
        std::iter::once(&self.node).chain(&self.more)
    }
}

impl Listing {
    pub(crate) fn of((children, stat, stamp): Listed) -> Self {
        let is_too_long = children.iter().map(|child| child.len() + 4).sum::<usize>() > LONGEST;
        let mut strange = None;
        let mut nodes = Vec::with_capacity(children.len());
        for child in children {
            match Node::parse(&child) {
                Some(node) => nodes.push((node, child)),
                None => strange = Some(child),
            }
        }
        if let Some((any, _)) = nodes.first() {
            let from = any.sequence;
            nodes.sort_unstable_by_key(|(node, _)| node.sequence.wrapping_sub(from));
        }
        let mut standing: Vec<Standing> = Vec::with_capacity(nodes.len());
        for (node, child) in nodes {
            match standing.last_mut().filter(|last| last.id == node.id) {
                Some(last) => last.grow(node.weight, child),
                None => standing.push(Standing::new(&node, child)),
            }
        }
        Self { standing, stat, stamp, strange, is_too_long }
    }

    pub(crate) fn find(&self, id: ClaimId) -> Option<&Standing> {
        self.standing.iter().find(|standing| standing.id == id)
    }

    /// Whether the line's data may hold a capacity that matters.
    pub(crate) fn has_data(&self) -> bool {
        self.stat.data_length > 0 && !self.standing.is_empty()
    }

    /// The line in the form that the rule needs. `token` tells which of our own claims are held.
    pub(crate) fn line(
        &self,
        resized: Option<&Resized>,
        token: impl Fn(&Standing) -> Option<Token>,
    ) -> ShownLine {
        let from = self.standing.first().map_or(0, |first| first.sequence);
        let order = |sequence: i32| (i64::from(sequence.wrapping_sub(from)) + (1 << 32)).unsigned_abs();
        let claim = |standing: &Standing| ShownClaim {
            id: standing.id,
            kind: standing.kind,
            weight: standing.weight,
            declared: standing.capacity,
            order: order(standing.sequence),
            token: token(standing),
        };
        let resized = resized.map(|resized| tidelock_model::Resized {
            capacity: resized.capacity,
            before: order(resized.before),
            let_in: order(resized.held),
        });
        ShownLine { claims: self.standing.iter().map(claim).collect(), resized }
    }
}

impl LineView {
    /// Whether so many claims have come since the first in line, or since the line was resized, that sequences soon
    /// could not be compared: 2^31 apart, the later one counts as the earlier. Then no more claims may come. Those that
    /// stand are far from that: another 2^30 would have to come.
    pub(crate) fn is_worn(&self) -> bool {
        let standing = &self.listing.standing;
        let (Some(first), Some(last)) = (standing.first(), standing.last()) else { return false };
        let since = |sequence: i32| last.sequence.wrapping_sub(sequence);
        let resized = self.resized.iter().flat_map(|resized| [since(resized.before), since(resized.held)]);
        since(first.sequence) >= MOST_APART
            || resized.into_iter().any(|since| since.unsigned_abs() >= MOST_APART.unsigned_abs())
    }

    /// The node or line to watch in the store. None: the claim is not in the line.
    pub(crate) fn target(&self, watch: Watch) -> Option<Target> {
        match watch {
            Watch::Line => Some(Target::Line),
            Watch::Claim(id) => {
                let node = self.listing.find(id)?.nodes().next_back()?;
                Some(Target::Node(node.clone()))
            }
        }
    }
}

impl Standing {
    fn new(node: &Node, child: String) -> Self {
        let Node { id, kind, weight, capacity, sequence } = *node;
        Self { id, kind, weight, capacity, sequence, node: child, more: Vec::new() }
    }

    fn grow(&mut self, weight: Weight, child: String) {
        self.weight = Weight::new(self.weight.get().saturating_add(weight.get())).unwrap_or(Weight::MAX);
        self.more.push(child);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidelock_core::SessionId;

    impl Listing {
        /// A list of these children in a line without data.
        pub(crate) fn of_children(children: Vec<String>, stamp: u64) -> Self {
            let stat = Stat {
                czxid: 0,
                mzxid: 0,
                pzxid: 0,
                ctime: 0,
                mtime: 0,
                version: 0,
                cversion: 0,
                aversion: 0,
                ephemeral_owner: 0,
                data_length: 0,
                num_children: 0,
            };
            Self::of((children, stat, stamp))
        }
    }

    fn listing(children: &[String]) -> Listing {
        Listing::of_children(children.to_vec(), 0)
    }

    fn child(number: u64, weight: u32, sequence: i32) -> String {
        format!("s-00000000000000ff-{number}-{weight}-3-{sequence:010}")
    }

    fn id(number: u64) -> ClaimId {
        ClaimId { session: SessionId::from_bits(255), number }
    }

    #[test]
    fn order_goes_on_where_the_sequence_runs_over() {
        let children = [
            child(3, 1, i32::MIN + 1),
            child(1, 1, i32::MAX - 1),
            child(2, 1, i32::MAX),
            child(4, 1, i32::MIN + 9),
        ];
        for turned in 0..4 {
            let mut children = children.to_vec();
            children.rotate_left(turned);
            let listing = listing(&children);
            let numbers: Vec<u64> = listing.standing.iter().map(|standing| standing.id.number).collect();
            assert_eq!(numbers, [1, 2, 3, 4]);
            let line = listing.line(None, |_| None);
            assert!(line.claims.is_sorted_by(|a, b| a.order < b.order), "{line:?}");
            assert_eq!(line.held().count(), 3);
        }
    }

    #[test]
    fn the_two_nodes_of_a_writer_are_one_claim() {
        let listing = listing(&[
            "r-00000000000000ff-1-2147483646-2147483647-0000000006".into(),
            "r-00000000000000ff-1-1-2147483647-0000000005".into(),
            "r-00000000000000ff-2-1-2147483647-0000000007".into(),
        ]);
        assert_eq!(listing.standing.len(), 2);
        assert_eq!(listing.standing[0].weight, Weight::MAX);
        assert!(listing.standing[0].nodes().next_back().is_some_and(|node| node.ends_with("6")));
    }

    #[test]
    fn what_was_written_of_the_capacity_lasts_until_the_line_was_empty() {
        let resized = Resized { capacity: Weight::ONE, before: 6, held: 5 };
        let capacity = |listing: &Listing| {
            let line = listing.line(Some(&resized), |_| None);
            line.in_use().map(|(_, size)| size.get()).unwrap()
        };
        assert_eq!(capacity(&listing(&[child(1, 1, 5), child(2, 1, 6)])), 1);
        assert_eq!(capacity(&listing(&[child(2, 1, 6)])), 3, "all claims before it have left");
    }

    #[test]
    fn what_was_written_goes_on_where_the_sequence_runs_over() {
        let resized = Resized { capacity: Weight::ONE, before: i32::MIN, held: i32::MIN };
        let line = |children: &[String]| listing(children).line(Some(&resized), |_| None);
        let both = line(&[child(1, 2, i32::MAX), child(2, 1, i32::MIN)]);
        let size = |line: &ShownLine| line.in_use().map(|(_, size)| size.get());
        assert_eq!((size(&both), both.held().count()), (Some(1), 1), "the first was let in before");
        let later = line(&[child(2, 1, i32::MIN)]);
        assert_eq!(size(&later), Some(3), "all claims before it have left");
    }

    #[test]
    fn a_claim_that_was_let_in_before_a_shrink_stays_in() {
        let resized = Resized { capacity: Weight::ONE, before: 8, held: 7 };
        let listing = listing(&[child(1, 2, 5), child(2, 1, 6), child(3, 1, 7)]);
        let line = listing.line(Some(&resized), |_| None);
        let held: Vec<_> = line.held().map(|claim| claim.id).collect();
        assert_eq!(held, [id(1), id(2)]);
    }

    #[test]
    fn another_recipes_child_is_noticed() {
        assert!(listing(&["lock-0000000001".into(), child(1, 1, 2)]).strange.is_some());
    }
}
