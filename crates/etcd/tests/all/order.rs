//! The claims of one client stand in line in the order in which they were asked for, although a server carries out what
//! it gets at once in any order.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{MaybeDone, join_all, maybe_done};
use tidelock_conformance::callers::Caller;
use tidelock_etcd::backend::{Claim, Patience, Place};
use tidelock_etcd::{ClaimId, Result};
use tokio::runtime::Builder;

use crate::site::{name, options, store};

/// A crowd of so many keeps its order.
const STRICT: usize = 64;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_crowd_stands_in_line_as_it_asked() {
    for crowd in [STRICT, STRICT, STRICT, 20 * STRICT] {
        stands_in_line_as_it_asked(crowd).await;
    }
}

async fn stands_in_line_as_it_asked(crowd: usize) {
    let caller = Caller::open(&store(), 1, &options("order")).await;
    let (mutex, permits) = (name("mutex"), name("permits"));
    let claims = (1..=crowd as u64).flat_map(|number| {
        [
            caller.mutex(&mutex, 2 * number),
            caller.permits(&permits, 2 * number + 1, 1 + (number % 2) as u32, 3),
        ]
    });
    let claims: Vec<Claim> = claims.collect();
    for joined in join_all(all_asked(&caller, &claims).await).await {
        joined.unwrap();
    }
    for line in [mutex, permits] {
        let asked: Vec<ClaimId> =
            claims.iter().filter(|claim| claim.name == line).map(|claim| claim.id).collect();
        let shown = caller.session.line(&line).await.unwrap();
        let stand: Vec<ClaimId> = shown.claims.iter().map(|claim| claim.id).collect();
        let moved = |(place, id): (usize, &ClaimId)| {
            place.abs_diff(asked.iter().position(|one| one == id).expect("it was asked for"))
        };
        let furthest = stand.iter().enumerate().map(moved).max();
        assert!(furthest.is_some_and(|by| by <= (crowd - 1) / STRICT), "{furthest:?} places in {crowd}");
        assert_eq!(stand.len(), asked.len());
    }
    caller.session.close().await.unwrap();
}

/// A runtime's first joins go out by the keeper's connection. Meanwhile it gets one of its own.
#[test]
#[ignore = "needs a server: cargo xtask test runs it"]
fn a_join_does_not_overtake_those_from_before_its_runtime_had_a_connection() {
    let keeper = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for pause in [2, 4, 6, 8, 10, 12, 16] {
        // A runtime that is new to the client, each time.
        let callers = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let caller = keeper.block_on(Caller::open(&store(), 1, &options("order")));
        callers.block_on(async {
            let mutex = name("mutex");
            let claims: Vec<Claim> = (1..STRICT as u64).map(|number| caller.mutex(&mutex, number)).collect();
            let joining = all_asked(&caller, &claims).await;
            let late = caller.mutex(&mutex, STRICT as u64);
            let late = async {
                tokio::time::sleep(Duration::from_millis(pause)).await; // at any moment of the opening
                caller.session.join(&late, Patience::Wait).await
            };
            let (_, last) = tokio::join!(join_all(joining), late);
            last.unwrap();
            let shown = caller.session.line(&mutex).await.unwrap();
            let place =
                shown.claims.iter().position(|claim| claim.id == caller.claim(STRICT as u64)).unwrap();
            assert!(place >= STRICT - 2, "it asked as the last of {STRICT}, and stands behind {place}");
            caller.session.close().await.unwrap();
        });
    }
}

/// Joins that were asked for in this order. On a slow machine the first may be answered before the last is asked for.
async fn all_asked<'a>(
    caller: &'a Caller,
    claims: &'a [Claim],
) -> Vec<impl Future<Output = Result<Place>> + use<'a>> {
    let mut joining: Vec<_> =
        claims.iter().map(|claim| Box::pin(maybe_done(caller.session.join(claim, Patience::Wait)))).collect();
    poll_fn(|cx| {
        for join in &mut joining {
            let _ = join.as_mut().poll(cx); // what it comes to is kept
        }
        Poll::Ready(())
    })
    .await;
    let answered = |mut join: Pin<Box<MaybeDone<_>>>| async move {
        join.as_mut().await;
        join.as_mut().take_output().expect("it was answered")
    };
    joining.into_iter().map(answered).collect()
}
