//! The cost of operations. Times are the quickest of many short rounds, so a busy machine slows both sides of a
//! comparison or neither. The bound is a ratio, three times the usual one.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use tidelock_memory::backend::{Claim, Leave, Patience, Session, boot_clock};
use tidelock_memory::{Store, Weight};

use crate::client::{Client, Told, now, weight};

/// Nanoseconds of one run of `work`, in the quickest of `rounds` rounds.
fn quickest(rounds: usize, mut work: impl FnMut()) -> f64 {
    let runs = 200;
    let round = || {
        let start = Instant::now();
        (0..runs).for_each(|_| work());
        start.elapsed().as_nanos() as f64 / f64::from(runs)
    };
    std::iter::repeat_with(round).take(rounds).fold(f64::MAX, f64::min)
}

/// One line, a holder, and many waiters for two of three permits.
struct Crowd {
    store: Store,
    client: Client,
    next: u64,
    /// The numbers of the waiters, in no order once one of them has given up.
    waiting: VecDeque<u64>,
    holder: u64,
}

impl Crowd {
    fn new(count: u64) -> Self {
        let store = Store::new();
        let client = Client::new(&store, 1);
        let mut crowd = Self { store, client, next: 1, waiting: VecDeque::new(), holder: 0 };
        crowd.client.hold(&crowd.claim(0));
        (0..count).for_each(|_| {
            let number = crowd.join();
            crowd.waiting.push_back(number);
        });
        crowd
    }

    fn claim(&self, number: u64) -> Claim {
        self.client.permits(number, "stock", 2, 3)
    }

    fn join(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        now(self.client.session.join(&self.claim(number), Patience::Wait)).unwrap();
        number
    }

    fn leave(&self, number: u64) {
        let claim = self.claim(number);
        now(self.client.session.leave(&claim.name, claim.id, Leave::Done)).unwrap();
    }

    /// The holder leaves, the next one is granted, and a new claim joins at the tail.
    fn hand_over(&mut self) {
        self.leave(self.holder);
        self.holder = self.waiting.pop_front().unwrap();
        let number = self.join();
        self.waiting.push_back(number);
        assert!(matches!(self.client.told()[..], [Told::Held(id, _)] if id.number == self.holder));
    }

    /// A waiter anywhere in the line gives up, and a new claim joins.
    fn give_up_anywhere(&mut self) {
        let scattered = self.next.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let at = usize::try_from(scattered).unwrap() % self.waiting.len();
        self.leave(self.waiting[at]);
        self.waiting[at] = self.join();
    }

    fn look_and_come_and_go(&mut self) {
        let claim = self.claim(self.next - 1);
        now(self.client.session.look(&claim.name, &[claim.id])).unwrap();
        let hasty = self.claim(u64::MAX);
        now(self.client.session.join(&hasty, Patience::Now)).unwrap();
        now(self.client.session.resize(&claim.name, weight(3), Weight::ONE)).unwrap_err();
    }
}

#[test]
fn with_100_000_waiting_an_operation_costs_at_most_5_times_what_it_costs_with_10() {
    let mut crowds = [10, 100_000].map(Crowd::new);
    let mut compare = |what: &str, work: &mut dyn FnMut(&mut Crowd)| {
        let [few, many] = [0, 1].map(|which| quickest(100, || work(&mut crowds[which])));
        println!("{what}: {few:.0} ns with 10 waiting, {many:.0} ns with 100 000: {:.1} times", many / few);
        assert!(many <= 5.0 * few, "{what} costs {many:.0} ns with 100 000 waiting, and {few:.0} ns with 10");
    };
    compare("a hand-over", &mut Crowd::hand_over);
    compare("leaving in the middle", &mut Crowd::give_up_anywhere);
    compare("a look, a hasty join and a resize", &mut Crowd::look_and_come_and_go);
    drop(crowds.map(|crowd| crowd.store));
}

#[test]
#[ignore = "a measurement, for release builds"]
fn nanoseconds_of_a_join_and_a_leave() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    let session: &dyn Session = &*client.session;
    let mut claim = client.mutex(0, "stock:42");
    let pair = quickest(3_000, || {
        claim.id.number += 1;
        now(session.join(&claim, Patience::Wait)).unwrap();
        now(session.leave(&claim.name, claim.id, Leave::Done)).unwrap();
    });
    let clock = boot_clock();
    let reading = quickest(3_000, || {
        black_box(clock.now());
    });
    let mutex = Arc::new(tokio::sync::Mutex::new(()));
    let tokio = quickest(3_000, || drop(now(mutex.clone().lock_owned())));
    println!(
        "a join and a leave: {pair:.0} ns; a look at the clock: {reading:.0} ns; tokio's mutex: {tokio:.0} ns"
    );
}
