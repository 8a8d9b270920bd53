//! Who has their turn, and when.

use tidelock_memory::{Left, Place, Store};

use crate::client::{Client, Told};

#[test]
fn the_first_to_come_is_held_and_the_next_is_told_when_it_leaves() {
    let store = Store::new();
    let (first, second) = (Client::new(&store, 1), Client::new(&store, 2));
    let (theirs, ours) = (first.mutex(1, "stock"), second.mutex(1, "stock"));
    let older = first.hold(&theirs);
    second.wait(&ours);

    assert_eq!(first.leave(&theirs), Left::Held);

    let told = second.told();
    let [Told::Held(id, newer)] = told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(id, ours.id);
    assert!(newer > older);
    assert!(matches!(second.join(&ours).unwrap(), Place::Held { grant, .. } if grant.token == newer));
}
