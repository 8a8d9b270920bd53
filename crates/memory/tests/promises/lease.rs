//! Leases: what renewals and the end of a session mean for its claims.

use std::time::Duration;

use tidelock_memory::backend::Place;
use tidelock_memory::{Clock, ErrorKind, Options, Store};

use crate::client::{Client, Told, name, now};

const TTL: Duration = Duration::from_secs(15);

fn store() -> (Clock, Store) {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    (clock, store)
}

#[test]
fn a_dead_holder_delays_the_line_until_its_lease_ends_and_no_longer() {
    let (clock, store) = store();
    let (dead, waiter) = (Client::new(&store, 1), Client::new(&store, 2));
    let (held, wanted) = (dead.mutex(1, "stock"), waiter.mutex(1, "stock"));
    dead.hold(&held);
    clock.advance(TTL / 2);
    waiter.renew(&[]).unwrap();
    let look_in = waiter.wait(&wanted);
    assert!(look_in > TTL / 2 && look_in < TTL / 2 + TTL / 100, "{look_in:?}");

    clock.advance(look_in);
    let sight = waiter.look(&wanted).unwrap();

    assert_eq!(sight.held.len(), 1);
    assert_eq!(dead.told(), [Told::Over]);
}

#[test]
fn a_renewal_keeps_every_claim_and_counts_from_before_it_was_sent() {
    let (clock, store) = store();
    let (client, other) = (Client::new(&store, 1), Client::new(&store, 2));
    let claim = client.mutex(1, "stock");
    client.hold(&claim);
    for _ in 0..10 {
        clock.advance(TTL / 3);
        other.renew(&[]).unwrap();
        assert_eq!(client.renew(&[&claim]).unwrap().until, clock.now() + TTL);
    }
    other.wait(&other.mutex(1, "stock"));
    assert_eq!(client.told(), []);
}

#[test]
fn a_deadline_is_never_later_than_the_lease() {
    let (clock, store) = store();
    let client = Client::new(&store, 1);
    let opened = clock.now();
    clock.advance(TTL / 2);
    let place = client.join(&client.mutex(1, "stock")).unwrap();
    assert!(matches!(place, Place::Held { until, .. } if until == opened + TTL), "{place:?}");
}

#[test]
fn a_session_that_is_over_gets_lost_and_nothing_else() {
    let (clock, store) = store();
    let client = Client::new(&store, 1);
    let claim = client.mutex(1, "stock");
    client.hold(&claim);
    clock.advance(TTL);
    let lost = |error: tidelock_memory::Error| assert_eq!(error.kind(), ErrorKind::Lost);
    lost(client.renew(&[&claim]).unwrap_err());
    lost(client.join(&claim).unwrap_err());
    lost(client.look(&claim).unwrap_err());
    lost(
        now(client.session.leave(&claim.name, claim.id, tidelock_memory::backend::Leave::Done)).unwrap_err(),
    );
    lost(now(client.session.lighten(&claim, claim.weight)).unwrap_err());
    lost(now(client.session.resize(&claim.name, claim.weight, claim.weight)).unwrap_err());
    lost(now(client.session.line(&claim.name)).unwrap_err());
    lost(now(client.session.names("", None)).unwrap_err());
    now(client.session.close()).unwrap();
    assert_eq!(client.told(), [Told::Over]);
}

#[test]
fn nobody_dead_is_granted() {
    let (clock, store) = store();
    let [holder, dead] = [1, 2].map(|id| Client::new(&store, id));
    holder.hold(&holder.mutex(1, "stock"));
    dead.wait(&dead.mutex(1, "stock"));
    clock.advance(TTL / 2);
    let alive = Client::new(&store, 3);
    let wanted = alive.mutex(1, "stock");
    alive.wait(&wanted);
    clock.advance(TTL / 2);
    alive.renew(&[&wanted]).unwrap();
    assert_eq!(dead.told(), [Told::Over]);
    assert!(matches!(alive.told()[..], [Told::Held(id, _)] if id == wanted.id));
}

#[test]
fn a_close_gives_everything_back_at_once() {
    let (_, store) = store();
    let (closing, other) = (Client::new(&store, 1), Client::new(&store, 2));
    closing.hold(&closing.mutex(1, "a"));
    closing.hold(&closing.mutex(2, "b"));
    let wanted = other.mutex(1, "a");
    other.wait(&wanted);
    now(closing.session.close()).unwrap();
    now(closing.session.close()).unwrap();
    assert!(matches!(other.told()[..], [Told::Held(id, _)] if id == wanted.id));
    assert_eq!(now(other.session.names("", None)).unwrap(), [name("a")]);
    assert_eq!(closing.told(), []);
}

#[test]
fn a_renewal_names_strays_and_claims_that_are_gone() {
    let (_, store) = store();
    let client = Client::new(&store, 1);
    let [known, stray, absent] = [1, 2, 3].map(|number| client.mutex(number, &format!("lock {number}")));
    client.hold(&known);
    client.hold(&stray);
    let renewal = client.renew(&[&known, &absent]).unwrap();
    assert_eq!(renewal.gone, [absent.id]);
    assert_eq!(renewal.strays, [(stray.name.clone(), stray.id)]);
}

#[test]
fn operators_see_the_line_and_the_names_in_pages() {
    let (clock, store) = store();
    let client = Client::with(&store, 1, &Options::new().label("checkout 7"));
    let (held, waiting) = (client.mutex(1, "stock"), client.mutex(2, "stock"));
    let token = client.hold(&held);
    clock.advance(Duration::from_secs(3));
    client.wait(&waiting);
    let line = now(client.session.line(&held.name)).unwrap();
    let seen: Vec<_> = line.claims.iter().map(|claim| (claim.id, claim.token, claim.since)).collect();
    assert_eq!(
        seen,
        [(held.id, Some(token), Some(Duration::from_secs(3))), (waiting.id, None, Some(Duration::ZERO))]
    );
    assert_eq!(line.claims[0].label, "checkout 7");

    let names: Vec<_> = (0..250).map(|number| format!("page {number:03}")).collect();
    for (number, name) in (10..).zip(&names) {
        client.hold(&client.mutex(number, name));
    }
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = now(client.session.names("page ", after.as_ref())).unwrap();
        after = page.last().cloned();
        found.extend(page.iter().map(ToString::to_string));
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, names);
}
