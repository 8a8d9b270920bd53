//! Past bugs, replayed step by step.

use redis::Connection;
use tidelock_model::comparison::{Answer, Reply, Told, Wish};
use tidelock_model::{ClaimId, Join, Kind, Leave, Left, Patience, SessionId, Weight};

use crate::asked::{Asker, Caller};
use crate::scripts::Scripts;
use crate::{answered, connect};

/// When a story begins, in µs.
const BEGIN: u64 = 2_600_000_000_000_000;

/// One name, with numbered clients.
struct Story {
    server: Connection,
    scripts: Scripts,
    asker: Asker,
    /// How long each client's claims live, in ms.
    ttls: &'static [u64],
}

const fn id(client: u64, number: u64) -> ClaimId {
    ClaimId { session: SessionId::from_bits(client), number }
}

impl Story {
    fn of(ttls: &'static [u64]) -> Self {
        let mut server = connect();
        let scripts = Scripts::load(&mut server, &[], false);
        let which = server_time(&mut server);
        Self { server, scripts, asker: Asker { namespace: format!("story {which}") }, ttls }
    }

    fn ask(&mut self, millis: u64, wish: &Wish<String>) -> Answer {
        let caller = |session: SessionId| Caller {
            millis: self.ttls[usize::try_from(session.get()).unwrap() - 1],
            label: "a label that takes its place among those who wait",
        };
        let command = self.asker.command(&self.scripts, wish, BEGIN + millis * 1_000, caller);
        let reply = command.query(&mut self.server).unwrap();
        answered::answer(wish, &reply).unwrap_or_else(|| panic!("{wish:?} was answered {reply:?}"))
    }

    fn join(&mut self, millis: u64, id: ClaimId) -> Answer {
        let (kind, weight, patience) = (Kind::Mutex, Weight::ONE, Patience::Wait);
        let join = Join { name: "stock".to_owned(), id, kind, weight, capacity: weight, patience };
        self.ask(millis, &Wish::Join(join))
    }

    fn take_seats(&mut self, millis: u64, id: ClaimId, weight: u32) -> Answer {
        let (weight, capacity) = (Weight::new(weight).unwrap(), Weight::new(5).unwrap());
        let (kind, patience) = (Kind::Semaphore, Patience::Wait);
        let join = Join { name: "stock".to_owned(), id, kind, weight, capacity, patience };
        self.ask(millis, &Wish::Join(join))
    }

    /// Does what a leave has done when its second write is refused.
    fn leave_half_way(&mut self, id: ClaimId) {
        let held = format!("{}{{stock}}:held", self.asker.channel());
        let () = redis::cmd("HDEL").arg(held).arg(format!("h:{id}")).query(&mut self.server).unwrap();
    }

    fn void(&mut self, millis: u64, id: ClaimId) -> Answer {
        let name = "stock".to_owned();
        self.ask(millis, &Wish::Leave { by: id.session, name, id, how: Leave::Void })
    }

    fn leave(&mut self, millis: u64, by: u64, id: ClaimId) -> Answer {
        let (by, name) = (SessionId::from_bits(by), "stock".to_owned());
        self.ask(millis, &Wish::Leave { by, name, id, how: Leave::Done })
    }

    fn look(&mut self, millis: u64, client: u64, numbers: &[u64]) -> Answer {
        let (session, numbers) = (SessionId::from_bits(client), numbers.to_vec());
        self.ask(millis, &Wish::Look { session, name: "stock".to_owned(), numbers })
    }

    fn renew(&mut self, millis: u64, client: u64) -> Answer {
        self.ask(millis, &Wish::Renew { session: SessionId::from_bits(client), name: "stock".to_owned() })
    }
}

fn server_time(server: &mut Connection) -> String {
    let (seconds, micros): (String, String) = redis::cmd("TIME").query(server).unwrap();
    format!("{seconds}.{micros}")
}

fn holds(answer: &Answer, id: ClaimId) -> bool {
    answer.shown.claims.iter().any(|stands| stands.id == id && stands.token.is_some())
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn a_join_asked_again_after_its_own_lifetime_is_not_held_beside_the_next() {
    let mut story = Story::of(&[1_000]);
    assert!(matches!(story.join(0, id(1, 1)).reply, Reply::Held { .. })); // its client never gets this reply
    assert!(matches!(story.join(900, id(1, 2)).reply, Reply::Waiting { .. }));
    let again = story.join(1_050, id(1, 1));
    assert!(matches!(again.reply, Reply::Waiting { .. }), "{again:?}");
    assert!(holds(&again, id(1, 2)) && !holds(&again, id(1, 1)), "{again:?}");
    assert!(matches!(again.told[..], [(_, Told::Held { number: 2, .. })]), "{again:?}");
}

/// As after an outage: the client has given these claims up and joins again, so nobody would give them back.
#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn those_whose_lifetime_is_over_do_not_live_by_what_their_client_asks_later() {
    for seats in [false, true] {
        let mut story = Story::of(&[1_000, 15_000, 1_000]);
        let mut stand = |millis: u64, id: ClaimId| match seats {
            true => story.take_seats(millis, id, 5).reply,
            false => story.join(millis, id).reply,
        };
        assert!(matches!(stand(0, id(2, 1)), Reply::Held { .. }));
        for number in 1..=20 {
            assert!(matches!(stand(number, id(1, number)), Reply::Waiting { .. }));
        }
        for number in 21..=40 {
            assert!(matches!(stand(1_500 + number, id(1, number)), Reply::Waiting { .. }));
        }
        story.renew(1_600, 1);
        story.look(1_700, 1, &[40]);
        assert!(matches!(story.join(1_800, id(3, 1)).reply, Reply::Waiting { .. } | Reply::Kind(_)));
        let left = story.leave(1_900, 2, id(2, 1));
        assert!(holds(&left, id(1, 21)), "{left:?}");
    }
}

/// A renewal that comes too late for the server, and in time for the client: a clock that stepped, a replica that missed
/// the one before. Its waiters are dead, and have to stand in line anew, so the next look says so.
#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn a_look_tells_a_client_which_of_its_waiters_are_dead() {
    for seats in [false, true] {
        for holders_ttl in [15_000, 24 * 3_600_000] {
            let mut story =
                Story::of(if holders_ttl == 15_000 { &[1_000, 15_000] } else { &[1_000, 86_400_000] });
            let mut stand = |millis: u64, id: ClaimId| match seats {
                true => story.take_seats(millis, id, 5).reply,
                false => story.join(millis, id).reply,
            };
            assert!(matches!(stand(0, id(2, 1)), Reply::Held { .. }));
            for number in 1..=20 {
                assert!(matches!(stand(10, id(1, number)), Reply::Waiting { .. }));
            }
            story.renew(600, 1);
            story.renew(2_500, 1);
            let numbers: Vec<u64> = (1..=20).collect();
            let seen = story.look(2_510, 1, &numbers);
            let Reply::Seen { gone, .. } = &seen.reply else { panic!("{seen:?}") };
            assert_eq!(gone.len(), 20, "{gone:?}");
        }
    }
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn who_comes_after_the_clock_was_set_back_lives_though_others_of_its_client_died() {
    let mut story = Story::of(&[1_000, 15_000]);
    assert!(matches!(story.take_seats(1_000, id(2, 1), 5).reply, Reply::Held { .. }));
    assert!(matches!(story.take_seats(1_000, id(1, 1), 5).reply, Reply::Waiting { .. }));
    assert!(matches!(story.take_seats(2_500, id(1, 2), 5).reply, Reply::Waiting { .. }));
    story.leave(2_510, 1, id(1, 2));
    assert!(matches!(story.take_seats(1_200, id(1, 3), 5).reply, Reply::Waiting { .. }));
    let left = story.leave(1_210, 2, id(2, 1));
    assert!(holds(&left, id(1, 3)), "{left:?}");
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn an_evicted_holds_age_delays_nobody() {
    let mut story = Story::of(&[15_000, 15_000]);
    story.join(0, id(1, 1));
    for second in (10..3_570).step_by(10) {
        story.renew(second * 1_000, 1);
    }
    story.join(3_569_000, id(1, 2));
    story.renew(3_570_000, 1);
    let evicted = story.leave(3_570_000, 2, id(1, 1));
    assert!(holds(&evicted, id(1, 2)), "{evicted:?}");
    // Now its client dies.
    let early = story.join(3_584_900, id(2, 1));
    assert!(matches!(early.reply, Reply::Waiting { look_in: 0..200_000 }), "{early:?}");
    let late = story.join(3_585_100, id(2, 1));
    assert!(matches!(late.reply, Reply::Held { .. }), "{late:?}");
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn a_waiter_that_lives_is_not_dropped_with_what_its_session_said_before() {
    let mut story = Story::of(&[15_000, 600_000, 15_000]);
    story.join(0, id(1, 1));
    for number in 1..=10 {
        story.join(0, id(2, number)); // as many as fit beside the holder
    }
    story.join(0, id(3, 1)); // its session's lifetime is stored
    story.join(14_900, id(3, 2)); // and trusted
    // The holder is dead, and so is the third client's first claim, but not its second.
    assert!(holds(&story.join(15_100, id(2, 11)), id(2, 1)));
    for number in 1..=10 {
        assert_eq!(story.leave(15_200, 2, id(2, number)).reply, Reply::Left(Left::Held));
    }
    let next = story.renew(15_300, 3);
    assert!(holds(&next, id(3, 2)), "{next:?}");
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn what_is_known_of_a_session_is_trusted_for_an_hour_and_no_longer() {
    let mut story = Story::of(&[15_000, 600_000, 15_000]);
    story.join(0, id(1, 1));
    for number in 1..=10 {
        story.join(0, id(2, number));
    }
    story.join(0, id(3, 1)); // it dies, and no script meets it
    for second in (10..3_695).step_by(10) {
        story.renew(second * 1_000, 1);
        if second % 300 == 0 {
            story.renew(second * 1_000, 2);
        }
    }
    story.join(3_695_000, id(3, 2));
    // The holder is dead, and the stored lifetime of the third client is long over.
    assert!(holds(&story.join(3_706_000, id(2, 11)), id(2, 1)));
    for number in 1..=10 {
        assert_eq!(story.leave(3_706_100, 2, id(2, number)).reply, Reply::Left(Left::Held));
    }
    story.leave(3_706_150, 3, id(3, 1)); // in case it came alive with its session
    let next = story.renew(3_706_200, 3);
    assert!(holds(&next, id(3, 2)), "{next:?}");
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn a_renewal_cuts_nothing_short_that_is_void() {
    let mut story = Story::of(&[15_000, 24 * 3_600_000]);
    story.void(0, id(2, 1));
    story.join(1_000, id(1, 1));
    for second in (10..3 * 3_600).step_by(10) {
        story.renew(second * 1_000, 1);
        if second == 3_600 {
            story.leave(3_600_000, 1, id(1, 1));
            story.join(3_600_000, id(1, 2));
        }
    }
    story.leave(3 * 3_600_000, 1, id(1, 2));
    assert_eq!(story.join(23 * 3_600_000, id(2, 1)).reply, Reply::Void);
    assert!(matches!(story.join(25 * 3_600_000, id(2, 1)).reply, Reply::Held { .. }));
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn tokens_grow_after_a_clock_that_was_ahead_was_put_right() {
    const HOUR: u64 = 3_600_000;
    let token = |answer: &Answer| match answer.reply {
        Reply::Held { token, .. } => token,
        _ => panic!("{answer:?}"),
    };
    let mut story = Story::of(&[15_000]);
    let ahead = token(&story.join(24 * HOUR, id(1, 1)));
    story.leave(24 * HOUR + 10, 1, id(1, 1));
    let put_right = token(&story.join(0, id(1, 2)));
    story.leave(10, 1, id(1, 2));
    assert!(put_right > ahead);
    let idle = token(&story.join(2 * HOUR + 1_000, id(1, 3)));
    assert!(idle > put_right, "a token went down: {put_right:?}, then {idle:?}");
    // It is held for so long that only renewals keep the keys.
    for second in (10..2 * 3_600).step_by(10) {
        story.renew(2 * HOUR + second * 1_000, 1);
    }
    story.leave(4 * HOUR, 1, id(1, 3));
    let renewed = token(&story.join(6 * HOUR + 2_000, id(1, 4)));
    assert!(renewed > idle, "a token went down: {idle:?}, then {renewed:?}");
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn what_left_half_way_is_counted_for_a_lifetime_at_most() {
    let mut story = Story::of(&[15_000, 15_000, 15_000]);
    story.take_seats(0, id(1, 1), 2);
    story.take_seats(0, id(1, 2), 1);
    story.take_seats(0, id(2, 1), 2);
    story.leave_half_way(id(2, 1)); // its client's only claim
    story.leave_half_way(id(1, 2)); // its client has another claim
    for second in [5, 10, 15] {
        story.renew(second * 1_000, 1);
        story.renew(second * 1_000, 2);
    }
    assert!(matches!(story.take_seats(15_100, id(3, 1), 3).reply, Reply::Held { .. }));
    let renewed = story.renew(15_200, 1).reply;
    assert!(matches!(renewed, Reply::Renewed { claims: 1, sum: 1, .. }), "{renewed:?}");
    let renewed = story.renew(15_200, 2).reply;
    assert!(matches!(renewed, Reply::Renewed { claims: 0, .. }), "{renewed:?}");
}

const HOURS: u64 = 3_600_000;

fn token(answer: &Answer) -> u64 {
    match answer.reply {
        Reply::Held { token, .. } => token,
        _ => panic!("{answer:?}"),
    }
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn a_waiter_that_gives_up_after_the_clock_was_put_right_takes_no_token_along() {
    let mut story = Story::of(&[15_000, 15_000]);
    let ahead = token(&story.join(24 * HOURS, id(1, 1)));
    assert!(matches!(story.join(24 * HOURS + 1_000, id(2, 1)).reply, Reply::Waiting { .. }));
    story.leave(1_000, 2, id(2, 1)); // the clock had been a day ahead
    story.leave(2_000, 1, id(1, 1));
    let next = token(&story.join(2 * HOURS + 3_000, id(1, 2)));
    assert!(next > ahead, "{ahead}, then {next}");
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn nor_does_a_crowd_that_comes_and_goes() {
    let mut story = Story::of(&[15_000, 15_000]);
    let ahead = token(&story.join(24 * HOURS, id(1, 1)));
    story.leave(24 * HOURS + 10, 1, id(1, 1));
    let put_right = token(&story.join(0, id(1, 2))); // the clock had been a day ahead
    assert!(put_right > ahead);
    for number in 1..=12 {
        assert!(matches!(story.join(10, id(2, number)).reply, Reply::Waiting { .. }));
    }
    story.leave(20, 1, id(1, 2));
    for number in 1..=12 {
        story.leave(30 + number, 2, id(2, number));
    }
    let next = token(&story.join(2 * HOURS + 3_000, id(1, 3)));
    assert!(next > put_right, "{put_right}, then {next}");
}

/// Evicts `held` alone while claims wait in `line`; the next request is not one of theirs.
fn forgets_who_holds(story: &mut Story, millis: u64) {
    story.ask(millis, &Wish::Lose { name: "stock".to_owned(), part: 3 });
}

fn stands(answer: &Answer, client: u64) -> usize {
    answer.shown.claims.iter().filter(|stands| stands.id.session == SessionId::from_bits(client)).count()
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn who_waited_when_the_holder_was_evicted_never_comes_alive() {
    for comes_back in [false, true] {
        let mut story = Story::of(&[15_000, 600_000, 15_000]);
        story.join(0, id(1, 1));
        for number in 1..=20 {
            story.join(0, id(2, number)); // more than fit beside the holder
        }
        forgets_who_holds(&mut story, 1_000);
        assert!(matches!(story.join(1_001, id(3, 1)).reply, Reply::Held { .. }));
        for number in 2..=30 {
            let joined = story.join(1_002, id(3, number));
            assert!(number < 20 || stands(&joined, 2) == 0, "{joined:?}");
            if comes_back && number == 3 {
                story.look(1_003, 3, &[2, 3]); // moves the waiters to `line`
            }
        }
        for number in 1..=29 {
            let left = story.leave(1_100, 3, id(3, number));
            assert!(holds(&left, id(3, number + 1)), "{number}: {left:?}");
        }
    }
}

#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn who_waited_for_permits_when_the_holder_was_evicted_never_comes_alive() {
    let mut story = Story::of(&[15_000, 600_000, 15_000]);
    story.take_seats(0, id(1, 1), 5);
    story.take_seats(0, id(2, 1), 5);
    forgets_who_holds(&mut story, 1_000);
    assert!(matches!(story.take_seats(1_001, id(3, 1), 5).reply, Reply::Held { .. }));
    assert!(matches!(story.take_seats(1_002, id(3, 2), 5).reply, Reply::Waiting { .. }));
    let left = story.leave(1_003, 3, id(3, 1));
    assert!(holds(&left, id(3, 2)) && stands(&left, 2) == 0, "{left:?}");
}
