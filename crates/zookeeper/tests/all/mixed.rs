//! One name used as two kinds or in two sizes at once, on a server: a client that is cut off before it could step back
//! lets no other client in wrongly, and guards that overlap are told the same size and fit it.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidelock_zookeeper::backend::{Claim, Grant, Leave, Patience, Place};
use tidelock_zookeeper::{ClaimId, ErrorKind, Kind, Name, Options, Weight};
use zookeeper_client::{Acls, Client, CreateMode};

use crate::site;
use crate::site::{is_held, join, name, namespace, options, plain, store, weight};
use tidelock_conformance::callers::Caller;

/// How long the test checks that no claim is held wrongly.
const A_WHILE: Duration = Duration::from_millis(400);

/// A claim whose client was cut off as soon as it stood in line. It ends with its session.
async fn stray(options: &Options, line: &str, node: &str) -> Client {
    let client = plain().await;
    let mode = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    client.create(&format!("/{}/{line}/{node}", options.namespace), b"", &mode).await.unwrap();
    client
}

/// The grant of this claim, by a look or by what its client was told.
async fn seen(caller: &Caller, line: &Name, id: ClaimId) -> Option<Grant> {
    let sight = caller.session.look(line, &[id]).await.unwrap();
    sight.held.first().map(|(_, grant)| *grant).or(caller.heard.held(id))
}

/// Two claims wait for a mutex behind a holder and a stray: neither gets it until the stray is gone, and then one does.
async fn nobody_passes(what: &str, node: &str) {
    let options = options(what);
    let mut callers = Vec::new();
    for id in 1..=3 {
        callers.push(Caller::open(&store(), id, &options).await);
    }
    let line = name("n");
    assert!(is_held(join(&callers[0], &callers[0].mutex(&line, 1)).await));
    let stray = stray(&options, "n", node).await;
    for caller in &callers[1..] {
        assert!(!is_held(join(caller, &caller.mutex(&line, 1)).await));
    }
    callers[0].session.leave(&line, callers[0].claim(1), Leave::Done).await.unwrap();
    let start = Instant::now();
    while start.elapsed() < A_WHILE {
        for caller in &callers[1..] {
            let held = seen(caller, &line, caller.claim(1)).await;
            assert_eq!(held, None, "{} behind {node}", caller.id);
        }
    }
    drop(stray);
    site::turn(&callers[1], &line, callers[1].claim(1)).await;
    assert_eq!(seen(&callers[2], &line, callers[2].claim(1)).await, None);
    callers[1].session.leave(&line, callers[1].claim(1), Leave::Done).await.unwrap();
    site::turn(&callers[2], &line, callers[2].claim(1)).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_semaphores_stray_lets_nobody_into_a_mutex() {
    nobody_passes("stray semaphore", "s-00000000000000aa-1-1-5-").await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_readers_stray_lets_nobody_into_a_mutex() {
    nobody_passes("stray reader", "r-00000000000000aa-1-1-2147483647-").await;
}

/// A semaphore's guard: its permits, and the size it was told.
type Told = (ClaimId, u32, u32);

/// The semaphore guards that are held in this process.
#[derive(Default)]
struct Held(Mutex<HashMap<Name, Vec<Told>>>);

impl Held {
    fn enter(&self, claim: &Claim, grant: Grant) {
        let mut held = self.0.lock().unwrap();
        let guards = held.entry(claim.name.clone()).or_default();
        guards.push((claim.id, claim.weight.get(), grant.capacity.get()));
        let (sum, told) = (guards.iter().map(|(_, weight, _)| weight).sum::<u32>(), grant.capacity.get());
        assert!(
            sum <= told && guards.iter().all(|(.., other)| *other == told),
            "(claim, weight, size): {guards:?}"
        );
    }

    fn leave(&self, claim: &Claim) {
        self.0.lock().unwrap().get_mut(&claim.name).unwrap().retain(|(id, ..)| *id != claim.id);
    }
}

/// Waits for its turn as core does: a claim that is gone joins again.
async fn held(caller: &Caller, mut claim: Claim, numbers: &AtomicU64) -> (Claim, Grant) {
    loop {
        claim.id = caller.claim(numbers.fetch_add(1, Ordering::Relaxed));
        match caller.session.join(&claim, Patience::Wait).await.unwrap() {
            Place::Held { grant, .. } => return (claim, grant),
            Place::Gone => continue,
            place => assert!(matches!(place, Place::Waiting { .. }), "{place:?}"),
        }
        loop {
            if let Some(grant) = caller.heard.turn(&claim.name, claim.id).await {
                return (claim, grant);
            }
            let sight = caller.session.look(&claim.name, &[claim.id]).await.unwrap();
            if let Some((_, grant)) = sight.held.first() {
                return (claim, *grant);
            }
            if !sight.gone.is_empty() {
                break;
            }
        }
    }
}

async fn give_back(caller: &Caller, claim: &Claim) {
    caller.session.leave(&claim.name, claim.id, Leave::Done).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_stray_of_another_size_changes_no_size_that_guards_were_told() {
    let options = options("stray size");
    let mut callers = Vec::new();
    for id in 1..=4 {
        callers.push(Caller::open(&store(), id, &options).await);
    }
    let (line, guards, numbers) = (name("s"), Held::default(), AtomicU64::new(1));
    let (first, grant) = held(&callers[0], callers[0].permits(&line, 0, 1, 5), &numbers).await;
    guards.enter(&first, grant);
    let stray = stray(&options, "s", "s-00000000000000aa-1-1-10-").await;
    let wait = async |caller: &Caller, many, after, whiles| {
        tokio::time::sleep(A_WHILE * after).await;
        let (claim, grant) = held(caller, caller.permits(&line, 0, many, 5), &numbers).await;
        guards.enter(&claim, grant);
        tokio::time::sleep(A_WHILE * whiles).await; // so that it overlaps with other claims
        guards.leave(&claim);
        give_back(caller, &claim).await;
    };
    let go_first = async {
        tokio::time::sleep(A_WHILE).await;
        guards.leave(&first);
        give_back(&callers[0], &first).await;
        tokio::time::sleep(A_WHILE * 2).await;
        drop(stray);
    };
    tokio::join!(go_first, wait(&callers[1], 3, 0, 5), wait(&callers[2], 5, 2, 1));
}

/// A rolling deploy: some clients declare seven permits, and some nine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn clients_that_declare_two_sizes_are_told_one_at_a_time() {
    const HOLDS: u64 = 300;
    let options = options("rolling");
    let (guards, numbers) = (Held::default(), AtomicU64::new(1));
    let mut callers = Vec::new();
    for id in 1..=8 {
        callers.push(Caller::open(&store(), id, &options).await);
    }
    let line = name("s");
    let deploy = async |caller: &Caller| {
        let of = if caller.id.get().is_multiple_of(2) { 7 } else { 9 };
        for round in 0..HOLDS {
            let many = 1 + u32::try_from((round + caller.id.get()) % 2).unwrap();
            let (claim, grant) = held(caller, caller.permits(&line, 0, many, of), &numbers).await;
            guards.enter(&claim, grant);
            tokio::time::sleep(Duration::from_millis(round % 2)).await;
            guards.leave(&claim);
            give_back(caller, &claim).await;
        }
    };
    let (deploy, mut all) = (&deploy, Vec::new());
    callers.iter().for_each(|caller| all.push(deploy(caller)));
    all_of(all).await;
}

/// Runs all of them at once.
async fn all_of(all: Vec<impl Future<Output = ()>>) {
    let mut all: Vec<_> = all.into_iter().map(|one| (Box::pin(one), false)).collect();
    std::future::poll_fn(|cx| {
        for (one, done) in all.iter_mut().filter(|(_, done)| !*done) {
            *done = one.as_mut().poll(cx).is_ready();
        }
        if all.iter().all(|(_, done)| *done) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// The first claim sets the size of a line, also for a client that remembers another size.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_size_that_is_remembered_is_not_brought_back() {
    let options = options("remembered");
    let [a, b] = site::two(&options).await;
    let line = name("s");
    let size = async |place: Place| match place {
        Place::Held { grant, .. } => grant.capacity,
        place => panic!("{place:?}"),
    };
    for round in 0..3 {
        let number = |nth: u64| 10 * round + nth;
        assert_eq!(size(join(&a, &a.permits(&line, number(1), 1, 3)).await).await, weight(3));
        assert_eq!(size(join(&b, &b.permits(&line, number(2), 1, 5)).await).await, weight(3));
        assert_eq!(size(join(&b, &b.permits(&line, number(3), 1, 5)).await).await, weight(3));
        a.session.leave(&line, a.claim(number(1)), Leave::Done).await.unwrap();
        let late = size(join(&a, &a.permits(&line, number(4), 1, 9)).await).await;
        assert_eq!(late, weight(3), "it was never empty");
        for (caller, nth) in [(&b, 2), (&b, 3), (&a, 4)] {
            caller.session.leave(&line, caller.claim(number(nth)), Leave::Done).await.unwrap();
        }
        assert_eq!(size(join(&b, &b.permits(&line, number(5), 5, 5)).await).await, weight(5));
        b.session.leave(&line, b.claim(number(5)), Leave::Done).await.unwrap();
    }
}

/// Readers, mutexes and permits on one name: guards of two kinds never overlap.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn kinds_that_are_mixed_on_one_name_never_overlap() {
    let options = options("mixed kinds");
    let (line, numbers) = (name("n"), AtomicU64::new(1));
    let inside: Mutex<Vec<(Kind, u32)>> = Mutex::default();
    let mut callers = Vec::new();
    for id in 1..=6 {
        callers.push(Caller::open(&store(), id, &options).await);
    }
    let mix = async |caller: &Caller| {
        for round in 0..150 {
            let (kind, capacity) = match (round + caller.id.get()) % 3 {
                0 => (Kind::Mutex, Weight::ONE),
                1 => (Kind::RwLock, Weight::MAX),
                _ => (Kind::Semaphore, weight(2)),
            };
            let id = caller.claim(numbers.fetch_add(1, Ordering::Relaxed));
            let claim = Claim::new(id, line.clone(), kind, Weight::ONE, capacity);
            let is_in = match caller.session.join(&claim, Patience::Wait).await {
                Ok(Place::Held { .. }) => true,
                Ok(Place::Waiting { .. }) => {
                    let waiting = async {
                        while caller.heard.turn(&line, id).await.is_none() {
                            if seen(caller, &line, id).await.is_some() {
                                break;
                            }
                        }
                    };
                    tokio::time::timeout(Duration::from_millis(20), waiting).await.is_ok()
                }
                Ok(place) => panic!("{place:?}"),
                Err(error) => {
                    assert_eq!(error.kind(), tidelock_zookeeper::ErrorKind::KindMismatch, "{error}");
                    false
                }
            };
            if is_in {
                let mut inside = inside.lock().unwrap();
                inside.push((kind, capacity.get()));
                let fit = u32::try_from(inside.len()).unwrap() <= capacity.get();
                assert!(fit && inside.iter().all(|(other, _)| *other == kind), "{inside:?}");
            }
            tokio::task::yield_now().await;
            if is_in {
                let mut inside = inside.lock().unwrap();
                let at = inside.iter().position(|(other, _)| *other == kind).unwrap();
                inside.swap_remove(at);
            }
            let how = if is_in { Leave::Done } else { Leave::Void };
            caller.session.leave(&line, id, how).await.unwrap();
        }
    };
    let (mix, mut all) = (&mix, Vec::new());
    callers.iter().for_each(|caller| all.push(mix(caller)));
    all_of(all).await;
}

/// The server deletes an empty line, and the versions of the next one begin anew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn what_is_remembered_of_a_line_that_was_deleted_takes_no_resize_back() {
    let options = Options::new().namespace(&namespace("deleted"));
    let server = plain().await;
    let connect = async || store().connect(options.clone()).await.unwrap();
    let (old, new) = (connect().await, connect().await);
    for uses in 1..=6 {
        for sizes in [&[2][..], &[2, 1], &[1, 2, 1]] {
            let line = format!("used {uses} times, resized {} times", sizes.len());
            let mutex = old.mutex(&line).unwrap();
            for _ in 0..uses {
                mutex.lock().await.unwrap().release().await.unwrap().confirmed().unwrap();
            }
            match server.delete(&format!("/{}/{line}", options.namespace), None).await {
                Ok(()) | Err(zookeeper_client::Error::NoNode) => {} // the server itself deletes it after a second
                Err(error) => panic!("{error}"),
            }
            let semaphore = new.semaphore(&line, 3).unwrap();
            let held = semaphore.acquire(1).await.unwrap();
            for size in sizes {
                semaphore.resize(*size).await.unwrap();
            }
            let refused = mutex.lock().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::KindMismatch, "{line}: {refused}");
            assert_eq!(semaphore.size().await.unwrap(), sizes[sizes.len() - 1], "{line}");
            held.release().await.unwrap().confirmed().unwrap();
        }
    }
}
