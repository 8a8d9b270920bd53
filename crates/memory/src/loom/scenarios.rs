//! Requests that can meet in the store, two or three at a time. Each scenario has its own fault in `loom-faults.txt`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ::loom::thread;
use tidelock_core::backend::{Left, Place};
use tidelock_core::{ErrorKind, Kind, Weight};

use super::client::{Client, TTL};
use super::explore;
use crate::{Clock, Store};

/// How much is held at once, as the holders see it. Not one of loom's atomics: it only counts.
#[derive(Clone, Debug, Default)]
struct Gauge(Arc<AtomicU32>);

impl Gauge {
    fn hold(&self, at_most: u32) {
        let held = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        assert!(held <= at_most, "{held} hold at once");
    }

    fn release(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A waiter that gives up may be granted at that moment: its leave must let the next one in.
#[test]
fn cancel_against_grant() {
    explore("cancel against grant", || {
        let store = Store::with_clock(&Clock::manual());
        let [holder, fickle, patient] = [1, 2, 3].map(|id| Client::new(&store, id));
        let (held, given_up, wanted) = (holder.mutex(1), fickle.mutex(1), patient.mutex(1));
        let oldest = holder.lock(&held);
        fickle.join(&given_up).expect("it waits");
        patient.join(&wanted).expect("it waits");

        let releasing = thread::spawn(move || assert_eq!(holder.leave(&held).expect("it lives"), Left::Held));
        let cancelling = thread::spawn(move || {
            assert_ne!(fickle.leave_void(&given_up).expect("it lives"), Left::Absent);
            assert_eq!(fickle.join(&given_up).expect("it lives"), Place::Gone);
        });
        assert!(patient.wait(&wanted) > oldest);
        releasing.join().expect("it ends");
        cancelling.join().expect("it ends");
    });
}

/// The holder leaves while the waiter joins and registers its waker: the waiter is held at once, or told.
#[test]
fn release_against_registering() {
    explore("release against registering", || {
        let store = Store::with_clock(&Clock::manual());
        let [holder, waiter] = [1, 2].map(|id| Client::new(&store, id));
        let (held, wanted) = (holder.mutex(1), waiter.mutex(1));
        let older = holder.lock(&held);

        let releasing = thread::spawn(move || assert_eq!(holder.leave(&held).expect("it lives"), Left::Held));
        assert!(waiter.lock(&wanted) > older);
        releasing.join().expect("it ends");
    });
}

/// The holder's session ends while it releases: the next waiter is granted once, and keeps its grant.
#[test]
fn expiry_against_release() {
    explore("expiry against release", || {
        let clock = Clock::manual();
        let store = Store::with_clock(&clock);
        let holder = Client::new(&store, 1);
        clock.advance(TTL / 2);
        let [waiter, last] = [2, 3].map(|id| Client::new(&store, id));
        let (held, wanted, behind) = (holder.mutex(1), waiter.mutex(1), last.mutex(1));
        let older = holder.lock(&held);
        waiter.join(&wanted).expect("it waits");
        last.join(&behind).expect("it waits");

        let releasing = thread::spawn(move || match holder.leave(&held) {
            Ok(left) => assert_eq!(left, Left::Held),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Lost),
        });
        let looking = thread::spawn({
            let (clock, last, behind) = (clock.clone(), last.clone(), behind.clone());
            move || {
                clock.advance(TTL / 2);
                last.look(&behind).expect("it lives");
            }
        });
        assert!(waiter.wait(&wanted) > older);
        releasing.join().expect("it ends");
        looking.join().expect("it ends");
        assert!(!last.heard_of(&behind), "two hold at once");
    });
}

/// A renewal and the end of the lease meet: one of them comes first, and both sides agree which.
#[test]
fn renewal_against_expiry() {
    explore("renewal against expiry", || {
        let clock = Clock::manual();
        let store = Store::with_clock(&clock);
        let holder = Client::new(&store, 1);
        clock.advance(TTL / 2);
        let waiter = Client::new(&store, 2);
        let (held, wanted) = (holder.mutex(1), waiter.mutex(1));
        holder.lock(&held);
        waiter.join(&wanted).expect("it waits");

        let renewing = thread::spawn({
            let holder = holder.clone();
            move || holder.renew()
        });
        clock.advance(TTL / 2);
        let sight = waiter.look(&wanted).expect("it lives");
        let renewed = renewing.join().expect("it ends");

        assert_eq!(renewed.is_ok(), sight.held.is_empty(), "both think they hold, or neither does");
        assert_eq!(renewed.is_err(), holder.heard_the_end());
    });
}

/// Readers that stand together behind a writer are held together, and the next writer after both.
#[test]
fn two_readers_and_a_writer() {
    explore("two readers and a writer", || {
        let store = Store::with_clock(&Clock::manual());
        let [writer, one, other] = [1, 2, 3].map(|id| Client::new(&store, id));
        let (write, read, read_too) = (writer.write(1), one.read(1), other.read(1));
        writer.lock(&write);
        one.join(&read).expect("it waits");
        other.join(&read_too).expect("it waits");

        let writing = thread::spawn(move || {
            assert_eq!(writer.leave(&write).expect("it lives"), Left::Held);
            let again = writer.write(2);
            writer.lock(&again);
            writer.leave(&again).expect("it lives");
        });
        let reading = thread::spawn(move || {
            other.wait(&read_too);
            (other, read_too)
        });
        one.wait(&read);
        let (other, read_too) = reading.join().expect("it ends"); // both hold: neither has left yet
        one.leave(&read).expect("it lives");
        other.leave(&read_too).expect("it lives");
        writing.join().expect("it ends");
    });
}

/// Two clients want the last permit: one gets it, the other is next, and never more permits are held than there are.
#[test]
fn the_last_of_n_permits() {
    explore("the last of n permits", || {
        let two = Weight::new(2).expect("a weight");
        let store = Store::with_clock(&Clock::manual());
        let gauge = Gauge::default();
        let holder = Client::new(&store, 1);
        holder.lock(&holder.claim(1, Kind::Semaphore, Weight::ONE, two));
        gauge.hold(2);

        let take = |id| {
            let (client, gauge) = (Client::new(&store, id), gauge.clone());
            move || {
                let claim = client.claim(1, Kind::Semaphore, Weight::ONE, two);
                client.lock(&claim);
                gauge.hold(2);
                thread::yield_now();
                gauge.release();
                client.leave(&claim).expect("it lives");
            }
        };
        let one = thread::spawn(take(2));
        let other = thread::spawn(take(3));
        one.join().expect("it ends");
        other.join().expect("it ends");
    });
}

/// A writer becomes a reader while a reader joins: they hold together, before the writer leaves.
#[test]
fn downgrade_against_a_joining_reader() {
    explore("downgrade against a joining reader", || {
        let store = Store::with_clock(&Clock::manual());
        let [writer, reader] = [1, 2].map(|id| Client::new(&store, id));
        let (write, read) = (writer.write(1), reader.read(1));
        let older = writer.lock(&write);

        let downgrading = thread::spawn(move || {
            writer.lighten(&write, Weight::ONE).expect("it holds");
            (writer, write)
        });
        assert!(reader.lock(&read) > older);
        let (writer, write) = downgrading.join().expect("it ends");
        assert_eq!(writer.leave(&write).expect("it lives"), Left::Held);
    });
}

/// A client closes while one of its tasks joins: none of its claims is left in line.
#[test]
fn close_against_join() {
    explore("close against join", || {
        let store = Store::with_clock(&Clock::manual());
        let [closing, other] = [1, 2].map(|id| Client::new(&store, id));
        let wanted = other.mutex(1);

        let joining = thread::spawn({
            let closing = closing.clone();
            move || match closing.join(&closing.mutex(1)) {
                Ok(place) => assert!(matches!(place, Place::Held { .. } | Place::Waiting { .. })),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Lost),
            }
        });
        let ending = thread::spawn(move || closing.close().expect("it closes"));
        other.lock(&wanted);
        joining.join().expect("it ends");
        ending.join().expect("it ends");
        assert_eq!(other.leave(&wanted).expect("it lives"), Left::Held);
        assert!(
            matches!(other.join(&other.mutex(2)).expect("it lives"), Place::Held { .. }),
            "a claim of the closed client is still in line"
        );
    });
}
