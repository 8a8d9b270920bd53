//! Explores what meets in a local line: passes, losses, shares, and those that come and go.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ::loom::future::block_on;
use ::loom::thread;
use async_trait::async_trait;
use tokio::sync::mpsc;

use super::line::{Cohort, Rings};
use super::{Baton, Cohorts, Entered, Lead, News, Stood, Waiting};
use crate::at_once::at_once;
use crate::backend::{
    Claim, Leave, Left, Moment, Patience, Place, Renewal, Reply, Session, Shard, Sight, boot_clock,
};
use crate::live_session::LiveSession;
use crate::loom::{explore, grant, registry};
use crate::owned_claim::OwnedClaim;
use crate::registry::Loss;
use crate::{ClaimId, Kind, Line, Name, Options, Result, Weight};

const LONG: Duration = Duration::from_secs(3600);

#[test]
fn a_pass_to_one_that_gives_up_goes_to_the_next() {
    explore("a_pass_to_one_that_gives_up_goes_to_the_next", || {
        let client = Client::new(Kind::Mutex);
        let holder = client.holds();
        let (gives_up, next) = (client.waits(), client.waits());
        let leaving = thread::spawn(move || drop(gives_up));
        drop(holder);
        leaving.join().unwrap();
        assert!(matches!(told(next), Some(News::Passed(_))), "the hold is lost");
        client.is_done();
    });
}

#[test]
fn a_claim_that_has_left_is_kept_by_no_line() {
    explore("a_claim_that_has_left_is_kept_by_no_line", || {
        let client = Client { cohorts: Cohorts::new(Duration::ZERO, LONG, LONG), ..Client::new(Kind::Mutex) };
        let (holder, next) = (client.holds(), client.waits());
        let entry = Arc::downgrade(&holder.entry);
        drop(holder);
        let leads = told(next);
        assert!(matches!(leads, Some(News::Leads(_))), "the linger is over");
        assert!(entry.upgrade().is_none(), "what the store keeps for it is kept, too");
        drop(leads);
        client.is_done();
    });
}

#[test]
fn nobody_stands_in_a_line_that_is_over() {
    explore("nobody_stands_in_a_line_that_is_over", || {
        let client = Client::new(Kind::Mutex);
        let holder = client.holds();
        let comer = client.clone();
        let coming = thread::spawn(move || comer.enters());
        drop(holder);
        match coming.join().unwrap() {
            Entered::Waits(waiting, _) => assert!(told(waiting).is_some(), "it is stranded"),
            entered => drop(entered),
        }
        client.is_done();
    });
}

#[test]
fn a_loss_and_a_release_begin_one_turn() {
    explore("a_loss_and_a_release_begin_one_turn", || {
        let client = Client::new(Kind::Mutex);
        let holder = client.holds();
        let waiting = [client.waits(), client.waits()];
        let entry = holder.entry.clone();
        let losing = thread::spawn(move || entry.lose(Loss::NotInLine));
        drop(holder);
        losing.join().unwrap();
        let news = waiting.map(told);
        let leaders = news.iter().filter(|news| matches!(news, Some(News::Leads(_)))).count();
        assert_eq!(leaders, 1, "one leads");
    });
}

#[test]
fn a_pass_wakes_a_waiter_that_is_registering() {
    explore("a_pass_wakes_a_waiter_that_is_registering", || {
        let client = Client::new(Kind::Mutex);
        let (holder, waiting) = (client.holds(), client.waits());
        let passing = thread::spawn(move || drop(holder));
        assert!(matches!(block_on(waiting), News::Passed(_)));
        passing.join().unwrap();
        client.is_done();
    });
}

#[test]
fn a_reader_shares_a_claim_that_is_not_given_back() {
    explore("a_reader_shares_a_claim_that_is_not_given_back", || {
        let client = Client::new(Kind::RwLock);
        let reader = client.holds();
        let comer = client.clone();
        let coming = thread::spawn(move || comer.enters());
        releases(reader);
        match coming.join().unwrap() {
            Entered::Shares(baton) => {
                assert_eq!(baton.entry.loss(), None, "it was given back");
                releases(baton);
            }
            Entered::Waits(waiting, _) => assert!(told(waiting).is_some(), "it is stranded"),
            entered => drop(entered),
        }
        client.is_done();
    });
}

#[test]
fn the_last_of_two_readers_gives_the_claim_back() {
    explore("the_last_of_two_readers_gives_the_claim_back", || {
        let client = Client::new(Kind::RwLock);
        let (one, other) = (client.holds(), client.shares());
        let releasing = thread::spawn(move || releases(other));
        let is_passed = releases(one);
        assert!(is_passed ^ releasing.join().unwrap(), "one of them is the last");
        client.is_done();
    });
}

#[test]
fn a_bell_that_rings_while_a_hold_begins_does_not_miss_its_end() {
    explore("a_bell_that_rings_while_a_hold_begins_does_not_miss_its_end", || {
        let client = Client { cohorts: Cohorts::new(LONG, LONG * 2, LONG * 2), ..Client::new(Kind::Mutex) };
        let lead = client.leads();
        let Entered::Waits(waiting, Stood(line)) = client.enters() else { panic!("another one leads") };
        let now = client.live.clock.now();
        line.line.lock().bell.as_mut().expect("somebody waits").at = now;
        let (rung, bell) = (line.clone(), bell_of(&line));
        let rings = bell.clone();
        let ringing = thread::spawn(move || rung.look_after(now, &*rings));
        let holder = client.granted(lead);
        assert!(ringing.join().unwrap(), "somebody waits");
        assert!(line.rings_at(&*bell) <= line.line.lock().ends, "it rings too late");
        drop((waiting, holder));
        client.is_done();
    });
}

#[test]
fn a_bell_that_is_put_away_while_another_task_winds_it_up_does_nothing() {
    explore("a_bell_that_is_put_away_while_another_task_winds_it_up_does_nothing", || {
        let client = Client::new(Kind::Mutex);
        let lead = client.leads();
        let Entered::Waits(gives_up, Stood(line)) = client.enters() else { panic!("another one leads") };
        let (now, bell) = (client.live.clock.now(), bell_of(&line));
        drop(gives_up);
        let (rung, rings) = (line.clone(), bell.clone());
        let ringing = thread::spawn(move || rung.look_after(now, &*rings));
        let waiting = client.waits(); // relies on this bell, or on another one
        let rings_again = ringing.join().unwrap();
        let is_put_away = !Arc::ptr_eq(&bell, &bell_of(&line));
        assert_ne!(rings_again, is_put_away);
        if is_put_away {
            assert_eq!(line.rings_at(&*bell), None, "two bells ring for one line");
            assert!(!line.look_after(now, &*bell), "it looks after a line that has another one");
        }
        drop((waiting, lead));
    });
}

/// A client whose session is in a store that does nothing but count the leaves.
#[derive(Clone)]
struct Client {
    kind: Kind,
    name: Name,
    cohorts: Arc<Cohorts>,
    live: Arc<LiveSession>,
    store: Arc<Leaves>,
}

impl Client {
    fn new(kind: Kind) -> Self {
        let (registry, store) = (registry(), Arc::new(Leaves::default()));
        let (keeper, _) = mpsc::unbounded_channel();
        let (clock, options) = (boot_clock(), Arc::new(Options::new()));
        let (session, opened_at) = (store.clone(), clock.now());
        let live = Arc::new(LiveSession { session, registry, clock, options, opened_at, keeper });
        let name = Name::new("m").expect("a good name");
        Self { kind, name, cohorts: Cohorts::new(LONG, LONG, LONG), live, store }
    }

    fn enters(&self) -> Entered {
        self.cohorts.enter(self.kind, &self.name, self.kind == Kind::RwLock, &self.live.clock)
    }

    fn leads(&self) -> Lead {
        let Entered::Leads(lead) = self.enters() else { panic!("it is the first") };
        lead
    }

    fn waits(&self) -> Waiting<News> {
        let Entered::Waits(waiting, _) = self.enters() else { panic!("another one holds") };
        waiting
    }

    fn shares(&self) -> Baton {
        let Entered::Shares(baton) = self.enters() else { panic!("another one reads") };
        baton
    }

    /// The first one comes, and the store grants its claim.
    fn holds(&self) -> Baton {
        self.granted(self.leads())
    }

    /// The store grants the claim of the one that leads.
    fn granted(&self, lead: Lead) -> Baton {
        let id = self.live.registry.next_id();
        let capacity = if self.kind == Kind::RwLock { Weight::MAX } else { Weight::ONE };
        let claim = Claim::new(id, self.name.clone(), self.kind, Weight::ONE, capacity);
        let owned = OwnedClaim::new(self.live.clone(), claim, None).expect("the session is open");
        self.live.registry.extend(&owned.entry, self.live.registry.now() + LONG);
        lead.behind().is_led_with(&owned);
        assert_eq!(self.live.registry.hold(&owned.entry, grant()), None);
        lead.holds(owned, grant(), self.kind == Kind::RwLock)
    }

    /// The claim has left once, and nothing of the local line is left.
    fn is_done(&self) {
        assert_eq!(self.store.0.load(Ordering::Relaxed), 1, "leaves");
        assert!(matches!(self.enters(), Entered::Leads(_)), "the line is over");
    }
}

/// The bell of a line in which somebody waits.
fn bell_of(line: &Cohort<News>) -> Arc<dyn Rings> {
    line.line.lock().bell.as_ref().expect("somebody waits").bell.clone()
}

/// What one that waits was told.
fn told(waiting: Waiting<News>) -> Option<News> {
    at_once(pin!(waiting))
}

/// As a guard does. Returns whether others hold the claim now.
fn releases(mut baton: Baton) -> bool {
    let is_passed = baton.pass_on();
    if !is_passed {
        let released = at_once(pin!(baton.release())).expect("the store answers at once");
        assert!(released.is_ok(), "it held");
    }
    is_passed
}

/// How many claims have left.
#[derive(Debug, Default)]
struct Leaves(AtomicUsize);

#[async_trait]
impl Session for Leaves {
    fn ttl(&self) -> Duration {
        LONG
    }

    fn shard(&self, _: &Name) -> Shard {
        Shard(0)
    }

    fn leave(&self, _: &Name, _: ClaimId, _: Leave) -> Reply<Left> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Ok(Left::Held)))
    }

    async fn join(&self, _: &Claim, _: Patience) -> Result<Place> {
        unreachable!("nobody asks")
    }

    async fn look(&self, _: &Name, _: &[ClaimId]) -> Result<Sight> {
        unreachable!("nobody asks")
    }

    async fn lighten(&self, _: &Claim, _: Weight) -> Result<()> {
        unreachable!("nobody asks")
    }

    async fn resize(&self, _: &Name, _: Weight, _: Weight) -> Result<()> {
        unreachable!("nobody asks")
    }

    async fn renew(&self, _: Shard, _: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        unreachable!("nobody asks")
    }

    async fn line(&self, _: &Name) -> Result<Line> {
        unreachable!("nobody asks")
    }

    async fn names(&self, _: &str, _: Option<&Name>) -> Result<Vec<Name>> {
        unreachable!("nobody asks")
    }

    async fn close(&self) -> Result<()> {
        unreachable!("nobody asks")
    }
}
