//! What happened: events with their causes, and the spans that the lanes show.
//!
//! Each event knows the event that caused it, so "why?" is answered by walking back. A replay for one moment records
//! nothing, but counts, so that the causes of what follows are the same numbers.

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A client sends a request: a = operation.
    Call,
    /// The server or the resource has carried it out: a = operation, and the server times 256; b = the answer.
    Done,
    /// The server or the resource has refused it; a and b as above.
    Denied,
    /// The reply has arrived.
    Reply,
    /// The store lets a waiting client in: a = token.
    Grant,
    /// A client learns that it holds: a = token.
    Held,
    /// A hint has arrived: look, or try again.
    Hint,
    /// The store has ended a client's lease.
    Expired,
    /// A client sees by its own clock, or is told, that it has lost the lock.
    Lost,
    /// A message was lost on the way.
    Dropped,
    /// No reply came in time.
    Timeout,
    /// Something was done to the run: a = which act, b = by how much.
    Act,
    /// A client goes on after a pause.
    Resumed,
    /// A client has ended: a = why.
    Ended,
    /// A write was accepted that was computed from an old value: b = the event of the write in between.
    Wrong,
    /// More was sold than there was: a = sold.
    Oversold,
    /// Two clients believe that they hold: a = the other one.
    Overlap,
    /// A task stands in the local line of its process: a = how many are ahead of it there.
    Behind,
    /// A task stands in the store's line for its process: a = why it does so now, as `crate::cohort::Reason`.
    Leads,
    /// A task passes its hold on: a = the new token, b = to whom.
    Pass,
}

/// One thing that happened.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// When.
    pub at: u32,
    /// What.
    pub kind: Kind,
    /// To which client.
    pub who: u16,
    /// See [`Kind`].
    pub a: u32,
    /// See [`Kind`].
    pub b: u32,
    /// The number of the event that caused it; [`NONE`] if there is none.
    pub cause: u32,
}

/// No event.
pub const NONE: u32 = u32::MAX;

/// What a lane shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Shade {
    /// Nothing in particular.
    Rest,
    /// Waits for the lock.
    Waiting,
    /// Holds it, and the store agrees.
    Held,
    /// Holds it, and its last renewal failed.
    Jeopardy,
    /// Believes that it holds it; the store has given it away.
    Stale,
    /// Works on the resource without a lock.
    Bare,
    /// Stands still.
    Paused,
    /// Stands still in the middle of its work under the lock.
    PausedHolding,
    /// Dead.
    Dead,
    /// Has ended.
    Ended,
    /// Stands still, believes that it holds, and the store has given the lock away.
    PausedStale,
    /// Waits in the local line of its process, and not in the store's.
    Behind,
}

/// A time during which a lane looks the same.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Whose lane.
    pub who: u16,
    /// What it shows.
    pub shade: Shade,
    /// From when.
    pub from: u32,
    /// Until when.
    pub to: u32,
    /// The token of the hold.
    pub token: u32,
}

/// The events and the spans of one run.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Whether anything is kept; otherwise events are only counted.
    pub keeps: bool,
    /// How many events there are.
    pub count: u32,
    /// All of them, in order.
    pub events: Vec<Event>,
    /// All that are over, in order of their ends.
    pub spans: Vec<Span>,
    /// How long clients waited: when it ended, who, how long.
    pub waits: Vec<(u32, u16, u32)>,
    open: Vec<Span>,
}

impl Record {
    /// An empty record that keeps everything.
    #[must_use]
    pub fn kept() -> Self {
        Self { keeps: true, ..Self::default() }
    }

    /// A record that only counts, from this many events on.
    #[must_use]
    pub fn counted(count: u32) -> Self {
        Self { count, ..Self::default() }
    }

    pub(crate) fn push(&mut self, event: Event) -> u32 {
        if self.keeps {
            self.events.push(event);
        }
        self.count += 1;
        self.count - 1
    }

    pub(crate) fn waited(&mut self, at: u32, who: u16, how_long: u32) {
        if self.keeps {
            self.waits.push((at, who, how_long));
        }
    }

    /// The lane of this client looks like this from now on.
    pub(crate) fn shade(&mut self, at: u32, who: u16, shade: Shade, token: u32) {
        if !self.keeps {
            return;
        }
        let lane = usize::from(who);
        while self.open.len() <= lane {
            let who = self.open.len() as u16;
            self.open.push(Span { who, shade: Shade::Rest, from: 0, to: 0, token: 0 });
        }
        let span = &mut self.open[lane];
        if span.shade == shade && span.token == token {
            return;
        }
        if at > span.from {
            span.to = at;
            self.spans.push(*span);
        }
        *span = Span { who, shade, from: at, to: at, token };
    }

    /// Ends every lane.
    pub(crate) fn close(&mut self, at: u32) {
        for span in self.open.drain(..) {
            if at > span.from {
                self.spans.push(Span { to: at, ..span });
            }
        }
    }
}
