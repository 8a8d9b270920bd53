//! What the store has shown of itself to one session: which cluster it is, and how far it has come.
//!
//! Behind one URL there may be two clusters, and a store may be restored from an older copy while a lease lives. Both would
//! let a session go on in a store that does not have what it holds.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use etcd_client::ResponseHeader;

/// The cluster, and the last revision.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// 0: nothing has answered yet.
    cluster: AtomicU64,
    revision: AtomicI64,
}

/// How an answer shows that the store is not the one that it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Another {
    Cluster { was: u64, is: u64 },
    Older { was: i64, is: i64 },
}

impl Shown {
    /// The last revision that was shown. What is read by a majority from now on is not older.
    pub(crate) fn revision(&self) -> i64 {
        self.revision.load(Ordering::Acquire)
    }

    /// The store has answered. `least`: the answer is not older than this, as the request was sent later.
    pub(crate) fn shows(&self, header: &ResponseHeader, least: i64) -> Result<(), Another> {
        self.is_at(header.cluster_id(), header.revision(), least)
    }

    fn is_at(&self, cluster: u64, revision: i64, least: i64) -> Result<(), Another> {
        let first = self.cluster.compare_exchange(0, cluster, Ordering::AcqRel, Ordering::Acquire);
        if let Err(was) = first
            && was != cluster
        {
            return Err(Another::Cluster { was, is: cluster });
        }
        if revision < least {
            return Err(Another::Older { was: least, is: revision });
        }
        self.revision.fetch_max(revision, Ordering::AcqRel);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_cluster_is_noticed() {
        let shown = Shown::default();
        assert_eq!([shown.is_at(7, 1, 0), shown.is_at(7, 2, 0)], [Ok(()); 2]);
        assert_eq!(shown.is_at(8, 3, 0), Err(Another::Cluster { was: 7, is: 8 }));
        assert_eq!(shown.revision(), 2, "that revision is the other cluster's");
    }

    /// Answers may come in another order than they were made.
    #[test]
    fn only_what_was_asked_for_later_must_be_newer() {
        let shown = Shown::default();
        let asked = shown.revision();
        assert_eq!([shown.is_at(7, 9, asked), shown.is_at(7, 5, asked)], [Ok(()); 2]);
        assert_eq!(shown.is_at(7, 8, shown.revision()), Err(Another::Older { was: 9, is: 8 }));
    }
}
