//! Explores every order of concurrent events around a claim with loom: `cargo xtask loom`.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use loom::future::block_on;
use loom::thread;

use crate::backend::{Claim, Grant, Left, Moment, Reply, Shard, Signals, boot_clock};
use crate::registry::Registry;
use crate::registry::{Entry, Loss, Stage, Turn, next_listener};
use crate::shared_leave::SharedLeave;
use crate::{Kind, Name, Options, SessionId, Token, Weight};

#[test]
fn a_grant_wakes_a_waiter_that_is_registering() {
    explore("a_grant_wakes_a_waiter_that_is_registering", || {
        let (registry, entry) = waiting();
        let id = entry.claim.id;
        let pushing = thread::spawn(move || registry.held(id, grant()));
        assert_eq!(block_on(poll_fn(|cx| entry.poll_turn(cx))), Turn::Held(grant()));
        pushing.join().unwrap();
    });
}

#[test]
fn a_grant_pushed_before_the_joins_answer_stays() {
    explore("a_grant_pushed_before_the_joins_answer_stays", || {
        let registry = registry();
        let entry = enter(&registry);
        let (pusher, id) = (registry.clone(), entry.claim.id);
        let pushing = thread::spawn(move || pusher.held(id, grant()));
        registry.wait(&entry, Duration::from_secs(60));
        assert_eq!(block_on(poll_fn(|cx| entry.poll_turn(cx))), Turn::Held(grant()));
        pushing.join().unwrap();
        assert!(registry.due_looks(Moment::NEVER).is_empty(), "no claim waits, so no look is due");
    });
}

#[test]
fn a_loss_reaches_a_listener_that_is_about_to_listen() {
    explore("a_loss_reaches_a_listener_that_is_about_to_listen", || {
        let (registry, entry) = waiting();
        let id = entry.claim.id;
        registry.held(id, grant());
        let losing = thread::spawn(move || registry.gone(id));
        let listener = next_listener();
        assert_eq!(block_on(poll_fn(|cx| entry.poll_lost(0, listener, cx))), Loss::NotInLine);
        losing.join().unwrap();
    });
}

#[test]
fn a_loss_reaches_a_caller_that_waits_for_its_joins_answer() {
    explore("a_loss_reaches_a_caller_that_waits_for_its_joins_answer", || {
        let registry = registry();
        let entry = enter(&registry);
        let id = entry.claim.id;
        let losing = thread::spawn(move || {
            registry.held(id, grant()); // it is granted before the answer to its join comes
            registry.gone(id);
        });
        let lost = entry.listen();
        assert_eq!(block_on(poll_fn(|cx| lost.poll(cx))), Loss::NotInLine);
        drop(lost);
        losing.join().unwrap();
    });
}

#[test]
fn one_of_release_and_loss_gives_the_claim_back() {
    explore("one_of_release_and_loss_gives_the_claim_back", || {
        let (registry, entry) = waiting();
        registry.held(entry.claim.id, grant());
        let kept = entry.clone();
        let keeper = thread::spawn(move || kept.lose(Loss::Deadline).is_some());
        let user = entry.lose(Loss::Left).is_some();
        assert!(keeper.join().unwrap() ^ user, "exactly one of them gives the claim back");
    });
}

#[test]
fn a_cancelled_claim_is_left_however_far_its_grant_has_come() {
    explore("a_cancelled_claim_is_left_however_far_its_grant_has_come", || {
        let (registry, entry) = waiting();
        let (pusher, id) = (registry.clone(), entry.claim.id);
        let pushing = thread::spawn(move || pusher.held(id, grant()));
        let stage = entry.lose(Loss::Left);
        registry.remove(id.number);
        pushing.join().unwrap();
        assert!(matches!(stage, Some(Stage::Waiting | Stage::Held)), "there is a claim to give back");
        assert_eq!(entry.stage(), None, "a late grant revives nothing");
        assert!(registry.claims_by_shard(|_| Shard(0)).is_empty(), "and it is not renewed");
    });
}

#[test]
fn a_claim_entered_while_the_session_ends_is_told() {
    explore("a_claim_entered_while_the_session_ends_is_told", || {
        let registry = registry();
        let ender = registry.clone();
        let ending = thread::spawn(move || ender.over());
        // It is either refused or swept: no claim stays behind in a session that is over.
        let entered = registry.enter(claim(&registry), None);
        ending.join().unwrap();
        let loss = entered.map_or_else(Some, |entry| entry.loss());
        assert_eq!(loss, Some(Loss::SessionOver));
    });
}

#[test]
fn the_keeper_is_nudged_by_a_hold_that_ends_before_it_wakes() {
    explore("the_keeper_is_nudged_by_a_hold_that_ends_before_it_wakes", || {
        let registry = registry();
        registry.hold(&enter(&registry), grant()); // gives the keeper a deadline to watch
        let _ = crate::at_once::at_once(std::pin::pin!(registry.wake_ups.nudged()));
        let entry = enter(&registry); // its join is answered with a grant while the keeper computes its next deadline
        let (holder, soon) = (registry.clone(), entry.clone());
        registry.keeper_sleeps_until(Moment::NEVER);
        let holding = thread::spawn(move || holder.hold(&soon, grant()));
        registry.wake_ups.keeper_is_awake();
        registry.overdue(registry.now());
        let wake = registry.keeper_sleeps_until(Moment::NEVER);
        holding.join().unwrap();
        let nudged = crate::at_once::at_once(std::pin::pin!(registry.wake_ups.nudged())).is_some();
        assert!(nudged || wake <= entry.until(), "the keeper will not see it end");
    });
}

#[test]
fn a_user_hears_of_a_leave_that_the_keeper_takes_up() {
    explore("a_user_hears_of_a_leave_that_the_keeper_takes_up", || {
        let leave = Arc::new(SharedLeave::new());
        let reply: Reply<Left> = Box::pin(std::future::pending());
        let mut user = Context::from_waker(Waker::noop());
        assert!(leave.poll(Some(reply), &mut user).is_pending());
        let taken_over = leave.clone();
        let keeper = thread::spawn(move || {
            while taken_over.take_over().is_none() {
                thread::yield_now(); // the user is polling it
            }
            taken_over.answered(&Ok(Left::Held));
        });
        let told = block_on(poll_fn(|cx| leave.poll(None, cx)));
        assert_eq!(told.ok(), Some(Left::Held));
        keeper.join().unwrap();
    });
}

#[test]
fn signals_that_were_missed_while_a_claim_is_granted_end_nothing() {
    explore("signals_that_were_missed_while_a_claim_is_granted_end_nothing", || {
        let (registry, entry) = waiting();
        let keeper = registry.clone();
        let doubting = thread::spawn(move || keeper.doubt_all()); // a panic would end the keeper
        registry.held(entry.claim.id, grant());
        doubting.join().unwrap();
        assert_eq!(entry.stage(), Some(Stage::Held));
    });
}

#[test]
fn a_grant_that_comes_while_its_claim_leaves_is_given_back() {
    explore("a_grant_that_comes_while_its_claim_leaves_is_given_back", || {
        let (registry, entry) = waiting();
        let id = entry.claim.id;
        let (user, leaves) = (registry.clone(), entry.clone());
        let leaving = thread::spawn(move || {
            let before = leaves.lose(Loss::Left);
            user.remove(id.number); // another server has confirmed its leave
            before
        });
        registry.held(id, grant());
        let before = leaving.join().unwrap();
        let is_stray = registry.strays.take().contains(&(entry.claim.name.clone(), id));
        assert!(before == Some(Stage::Held) || is_stray, "nobody gives it back");
    });
}

#[test]
fn a_pass_moves_no_end_that_has_come() {
    explore("a_pass_moves_no_end_that_has_come", || {
        let (registry, entry) = waiting();
        let (now, later) = (registry.now(), registry.now() + Duration::from_secs(60));
        entry.extend(later);
        assert_eq!(entry.hold(grant(), now, now, 0), None);
        let holder = entry.clone();
        let passing = thread::spawn(move || holder.pass_on(later));
        let is_overdue = entry.is_overdue(now, Entry::due);
        assert!(passing.join().unwrap() ^ is_overdue, "the next holder has a hold that is lost");
    });
}

pub(crate) fn explore(scenario: &str, work: impl Fn() + Sync + Send + 'static) {
    let iterations = Arc::new(AtomicUsize::new(0));
    let counted = iterations.clone();
    loom::model(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        work();
    });
    println!("loom: {scenario}: {} iterations", iterations.load(Ordering::Relaxed));
}

pub(crate) fn registry() -> Arc<Registry> {
    let long = Duration::from_secs(3600);
    let registry = Registry::new(SessionId::from_bits(7), boot_clock(), &Options::new().linger(long));
    registry.set_ttl(long);
    Arc::new(registry)
}

fn claim(registry: &Registry) -> Claim {
    let name = Name::new("m").expect("a good name");
    Claim::new(registry.next_id(), name, Kind::Mutex, Weight::ONE, Weight::ONE)
}

fn enter(registry: &Registry) -> Arc<Entry> {
    let entry = registry.enter(claim(registry), None).expect("open");
    registry.extend(&entry, registry.now() + Duration::from_secs(3600));
    entry
}

fn waiting() -> (Arc<Registry>, Arc<Entry>) {
    let registry = registry();
    let entry = enter(&registry);
    registry.wait(&entry, Duration::from_secs(60));
    (registry, entry)
}

pub(crate) fn grant() -> Grant {
    Grant { token: Token::from_order(1).expect("small"), capacity: Weight::ONE }
}
