//! The watches that were asked for on one stream, and whether an answer there belongs to one of them.
//!
//! A member reports under the number with which a watch was asked for. A gRPC proxy numbers the watches itself, from 0:
//! then the events of one line would be taken for another's, and a claim would get a turn that is not its own. So each
//! answer is held against what was asked for, and one that does not belong there ends the stream.

use std::collections::HashMap;

use etcd_client::{Error as Said, Event, WatchResponse};

use crate::trouble::RENUMBERED;

/// The first number of a session's watches. No proxy that counts comes near it.
pub(crate) const FIRST_WATCH: i64 = 1 << 40;

/// The watches that were asked for on one stream.
#[derive(Debug, Default)]
pub(crate) struct Asked(HashMap<i64, Watch>);

#[derive(Debug)]
struct Watch {
    /// What all keys begin with of which it reports.
    prefix: Vec<u8>,
    /// The revision from which it was asked for, until it is set.
    from: Option<i64>,
}

impl Asked {
    /// A watch is asked for, from this revision. 0: from now on.
    pub(crate) fn asks(&mut self, watch: i64, prefix: impl Into<Vec<u8>>, from: i64) {
        self.0.insert(watch, Watch { prefix: prefix.into(), from: Some(from) });
    }

    pub(crate) fn has(&self, watch: i64) -> bool {
        self.0.contains_key(&watch)
    }

    /// It is set: from which revision it was asked for.
    pub(crate) fn is_set(&mut self, watch: i64) -> Option<i64> {
        self.0.get_mut(&watch)?.from.take()
    }

    /// The server reports nothing under this number any more.
    pub(crate) fn ends(&mut self, watch: i64) {
        self.0.remove(&watch);
    }

    /// An error: the answer is not to any of them.
    pub(crate) fn admits(&self, answer: &WatchResponse) -> Result<(), Said> {
        let keys = answer.events().iter().filter_map(Event::kv).map(etcd_client::KeyValue::key);
        let is_ours = answer.canceled() || self.is_of(answer.watch_id(), answer.created(), keys);
        if is_ours { Ok(()) } else { Err(Said::WatchError(RENUMBERED.to_owned())) }
    }

    fn is_of<'a>(&self, watch: i64, is_created: bool, mut keys: impl Iterator<Item = &'a [u8]>) -> bool {
        self.0.get(&watch).is_some_and(|watch| {
            watch.from.is_some() == is_created && keys.all(|key| key.starts_with(&watch.prefix))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_under_a_number_that_was_not_asked_for_is_nobodys() {
        let mut asked = Asked::default();
        asked.asks(7, "a/", 0);
        asked.asks(8, "b/", 5);
        let none = || std::iter::empty();
        assert!(asked.is_of(7, true, none()) && !asked.is_of(0, true, none()));
        assert!(!asked.is_of(7, false, none()), "it is not set yet");
        assert_eq!((asked.is_set(7), asked.is_set(8)), (Some(0), Some(5)));
        assert!(!asked.is_of(7, true, none()), "it is set already");
        asked.ends(7);
        assert!(!asked.is_of(7, false, none()));
    }

    /// Behind a proxy that counts from 0, the numbers of two watches may only have changed places.
    #[test]
    fn an_event_of_another_line_is_not_this_ones() {
        let mut asked = Asked::default();
        asked.asks(7, "a/", 0);
        asked.is_set(7);
        let keys = |keys: &[&'static str]| asked.is_of(7, false, keys.iter().map(|key| key.as_bytes()));
        assert!(keys(&["a/1", "a/2"]));
        assert!(!keys(&["b/1"]) && !keys(&["a/1", "b/1"]));
    }
}
