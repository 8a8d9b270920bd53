//! A connection of a client to a server: what is on its way, there and back, and what has arrived.

use std::collections::{BTreeSet, VecDeque};
use std::task::Waker;

use tidelock_core::backend::Moment;

/// A connection of a client to a node.
pub(super) struct Wire {
    pub(super) client: usize,
    pub(super) node: usize,
    pub(super) there: Way,
    pub(super) back: Way,
    /// What the server has got, up to the end of the last command.
    pub(super) asked: Vec<u8>,
    /// What the client has got and has not read, and whether no more comes.
    pub(super) arrived: VecDeque<u8>,
    pub(super) end: Option<End>,
    pub(super) reader: Option<Waker>,
    /// Whether the server still has it.
    pub(super) is_served: bool,
    pub(super) channels: BTreeSet<String>,
    /// Whether the next command is for a slot that is being moved here.
    pub(super) is_asking: bool,
}

/// One direction.
pub(super) struct Way {
    pub(super) under_way: VecDeque<(Moment, Packet)>,
    pub(super) last: Moment,
    pub(super) is_dead: bool,
}

/// What is on its way.
pub(super) enum Packet {
    Bytes(Vec<u8>),
    End,
}

/// A direction: to the server or to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    Server,
    Client,
}

impl Way {
    const fn new() -> Self {
        Self { under_way: VecDeque::new(), last: Moment::START, is_dead: false }
    }
}

impl Wire {
    pub(super) const fn new(client: usize, node: usize) -> Self {
        Self {
            client,
            node,
            there: Way::new(),
            back: Way::new(),
            asked: Vec::new(),
            arrived: VecDeque::new(),
            end: None,
            reader: None,
            is_served: true,
            channels: BTreeSet::new(),
            is_asking: false,
        }
    }

    pub(super) fn way(&mut self, to: To) -> &mut Way {
        match to {
            To::Server => &mut self.there,
            To::Client => &mut self.back,
        }
    }
}

/// How a connection ended, as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Closed,
    Reset,
}
