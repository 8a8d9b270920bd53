//! Which of two elections was later.
//!
//! Sentinels number their elections. But sentinels that are set up anew start again at 0; a container that writes its
//! configuration at each start does this. A client that remembers a higher number would then never leave a master that
//! they replace. So this detects a new count: at once when the known master is named with a lower number, and
//! after a while when another master is named without a later election. It waits in the second case because the
//! sentinels may only be behind the others; they hear from them every two seconds.
//!
//! A sentinel that leads a failover takes the new number before the new master. Until its replicas follow, it names the
//! old master with the number of the election that has made another one master. So a master counts by the number that
//! it was first named with, and if two masters are named with one number, the new one is master.

use std::time::Duration;

use redis::ConnectionAddr;
use tidelock_core::backend::Moment;

use crate::tenure::{Elected, Election};

/// How long sentinels may be behind the others.
const BEHIND: Duration = Duration::from_secs(5);

/// What the sentinels have said so far.
#[derive(Debug, Default)]
pub(crate) struct Elections {
    /// The master, with the first election that named it.
    last: Option<Elected>,
    /// The latest number that the master was named with.
    newest: u64,
    /// Another server that is named as master without a later election, and since when.
    instead: Option<(ConnectionAddr, Moment)>,
}

impl Elections {
    /// Notes that `address` was named as master by election number `epoch`. Returns the current master: while the new
    /// one is not believed yet, that is the previous one, so that no client leaves it.
    pub(crate) fn hear(&mut self, address: &ConnectionAddr, epoch: u64, now: Moment) -> Elected {
        let Some(Elected { address: master, election: first }) = &self.last else {
            return self.believe(address, Election { count: 0, epoch });
        };
        let same_count = Election { epoch, ..*first };
        let anew = Election { count: first.count + 1, epoch };
        let last = Elected { address: master.clone(), election: *first };
        if master == address {
            if epoch < first.epoch {
                return self.believe(address, anew);
            }
            (self.newest, self.instead) = (self.newest.max(epoch), None);
            return last;
        }
        if epoch >= self.newest && same_count > *first {
            return self.believe(address, same_count);
        }
        let since = match &self.instead {
            Some((instead, since)) if instead == address => *since,
            _ => now,
        };
        if now >= since + BEHIND {
            return self.believe(address, anew);
        }
        self.instead = Some((address.clone(), since));
        last
    }

    /// Whether this address is preferred among several that are named with the same number: the known master is, unless
    /// its election was an earlier one.
    pub(crate) fn prefers(&self, address: &ConnectionAddr, epoch: u64) -> bool {
        let Some(last) = &self.last else { return false };
        (last.address == *address) == (last.election.epoch >= epoch)
    }

    fn believe(&mut self, address: &ConnectionAddr, election: Election) -> Elected {
        (self.newest, self.instead) = (election.epoch, None);
        self.last.insert(Elected { address: address.clone(), election }).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(port: u16) -> ConnectionAddr {
        ConnectionAddr::Tcp("127.0.0.1".to_owned(), port)
    }

    fn at(seconds: u64) -> Moment {
        Moment::START + Duration::from_secs(seconds)
    }

    /// The port of the master, and its election.
    fn hear(elections: &mut Elections, port: u16, epoch: u64, now: Moment) -> (u16, Election) {
        let elected = elections.hear(&server(port), epoch, now);
        let ConnectionAddr::Tcp(_, port) = elected.address else { panic!("{elected:?}") };
        (port, elected.election)
    }

    #[test]
    fn later_elections_have_higher_numbers() {
        let mut elections = Elections::default();
        let (one, two) = (hear(&mut elections, 1, 7, at(0)), hear(&mut elections, 2, 8, at(1)));
        assert_eq!((one.0, two.0), (1, 2));
        assert!(two.1 > one.1);
        assert_eq!(hear(&mut elections, 1, 7, at(2)), two, "a sentinel that is behind leads nobody back");
        assert_eq!(hear(&mut elections, 2, 8, at(20)), two);
        assert_eq!(hear(&mut elections, 1, 7, at(21)), two, "the wait starts again");
    }

    #[test]
    fn a_master_that_is_named_by_an_earlier_election_tells_that_they_are_counted_anew() {
        let mut elections = Elections::default();
        let before = hear(&mut elections, 1, 7, at(0));
        let anew = hear(&mut elections, 1, 0, at(1));
        assert!(anew.0 == 1 && anew.1 > before.1);
        let next = hear(&mut elections, 2, 1, at(2));
        assert!(next.0 == 2 && next.1 > anew.1);
    }

    #[test]
    fn who_is_behind_leads_nobody_back_after_they_were_counted_anew_either() {
        let mut elections = Elections::default();
        hear(&mut elections, 1, 7, at(0));
        let anew = hear(&mut elections, 1, 0, at(1));
        assert_eq!(hear(&mut elections, 2, 0, at(2)), anew);
    }

    #[test]
    fn who_leads_a_failover_names_the_old_master_by_the_new_number_for_a_while() {
        let mut elections = Elections::default();
        let old = hear(&mut elections, 1, 7, at(0));
        assert_eq!(hear(&mut elections, 1, 8, at(1)), old);
        assert_eq!(hear(&mut elections, 1, 7, at(1)), old, "the other sentinels do not know yet");
        assert!(elections.prefers(&server(2), 8) && !elections.prefers(&server(1), 8));
        let new = hear(&mut elections, 2, 8, at(2));
        assert!(new.0 == 2 && new.1 > old.1);
        assert!(elections.prefers(&server(2), 8) && !elections.prefers(&server(1), 8));
        assert_eq!(hear(&mut elections, 1, 8, at(3)), new);
    }

    #[test]
    fn a_server_that_is_named_for_long_is_master() {
        let mut elections = Elections::default();
        let before = hear(&mut elections, 1, 7, at(0));
        assert_eq!(hear(&mut elections, 2, 1, at(1)), before);
        assert_eq!(hear(&mut elections, 2, 1, at(5)), before);
        let now = hear(&mut elections, 2, 1, at(6));
        assert!(now.0 == 2 && now.1 > before.1);
    }
}
