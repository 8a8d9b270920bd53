//! A clock that is set back, story by story.

use std::sync::Arc;

use futures_util::future::join_all;
use tidelock_core::backend::{Claim, Leave, Left, Moment, Patience, Place};
use tidelock_core::{ClaimId, ErrorKind, Kind, Name, Result, SessionId, Weight};

use super::faults::Fault;
use super::server::{SECOND, Server, Told};
use super::{fresh_seed, prepared, taken, url, without_disk};
use crate::lane::Lane;
use crate::open_session::OpenSession;
use crate::packet::Hint;
use crate::request::{Action, Outcome, Request};
use crate::sql::{self, put};

const TTL: u64 = 10 * SECOND;
const NOON: u64 = 1_970_000_000 * SECOND;

/// Two clients of a mutex: the first holds it, the second waits, and lives for longer than any story.
async fn holder_and_waiter(server: &Server) -> ([Arc<OpenSession>; 2], Name) {
    let seed = fresh_seed();
    let name = Name::new("stock").unwrap();
    let mut clients = Vec::new();
    server.clock.set(NOON);
    for (number, ttl) in [(1, TTL), (2, 1_000 * TTL)] {
        let id = SessionId::from_bits(seed << 3 | number);
        server.open(id, ttl).await;
        clients.push(server.client(id, ttl, &format!("story {seed:x}")));
    }
    let clients: [Arc<OpenSession>; 2] = clients.try_into().unwrap();
    assert!(matches!(join(&clients[0], &name).await, Place::Held { .. }));
    assert!(matches!(join(&clients[1], &name).await, Place::Waiting { .. }));
    (clients, name)
}

async fn join(client: &Arc<OpenSession>, name: &Name) -> Place {
    try_join(client, name).await.unwrap()
}

async fn try_join(client: &Arc<OpenSession>, name: &Name) -> Result<Place> {
    let id = ClaimId { session: client.id, number: 1 };
    let claim = Claim::new(id, name.clone(), Kind::Mutex, Weight::ONE, Weight::ONE);
    let join = Action::Join { claim, patience: Patience::Wait, in_rows: false };
    match client.gather(name, join).await? {
        Outcome::Joined(place) => Ok(place),
        other => panic!("{other:?}"),
    }
}

/// Who holds, after the line was looked after.
async fn holder(client: &Arc<OpenSession>, name: &Name) -> Vec<SessionId> {
    client.tidied(name).await.unwrap();
    let line = client.inspect(name).await.unwrap();
    line.claims.iter().filter(|claim| claim.is_held()).map(|claim| claim.id.session).collect()
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn after_a_clock_was_set_back_the_dead_hold_for_a_ttl_and_no_longer() {
    let (server, _alone) = prepared().await;
    let story = async {
        let ([dead, waiter], name) = holder_and_waiter(&server).await;
        server.clock.pass(TTL / 2);
        server.clock.set_back(3_600 * SECOND);
        assert_eq!(holder(&waiter, &name).await, [dead.id]); // from this look on
        server.clock.pass(TTL - 1);
        assert_eq!(holder(&waiter, &name).await, [dead.id]);
        server.clock.pass(1);
        assert_eq!(holder(&waiter, &name).await, [waiter.id]);
    };
    without_disk(&server, story).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn whose_claims_were_given_away_does_not_come_back_with_the_clock() {
    let (server, _alone) = prepared().await;
    let story = async {
        let ([dead, waiter], name) = holder_and_waiter(&server).await;
        let free = Name::new("given back").unwrap();
        taken(&dead, &free, 2).await;
        server.clock.pass(TTL);
        assert_eq!(holder(&waiter, &name).await, [waiter.id]);
        server.clock.set_back(TTL);
        assert_eq!(dead.renew(&[]).await.unwrap_err().kind(), ErrorKind::Lost);
        for is_known in [true, false] {
            if is_known {
                dead.own_claims.set_free_later(&free);
            }
            assert_eq!(try_join(&dead, &free).await.unwrap_err().kind(), ErrorKind::Lost);
        }
        let repeated = join(&waiter, &name).await;
        assert!(matches!(repeated, Place::Held { .. }), "{repeated:?}");
    };
    without_disk(&server, story).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn who_renews_after_others_found_it_dead_keeps_its_claims() {
    let (server, _alone) = prepared().await;
    let story = async {
        let ([late, waiter], name) = holder_and_waiter(&server).await;
        server.clock.pass(TTL);
        let read = waiter.read(&name).await.unwrap();
        let dead = waiter.dead_in(&name, &read).await.unwrap();
        assert_eq!(dead.len(), 1, "{dead:?}");
        server.clock.set_back(TTL / 2); // as it was before, for a client whose own clock did not step
        late.requests.store(0, std::sync::atomic::Ordering::Relaxed);
        late.renew(&[]).await.unwrap();
        waiter.gather(&name, Action::Bury(dead)).await.unwrap();
        assert_eq!(holder(&waiter, &name).await, [late.id]);
    };
    without_disk(&server, story).await;
}

/// Its void leave may have come before, and be forgotten by now.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_join_whose_caller_is_gone_is_not_sent() {
    let (server, _alone) = prepared().await;
    let story = async {
        let ([_, client], _) = holder_and_waiter(&server).await;
        let name = Name::new("left lying").unwrap();
        let id = ClaimId { session: client.id, number: 9 };
        let claim = Claim::new(id, name.clone(), Kind::Mutex, Weight::ONE, Weight::ONE);
        let (answer, _) = tokio::sync::oneshot::channel();
        let action = Action::Join { claim, patience: Patience::Wait, in_rows: false };
        let request = Request { name: name.clone(), action, answer };
        assert!(client.own_claims.sends(9, &name, Moment::NEVER));
        client.carry_out(&client.lanes.keepers, vec![request], client.clock.now()).await;
        assert!(client.inspect(&name).await.unwrap().claims.is_empty());
        assert!(client.own_claims.cannot_join_late(9), "a leave needs no row that keeps it out");
    };
    without_disk(&server, story).await;
}

/// More joins than a request is made again, and none of them can wait behind the first one.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_crowd_that_meets_another_kind_is_refused_as_one_is() {
    let (server, _alone) = prepared().await;
    let story = async {
        let ([reader, crowd], _) = holder_and_waiter(&server).await;
        let name = Name::new("book").unwrap();
        let joined = |client: &Arc<OpenSession>, number, kind, capacity| {
            let id = ClaimId { session: client.id, number };
            let claim = Claim::new(id, name.clone(), kind, Weight::ONE, capacity);
            client.gather(&name, Action::Join { claim, patience: Patience::Wait, in_rows: false })
        };
        joined(&reader, 9, Kind::RwLock, Weight::MAX).await.unwrap();
        let all = (10..40).map(|number| joined(&crowd, number, Kind::Mutex, Weight::ONE));
        for refused in join_all(all).await {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::KindMismatch);
        }
    };
    without_disk(&server, story).await;
}

/// One look finds all of the dead.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_crowd_that_meets_a_dead_holder_looks_after_its_line_once() {
    let (server, _alone) = prepared().await;
    let story = async {
        let ([_, crowd], name) = holder_and_waiter(&server).await;
        crowd.all_tidied().await;
        server.clock.pass(TTL);
        let all = (10..40).map(|number| {
            let id = ClaimId { session: crowd.id, number };
            let claim = Claim::new(id, name.clone(), Kind::Mutex, Weight::ONE, Weight::ONE);
            crowd.gather(&name, Action::Join { claim, patience: Patience::Wait, in_rows: false })
        });
        for joined in join_all(all).await {
            assert!(matches!(joined.unwrap(), Outcome::Joined(Place::Waiting { .. })));
        }
        let looks = crowd.tidying.lock().unwrap().len();
        assert!((1..4).contains(&looks), "{looks} looks after one line");
        crowd.all_tidied().await;
        assert_eq!(holder(&crowd, &name).await, [crowd.id]);
    };
    without_disk(&server, story).await;
}

/// Renewals would ask about their names for ever, and core sends no leave of what was surely not done.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn joins_that_the_server_has_refused_are_not_remembered() {
    let url = url();
    let (place, _) = url.rsplit_once('/').unwrap();
    let server = Server::at(&format!("{place}/mysql"), None); // a database without the tables
    let client = server.client(SessionId::from_bits(1), TTL, "refused");
    let name = Name::new("stock").unwrap();
    let all = (1..50).map(|number| {
        let id = ClaimId { session: client.id, number };
        let claim = Claim::new(id, name.clone(), Kind::Mutex, Weight::ONE, Weight::ONE);
        client.gather(&name, Action::Join { claim, patience: Patience::Now, in_rows: false })
    });
    for refused in join_all(all).await {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Protocol);
    }
    assert_eq!(client.own_claims.doubtful(), []);
}

/// A claim that holds in a row of its own, as for a transaction.
async fn join_in_rows(client: &Arc<OpenSession>, name: &Name, number: u64) -> ClaimId {
    let id = ClaimId { session: client.id, number };
    let claim = Claim::new(id, name.clone(), Kind::Mutex, Weight::ONE, Weight::ONE);
    let join = Action::Join { claim, patience: Patience::Wait, in_rows: true };
    let joined = client.gather(name, join).await.unwrap();
    assert!(matches!(joined, Outcome::Joined(Place::Held { .. })), "{joined:?}");
    id
}

/// It is not sent a leave before its transaction has ended, be it void or not.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_late_join_of_a_claim_that_left_with_its_transaction_has_no_effect() {
    let (server, _alone) = prepared().await;
    let story = async {
        let ([_, client], _) = holder_and_waiter(&server).await;
        let name = Name::new("sold").unwrap();
        let id = join_in_rows(&client, &name, 5).await;
        assert!(client.own_claims.sends(5, &name, Moment::NEVER)); // it is asked once more, and no answer comes
        assert!(client.own_claims.goes_inside(5));
        client.ends_with_its_transaction(&name, id); // which was rolled back
        let began = std::time::Instant::now();
        while client.own_claims.is_inside(5) {
            assert!(began.elapsed() < std::time::Duration::from_secs(10));
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let claim = Claim::new(id, name.clone(), Kind::Mutex, Weight::ONE, Weight::ONE);
        let late = [(name.clone(), Action::Join { claim, patience: Patience::Wait, in_rows: true })];
        let packet = client.caller.packet(&late, |_| Hint::Section, |_| false, 0);
        server.link.ask(&packet.text).await.unwrap();
        assert!(client.inspect(&name).await.unwrap().claims.is_empty());
    };
    without_disk(&server, story).await;
}

/// Core has let its guard go, and would renew everything to find what that is.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn no_grant_is_told_of_a_claim_inside_a_transaction() {
    let (server, _alone) = prepared().await;
    let story = async {
        let ([_, other], name) = holder_and_waiter(&server).await;
        let (told, name) = (Arc::<Told>::default(), Name::new(&format!("{name} sold")).unwrap());
        let namespace = format!("told {:x}", other.id.get());
        let client = server.client_that_tells(other.id, 1_000 * TTL, &namespace, true, told.clone());
        let id = join_in_rows(&client, &name, 5).await;
        assert!(client.own_claims.goes_inside(5));
        let joining = |number| {
            let id = ClaimId { session: client.id, number };
            let claim = Claim::new(id, name.clone(), Kind::Mutex, Weight::ONE, Weight::ONE);
            client.gather(&name, Action::Join { claim, patience: Patience::Wait, in_rows: false })
        };
        let leaving = |number, how| {
            client.gather(&name, Action::Leave { id: ClaimId { session: client.id, number }, how })
        };
        for number in [6, 7] {
            joining(number).await.unwrap();
        }
        assert_eq!(client.own_claims.hint(&name), Hint::InRows(Kind::Mutex));
        let left = leaving(6, Leave::Done).await.unwrap();
        assert!(matches!(left, Outcome::Left(Left::Waiting)), "{left:?}");
        assert_eq!(told.held(), []);
        // It leaves, and the next one is told.
        client.own_claims.is_outside(id.number);
        leaving(5, Leave::Done).await.unwrap();
        assert_eq!(told.held(), [ClaimId { session: client.id, number: 7 }]);
        leaving(7, Leave::Done).await.unwrap();
    };
    without_disk(&server, story).await;
}

/// Its transaction takes as long as all of its statements, and a renewal must not.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_crowd_that_joins_locks_no_session() {
    let (server, _alone) = prepared().await;
    let story = async {
        let ([holder, crowd], name) = holder_and_waiter(&server).await;
        let crowd = server.client(crowd.id, TTL, &format!("story {:x}", crowd.id.get() >> 3));
        for how in [Patience::Wait, Patience::Now] {
            let joins: Vec<(Name, Action)> = [name.clone(), name.clone(), Name::new("free").unwrap()]
                .into_iter()
                .zip(5..)
                .map(|(name, number)| {
                    let id = ClaimId { session: crowd.id, number };
                    let claim = Claim::new(id, name.clone(), Kind::Mutex, Weight::ONE, Weight::ONE);
                    (name, Action::Join { claim, patience: how, in_rows: false })
                })
                .collect();
            let packet = crowd.caller.packet(&joins, |_| Hint::InRow, |_| false, 0);
            let open = packet.text.strip_suffix("COMMIT;\n").unwrap();
            server.link.ask(open).await.unwrap();
            let beats = Server::at(&url(), None);
            beats.clock.set(NOON);
            beats.link.ask("SET innodb_lock_wait_timeout = 0").await.unwrap(); // not even for a moment
            for session in [holder.id, crowd.id] {
                let mut renewal = String::new();
                put(&mut renewal, sql::RENEW, &[("me", &sql::id(session))]);
                let soon = crowd.clock.now() + std::time::Duration::from_secs(2);
                let renewed = beats.link.ask_until(&renewal, soon).await;
                assert_eq!(renewed.unwrap().affected, [1], "{how:?}");
            }
            server.link.ask("ROLLBACK").await.unwrap();
        }
    };
    without_disk(&server, story).await;
}

/// The first request is with a task that is never polled, and the others wait for it.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn what_a_runtime_has_not_sent_when_it_ends_goes_by_the_keepers_lane() {
    let (server, _alone) = prepared().await;
    let story = async {
        let ([_, client], _) = holder_and_waiter(&server).await;
        let ending = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let lane = Arc::new(Lane::open(&client.lanes.keepers.link, ending.handle()));
        let name = Name::new("free").unwrap();
        let joining = |number| {
            let id = ClaimId { session: client.id, number };
            let claim = Claim::new(id, name.clone(), Kind::Mutex, Weight::ONE, Weight::ONE);
            let join = Action::Join { claim, patience: Patience::Wait, in_rows: false };
            client.gather_in(&lane, &name, join)
        };
        let (first, second) = (joining(5), joining(6));
        ending.shutdown_background();
        let long = std::time::Duration::from_secs(10);
        let first = tokio::time::timeout(long, first).await.unwrap();
        assert!(matches!(first, Ok(Outcome::Joined(Place::Held { .. }))), "{first:?}");
        let second = tokio::time::timeout(long, second).await.unwrap();
        assert!(matches!(second, Ok(Outcome::Joined(Place::Waiting { .. }))), "{second:?}");
    };
    without_disk(&server, story).await;
}

/// As after a failover to a server that has missed the join: core hears that the claim is gone, and asks for it no more.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn nothing_is_listened_for_when_the_last_waiting_claim_is_gone() {
    let (server, _alone) = prepared().await;
    let story = async {
        let ([_, waiter], name) = holder_and_waiter(&server).await;
        assert!(waiter.own_claims.is_waiting());
        let key = waiter.caller.key(&name);
        server.link.ask(&format!("UPDATE tidelock_line SET waiters = '' WHERE name = {key}")).await.unwrap();
        let id = ClaimId { session: waiter.id, number: 1 };
        let renewal = waiter.renew(&[(name, vec![id])]).await.unwrap();
        assert_eq!(renewal.gone, [id]);
        assert!(!waiter.own_claims.is_waiting());
    };
    without_disk(&server, story).await;
}

/// The last text of a long renewal is refused, or gets no answer in time. The first one has renewed the session, and has
/// found the claims in rows.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_renewal_whose_last_text_fails_has_renewed_the_session() {
    const LAST: &str = "6d6973736564') AND"; // the name `missed`
    const REFUSED: Fault = Fault {
        name: "refused",
        seeds: &[],
        changes: &[(LAST, "6d6973736564') AND there_is_no_such_column AND")],
    };
    const SLOW: Fault =
        Fault { name: "slow", seeds: &[], changes: &[(LAST, "6d6973736564') AND SLEEP(8) = 0 AND")] };
    let (server, _alone) = prepared().await;
    let story = async {
        let ([holder, _], name) = holder_and_waiter(&server).await;
        let namespace = format!("story {:x}", holder.id.get() >> 3);
        let expires = format!("SELECT expires FROM tidelock_session WHERE id = {}", holder.id.get());
        let claim = |number| ClaimId { session: holder.id, number };
        let in_rows = join_in_rows(&holder, &Name::new("in rows").unwrap(), 2).await;
        let many = |at: u64| (Name::new(&format!("name {at}")).unwrap(), vec![claim(at)]);
        let found = [(name, vec![claim(1)]), (Name::new("in rows").unwrap(), vec![in_rows])];
        let found: Vec<_> = found.into_iter().chain((3..=5_000).map(many)).collect();
        let missed = Name::new("missed").unwrap();
        let standing = [found, vec![many(5_001), (missed.clone(), Vec::new())]].concat();
        let take = format!(
            "REPLACE INTO tidelock_line (name, kind, capacity, token, session, number, weight) \
             VALUES ({}, 1, 1, 1, {}, 6000, 1)",
            holder.caller.key(&missed),
            holder.id.get()
        );
        server.link.ask(&take).await.unwrap(); // a stray, so that its row is read
        let mut now = NOON;
        for fault in [&REFUSED, &SLOW] {
            now += SECOND;
            let changed = Server::at(&url(), Some(fault));
            [&server, &changed].iter().for_each(|server| server.clock.set(now));
            let asked = holder.clock.now();
            let renewal = changed.client(holder.id, TTL, &namespace).renew(&standing).await.unwrap();
            assert!(renewal.until >= asked + std::time::Duration::from_micros(TTL), "{}", fault.name);
            assert_eq!(server.link.ask(&expires).await.unwrap().rows[0].number(0), now + TTL);
            assert_eq!(renewal.gone, [], "{}", fault.name);
            assert!(!renewal.unsure.contains(&claim(1)) && !renewal.unsure.contains(&in_rows), "found");
            assert_eq!(
                (renewal.unsure.len(), renewal.missed),
                (4_999, vec![missed.clone()]),
                "{}",
                fault.name
            );
        }
        let whole = server.client(holder.id, TTL, &namespace).renew(&standing).await.unwrap();
        assert_eq!((whole.gone.len(), whole.unsure, whole.missed), (4_999, Vec::new(), Vec::new()));
    };
    without_disk(&server, story).await;
}

/// Tells, when it wakes its task, whether the queue can be used then.
struct Looks {
    session: Arc<OpenSession>,
    is_free: std::sync::mpsc::Sender<bool>,
}

impl std::task::Wake for Looks {
    fn wake(self: Arc<Self>) {
        let (session, (asked, answered)) = (self.session.clone(), std::sync::mpsc::channel());
        std::thread::spawn(move || {
            session.lanes.keepers.batcher.retract(ClaimId { session: session.id, number: 0 });
            asked.send(())
        });
        let is_free = answered.recv_timeout(std::time::Duration::from_secs(2)).is_ok();
        self.is_free.send(is_free).unwrap();
    }
}

/// A waker may run anything, also what asks for another lock. No server is needed here: none answers.
#[tokio::test]
async fn whose_join_is_void_is_told_without_the_lock_of_the_queue() {
    let server = Server::at("mysql://root@127.0.0.1:1/nowhere", None);
    let client = server.client(SessionId::from_bits(1), TTL, "void");
    let name = Name::new("stock").unwrap();
    let joining = |number| {
        let id = ClaimId { session: client.id, number };
        let claim = Claim::new(id, name.clone(), Kind::Mutex, Weight::ONE, Weight::ONE);
        client.gather(&name, Action::Join { claim, patience: Patience::Wait, in_rows: false })
    };
    let (first, mut second) = (joining(1), Box::pin(joining(2)));
    let (told, is_free) = std::sync::mpsc::channel();
    let waker = Arc::new(Looks { session: client.clone(), is_free: told }).into();
    let mut context = std::task::Context::from_waker(&waker);
    assert!(second.as_mut().poll(&mut context).is_pending());
    client.own_claims.make_void(2, Moment::NEVER);
    first.await.unwrap_err();
    let told = tokio::task::spawn_blocking(move || is_free.recv().unwrap());
    assert!(told.await.unwrap(), "it was woken under the lock");
    let outcome = second.await;
    assert!(matches!(outcome, Ok(Outcome::Joined(Place::Gone))), "{outcome:?}");
}
