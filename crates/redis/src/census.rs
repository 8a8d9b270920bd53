//! Which of two elections was later.
//!
//! Sentinels number them. But sentinels that are set up anew, as a container does that writes its configuration at each
//! start, begin again at 0, and a client that remembers a higher number would never leave a master that they replace
//! then. So it is told when the count has begun anew: at once when the same master is named with a lower number; and
//! when another one is named for a while, though by no later election, for sentinels that are only behind the others
//! hear of those every two seconds.

use std::time::Duration;

use redis::ConnectionAddr;
use tidelock::Moment;

use crate::tenure::Election;

/// For how long sentinels may be behind the others.
const BEHIND: Duration = Duration::from_secs(5);

/// What the sentinels have said until now.
#[derive(Debug, Default)]
pub(crate) struct Census {
    /// The latest election.
    last: Option<(ConnectionAddr, Election)>,
    /// Who is named instead, though by no later election, and since when.
    instead: Option<(ConnectionAddr, Moment)>,
}

impl Census {
    /// That address was named as master by the election of that number. Which one it was; the first of all, where that is
    /// not believed yet, so that nobody is led there from another.
    pub(crate) fn hear(&mut self, address: &ConnectionAddr, epoch: u64, now: Moment) -> Election {
        let Some((master, last)) = &self.last else {
            return self.believe(address, Election { count: 0, epoch });
        };
        let same_count = Election { epoch, ..*last };
        let anew = Election { count: last.count + 1, epoch };
        if master == address {
            let election = if epoch < last.epoch { anew } else { same_count };
            return self.believe(address, election);
        }
        if same_count > *last {
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
        Election::default()
    }

    /// It is the one that was named as master before.
    pub(crate) fn knows(&self, address: &ConnectionAddr) -> bool {
        self.last.as_ref().is_some_and(|(master, _)| master == address)
    }

    fn believe(&mut self, address: &ConnectionAddr, election: Election) -> Election {
        (self.last, self.instead) = (Some((address.clone(), election)), None);
        election
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

    #[test]
    fn later_elections_have_higher_numbers() {
        let mut census = Census::default();
        let (one, two) = (census.hear(&server(1), 7, at(0)), census.hear(&server(2), 8, at(1)));
        assert!(two > one);
        assert!(census.hear(&server(1), 7, at(2)) < two, "who is behind the others leads nobody back");
        assert_eq!(census.hear(&server(2), 8, at(20)), two);
        assert!(census.hear(&server(1), 7, at(21)) < two, "that was another time");
    }

    #[test]
    fn a_master_that_is_named_by_an_earlier_election_tells_that_they_are_counted_anew() {
        let mut census = Census::default();
        let before = census.hear(&server(1), 7, at(0));
        assert!(census.hear(&server(1), 0, at(1)) > before);
        assert!(census.hear(&server(2), 1, at(2)) > before);
    }

    #[test]
    fn who_is_behind_leads_nobody_back_after_they_were_counted_anew_either() {
        let mut census = Census::default();
        let connected_before = census.hear(&server(1), 7, at(0));
        census.hear(&server(1), 0, at(1));
        assert!(census.hear(&server(2), 0, at(2)) <= connected_before);
    }

    #[test]
    fn whoever_is_named_for_long_is_master() {
        let mut census = Census::default();
        let before = census.hear(&server(1), 7, at(0));
        assert!(census.hear(&server(2), 1, at(1)) < before);
        assert!(census.hear(&server(2), 1, at(5)) < before);
        assert!(census.hear(&server(2), 1, at(6)) > before);
    }
}
