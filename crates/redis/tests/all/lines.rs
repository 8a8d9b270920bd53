//! What a line leaves in the server, and for how long; repeated joins; and crowds.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::Value;
use tidelock_redis::backend::{Claim, Leave, Patience, Place, Shard};
use tidelock_redis::{ClaimId, ErrorKind, Kind, Name, Options, Store, Weight};
use tokio::task::JoinSet;

use crate::site;
use crate::site::alone::Alone;
use crate::site::wires::Wires;
use crate::site::{Caller, Told, name, until, url, weight};

const HOUR: Duration = Duration::from_secs(60 * 60);

async fn caller(id: u64, ttl: Duration) -> Caller {
    Caller::open(&Store::open(&url()).unwrap(), id, &Options::new().ttl(ttl)).await
}

fn permits(id: ClaimId, name: &Name, weight: Weight) -> Claim {
    Claim::new(id, name.clone(), Kind::Semaphore, weight, site::weight(5))
}

async fn join(caller: &Caller, claim: &Claim) -> Place {
    caller.session.join(claim, Patience::Wait).await.unwrap()
}

/// How long the server keeps each of its keys.
fn lifetimes(alone: &mut Alone) -> Vec<(String, Option<Duration>)> {
    let keys: Vec<String> = alone.contents().into_iter().map(|(key, _)| key).collect();
    let lifetime = |key: String| {
        let Value::Int(millis) = alone.ask(&format!("PTTL {key}")) else { panic!() };
        (key, u64::try_from(millis).ok().map(Duration::from_millis))
    };
    keys.into_iter().map(lifetime).collect()
}

#[track_caller]
fn assert_kept_for(alone: &mut Alone, least: Duration, keys: usize, after: &str) {
    let lifetimes = lifetimes(alone);
    assert_eq!(lifetimes.len(), keys, "{lifetimes:?} after {after}");
    let is_kept = |(_, lifetime): &(String, Option<Duration>)| lifetime.is_some_and(|time| time > least);
    assert!(lifetimes.iter().all(is_kept), "{lifetimes:?} after {after}");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn connecting_leaves_nothing_behind() {
    let mut alone = Alone::new().await;
    let caller = caller(1, HOUR).await;
    assert_eq!(alone.contents(), [], "the check deletes its keys");
    caller.session.close().await.unwrap();
    alone.ask("ACL SETUSER app on >secret ~* &* +@all -hget");
    let store = Store::open(&site::url_of("app", "secret")).unwrap();
    assert!(Caller::try_open(&store, 1, &Options::new()).await.is_err());
    assert_eq!(alone.contents(), [], "after a refusal too");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_join_that_is_sent_again_may_be_granted_by_itself() {
    let _alone = Alone::new().await;
    let stock = name("stock");
    for (i, kind) in [Kind::Mutex, Kind::Semaphore].into_iter().enumerate() {
        let number = i as u64 + 1;
        let (dies, waits) = (caller(1, Duration::from_millis(60)).await, caller(2, HOUR).await);
        let claim = |id| Claim::new(id, stock.clone(), kind, Weight::ONE, Weight::ONE);
        let Place::Held { grant: before, .. } = join(&dies, &claim(dies.claim(number))).await else {
            panic!()
        };
        let waiting = claim(waits.claim(number));
        assert!(matches!(join(&waits, &waiting).await, Place::Waiting { .. }));

        // No other script meets the dead holder: the join itself removes it, and grants.
        let again = async || match join(&waits, &waiting).await {
            Place::Held { grant, .. } => Some(grant),
            Place::Waiting { .. } => None,
            place => panic!("{place:?}"),
        };
        let grant = site::until("it is granted", again).await;
        assert!(grant.token > before.token);
        assert_eq!(again().await, Some(grant), "and stays so");
        let line = waits.session.line(&stock).await.unwrap();
        assert_eq!(line.claims.len(), 1, "{line:?}");
        assert_eq!((line.claims[0].id, line.claims[0].token), (waiting.id, Some(grant.token)));
        let standing = [(stock.clone(), vec![waiting.id])];
        let renewal = waits.session.renew(Shard(0), &standing).await.unwrap();
        assert_eq!((renewal.gone, renewal.unsure, renewal.strays), (vec![], vec![], vec![]));
        waits.session.leave(&stock, waiting.id, Leave::Done).await.unwrap();
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn keys_outlive_the_claim_that_lives_longest_whatever_the_others_do() {
    let mut alone = Alone::new().await;
    let stock = name("stock");
    let (long, short) = (caller(1, HOUR * 3).await, caller(2, Duration::from_secs(60)).await);
    let (held, line, least) = (1, 3, HOUR * 3);
    join(&long, &permits(long.claim(1), &stock, weight(3))).await;
    assert_kept_for(&mut alone, least, held, "a long one's join");
    join(&short, &permits(short.claim(1), &stock, weight(1))).await;
    assert_kept_for(&mut alone, least, held, "a short one's join");
    join(&long, &permits(long.claim(2), &stock, weight(5))).await;
    assert_kept_for(&mut alone, least, line, "a long one's wait");
    join(&short, &permits(short.claim(2), &stock, weight(2))).await;
    assert_kept_for(&mut alone, least, line, "a short one's wait");
    let standing = [(stock.clone(), vec![short.claim(1), short.claim(2)])];
    short.session.renew(Shard(0), &standing).await.unwrap();
    assert_kept_for(&mut alone, least, line, "a short one's renewal");
    short.session.look(&stock, &[short.claim(2)]).await.unwrap();
    assert_kept_for(&mut alone, least, line, "a short one's look");
    short.session.leave(&stock, short.claim(2), Leave::Done).await.unwrap();
    assert_kept_for(&mut alone, least, line, "a short one's leave from the line");
    short.session.leave(&stock, short.claim(1), Leave::Done).await.unwrap();
    assert_kept_for(&mut alone, least, line, "a short one's release");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn keys_of_a_mutex_outlive_the_claim_that_lives_longest() {
    let mut alone = Alone::new().await;
    let stock = name("stock");
    let (long, short) = (caller(1, HOUR * 3).await, caller(2, Duration::from_secs(60)).await);
    join(&short, &short.mutex(&stock, 1)).await;
    join(&long, &long.mutex(&stock, 1)).await;
    assert_kept_for(&mut alone, HOUR * 3, 3, "a long one's wait");
    join(&short, &short.mutex(&stock, 2)).await;
    assert_kept_for(&mut alone, HOUR * 3, 3, "a short one's wait behind it");
    short.session.leave(&stock, short.claim(1), Leave::Done).await.unwrap();
    assert_kept_for(&mut alone, HOUR * 3, 3, "the hand-off");
    short.session.renew(Shard(0), &[(stock.clone(), vec![short.claim(2)])]).await.unwrap();
    assert_kept_for(&mut alone, HOUR * 3, 3, "a short one's renewal");
    short.session.leave(&stock, short.claim(2), Leave::Void).await.unwrap();
    let kept = lifetimes(&mut alone);
    let held = kept.iter().find(|(key, _)| key.ends_with(":held")).unwrap();
    assert!(held.1.is_some_and(|time| time > HOUR * 3), "{kept:?} after a void leave");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_key_that_is_made_anew_expires_as_well() {
    let mut alone = Alone::new().await;
    let seats = name("seats");
    let (holds, waits) = (caller(1, HOUR).await, caller(2, HOUR).await);
    join(&holds, &permits(holds.claim(1), &seats, weight(5))).await;
    let claim = permits(waits.claim(1), &seats, weight(2));
    join(&waits, &claim).await;
    for (what, look) in [("a join", false), ("a look", true)] {
        alone.ask("DEL tidelock:{seats}:wait"); // as an eviction would
        if look {
            waits.session.look(&seats, &[claim.id]).await.unwrap();
        } else {
            join(&waits, &claim).await;
        }
        let kept = lifetimes(&mut alone);
        assert!(kept.iter().all(|(_, lifetime)| lifetime.is_some()), "{kept:?} after {what}");
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn so_does_the_line_of_a_mutex() {
    let mut alone = Alone::new().await;
    let stock = name("stock");
    let (holds, waits) = (caller(1, HOUR / 60).await, caller(2, HOUR / 60).await);
    join(&holds, &holds.mutex(&stock, 1)).await;
    for number in 1..=12 {
        join(&waits, &waits.mutex(&stock, number)).await; // more than there is room for in `one`
    }
    alone.ask("DEL tidelock:{stock}:line"); // as an eviction would
    join(&waits, &waits.mutex(&stock, 13)).await;
    let kept = lifetimes(&mut alone);
    assert!(kept.iter().all(|(_, lifetime)| lifetime.is_some()), "{kept:?}");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn whose_weight_was_evicted_is_dead_and_holds_nothing_of_another_weight() {
    let mut alone = Alone::new().await;
    let seats = name("seats");
    let (holds, waits) = (caller(1, HOUR).await, caller(2, HOUR).await);
    join(&holds, &permits(holds.claim(1), &seats, weight(5))).await;
    join(&waits, &permits(waits.claim(1), &seats, weight(4))).await;
    alone.ask("DEL tidelock:{seats}:wait"); // as an eviction would
    join(&waits, &permits(waits.claim(2), &seats, weight(2))).await; // its session's lifetime is known again
    holds.session.leave(&seats, holds.claim(1), Leave::Done).await.unwrap();
    waits.heard.grant(waits.claim(2)).await;
    let line = waits.session.line(&seats).await.unwrap();
    let shown: Vec<_> = line.claims.iter().map(|claim| (claim.id, claim.weight)).collect();
    assert_eq!(shown, [(waits.claim(2), weight(2))]);
    let sight = waits.session.look(&seats, &[waits.claim(1)]).await.unwrap();
    assert_eq!(sight.gone, [waits.claim(1)]);
}

/// Makes the keys look as if this name had not been used for more than an hour.
fn age(alone: &mut Alone, keys: &[&str]) {
    let Value::BulkString(one) = alone.ask("HGET tidelock:{stock}:held one") else { panic!() };
    let mut server = redis::Client::open(url()).unwrap().get_connection().unwrap();
    let aged = [&one[..16], b"1000000000", &one[26..]].concat();
    redis::cmd("HSET").arg("tidelock:{stock}:held").arg("one").arg(aged).exec(&mut server).unwrap();
    for key in keys {
        alone.ask(&format!("PEXPIRE tidelock:{{stock}}:{key} 60000"));
    }
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_that_comes_after_an_hour_puts_the_expiry_off() {
    let mut alone = Alone::new().await;
    let stock = name("stock");
    let ttl = Duration::from_secs(60);
    let (holds, waits) = (caller(1, ttl).await, caller(2, ttl).await);
    join(&holds, &holds.mutex(&stock, 1)).await;
    holds.session.leave(&stock, holds.claim(1), Leave::Done).await.unwrap();
    age(&mut alone, &["held"]);
    join(&holds, &holds.mutex(&stock, 2)).await;
    assert_kept_for(&mut alone, HOUR, 1, "a join of an idle name");
    age(&mut alone, &["held"]);
    let standing = [(stock.clone(), vec![holds.claim(2)])];
    holds.session.renew(Shard(0), &standing).await.unwrap();
    assert_kept_for(&mut alone, HOUR, 1, "a renewal");
    for number in 1..=30 {
        join(&waits, &waits.mutex(&stock, number)).await; // more than there is room for in `one`
    }
    let all = ["held", "line", "wait"];
    age(&mut alone, &all);
    join(&waits, &waits.mutex(&stock, 31)).await;
    assert_kept_for(&mut alone, HOUR, 3, "a join that waits");
    age(&mut alone, &all);
    holds.session.renew(Shard(0), &standing).await.unwrap();
    assert_kept_for(&mut alone, HOUR, 3, "the renewal of a holder with waiters behind it");
    age(&mut alone, &all);
    waits.session.renew(Shard(0), &[(stock.clone(), vec![waits.claim(1)])]).await.unwrap();
    assert_kept_for(&mut alone, HOUR, 3, "the renewal of a waiter");
}

/// Readers behind a writer, from two clients in turn.
async fn readers_behind_a_writer(writer: &Caller, readers: [&Caller; 2], count: u64) -> Name {
    let page = name("page");
    let claim = |caller: &Caller, number, weight| {
        Claim::new(caller.claim(number), page.clone(), Kind::RwLock, weight, Weight::MAX)
    };
    join(writer, &claim(writer, 1, Weight::MAX)).await;
    let reader = |number: u64| readers[usize::from(number % 2 == 1)];
    for from in (0..count).step_by(500) {
        let some = (from..count.min(from + 500)).map(|number| async move {
            let caller = reader(number);
            let claim =
                Claim::new(caller.claim(number), name("page"), Kind::RwLock, Weight::ONE, Weight::MAX);
            join(caller, &claim).await
        });
        let mut some: Vec<_> = some.map(Box::pin).collect();
        for place in &mut some {
            place.await;
        }
    }
    page
}

/// How many hold.
async fn held(caller: &Caller, name: &Name) -> usize {
    let line = caller.session.line(name).await.unwrap();
    line.claims.iter().filter(|claim| claim.token.is_some()).count()
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_crowd_is_granted_in_parts_whichever_of_it_dies() {
    let _alone = Alone::new().await;
    let (writer, some, others) = (caller(1, HOUR).await, caller(2, HOUR).await, caller(3, HOUR).await);
    let page = readers_behind_a_writer(&writer, [&some, &others], 3_500).await;
    writer.session.leave(&page, writer.claim(1), Leave::Done).await.unwrap();
    drop(writer);
    assert_eq!(held(&some, &page).await, 1_000, "one script does no more");
    some.heard.up_to(|told| *told == Told::Look).await; // the next waiter has an even number

    // No newcomer passes those that are not granted yet.
    let newcomer = Claim::new(others.claim(4_001), page.clone(), Kind::RwLock, Weight::ONE, Weight::MAX);
    assert_eq!(others.session.join(&newcomer, Patience::Now).await.unwrap(), Place::Refused);
    // That join granted the next 1 000. So does a look, also from a client that was not told to look.
    assert_eq!(held(&some, &page).await, 2_000);
    let sight = others.session.look(&page, &[others.claim(3_499)]).await.unwrap();
    assert!(sight.look_in < Duration::from_millis(10), "{sight:?}");
    assert_eq!((held(&some, &page).await, sight.held, sight.gone), (3_000, vec![], vec![]));
    others.session.look(&page, &[others.claim(3_499)]).await.unwrap();
    let line = some.session.line(&page).await.unwrap();
    let order: Vec<_> =
        line.claims.iter().filter_map(|claim| Some((claim.token?, claim.id.number))).collect();
    let numbers: Vec<_> = order.iter().map(|(_, number)| *number).collect();
    assert!(numbers.iter().copied().eq(0..3_500), "in the order in which they came: {numbers:?}");
    assert!(order.is_sorted(), "and so are their tokens");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_crowd_of_readers_delays_nobody_for_long() {
    let mut alone = Alone::new().await;
    let locks = async || Store::open(&url()).unwrap().connect(Options::new()).await.unwrap();
    let (writes, reads) = (locks().await, locks().await);
    let writer = writes.rwlock("page").unwrap().write().await.unwrap();
    let lock = reads.rwlock("page").unwrap();
    let mut crowd = JoinSet::new();
    for _ in 0..5_000 {
        let lock = lock.clone();
        crowd.spawn(async move { lock.read().await.unwrap() });
    }
    let stand = async || (writes.inspect("page").await.unwrap().claims.len() == 5_001).then_some(());
    site::until("all of them wait", stand).await;
    alone.ask("CONFIG SET slowlog-log-slower-than 100000");
    alone.ask("SLOWLOG RESET");
    let start = std::time::Instant::now();
    writer.release().await.unwrap().confirmed().unwrap();
    let guards = crowd.join_all().await;
    println!("{} readers were granted in {:?}", guards.len(), start.elapsed());
    let Value::Int(slow) = alone.ask("SLOWLOG LEN") else { panic!() };
    assert_eq!(slow, 0, "a script took longer than 0.1 s: {:?}", alone.ask("SLOWLOG GET 3"));
    alone.ask("CONFIG SET slowlog-log-slower-than 10000");
    drop(guards);
    reads.close().await.unwrap();
    writes.close().await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn strays_are_found_in_a_crowd_without_a_walk() {
    let _alone = Alone::new().await;
    let (writer, some, others) = (caller(1, HOUR).await, caller(2, HOUR).await, caller(3, HOUR).await);
    let page = readers_behind_a_writer(&writer, [&some, &others], 900).await;
    writer.session.leave(&page, writer.claim(1), Leave::Done).await.unwrap();
    let read =
        |number| Claim::new(writer.claim(number), page.clone(), Kind::RwLock, Weight::ONE, Weight::MAX);
    let renew = async || {
        let renewal = writer.session.renew(Shard(0), &[(page.clone(), vec![writer.claim(2)])]).await.unwrap();
        assert_eq!((renewal.gone, renewal.unsure), (vec![], vec![]));
        renewal.strays.into_iter().map(|(_, id)| id.number).collect::<BTreeSet<_>>()
    };
    join(&writer, &read(2)).await;
    for number in 1_000..3_500 {
        join(
            &others,
            &Claim::new(others.claim(number), page.clone(), Kind::RwLock, Weight::ONE, Weight::MAX),
        )
        .await;
    }
    assert_eq!(renew().await, BTreeSet::new());

    // The server has forgotten some leaves. One stray is found at once, and so are several from about the same time.
    join(&writer, &read(70_000)).await;
    assert_eq!(renew().await, BTreeSet::from([70_000]));
    writer.session.leave(&page, writer.claim(70_000), Leave::Void).await.unwrap();
    let close: BTreeSet<u64> = (500..600).collect();
    for number in &close {
        join(&writer, &read(*number)).await;
    }
    assert_eq!(renew().await, close);

    // Strays from other times are found over several renewals.
    let mut strays: BTreeSet<u64> = close.into_iter().chain([9_000_000, 3, 77_000]).collect();
    for number in [9_000_000, 3, 77_000] {
        join(&writer, &read(number)).await;
    }
    let mut rounds = 0;
    while !strays.is_empty() {
        for number in renew().await {
            assert!(strays.remove(&number), "{number}");
            writer.session.leave(&page, writer.claim(number), Leave::Void).await.unwrap();
        }
        rounds += 1;
        assert!(rounds < 300, "{strays:?} were not found");
    }
    assert_eq!(renew().await, BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_crowd_that_waits_is_renewed_in_pieces() {
    const CROWD: u64 = 5_000;
    let mut alone = Alone::new().await;
    let (holder, crowd) = (caller(1, HOUR).await, Arc::new(caller(2, HOUR).await));
    let line = name("crowded");
    join(&holder, &holder.mutex(&line, 1)).await;
    let mut joining = JoinSet::new();
    for number in 1..=CROWD {
        let (crowd, claim) = (crowd.clone(), crowd.mutex(&line, number));
        joining.spawn(async move { crowd.session.join(&claim, Patience::Wait).await.unwrap() });
    }
    joining.join_all().await;
    let evicted = crowd.claim(CROWD / 2);
    holder.session.leave(&line, evicted, Leave::Done).await.unwrap();
    let all: Vec<ClaimId> = (1..=CROWD).map(|number| crowd.claim(number)).collect();
    alone.ask("CONFIG RESETSTAT");
    let renewal = crowd.session.renew(crowd.session.shard(&line), &[(line, all)]).await.unwrap();
    assert_eq!((renewal.gone, renewal.unsure, renewal.strays), (vec![evicted], vec![], vec![]));
    let stats: String = redis::from_redis_value(alone.ask("INFO commandstats")).unwrap();
    let calls = |command: &str| -> u64 {
        let line =
            stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls="))).unwrap();
        line.split(',').next().unwrap().parse().unwrap()
    };
    assert!(calls("zscore") <= calls("evalsha") * 1_000, "one script looks for too many: {stats}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_crowd_is_renewed_in_pieces_while_hands_change_too() {
    const CROWD: u64 = 5_000;
    let mut alone = Alone::new().await;
    let crowd = Arc::new(caller(2, HOUR).await);
    let line = name("crowded");
    let mut joining = JoinSet::new();
    for number in 1..=CROWD {
        let (crowd, claim) = (crowd.clone(), crowd.mutex(&line, number));
        joining.spawn(async move { crowd.session.join(&claim, Patience::Wait).await.unwrap() });
    }
    joining.join_all().await;
    let all: Vec<ClaimId> = (1..=CROWD).map(|number| crowd.claim(number)).collect();
    alone.ask("CONFIG SET slowlog-max-len 10000");
    alone.ask("CONFIG SET slowlog-log-slower-than 0");
    alone.ask("SLOWLOG RESET");
    let standing = [(line.clone(), all)];
    let mut renewing = crowd.session.renew(crowd.session.shard(&line), &standing);
    let mut turn = 0;
    let renewal = loop {
        let held = crowd.session.line(&line).await.unwrap().claims[0].id;
        turn += 1;
        tokio::select! {
            biased;
            renewal = &mut renewing => break renewal.unwrap(),
            left = crowd.session.leave(&line, held, Leave::Done) => drop(left.unwrap()),
        }
    };
    assert!(renewal.unsure.is_empty() && renewal.strays.is_empty(), "{renewal:?}");
    let longest = longest_command(&mut alone);
    alone.ask("CONFIG SET slowlog-log-slower-than 10000");
    alone.ask("CONFIG SET slowlog-max-len 128");
    assert!(longest <= 1_100 && turn > 1, "one script has {longest} words, in {turn} turns");
}

/// The number of words in the longest command in the server's slow log.
fn longest_command(alone: &mut Alone) -> usize {
    let Value::Array(log) = alone.ask("SLOWLOG GET 10000") else { panic!() };
    let words = log.iter().map(|entry| {
        let Value::Array(entry) = entry else { panic!() };
        let Value::Array(words) = &entry[3] else { panic!() };
        let Some(Value::BulkString(last)) = words.last() else { panic!() };
        let more = std::str::from_utf8(last).ok().and_then(|last| last.strip_prefix("... (")); // so many are left out
        words.len() + more.and_then(|more| more.split(' ').next()?.parse::<usize>().ok()).unwrap_or(0)
    });
    words.max().unwrap_or(0)
}

/// Lets the claims with these numbers read there.
async fn crowd_of_readers(caller: &Arc<Caller>, page: &Name, numbers: std::ops::Range<u64>) {
    let mut joining = JoinSet::new();
    for number in numbers {
        let claim = Claim::new(caller.claim(number), page.clone(), Kind::RwLock, Weight::ONE, Weight::MAX);
        let caller = caller.clone();
        joining.spawn(async move { caller.session.join(&claim, Patience::Wait).await.unwrap() });
    }
    joining.join_all().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn crowds_are_looked_for_in_one_round_trip() {
    const ROUND_TRIP: Duration = Duration::from_millis(160);
    let _alone = Alone::new().await;
    let wires = Wires::default();
    let caller = Arc::new(Caller::open(&wires.store(&url()), 2, &Options::new().ttl(HOUR)).await);
    let mut standing = Vec::new();
    for number in 0..6 {
        let page = name(&format!("page {number}"));
        let (first, last) = (number * 10_000, number * 10_000 + 1_500);
        crowd_of_readers(&caller, &page, first..last).await;
        let writer = Claim::new(caller.claim(last), page.clone(), Kind::RwLock, Weight::MAX, Weight::MAX);
        join(&caller, &writer).await; // so the count of holders alone cannot confirm them all
        standing.push((page, (first..=last).map(|number| caller.claim(number)).collect::<Vec<_>>()));
    }
    let renew = async || caller.session.renew(Shard(0), &standing).await.unwrap();
    renew().await; // and the server knows the scripts
    wires.lag(ROUND_TRIP);
    let began = Instant::now();
    let renewal = renew().await;
    let took = began.elapsed();
    assert_eq!((renewal.gone, renewal.unsure), (vec![], vec![]));
    assert!(took < ROUND_TRIP * 4, "six crowds behind {ROUND_TRIP:?} took {took:?}");
}

/// One client's crowds on several names, with a writer of its own behind each. Also opens the same client again, over
/// connections that can be made slow, and with a ttl that gives renewals 2 s.
async fn crowds_behind(wires: &Wires, sizes: &[u64]) -> (Caller, Vec<(Name, Vec<ClaimId>)>) {
    let joins = Arc::new(caller(2, HOUR).await);
    let (mut standing, mut first) = (Vec::new(), 1);
    for size in sizes {
        let page = name(&format!("page {first}"));
        let last = first + size;
        crowd_of_readers(&joins, &page, first..last).await;
        let writer = Claim::new(joins.claim(last), page.clone(), Kind::RwLock, Weight::MAX, Weight::MAX);
        join(&joins, &writer).await; // so the count of holders alone cannot confirm them all
        standing.push((page, (first..=last).map(|number| joins.claim(number)).collect::<Vec<_>>()));
        first = last + 1;
    }
    let ttl = Duration::from_secs(6);
    let renews = Caller::open(&wires.store(&url()), 2, &Options::new().ttl(ttl)).await;
    let renewal = renews.session.renew(Shard(0), &standing).await.unwrap(); // and the server knows the scripts
    assert_eq!((renewal.gone, renewal.unsure), (vec![], vec![]));
    (renews, standing)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn crowds_are_renewed_by_a_narrow_way_too() {
    let _alone = Alone::new().await;
    let wires = Wires::default();
    let (renews, standing) = crowds_behind(&wires, &[7_500, 900]).await;
    let made = wires.made();
    wires.narrow(85_000);
    let began = Instant::now();
    let renewal = renews.session.renew(Shard(0), &standing).await.unwrap();
    assert_eq!((renewal.gone.len(), renewal.unsure.len()), (0, 0), "after {:?}", began.elapsed());
    assert_eq!(wires.made(), made, "a connection that was busy was given up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn what_a_renewal_has_no_time_for_comes_first_in_the_next() {
    let _alone = Alone::new().await;
    let wires = Wires::default();
    let (renews, standing) = crowds_behind(&wires, &[6_000, 4_000]).await;
    wires.narrow(40_000);
    let mut never: BTreeSet<ClaimId> = standing.iter().flat_map(|(_, claims)| claims).copied().collect();
    let mut rounds = 0;
    while !never.is_empty() {
        let began = Instant::now();
        let renewal = renews.session.renew(Shard(0), &standing).await.unwrap();
        let took = began.elapsed();
        assert!(took < Duration::from_secs(2), "the renewal took {took:?}, so core discards its results");
        let unsure: BTreeSet<ClaimId> = renewal.unsure.into_iter().collect();
        never.retain(|id| unsure.contains(id));
        rounds += 1;
        assert!(rounds < 6 && renewal.gone.is_empty(), "{} were never renewed", never.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn strays_besides_a_crowd_of_ones_own_are_found_by_and_by() {
    let _alone = Alone::new().await;
    let caller = Arc::new(caller(2, HOUR).await);
    let page = name("page");
    crowd_of_readers(&caller, &page, 1..1_503).await;
    let ours: Vec<ClaimId> = (2..1_502).map(|number| caller.claim(number)).collect();
    let (mut strays, mut rounds) = (BTreeSet::from([1, 1_502]), 0);
    while !strays.is_empty() {
        let renewal = caller.session.renew(Shard(0), &[(page.clone(), ours.clone())]).await.unwrap();
        for (_, stray) in renewal.strays {
            assert!(strays.remove(&stray.number), "{stray}");
            caller.session.leave(&page, stray, Leave::Void).await.unwrap();
        }
        rounds += 1;
        assert!(rounds < 100, "{strays:?} were not found");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_crowd_that_the_server_forgot_is_not_renewed_when_it_cannot_be_looked_for() {
    const CROWD: u64 = 3_000;
    let mut alone = Alone::new().await;
    let wires = Wires::default();
    let crowd = Arc::new(Caller::open(&wires.store(&url()), 2, &Options::new().ttl(HOUR)).await);
    let page = name("page");
    let read = |number| Claim::new(crowd.claim(number), page.clone(), Kind::RwLock, Weight::ONE, Weight::MAX);
    let mut joining = JoinSet::new();
    for number in 1..=CROWD {
        let (crowd, claim) = (crowd.clone(), read(number));
        joining.spawn(async move { crowd.session.join(&claim, Patience::Wait).await.unwrap() });
    }
    joining.join_all().await;
    let all: Vec<ClaimId> = (1..=CROWD).map(|number| crowd.claim(number)).collect();
    let shard = crowd.session.shard(&page);
    let renewal = crowd.session.renew(shard, &[(page.clone(), all.clone())]).await.unwrap();
    assert!(renewal.gone.is_empty() && renewal.unsure.is_empty(), "{renewal:?}"); // and it knows the script
    alone.ask("FLUSHALL");
    wires.cut_at_requests_longer_than(2_000);
    let renewal = crowd.session.renew(shard, &[(page, all.clone())]).await.unwrap();
    let known: BTreeSet<_> = renewal.gone.iter().chain(&renewal.unsure).collect();
    assert_eq!(all.iter().filter(|id| !known.contains(id)).count(), 0, "these are believed to be held");
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_dead_waiter_keeps_no_semaphore_from_being_made_smaller() {
    let _alone = Alone::new().await;
    let seats = name("seats");
    let (lives, dies) = (caller(1, HOUR).await, caller(2, Duration::from_millis(300)).await);
    join(&lives, &permits(lives.claim(1), &seats, weight(5))).await;
    join(&lives, &permits(lives.claim(2), &seats, weight(1))).await;
    join(&dies, &permits(dies.claim(1), &seats, weight(5))).await;
    let resize = async || lives.session.resize(&seats, weight(5), weight(4)).await;
    assert_eq!(resize().await.unwrap_err().kind(), ErrorKind::InvalidPermits, "it would wait for ever");
    let began = Instant::now();
    site::until("it is smaller", async || resize().await.ok()).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());

    // The dead claim does not come alive at a place where it would block everyone.
    let sight = dies.session.look(&seats, &[dies.claim(1)]).await.unwrap();
    assert_eq!(sight.gone, [dies.claim(1)]);
    lives.session.leave(&seats, lives.claim(1), Leave::Done).await.unwrap();
    lives.heard.grant(lives.claim(2)).await;
}

/// As after a failover, when the new master has not received their leaves.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn claims_that_have_left_and_stand_there_all_the_same_delay_nobody_for_long() {
    let _alone = Alone::new().await;
    let store = Store::open(&url()).unwrap();
    let options = Options::new().ttl(Duration::from_secs(15));
    let locks = store.connect(options.clone()).await.unwrap();
    let (stock, holder) = (name("stock"), caller(1, Duration::from_secs(15)).await);
    join(&holder, &holder.mutex(&stock, 1)).await;
    let client = locks.mutex("another").unwrap().lock().await.unwrap().claim().session;
    let twin = Caller::open(&store, client.get(), &options).await;
    for number in 1_001..=1_020 {
        join(&twin, &twin.mutex(&stock, number)).await;
    }
    let mutex = locks.mutex("stock").unwrap();
    let waits = tokio::spawn(async move { mutex.lock().await });
    until("it stands in line", async || {
        (locks.inspect("stock").await.unwrap().claims.len() == 22).then_some(())
    })
    .await;
    holder.session.leave(&stock, holder.claim(1), Leave::Done).await.unwrap();
    let guard =
        tokio::time::timeout(Duration::from_secs(5), waits).await.expect("one at a time would take a minute");
    guard.unwrap().unwrap().release().await.unwrap().confirmed().unwrap();
    locks.close().await.unwrap();
}

/// As above, with 300 of them, which every renewal keeps alive: docs/guide/redis.md promises a ttl at most.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn claims_that_have_left_and_stand_there_delay_nobody_for_longer_than_a_ttl() {
    const TTL: Duration = Duration::from_secs(15);
    let _alone = Alone::new().await;
    let store = Store::open(&url()).unwrap();
    let options = Options::new().ttl(TTL);
    let locks = store.connect(options.clone()).await.unwrap();
    let (stock, holder) = (name("stock"), caller(1, TTL).await);
    join(&holder, &holder.mutex(&stock, 1)).await;
    let client = locks.mutex("another").unwrap().lock().await.unwrap().claim().session;
    let twin = Caller::open(&store, client.get(), &options).await;
    for number in 1_001..=1_300 {
        join(&twin, &twin.mutex(&stock, number)).await;
    }
    let mutex = locks.mutex("stock").unwrap();
    let waits = tokio::spawn(async move { mutex.lock().await });
    until("it stands in line", async || {
        (locks.inspect("stock").await.unwrap().claims.len() == 302).then_some(())
    })
    .await;
    holder.session.leave(&stock, holder.claim(1), Leave::Done).await.unwrap();
    let began = Instant::now();
    let guard = tokio::time::timeout(TTL * 4, waits).await.expect("four ttls");
    println!("the line stood still for {:?}", began.elapsed());
    assert!(began.elapsed() < TTL + TTL / 10, "{:?}", began.elapsed());
    guard.unwrap().unwrap().release().await.unwrap().confirmed().unwrap();
    locks.close().await.unwrap();
}

/// As after a failover: the new master has not received a leave, and grants the claim. For how long does its line stand
/// still, if the client is `away` (connects to the new master a moment later), so that nobody hears the message?
async fn stands_still_behind_a_claim_that_has_left(away: bool) -> Duration {
    const TTL: Duration = Duration::from_secs(9);
    let _alone = Alone::new().await;
    let (wires, options) = (Wires::default(), Options::new().ttl(TTL));
    let locks = wires.store(&url()).connect(options.clone()).await.unwrap();
    let others = Store::open(&url()).unwrap().connect(options.clone()).await.unwrap();
    let (stock, holder) = (name("stock"), caller(1, HOUR).await);
    join(&holder, &holder.mutex(&stock, 1)).await;
    let kept = locks.mutex("another").unwrap().lock().await.unwrap();
    assert!(locks.mutex("stock").unwrap().lock_within(Duration::from_millis(50)).await.unwrap().is_none());
    let standing = async |count| (others.inspect("stock").await.unwrap().claims.len() == count).then_some(());
    until("it has left", async || standing(1).await).await;
    let twin = Caller::open(&Store::open(&url()).unwrap(), kept.claim().session.get(), &options).await;
    join(&twin, &twin.mutex(&stock, kept.claim().number + 1)).await;
    let mutex = others.mutex("stock").unwrap();
    let waits = tokio::spawn(async move { mutex.lock().await });
    until("another client waits behind it", async || standing(3).await).await;
    let address = url().trim_start_matches("redis://").trim_end_matches('/').to_owned();
    if away {
        wires.kill(&address);
    }
    holder.session.leave(&stock, holder.claim(1), Leave::Done).await.unwrap();
    let began = Instant::now();
    tokio::time::sleep(Duration::from_millis(100)).await;
    wires.revive(&address);
    let guard = tokio::time::timeout(TTL * 4, waits).await.expect("four ttls").unwrap().unwrap();
    let stood_still = began.elapsed();
    assert_eq!(kept.state(), tidelock_redis::State::Held);
    println!("away: {away}; the line stood still for {stood_still:?} of a ttl of {TTL:?}");
    guard.release().await.unwrap().confirmed().unwrap();
    stood_still
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_that_has_left_and_is_granted_delays_its_line_for_a_moment() {
    let stood_still = stands_still_behind_a_claim_that_has_left(false).await;
    assert!(stood_still < Duration::from_secs(1), "{stood_still:?}");
}

/// Promise 8, messages are only hints: the renewal that follows the new connection asks about the line.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_that_has_left_and_is_granted_while_its_client_is_away_delays_its_line_for_a_third_of_the_ttl()
 {
    let stood_still = stands_still_behind_a_claim_that_has_left(true).await;
    assert!(stood_still < Duration::from_secs(4), "{stood_still:?}");
}
