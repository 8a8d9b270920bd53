//! Which server answers. After a failover it is another one, and that may have missed what the one of before has confirmed: a
//! leave, or that a claim got lighter.
//!
//! A new connection tells nothing of this. Connections end for many reasons, and a server forgets nothing by that. A proxy may
//! also lead an old connection to another server.

use crate::link::Row;

/// A server, by what it says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WhichServer(Vec<u8>);

impl WhichServer {
    /// The one that has answered with these rows, if it was asked.
    pub(crate) fn of(rows: &[Row]) -> Option<Self> {
        rows.iter().find(|row| row.tag() == b'S').map(|row| Self(row.bytes(1).to_vec()))
    }
}
