//! What the registry tells the keeper, whatever comes in whatever order.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::backend::{Renewal, boot_clock};
use crate::{Kind, Token, Weight};

fn entered() -> (Registry, Arc<Entry>) {
    let registry = Registry::new(SessionId::from_bits(7), boot_clock(), &Options::new());
    registry.set_ttl(Duration::from_secs(15));
    let name = Name::new("m").expect("a good name");
    let claim = Claim::new(registry.next_id(), name, Kind::Mutex, Weight::ONE, Weight::ONE);
    let entry = registry.enter(claim, None).expect("open");
    (registry, entry)
}

fn grant(token: u64) -> Grant {
    Grant { token: Token::from_u64(token).expect("a small number"), capacity: Weight::ONE }
}

#[test]
fn a_grant_to_a_claim_that_has_waited_and_left_has_it_given_back_and_renews_nothing() {
    let (registry, entry) = entered();
    registry.wait(&entry, Duration::from_secs(15));
    let (name, id) = (entry.claim.name.clone(), entry.claim.id);
    registry.held(id, grant(32));
    assert!(registry.strays.take().is_empty(), "it is ours");
    registry.remove(id.number);
    registry.held(id, grant(64));
    assert_eq!(registry.strays.take(), [(name, id)]);
    assert_eq!(registry.wake_ups.take_early_renewal(), None);
}

/// Its join may have been answered after its caller had given up.
#[test]
fn a_grant_to_a_claim_whose_join_was_dropped_has_it_given_back_too() {
    let (registry, entry) = entered();
    let (name, id) = (entry.claim.name.clone(), entry.claim.id);
    entry.ask();
    entry.lose(Loss::Left);
    registry.remove(id.number);
    registry.held(id, grant(32));
    assert!(registry.strays.take_unknown().is_empty());
    assert_eq!(registry.strays.take(), [(name, id)]);
}

/// Of two servers one confirms the leave, and the other one, which answers from now on, does not know of it.
#[test]
fn a_grant_to_a_claim_whose_leave_is_under_way_has_it_given_back_after_that() {
    for tell in
        [|registry: &Registry, id| registry.held(id, grant(32)), |registry: &Registry, id| registry.stray(id)]
    {
        let (registry, entry) = entered();
        registry.wait(&entry, Duration::from_secs(15));
        let (name, id) = (entry.claim.name.clone(), entry.claim.id);
        entry.lose(Loss::Left);
        tell(&registry, id);
        assert!(registry.strays.take().is_empty(), "its leave is under way");
        registry.remove(id.number);
        assert_eq!(registry.strays.take(), [(name, id)]);
    }
}

#[test]
fn a_stray_that_nobody_remembers_is_left_to_a_renewal() {
    let (registry, _standing) = entered();
    let id = ClaimId { session: registry.session, number: 1_000 };
    registry.held(id, grant(32));
    assert_eq!(registry.strays.take_unknown(), [id]);
    assert!(registry.strays.take_unknown().is_empty() && registry.strays.take().is_empty());
}

#[test]
fn a_hint_before_the_joins_answer_is_not_lost() {
    let (registry, entry) = entered();
    registry.look(&entry.claim.name);
    registry.wait(&entry, Duration::from_secs(15));
    assert_eq!(registry.due_looks(registry.now()).len(), 1);
}

#[test]
fn without_a_hint_a_look_is_due_within_a_third_of_the_ttl() {
    let (registry, entry) = entered();
    registry.wait(&entry, Duration::from_secs(15));
    assert!(registry.due_looks(registry.now()).is_empty());
    assert_eq!(registry.due_looks(registry.now() + Duration::from_secs(5)).len(), 1);
}

#[test]
fn a_dead_holder_costs_its_own_ttl_however_long_the_waiters_is() {
    let (registry, entry) = entered();
    registry.set_ttl(Duration::from_secs(24 * 60 * 60));
    let second = Duration::from_secs(1);
    registry.wait(&entry, second);
    assert!(registry.due_looks(registry.now()).is_empty());
    assert_eq!(registry.due_looks(registry.now() + second * 11 / 10).len(), 1);
}

#[test]
fn a_hint_during_a_look_is_followed_by_another() {
    let (registry, entry) = entered();
    registry.wait(&entry, Duration::from_secs(15));
    registry.look(&entry.claim.name);
    assert_eq!(registry.due_looks(registry.now()).len(), 1);
    registry.look(&entry.claim.name);
    assert!(registry.due_looks(registry.now()).is_empty(), "one look at a time");
    let nothing = Sight { held: Vec::new(), gone: Vec::new(), look_in: Duration::from_secs(15) };
    registry.saw(&entry.claim.name, nothing);
    assert_eq!(registry.due_looks(registry.now()).len(), 1);
}

#[test]
fn a_hint_that_a_look_may_have_missed_is_followed_by_another() {
    let (registry, first) = entered();
    registry.wait(&first, Duration::from_secs(15));
    let claim = Claim { id: registry.next_id(), ..first.claim.clone() };
    let second = registry.enter(claim, None).expect("open");
    registry.look(&first.claim.name);
    assert_eq!(registry.due_looks(registry.now())[0].waiting, [first.claim.id]);
    registry.wait(&second, Duration::from_secs(15)); // its join was answered before the hint
    let nothing = Sight { held: Vec::new(), gone: Vec::new(), look_in: Duration::from_secs(15) };
    registry.saw(&first.claim.name, nothing);
    assert_eq!(registry.due_looks(registry.now())[0].waiting.len(), 2);
}

#[test]
fn a_name_is_looked_at_once_at_a_time_while_waiters_come_and_go() {
    let (registry, first) = entered();
    registry.wait(&first, Duration::from_secs(15));
    registry.look(&first.claim.name);
    assert_eq!(registry.due_looks(registry.now()).len(), 1);
    registry.remove(first.claim.id.number);
    let claim = Claim { id: registry.next_id(), ..first.claim.clone() };
    let second = registry.enter(claim, None).expect("open");
    registry.wait(&second, Duration::from_secs(15));
    registry.look(&first.claim.name);
    assert!(registry.due_looks(registry.now()).is_empty(), "the first look is still under way");
}

#[test]
fn a_claim_that_enters_while_the_session_is_closed_is_refused() {
    let (registry, entry) = entered();
    registry.begin_closing();
    assert_eq!(registry.lose_all(Loss::Closed).0.len(), 1);
    let claim = Claim { id: registry.next_id(), ..entry.claim.clone() };
    assert_eq!(registry.enter(claim, None).err(), Some(Loss::Closed));
}

#[test]
fn a_deadline_that_comes_with_the_joins_answer_is_reckoned_with() {
    let (registry, entry) = entered();
    let grant = Grant { token: crate::Token::from_order(1).expect("small"), capacity: Weight::ONE };
    registry.held(entry.claim.id, grant); // pushed before the answer
    assert!(registry.overdue(registry.now()).is_empty());
    registry.extend(&entry, registry.now() + Duration::from_secs(1));
    registry.wait(&entry, Duration::from_secs(1));
    assert_eq!(registry.overdue(registry.now()).len(), 0);
    assert!(registry.keeper_sleeps_until(Moment::NEVER) <= entry.until());
    assert_eq!(registry.overdue(entry.until()).len(), 1);
}

#[test]
fn what_a_late_join_may_have_stand_anew_is_not_renewed() {
    for is_answered in [true, false] {
        let (registry, entry) = entered();
        entry.ask();
        if is_answered {
            entry.answered();
        }
        entry.ask();
        entry.answered();
        registry.extend(&entry, registry.now()); // its time is over
        registry.wait(&entry, Duration::from_secs(15));
        let asked = [(entry.claim.name.clone(), vec![entry.claim.id])];
        let until = registry.now() + Duration::from_secs(15);
        let renewal = Renewal {
            until,
            gone: Vec::new(),
            unsure: Vec::new(),
            missed: Vec::new(),
            waiting: Vec::new(),
            strays: Vec::new(),
        };
        registry.renewed(Shard(0), &asked, &renewal);
        assert_eq!(registry.overdue(registry.now()).is_empty(), is_answered);
    }
}
