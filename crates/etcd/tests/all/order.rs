//! The claims of one client stand in line in the order in which they were asked for, although a server carries out what
//! it gets at once in any order.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::join_all;
use tidelock_conformance::callers::Caller;
use tidelock_etcd::ClaimId;
use tidelock_etcd::backend::{Claim, Patience};
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
    let mut joining: Vec<_> = claims.iter().map(|claim| caller.session.join(claim, Patience::Wait)).collect();
    let asked = |cx: &mut Context<'_>| {
        let pending = joining.iter_mut().all(|join| join.as_mut().poll(cx).is_pending());
        Poll::Ready(pending)
    };
    assert!(poll_fn(asked).await, "a join was answered before all had been asked for");
    for joined in join_all(joining).await {
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
            let mut joining: Vec<_> =
                claims.iter().map(|claim| caller.session.join(claim, Patience::Wait)).collect();
            let asked = |cx: &mut Context<'_>| {
                joining.iter_mut().for_each(|join| drop(join.as_mut().poll(cx)));
                Poll::Ready(())
            };
            poll_fn(asked).await;
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
