//! A leave is exact, whenever it comes and however often.

use std::time::Duration;

use tidelock_memory::backend::{Leave, Left, Place};
use tidelock_memory::{Clock, Options, Store};

use crate::client::{Client, Told, name, now};

#[test]
fn a_repeated_leave_frees_nobody_else() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    let [first, second, third] = [1, 2, 3].map(|number| client.mutex(number, "stock"));
    client.hold(&first);
    client.wait(&second);
    client.wait(&third);
    assert_eq!(client.leave(&first), Left::Held);
    client.told();
    assert_eq!(client.leave(&first), Left::Absent);
    assert_eq!(client.told(), []);
    assert!(matches!(client.join(&third).unwrap(), Place::Waiting { .. }));
}

#[test]
fn a_join_that_comes_after_its_void_leave_does_not_come_alive() {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let client = Client::new(&store, 1);
    let claim = client.mutex(1, "stock");
    assert_eq!(client.leave_void(&claim), Left::Absent);
    assert_eq!(client.join(&claim).unwrap(), Place::Gone);
    assert_eq!(client.try_join(&claim).unwrap(), Place::Gone);
    client.hold(&client.mutex(2, "stock"));
    clock.advance(Duration::from_secs(14));
    client.renew(&[]).unwrap();
    assert_eq!(client.join(&claim).unwrap(), Place::Gone);
}

#[test]
fn a_void_leave_takes_a_claim_that_was_granted_meanwhile() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    let claim = client.mutex(1, "stock");
    client.hold(&claim);
    assert_eq!(client.leave_void(&claim), Left::Held);
    assert_eq!(client.join(&claim).unwrap(), Place::Gone);
}

#[test]
fn a_leave_from_another_line_finds_nothing() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    let claim = client.mutex(1, "stock");
    client.hold(&claim);
    let elsewhere = now(client.session.leave(&name("other"), claim.id, Leave::Done)).unwrap();
    assert_eq!(elsewhere, Left::Absent);
    assert_eq!(client.leave(&claim), Left::Held);
}

#[test]
fn an_eviction_is_told_to_the_owner_and_lets_the_next_one_in() {
    let store = Store::new();
    let (owner, operator) = (Client::new(&store, 1), Client::new(&store, 2));
    let (held, next) = (owner.mutex(1, "stock"), operator.mutex(1, "stock"));
    owner.hold(&held);
    operator.wait(&next);
    let left = now(operator.session.leave(&held.name, held.id, Leave::Done)).unwrap();
    assert_eq!(left, Left::Held);
    assert_eq!(owner.told(), [Told::Gone(held.id)]);
    assert!(matches!(operator.told()[..], [Told::Held(id, _)] if id == next.id));
    assert_eq!(owner.look(&held).unwrap().gone, [held.id]);
    assert_eq!(owner.renew(&[&held]).unwrap().gone, [held.id]);
}

#[test]
fn an_eviction_does_not_reach_into_another_namespace() {
    let store = Store::new();
    let owner = Client::new(&store, 1);
    let stranger = Client::with(&store, 2, &Options::new().namespace("elsewhere"));
    let held = owner.mutex(1, "stock");
    owner.hold(&held);
    let left = now(stranger.session.leave(&held.name, held.id, Leave::Done)).unwrap();
    assert_eq!(left, Left::Absent);
    stranger.hold(&stranger.mutex(1, "stock")); // the same name, another lock
}

#[test]
fn emptied_lines_leave_nothing_and_their_tokens_go_on_growing() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    let mut newest = None;
    for number in 1..=100 {
        let claim = client.mutex(number, "stock");
        let token = client.hold(&claim);
        assert!(newest.replace(token) < Some(token));
        client.leave(&claim);
        assert_eq!(now(client.session.names("", None)).unwrap(), []);
    }
}
