//! Train tickets: one mutex for each train, the seats checked again under the lock, and a bounded wait.
//!
//! A train that is stuck delays no booking of another one.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidelock_memory::{Locks, Options, Store};
use tokio::task::{JoinSet, yield_now};

const SEATS: usize = 8;
const PASSENGERS: usize = 30;

/// The seats of each train. A booking needs that train's lock.
#[derive(Debug)]
struct Trains(Mutex<BTreeMap<&'static str, Vec<usize>>>);

#[derive(Debug, PartialEq, Eq)]
enum Booking {
    Seat(usize),
    SoldOut,
    /// The line did not move in time: try again later, or take another train.
    Busy,
}

impl Trains {
    fn passengers(&self, train: &'static str) -> Vec<usize> {
        let trains = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        trains.get(train).cloned().unwrap_or_default()
    }

    async fn are_sold_out(&self, train: &'static str) -> bool {
        yield_now().await; // a round trip
        self.passengers(train).len() >= SEATS
    }

    async fn seat(&self, train: &'static str, passenger: usize) -> usize {
        yield_now().await;
        let mut trains = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seats = trains.entry(train).or_default();
        seats.push(passenger);
        seats.len()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let store = Store::new();
    let trains = Arc::new(Trains(Mutex::default()));
    let counters = [store.connect(Options::new()).await?, store.connect(Options::new()).await?];

    // The lock of one train is held for long: the train is being coupled to another.
    let stuck = counters[0].mutex("train:G3")?.lock().await?;

    let mut bookings = JoinSet::new();
    for passenger in 0..PASSENGERS {
        let (trains, locks) = (trains.clone(), counters[passenger % 2].clone());
        let (train, patience) = match passenger % 3 {
            0 => ("train:G1", Duration::from_secs(10)),
            1 => ("train:G2", Duration::from_secs(10)),
            _ => ("train:G3", Duration::from_millis(50)),
        };
        bookings.spawn(async move {
            let booked = book(&trains, &*locks, train, passenger, patience).await;
            booked.map(|booking| (train, booking))
        });
    }
    let mut outcomes = BTreeMap::<_, Vec<Booking>>::new();
    while let Some(done) = bookings.join_next().await {
        let (train, booking) = done??;
        outcomes.entry(train).or_default().push(booking);
    }

    for (train, bookings) in &outcomes {
        let count = |what: fn(&Booking) -> bool| bookings.iter().filter(|booking| what(booking)).count();
        let seated = count(|booking| matches!(booking, Booking::Seat(_)));
        let sold_out = count(|booking| *booking == Booking::SoldOut);
        let busy = count(|booking| *booking == Booking::Busy);
        println!("{train}: {seated} have a seat, {sold_out} found it sold out, {busy} gave up waiting");
        assert_eq!(seated, trains.passengers(train).len(), "no seat is sold twice");
    }
    assert_eq!(trains.passengers("train:G1").len(), SEATS);
    assert_eq!(trains.passengers("train:G2").len(), SEATS);
    assert!(outcomes["train:G3"].iter().all(|booking| *booking == Booking::Busy));

    stuck.release().await?;
    for counter in counters {
        counter.close().await?;
    }
    Ok(())
}

async fn book(
    trains: &Trains,
    locks: &dyn Locks,
    train: &'static str,
    passenger: usize,
    patience: Duration,
) -> tidelock_memory::Result<Booking> {
    // Without the lock: only a hint, but it keeps most people out of the line of a train that is full.
    if trains.are_sold_out(train).await {
        return Ok(Booking::SoldOut);
    }
    let Some(guard) = locks.mutex(train)?.lock_within(patience).await? else {
        return Ok(Booking::Busy);
    };
    // Under the lock: what was true before the wait may have changed.
    let booking = match trains.are_sold_out(train).await {
        true => Booking::SoldOut,
        false => Booking::Seat(trains.seat(train, passenger).await),
    };
    guard.release().await?;
    Ok(booking)
}
