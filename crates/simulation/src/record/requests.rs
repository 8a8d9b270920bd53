//! Requests that are under way. None waits for long on a connection on which nobody answers any more.
//!
//! A trouble may have struck a connection while it was being made, which then has its whole deadline.

use std::sync::Arc;
use std::time::Duration;

use tidelock_core::Name;

use super::{Inner, PROMPT, Record, UnderWay};
use crate::time::lock;

/// How long it may take until a request finds that its connection is dead.
const DOUBT: Duration = Duration::from_millis(1_500);

/// A request under way, until this is dropped.
pub(crate) struct Request {
    record: Arc<Record>,
    number: u64,
}

impl Record {
    /// A client sends a request about that name.
    pub(crate) fn asks(self: &Arc<Self>, client: usize, name: &Name) -> Request {
        let mut inner = lock(&self.inner);
        inner.requests += 1;
        let (number, name, since) = (inner.requests, inner.intern(name.as_str()), self.time.now());
        inner.under_way.insert(number, UnderWay { client, name, since });
        Request { record: self.clone(), number }
    }

    pub(super) fn judge_requests(&self, inner: &mut Inner) {
        let now = self.time.now();
        let is_late = |request: &UnderWay| {
            let (client, name) = (&inner.clients[request.client], inner.names.get(&request.name));
            let is_polled = name.is_none_or(|name| name.busy == 0);
            let connected = client.touched() + client.connect_deadline;
            // Of two renewals one finds a connection that died before, also where nothing is to be renewed.
            let is_known = client.touched() + self.longest_ttl * 4 / 3 < request.since;
            let doubt = if is_known { PROMPT } else { DOUBT };
            is_polled && connected.max(request.since) + doubt + self.answer * 2 < now
        };
        let late = inner.under_way.iter().filter(|(_, request)| is_late(request));
        let late: Vec<u64> = late.map(|(number, _)| *number).collect();
        for UnderWay { client, name, since } in
            late.iter().filter_map(|number| inner.under_way.remove(number)).collect::<Vec<_>>()
        {
            let (who, waits) = (inner.clients[client].who.clone(), now.since(since));
            let sentence =
                format!("{who} asks about {name:?}, and hears nothing for {waits:?} although all is well");
            inner.found("heard", sentence);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        lock(&self.record.inner).under_way.remove(&self.number);
    }
}
