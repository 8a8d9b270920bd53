//! Which claim has its turn, and when.

use tidelock_memory::backend::{Left, Place};
use tidelock_memory::{ErrorKind, Store, Weight};

use crate::client::{Client, Told, now, weight};

#[test]
fn the_first_to_come_is_held_and_the_next_is_told_when_it_leaves() {
    let store = Store::new();
    let (first, second) = (Client::new(&store, 1), Client::new(&store, 2));
    let (theirs, ours) = (first.mutex(1, "stock"), second.mutex(1, "stock"));
    let older = first.hold(&theirs);
    second.wait(&ours);

    assert_eq!(first.leave(&theirs), Left::Held);

    let told = second.told();
    let [Told::Held(id, newer)] = told[..] else { panic!("{told:?}") };
    assert_eq!(id, ours.id);
    assert!(newer > older);
    assert!(matches!(second.join(&ours).unwrap(), Place::Held { grant, .. } if grant.token == newer));
}

#[test]
fn a_line_is_served_in_the_order_in_which_it_formed() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    let claims: Vec<_> = (1..=50).map(|number| client.mutex(number, "stock")).collect();
    client.hold(&claims[0]);
    for claim in &claims[1..] {
        client.wait(claim);
    }

    let mut newest = None;
    for pair in claims.windows(2) {
        client.leave(&pair[0]);
        let told = client.told();
        let [Told::Held(id, token)] = told[..] else { panic!("{told:?}") };
        assert_eq!(id, pair[1].id);
        assert!(newest.replace(token) < Some(token));
    }
}

#[test]
fn readers_who_stand_together_enter_together_and_no_reader_passes_a_waiting_writer() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    let [first, second, late] = [1, 2, 5].map(|number| client.read(number, "cache"));
    let [writer, next_writer] = [3, 4].map(|number| client.write(number, "cache"));
    client.hold(&writer);
    client.wait(&first);
    client.wait(&second);
    client.wait(&next_writer);
    client.wait(&late);

    client.leave(&writer);
    let held: Vec<_> = client.told();
    assert!(
        matches!(held[..], [Told::Held(a, _), Told::Held(b, _)] if (a, b) == (first.id, second.id)),
        "{held:?}"
    );

    client.leave(&first);
    assert_eq!(client.told(), []);
    client.leave(&second);
    assert!(matches!(client.told()[..], [Told::Held(id, _)] if id == next_writer.id));
}

#[test]
fn a_small_request_does_not_pass_a_large_one() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    let [holder, large, small] =
        [(1, 2), (2, 3), (3, 1)].map(|(number, n)| client.permits(number, "seats", n, 3));
    client.hold(&holder);
    client.wait(&large);
    client.wait(&small);
    assert_eq!(client.leave(&large), Left::Waiting); // gives up: the way is free for the small one
    assert!(matches!(client.told()[..], [Told::Held(id, _)] if id == small.id));
}

#[test]
fn without_patience_a_refused_claim_leaves_nothing() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    let (held, refused) = (client.mutex(1, "stock"), client.mutex(2, "stock"));
    client.hold(&held);
    assert_eq!(client.try_join(&refused).unwrap(), Place::Refused);
    assert_eq!(now(client.session.line(&held.name)).unwrap().claims.len(), 1);
    assert_eq!(client.leave(&refused), Left::Absent);
}

#[test]
fn a_writer_that_becomes_a_reader_lets_readers_in_and_keeps_its_place() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    let (write, read) = (client.write(1, "cache"), client.read(2, "cache"));
    let token = client.hold(&write);
    client.wait(&read);
    now(client.session.lighten(&write, Weight::ONE)).unwrap();
    now(client.session.lighten(&write, Weight::ONE)).unwrap(); // repeated, it changes nothing
    assert!(matches!(client.told()[..], [Told::Held(id, newer)] if id == read.id && newer > token));
    assert!(matches!(client.join(&write).unwrap(), Place::Held { grant, .. } if grant.token == token));
    let heavier = now(client.session.lighten(&write, Weight::MAX)).unwrap_err();
    assert_eq!(heavier.kind(), ErrorKind::InvalidPermits);
}

#[test]
fn a_shrink_takes_nothing_back_and_a_growth_is_felt_at_once() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    let [both, one] = [(1, 2), (2, 1)].map(|(number, n)| client.permits(number, "seats", n, 2));
    let resize = |from, to| now(client.session.resize(&both.name, weight(from), weight(to)));
    client.hold(&both);
    resize(2, 1).unwrap();
    client.wait(&one);
    assert!(matches!(client.join(&both).unwrap(), Place::Held { .. }));
    assert_eq!(resize(2, 5).unwrap_err().kind(), ErrorKind::Conflict);
    resize(1, 3).unwrap();
    assert!(matches!(client.told()[..], [Told::Held(id, _)] if id == one.id));
}

#[test]
fn a_resize_that_would_strand_a_waiter_is_refused() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    client.hold(&client.permits(1, "seats", 3, 3));
    client.wait(&client.permits(2, "seats", 3, 3));
    let name = crate::client::name("seats");
    let stranding = now(client.session.resize(&name, weight(3), weight(2))).unwrap_err();
    assert_eq!(stranding.kind(), ErrorKind::InvalidPermits);
    let unused = crate::client::name("unused");
    now(client.session.resize(&unused, weight(1), weight(2))).unwrap(); // an empty line: nothing happens
}

#[test]
fn a_name_is_one_kind_while_it_is_in_use() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    let mutex = client.mutex(1, "stock");
    client.hold(&mutex);
    assert_eq!(client.join(&client.read(2, "stock")).unwrap_err().kind(), ErrorKind::KindMismatch);
    client.leave(&mutex);
    client.hold(&client.read(3, "stock"));
}

#[test]
fn more_permits_than_there_are_is_a_clear_error_that_leaves_nothing() {
    let store = Store::new();
    let client = Client::new(&store, 1);
    let greedy = client.permits(1, "seats", 4, 3);
    assert_eq!(client.join(&greedy).unwrap_err().kind(), ErrorKind::InvalidPermits);
    assert_eq!(now(client.session.names("", None)).unwrap(), []);
}
