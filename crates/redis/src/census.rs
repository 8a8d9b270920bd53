//! Which of two elections was later.
//!
//! Sentinels number them. But sentinels that are set up anew, as a container does that writes its configuration at each
//! start, begin again at 0, and a client that remembers a higher number would never leave a master that they replace
//! then. So it is told when the count has begun anew: at once when the same master is named with a lower number; and
//! when another one is named for a while, though by no later election, for sentinels that are only behind the others
//! hear of those every two seconds.
//!
//! A sentinel that leads a failover takes the new number before the new master: until its replicas follow, it names the
//! old one by an election that has made another one master. So a master stands by the election that it was named by
//! first, and of two that are named by one number the one is master that was none before.

use std::time::Duration;

use redis::ConnectionAddr;
use tidelock::Moment;

use crate::tenure::{Elected, Election};

/// For how long sentinels may be behind the others.
const BEHIND: Duration = Duration::from_secs(5);

/// What the sentinels have said until now.
#[derive(Debug, Default)]
pub(crate) struct Census {
    /// Who is master, by the first election that has named it.
    last: Option<Elected>,
    /// The latest number that it was named by.
    newest: u64,
    /// Who is named instead, though by no later election, and since when.
    instead: Option<(ConnectionAddr, Moment)>,
}

impl Census {
    /// That address was named as master by the election of that number. Who is master, then: while that is not believed
    /// yet, the one that was before, so that nobody is led away from it.
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

    /// Whether of several that are named by that number it is this one: as it was named before, unless that was by an
    /// earlier election.
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

    /// Whom it makes master, and by which election.
    fn hear(census: &mut Census, port: u16, epoch: u64, now: Moment) -> (u16, Election) {
        let elected = census.hear(&server(port), epoch, now);
        let ConnectionAddr::Tcp(_, port) = elected.address else { panic!("{elected:?}") };
        (port, elected.election)
    }

    #[test]
    fn later_elections_have_higher_numbers() {
        let mut census = Census::default();
        let (one, two) = (hear(&mut census, 1, 7, at(0)), hear(&mut census, 2, 8, at(1)));
        assert_eq!((one.0, two.0), (1, 2));
        assert!(two.1 > one.1);
        assert_eq!(hear(&mut census, 1, 7, at(2)), two, "who is behind the others leads nobody back");
        assert_eq!(hear(&mut census, 2, 8, at(20)), two);
        assert_eq!(hear(&mut census, 1, 7, at(21)), two, "that was another time");
    }

    #[test]
    fn a_master_that_is_named_by_an_earlier_election_tells_that_they_are_counted_anew() {
        let mut census = Census::default();
        let before = hear(&mut census, 1, 7, at(0));
        let anew = hear(&mut census, 1, 0, at(1));
        assert!(anew.0 == 1 && anew.1 > before.1);
        let next = hear(&mut census, 2, 1, at(2));
        assert!(next.0 == 2 && next.1 > anew.1);
    }

    #[test]
    fn who_is_behind_leads_nobody_back_after_they_were_counted_anew_either() {
        let mut census = Census::default();
        hear(&mut census, 1, 7, at(0));
        let anew = hear(&mut census, 1, 0, at(1));
        assert_eq!(hear(&mut census, 2, 0, at(2)), anew);
    }

    #[test]
    fn who_leads_a_failover_names_the_old_master_by_the_new_number_for_a_while() {
        let mut census = Census::default();
        let old = hear(&mut census, 1, 7, at(0));
        assert_eq!(hear(&mut census, 1, 8, at(1)), old);
        assert_eq!(hear(&mut census, 1, 7, at(1)), old, "the others do not know yet");
        assert!(census.prefers(&server(2), 8) && !census.prefers(&server(1), 8));
        let new = hear(&mut census, 2, 8, at(2));
        assert!(new.0 == 2 && new.1 > old.1);
        assert!(census.prefers(&server(2), 8) && !census.prefers(&server(1), 8));
        assert_eq!(hear(&mut census, 1, 8, at(3)), new);
    }

    #[test]
    fn whoever_is_named_for_long_is_master() {
        let mut census = Census::default();
        let before = hear(&mut census, 1, 7, at(0));
        assert_eq!(hear(&mut census, 2, 1, at(1)), before);
        assert_eq!(hear(&mut census, 2, 1, at(5)), before);
        let now = hear(&mut census, 2, 1, at(6));
        assert!(now.0 == 2 && now.1 > before.1);
    }
}
