//! What follows from each piece of news, one case at a time.

use tidelock_model::places;

use super::*;
use crate::keys::ClaimKey;

fn id(session: u64, number: u64) -> ClaimId {
    ClaimId { session: SessionId::from_bits(session), number }
}

fn line(revision: i64, claims: &[(ClaimId, u64)]) -> LineView {
    let one = Weight::ONE;
    let key = |id: ClaimId| ClaimKey {
        slot: id.into(),
        kind: Kind::Mutex,
        declared: one,
        weight: one,
        is_rest: false,
    };
    LineView::with(revision, claims.iter().map(|(id, order)| (*id, key(*id), *order)))
}

fn own() -> (OwnClaims, Name) {
    (OwnClaims::of(SessionId::from_bits(1)), Name::new("n").unwrap())
}

fn begin(own: &OwnClaims, name: &Name, id: ClaimId) -> JoinStart {
    own.begin(&Claim::new(id, name.clone(), Kind::Mutex, Weight::ONE, Weight::ONE))
}

fn join(own: &OwnClaims, name: &Name, id: ClaimId, order: u64) {
    begin(own, name, id);
    assert!(own.may_be_sent(id));
    drop(own.is_answered(name, id, Some((order, Token::from_order(order).unwrap())), true));
}

fn reader(id: ClaimId) -> ClaimKey {
    let (declared, weight) = (Weight::MAX, Weight::ONE);
    ClaimKey { slot: id.into(), kind: Kind::RwLock, declared, weight, is_rest: false }
}

/// A reader or a writer joins.
fn join_as(own: &OwnClaims, name: &Name, (id, weight): (ClaimId, Weight), order: u64) {
    own.begin(&Claim::new(id, name.clone(), Kind::RwLock, weight, Weight::MAX));
    assert!(own.may_be_sent(id));
    drop(own.is_answered(name, id, Some((order, Token::from_order(order).unwrap())), true));
}

fn aim(own: &OwnClaims, name: &Name) -> Option<Aim> {
    own.state().copy(name)?.aim.map(|(aim, _)| aim)
}

#[test]
fn a_claim_whose_leave_has_begun_is_neither_joined_again_nor_sent() {
    let (own, name) = own();
    let id = id(1, 1);
    assert_eq!(begin(&own, &name, id), JoinStart::Asked);
    assert_eq!(begin(&own, &name, id), JoinStart::Asked, "its answer was lost");
    assert!(own.may_be_sent(id));
    own.leaves(&name, id);
    assert_eq!(begin(&own, &name, id), JoinStart::Void);
    assert!(!own.may_be_sent(id), "it was queued where nobody could take it back");
}

#[test]
fn a_refused_claim_is_forgotten() {
    let (own, name) = own();
    begin(&own, &name, id(1, 1));
    drop(own.nowhere(&name, id(1, 1)));
    assert!(own.state().claims.is_empty() && own.state().lines.is_empty());
}

/// What was looked at claim by claim is newer than a list that another lane takes in late.
#[test]
fn a_late_list_brings_nobody_back() {
    let (own, name) = own();
    let (a, c, first, second) = (id(2, 1), id(3, 1), id(1, 1), id(1, 2));
    join(&own, &name, first, 3);
    let watched = own.saw(&name, &line(3, &[(a, 1), (c, 2), (first, 3)]), 0).start.unwrap();
    assert_eq!(watched.aim, Aim::Claim(c));
    // C leaves at 5, before the watch on it is set.
    let (_, news) = own.is_set(watched.watch, 5).unwrap();
    assert_eq!(news.check, [a, c, first]);
    let found = [(a, Some((1, Weight::ONE))), (c, None), (first, Some((3, Weight::ONE)))];
    let watched = own.checked(&name, 5, &found).start.unwrap();
    drop(own.is_set(watched.watch, 5));
    join(&own, &name, second, 4);
    drop(own.saw(&name, &line(4, &[(a, 1), (c, 2), (first, 3), (second, 4)]), 0));
    assert_eq!(aim(&own, &name), Some(Aim::Claim(a)));
}

#[test]
fn a_look_at_those_ahead_of_one_claim_says_nothing_of_those_ahead_of_another() {
    let (own, name) = own();
    let (w, x, first, y, second) = (id(2, 1), id(3, 1), id(1, 1), id(4, 1), id(1, 2));
    join(&own, &name, first, 3);
    join(&own, &name, second, 5);
    let all = [(w, 1), (x, 2), (first, 3), (y, 4), (second, 5)];
    let watched = own.saw(&name, &line(5, &all), 0).start.unwrap();
    let (_, news) = own.is_set(watched.watch, 6).unwrap();
    assert_eq!(news.check, [w, x, first]);
    // The first is given up (7), and Y leaves (8). Only then the look is carried out.
    own.leaves(&name, first);
    let watched = own.left(&name, first, Some(7)).start.unwrap();
    assert_eq!(watched.aim, Aim::Claim(y));
    let found = [(w, Some((1, Weight::ONE))), (x, Some((2, Weight::ONE))), (first, None)];
    drop(own.checked(&name, 8, &found));
    let (_, news) = own.is_set(watched.watch, 8).unwrap();
    let due = news.gap.and_then(|watch| own.gap_is_due(watch));
    assert!(!news.check.is_empty() || due.is_some(), "Y has left, and nobody looks");
}

/// It watches the claim ahead, and not its own key.
#[test]
fn an_evicted_waiter_gets_no_turn() {
    let (own, name) = own();
    let (blocker, mine) = (id(2, 1), id(1, 1));
    join(&own, &name, mine, 2);
    drop(own.saw(&name, &line(2, &[(blocker, 1), (mine, 2)]), 0));
    // Evicted at 3. The blocker leaves at 4.
    let news = own.checked(&name, 4, &[(blocker, None)]);
    assert!(news.held.is_empty(), "nobody has looked whether it still stands there");
    assert_eq!((news.check, news.since), (vec![mine], 4));
    let news = own.checked(&name, 4, &[(mine, None)]);
    assert_eq!((news.held.len(), news.gone), (0, vec![mine]));
}

#[test]
fn a_waiter_that_stood_when_those_ahead_had_left_gets_its_turn() {
    let (own, name) = own();
    let (blocker, mine) = (id(2, 1), id(1, 1));
    join(&own, &name, mine, 2);
    drop(own.saw(&name, &line(2, &[(blocker, 1), (mine, 2)]), 0));
    let news = own.checked(&name, 4, &[(blocker, None), (mine, Some((2, Weight::ONE)))]);
    assert_eq!(news.held.len(), 1);
}

/// A leave of ours looks for the next one of ours in its own transaction.
#[test]
fn a_turn_is_passed_on_only_to_a_claim_that_stands() {
    for place in [Some(2), None] {
        let (own, name) = own();
        let (first, second) = (id(1, 1), id(1, 2));
        join(&own, &name, first, 1);
        join(&own, &name, second, 2);
        drop(own.saw(&name, &line(2, &[(first, 1), (second, 2)]), 0));
        own.leaves(&name, first);
        assert_eq!(own.next(&name), Some(second));
        let news = own.left_before(&name, first, 3, (second, place));
        let is_held = place.is_some();
        assert_eq!((news.held.len(), news.gone.len()), (usize::from(is_held), usize::from(!is_held)));
    }
}

#[test]
fn a_waiter_that_a_list_should_show_is_gone() {
    let (own, name) = own();
    let mine = id(1, 1);
    join(&own, &name, mine, 30);
    let mut all: Vec<(ClaimId, u64)> = (1..30).map(|k| (id(2, k), k)).collect();
    all.push((mine, 30));
    let watched = own.saw(&name, &line(30, &all), 0).start.unwrap();
    drop(own.is_set(watched.watch, 30));
    all.pop(); // it was evicted at 31
    let news = own.saw(&name, &line(31, &all), 0);
    assert_eq!((news.read, news.gone), (false, vec![mine]));
}

#[test]
fn an_event_that_a_list_has_overtaken_asks_for_nothing() {
    let (own, name) = own();
    let mine = id(1, 1);
    join_as(&own, &name, (mine, Weight::MAX), 30);
    let view = |revision, last: Weight| {
        let mut all: Vec<_> = (1..29).map(|k| (id(2, k), reader(id(2, k)), k)).collect();
        all.push((id(2, 29), ClaimKey { weight: last, ..reader(id(2, 29)) }, 29));
        all.push((mine, ClaimKey { weight: Weight::MAX, ..reader(mine) }, 30));
        LineView::with(revision, all)
    };
    let watched = own.saw(&name, &view(30, Weight::MAX), 0).start.unwrap();
    drop(own.is_set(watched.watch, 30));
    // The watched claim is downgraded at 31. A list of 32 comes first, and then the event, which says nothing new.
    assert!(own.saw(&name, &view(32, Weight::ONE), 0).start.is_none());
    let (_, news) = own.happened(watched.watch, &[]).unwrap();
    assert!(!news.read && news.check.is_empty());
}

/// Our first waiter has its turn again and again, behind this many other clients.
fn aim_of_a_busy_line(others: u64) -> Option<Aim> {
    let (own, name) = own();
    for k in 1..=8 {
        let mine = id(1, k);
        join(&own, &name, mine, 100 * k);
        let revision = i64::try_from(100 * k).unwrap();
        let mut all: Vec<_> = (0..others).map(|of| (id(2 + of, k), 100 * (k - 1) + 1 + of)).collect();
        all.push((mine, 100 * k));
        drop(own.saw(&name, &line(revision, &all), 0));
        if k < 8 {
            assert!(own.hold(&name, mine, 100 * k).is_some());
        }
    }
    aim(&own, &name)
}

#[test]
fn a_line_that_is_passed_on_among_few_is_watched_as_a_whole() {
    assert_eq!(aim_of_a_busy_line(3), Some(Aim::Line));
    assert_eq!(aim_of_a_busy_line(40), Some(Aim::Claim(id(41, 8))));
}

#[test]
fn claims_that_never_wait_leave_nothing() {
    let (own, name) = own();
    for k in 1..=100 {
        let (mine, last) = (id(1, k), id(1, k - 1));
        let revision = i64::try_from(2 * k).unwrap();
        join_as(&own, &name, (mine, Weight::ONE), 2 * k);
        let all = [(last, reader(last), 2 * k - 2), (mine, reader(mine), 2 * k)];
        drop(own.saw(&name, &LineView::with(revision, all), 0));
        assert!(own.hold(&name, mine, 2 * k).is_some());
        own.leaves(&name, last);
        drop(own.left(&name, last, Some(revision + 1)));
    }
    assert!(own.state().lines[&name].places.is_empty());
}

#[test]
fn a_look_before_the_next_one_was_first_says_nothing_of_those_ahead_of_it() {
    let (own, name) = own();
    let (w, y, first, z, second) = (id(2, 1), id(3, 1), id(1, 1), id(4, 1), id(1, 2));
    join(&own, &name, first, 4);
    join(&own, &name, second, 6);
    let all = [(w, 1), (y, 2), (first, 4), (z, 5), (second, 6)];
    let watched = own.saw(&name, &line(6, &all), 0).start.unwrap();
    assert_eq!(watched.aim, Aim::Claim(y));
    // Z gives up at 7, W and Y leave at 8 and 9, before the watch on Y is set.
    let (_, news) = own.is_set(watched.watch, 9).unwrap();
    assert_eq!(news.check, [w, y, first]);
    let news = own.checked(&name, 9, &[(w, None), (y, None), (first, Some((4, Weight::ONE)))]);
    assert_eq!(news.held.len(), 1);
    let watched = news.start.unwrap();
    assert_eq!(watched.aim, Aim::Claim(z));
    let (_, news) = own.is_set(watched.watch, 9).unwrap();
    assert!(!news.check.is_empty() || news.gap.is_some() || news.read, "Z has left, and nobody looks");
}

#[test]
fn a_gap_in_a_busy_line_is_closed_for_those_that_came_later() {
    let (own, name) = own();
    let (a, first, second) = (id(2, 1), id(1, 1), id(1, 2));
    join(&own, &name, first, 2);
    drop(own.saw(&name, &line(2, &[(a, 1), (first, 2)]), 0));
    own.state().lines.get_mut(&name).unwrap().copy.as_mut().unwrap().is_busy = true;
    begin(&own, &name, second);
    assert!(own.may_be_sent(second) && own.needs_no_read(&name, second));
    let news = own.is_answered(&name, second, Some((4, Token::from_order(4).unwrap())), true);
    let watched = news.start.unwrap();
    assert_eq!(watched.aim, Aim::Line);
    // The first gives up at 5, and A leaves at 6. Only then the watch is set.
    own.leaves(&name, first);
    let gave_up = own.left(&name, first, Some(5));
    let (_, news) = own.is_set(watched.watch, 6).unwrap();
    assert!(gave_up.read || news.read, "the events wait for a list, and nobody reads it");
}

#[test]
fn a_look_from_before_a_claim_came_does_not_take_it_out() {
    let (own, name) = own();
    let (a, first, second) = (id(2, 1), id(1, 1), id(1, 2));
    join(&own, &name, first, 3);
    let watched = own.saw(&name, &line(3, &[(a, 1), (first, 3)]), 0).start.unwrap();
    drop(own.is_set(watched.watch, 5));
    join(&own, &name, second, 7);
    drop(own.saw(&name, &line(7, &[(a, 1), (first, 3), (second, 7)]), 0));
    // A member that is behind.
    let found = [(a, Some((1, Weight::ONE))), (first, Some((3, Weight::ONE))), (second, None)];
    drop(own.checked(&name, 6, &found));
    own.leaves(&name, first);
    let news = own.left(&name, first, Some(8));
    assert_eq!(news.gone, [], "it stands, and is told gone");
}

#[test]
fn a_list_with_one_that_has_departed_proves_nothing_for_those_behind() {
    let (own, name) = own();
    let (before, dropped, second) = (id(1, 1), id(1, 2), id(1, 3));
    join(&own, &name, before, 2);
    assert_eq!(own.saw(&name, &line(2, &[(before, 2)]), 0).held.len(), 1);
    own.leaves(&name, before);
    drop(own.left(&name, before, Some(3)));
    // Nobody waits for the answer of the dropped one. The second is deleted by hand at 19.
    join(&own, &name, dropped, 16);
    join(&own, &name, second, 18);
    own.leaves(&name, dropped);
    drop(own.left(&name, dropped, Some(20)));
    let news = own.saw(&name, &line(18, &[(dropped, 16), (second, 18)]), 0);
    assert!(news.held.is_empty(), "nobody has looked whether it stands at 20");
    assert_eq!((news.check, news.since), (vec![second], 20));
}

#[test]
fn a_watched_line_that_is_not_proved_is_not_shown() {
    let (own, name) = own();
    let (holder, second) = (id(1, 1), id(1, 2));
    join(&own, &name, holder, 1);
    drop(own.saw(&name, &line(1, &[(holder, 1)]), 0));
    join(&own, &name, second, 2);
    drop(own.saw(&name, &line(2, &[(holder, 1), (second, 2)]), 0));
    own.state().lines.get_mut(&name).unwrap().copy.as_mut().unwrap().is_busy = true;
    let watched = own.left(&name, id(1, 99), None).start.unwrap();
    drop(own.is_set(watched.watch, 2));
    // The second is deleted by hand at 3, and the holder leaves at 4.
    own.leaves(&name, holder);
    drop(own.left(&name, holder, Some(4)));
    let claim = Claim::new(second, name.clone(), Kind::Mutex, Weight::ONE, Weight::ONE);
    let seen = own.seen_at(&claim, 2);
    assert!(seen.is_none(), "it would be settled as held: {seen:?}");
}

#[test]
fn a_slot_is_used_again_unless_a_join_may_still_come() {
    let (own, name) = own();
    let take = |fresh| {
        let (slot, number) = own.take_slot(&name, fresh);
        (slot, id(1, number))
    };
    let leaves = |slot, id: ClaimId| {
        own.leaves(&name, id);
        drop(own.left(&name, id, Some(9)));
        own.give_back_slot(&name, slot, id.number);
    };
    let (slot, first) = take(1);
    join(&own, &name, first, 4);
    leaves(slot, first);
    let (again, second) = take(2);
    assert_eq!(again, slot);
    begin(&own, &name, second);
    assert!(own.may_be_sent(second));
    drop(own.is_answered(&name, second, None, false));
    leaves(again, second);
    let (other, third) = take(3);
    assert_ne!(other, slot, "a join of the second may still come there");
    begin(&own, &name, third);
    assert!(own.may_be_sent(third));
    leaves(other, third);
    assert!(![slot, other].contains(&take(4).0), "a join of the third is on its way");
}

/// A server that has compacted what a watch asked for ends the watch, and refuses another one under its number: the whole
/// stream would have to begin anew.
#[test]
fn a_watch_that_begins_anew_has_another_number() {
    let (own, name) = own();
    let (blocker, mine) = (id(2, 1), id(1, 1));
    join(&own, &name, mine, 2);
    let watched = own.saw(&name, &line(2, &[(blocker, 1), (mine, 2)]), 0).start.unwrap();
    drop(own.is_set(watched.watch, 2));
    let anew = own.begins_anew(watched.watch).unwrap();
    assert_ne!(anew.watch, watched.watch);
    assert_eq!((anew.aim, anew.from), (watched.aim, 0));
    assert!(own.is_needed(anew.watch) && !own.is_needed(watched.watch));
    assert_eq!(own.begins_anew(watched.watch), None, "it has begun anew already");
    // The blocker left before it was set again.
    let (_, news) = own.is_set(anew.watch, 9).unwrap();
    assert_eq!(news.check, [blocker, mine]);
}

/// All of the line was watched for a while, so the view is as new as a list. Nothing is written any more.
#[test]
fn a_list_that_says_nothing_new_is_not_asked_for_again() {
    let (own, name) = own();
    let (a, c, first) = (id(2, 1), id(3, 1), id(1, 1));
    join(&own, &name, first, 3);
    let all = [(a, 1), (c, 2), (first, 3)];
    let watched = own.saw(&name, &line(3, &all), 0).start.unwrap();
    drop(own.is_set(watched.watch, 3));
    {
        let mut state = own.state();
        let copy = state.lines.get_mut(&name).unwrap().copy.as_mut().unwrap();
        (copy.view.revision, copy.fired_for) = (5, Some(first)); // C has left at 4, and the view shows that
        copy.departs(c, 4);
    }
    drop(own.saw(&name, &line(5, &[(a, 1), (first, 3)]), 0));
    let state = own.state();
    let copy = state.copy(&name).unwrap();
    assert_eq!((copy.checked, copy.fired_for, copy.is_reading), (5, None, false));
}

/// The list was made before what the watch has told.
#[test]
fn a_list_that_is_older_than_an_event_does_not_answer_it() {
    let (own, name) = own();
    let (a, c, first) = (id(2, 1), id(3, 1), id(1, 1));
    join(&own, &name, first, 3);
    let all = [(a, 1), (c, 2), (first, 3)];
    drop(own.saw(&name, &line(3, &all), 0));
    {
        let mut state = own.state();
        let copy = state.lines.get_mut(&name).unwrap().copy.as_mut().unwrap();
        copy.departs(c, 4);
        copy.fired_for = Some(first);
        copy.list(&line(3, &all));
        assert_eq!(copy.fired_for, Some(first));
    }
}

/// An operator evicts a waiter of its own client, and the request is not carried out: nobody sends it again.
#[test]
fn a_waiter_whose_leave_has_failed_does_not_stay_in_front() {
    let (own, name) = own();
    let (mine, other) = (id(1, 1), id(2, 1));
    join(&own, &name, mine, 2);
    own.leaves(&name, mine);
    let places_in = |view: LineView| {
        let shown = own.shown(&view);
        let (claim, place) = places(&shown).find(|(claim, _)| claim.id == mine).unwrap();
        own.looked(&name, claim, place)
    };
    assert_eq!(places_in(line(3, &[(other, 1), (mine, 2)])), Looked::Waits);
    let front = line(4, &[(mine, 2), (other, 4)]);
    assert_eq!(places_in(front.clone()), Looked::Waits, "its leave is under way");
    own.has_not_left(mine);
    assert_eq!(places_in(front), Looked::Misplaced);
}

fn permit(id: ClaimId) -> ClaimKey {
    let (declared, weight) = (Weight::new(2).unwrap(), Weight::ONE);
    ClaimKey { slot: id.into(), kind: Kind::Semaphore, declared, weight, is_rest: false }
}

/// A claim on one permit of two joins.
fn join_for_permit(own: &OwnClaims, name: &Name, id: ClaimId, order: u64) {
    own.begin(&Claim::new(id, name.clone(), Kind::Semaphore, Weight::ONE, Weight::new(2).unwrap()));
    assert!(own.may_be_sent(id));
    drop(own.is_answered(name, id, Some((order, Token::from_order(order).unwrap())), true));
}

/// The semaphore is made smaller before one of ours is evicted, and the line's watch is behind the news of that.
#[test]
fn a_permit_that_comes_free_is_taken_only_in_a_line_that_shows_its_size() {
    let (own, name) = own();
    let (other, first, second) = (id(2, 1), id(1, 1), id(1, 2));
    join_for_permit(&own, &name, first, 50);
    join_for_permit(&own, &name, second, 60);
    let all = [(other, permit(other), 40), (first, permit(first), 50), (second, permit(second), 60)];
    assert_eq!(own.saw(&name, &LineView::with(60, all), 0).held.len(), 1);
    let news = own.is_evicted(&name, first, 80);
    assert_eq!((news.held.len(), news.gone, news.read), (0, vec![first], true));
    let news = own.checked(&name, 80, &[(second, Some((60, Weight::ONE)))]);
    assert!(news.held.is_empty(), "it stands there, but one permit may be all that there is");
    let left = [(other, permit(other), 40), (second, permit(second), 60)];
    assert_eq!(own.saw(&name, &LineView::with(80, left), 0).held.len(), 1);
}

/// A leave of ours is answered before the view shows that the claim stood there.
#[test]
fn a_permit_that_is_given_back_leaves_a_late_list_as_it_is() {
    let (own, name) = own();
    let (other, first, second) = (id(2, 1), id(1, 1), id(1, 2));
    join_for_permit(&own, &name, second, 50);
    drop(own.saw(&name, &LineView::with(50, [(other, permit(other), 40), (second, permit(second), 50)]), 0));
    join_for_permit(&own, &name, first, 60);
    own.leaves(&name, first);
    drop(own.left(&name, first, Some(80)));
    assert!(own.state().copy(&name).unwrap().departed.is_empty(), "its event shows what was changed before");
}

fn place_of(own: &OwnClaims, id: ClaimId) -> Option<u64> {
    match own.stage(id)? {
        Stage::Stands(stands) => Some(stands.order),
        _ => None,
    }
}

/// A line whose two permits are held by others, and a claim of ours behind them.
fn full_line(revision: i64, behind: Option<(ClaimId, u64)>) -> LineView {
    let all = [(id(2, 1), 5), (id(2, 2), 6)].into_iter().chain(behind);
    LineView::with(revision, all.map(|(id, order)| (id, permit(id), order)))
}

/// A move of it got no answer. The join is asked again and reads the line before the move arrives, and its answer comes
/// after what the watch tells.
#[test]
fn a_claim_that_has_moved_is_not_gone_although_an_older_answer_tells_its_old_place() {
    let (own, name) = own();
    let moving = id(1, 1);
    join_for_permit(&own, &name, moving, 10);
    let with = |at: i64| full_line(at, Some((moving, at.unsigned_abs())));
    drop(own.saw(&name, &with(10), 0));
    assert!(own.moves(&name, moving));
    drop(own.saw(&name, &with(50), 0));
    let news = own.stands(&name, moving, 10, Token::from_order(10).unwrap());
    assert_eq!((news.gone, place_of(&own, moving)), (vec![], Some(50)));
}

/// The same, and the answer comes before.
#[test]
fn a_claim_is_not_gone_when_an_earlier_move_of_it_arrives() {
    let (own, name) = own();
    let moving = id(1, 1);
    join_for_permit(&own, &name, moving, 10);
    let with = |at: i64| full_line(at, Some((moving, at.unsigned_abs())));
    drop(own.saw(&name, &with(10), 0));
    let news = own.saw(&name, &with(50), 0);
    assert_eq!((news.gone, place_of(&own, moving)), (vec![], Some(50)));
    let news = own.saw(&name, &full_line(60, None), 0);
    assert_eq!(news.gone, [moving], "it was evicted there");
}

/// The move is answered late, but before the join that was asked again, which has read the line earlier.
#[test]
fn an_older_answer_takes_no_turn_back() {
    let (own, name) = own();
    let moving = id(1, 1);
    join_for_permit(&own, &name, moving, 10);
    drop(own.saw(&name, &full_line(10, Some((moving, 10))), 0));
    assert!(own.moves(&name, moving) && own.may_be_sent(moving));
    drop(own.is_answered(&name, moving, Some((50, Token::from_order(50).unwrap())), true));
    assert!(own.hold(&name, moving, 50).is_some());
    drop(own.stands(&name, moving, 10, Token::from_order(10).unwrap()));
    let stage = own.stage(moving);
    assert!(matches!(stage, Some(Stage::Stands(Stands { order: 50, is_held: true, .. }))), "{stage:?}");
}

/// The first join of a claim got no answer, the second one made it, and its key was deleted by hand.
#[test]
fn a_claim_that_is_gone_may_still_come() {
    let (own, name) = own();
    let (_, number) = own.take_slot(&name, 1);
    let mine = id(1, number);
    begin(&own, &name, mine);
    assert!(own.may_be_sent(mine));
    drop(own.is_answered(&name, mine, None, false));
    join(&own, &name, mine, 4);
    drop(own.left(&name, mine, Some(9)));
    assert!(own.leaves(&name, mine).may_come, "the first join would meet no key that says that it is void");
}

#[test]
fn a_claim_that_was_evicted_before_its_join_was_answered_does_not_wait() {
    let (own, name) = own();
    let (holder, first, second) = (id(2, 1), id(1, 1), id(1, 2));
    join(&own, &name, first, 2);
    drop(own.saw(&name, &line(2, &[(holder, 1), (first, 2)]), 0));
    let claim = |id| Claim::new(id, name.clone(), Kind::Mutex, Weight::ONE, Weight::ONE);
    begin(&own, &name, second);
    assert!(own.may_be_sent(second));
    drop(own.is_evicted(&name, second, 4));
    drop(own.is_answered(&name, second, Some((3, Token::from_order(3).unwrap())), true));
    assert!(!own.waits_behind_own(&claim(second), 3), "nobody would tell that it is gone");
    let third = id(1, 3);
    join(&own, &name, third, 5);
    assert!(own.waits_behind_own(&claim(third), 5));
}

/// One of ours waits long, and behind it others of ours come and give up.
#[test]
fn who_has_left_is_not_remembered_for_ever() {
    let (own, name) = own();
    let (holder, first) = (id(2, 1), id(1, 1));
    join(&own, &name, first, 2);
    drop(own.saw(&name, &line(2, &[(holder, 1), (first, 2)]), 0));
    let mut most = 0;
    for k in 2..10_000 {
        let (brief, revision) = (id(1, k), i64::try_from(2 * k).unwrap());
        join(&own, &name, brief, 2 * k);
        own.leaves(&name, brief);
        if own.left(&name, brief, Some(revision + 1)).read {
            drop(own.saw(&name, &line(revision + 1, &[(holder, 1), (first, 2)]), 0));
        }
        most = most.max(own.state().copy(&name).unwrap().departed.len());
    }
    assert!(most < 2_000, "{most}");
}
