//! A list shows a claim at its place when the list was made. If it is read late, after a move or a resize, it must not
//! give a claim its turn.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tidelock_zookeeper::backend::{Claim, Leave, Place, Sight};
use tidelock_zookeeper::{Name, Result};
use zookeeper_client::Client;

use crate::site::{is_held, join, name, options, plain, store, until, weight};
use tidelock_conformance::callers::Caller;

/// A line, three clients, and a connection that only counts nodes.
struct Scene {
    callers: Vec<Caller>,
    counter: Client,
    line: Name,
    path: String,
}

impl Scene {
    async fn set(what: &str) -> Self {
        let options = options(what);
        let mut callers = Vec::new();
        for id in 1..=3 {
            callers.push(Caller::open(&store(), id, &options).await);
        }
        let path = format!("/{}/s", options.namespace);
        Self { callers, counter: plain().await, line: name("s"), path }
    }

    fn permits(&self, caller: usize, number: u64, permits: u32, of: u32) -> Claim {
        self.callers[caller].permits(&self.line, number, permits, of)
    }

    async fn join(&self, claim: &Claim) -> Place {
        join(self.owner(claim), claim).await
    }

    /// Joins until the claim stands in line; its client has not heard of it yet.
    async fn join_half(&self, claim: &Claim, stand_there_then: usize) -> Call<'_, Result<Place>> {
        let (owner, claim) = (self.owner(claim), claim.clone());
        let mut joining = Call::new(async move {
            owner.session.join(&claim, tidelock_zookeeper::backend::Patience::Wait).await
        });
        let mut rounds = 0;
        until("it stands in line", async || {
            if rounds % 20 == 0 {
                joining.go_on().await; // and its requests are done before the next step
            }
            rounds += 1;
            (self.nodes().await.len() == stand_there_then).then_some(())
        })
        .await;
        joining
    }

    /// A look whose list is made now, and read when the call is awaited.
    async fn look_half(&self, claim: &Claim) -> Call<'_, Result<Sight>> {
        let (owner, id) = (self.owner(claim), claim.id);
        let mut looking = Call::new(async move { owner.session.look(&self.line, &[id]).await });
        looking.go_on().await;
        self.all_is_answered(owner).await;
        looking
    }

    async fn all_is_answered(&self, caller: &Caller) {
        caller.session.line(&self.line).await.unwrap();
    }

    async fn leave(&self, claim: &Claim) {
        self.owner(claim).session.leave(&self.line, claim.id, Leave::Done).await.unwrap();
    }

    /// Looks until the claim is held.
    async fn is_its_turn(&self, claim: &Claim) {
        let owner = self.owner(claim);
        until("it has its turn", async || {
            let sight = owner.session.look(&self.line, &[claim.id]).await.unwrap();
            assert!(sight.gone.is_empty(), "{sight:?}");
            let is_held = sight.held.iter().any(|(id, _)| *id == claim.id);
            (is_held || owner.heard.held(claim.id).is_some()).then_some(())
        })
        .await;
    }

    fn owner(&self, claim: &Claim) -> &Caller {
        self.callers.iter().find(|caller| caller.id == claim.id.session).unwrap()
    }

    async fn nodes(&self) -> Vec<String> {
        self.counter.list_children(&self.path).await.unwrap_or_default()
    }

    /// Whether the claim is held, by this look or by what its client was told.
    fn has(&self, sight: &Sight, claim: &Claim) -> bool {
        !sight.held.is_empty() || self.owner(claim).heard.held(claim.id).is_some()
    }
}

/// A call that continues only when the test polls it.
struct Call<'a, T>(Pin<Box<dyn Future<Output = T> + 'a>>);

impl<'a, T: std::fmt::Debug> Call<'a, T> {
    fn new(call: impl Future<Output = T> + 'a) -> Self {
        Self(Box::pin(call))
    }

    /// Polls once; the call must not end yet.
    async fn go_on(&mut self) {
        let over = poll_fn(|cx| match self.0.as_mut().poll(cx) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => Poll::Ready(None),
        });
        let over = over.await;
        assert!(over.is_none(), "{over:?}");
    }

    async fn end(self) -> T {
        self.0.await
    }
}

/// Seven permits had become nine. A claim had moved to the end of the line, because it had declared another size. A
/// list from before the move, together with a size that was written after it, showed the claim in front.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_that_moved_has_no_turn_from_where_it_stood() {
    let scene = Scene::set("moved").await;
    let first = scene.permits(1, 1, 1, 7);
    assert!(is_held(scene.join(&first).await));
    let resize = async || scene.callers[1].session.resize(&scene.line, weight(7), weight(7)).await.unwrap();
    resize().await;
    let (moves, comes) = (scene.permits(0, 1, 4, 5), scene.permits(2, 1, 4, 7));
    let joining = scene.join_half(&moves, 2).await;
    let looking = scene.look_half(&moves).await;
    assert!(!is_held(scene.join(&comes).await), "behind one of another size");
    assert!(!is_held(joining.end().await.unwrap()), "it stands behind the other now");
    scene.is_its_turn(&comes).await;
    resize().await;
    let sight = looking.end().await.unwrap();
    assert!(!scene.has(&sight, &moves), "nine permits of seven: {sight:?}");
    assert!(sight.gone.is_empty(), "{sight:?}");
    scene.leave(&comes).await;
    scene.is_its_turn(&moves).await;
}

/// The same without a resize: the claim joined with the size that its client remembered, was the first, and joined
/// again with its own size.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_that_took_back_its_size_has_no_turn_from_where_it_stood() {
    let scene = Scene::set("took back").await;
    let (teaches, learns) = (scene.permits(1, 1, 1, 7), scene.permits(0, 1, 1, 4));
    assert!(is_held(scene.join(&teaches).await) && is_held(scene.join(&learns).await));
    scene.leave(&teaches).await;
    scene.leave(&learns).await;
    let (moves, comes) = (scene.permits(0, 2, 4, 4), scene.permits(2, 1, 4, 4));
    let joining = scene.join_half(&moves, 1).await;
    assert!(scene.nodes().await[0].contains("-2-4-7-"), "it came as one of seven");
    let looking = scene.look_half(&moves).await;
    assert!(!is_held(scene.join(&comes).await));
    assert!(!is_held(joining.end().await.unwrap()), "it stands behind the other now");
    scene.is_its_turn(&comes).await;
    let sight = looking.end().await.unwrap();
    assert!(!scene.has(&sight, &moves), "eight permits of seven: {sight:?}");
    scene.leave(&comes).await;
    scene.is_its_turn(&moves).await;
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_that_moved_is_not_sent_away_from_where_it_stands() {
    let scene = Scene::set("sent away").await;
    let first = scene.permits(1, 1, 4, 7);
    assert!(is_held(scene.join(&first).await));
    let moves = scene.permits(0, 1, 4, 5);
    let joining = scene.join_half(&moves, 2).await;
    let looking = scene.look_half(&moves).await;
    assert!(!is_held(joining.end().await.unwrap()));
    let sight = looking.end().await.unwrap();
    assert!(sight.gone.is_empty(), "{sight:?}");
    scene.leave(&first).await;
    scene.is_its_turn(&moves).await;
}

/// A resize keeps the claims that have their turn, and no others. This holds also if a claim behind a waiter has its
/// turn, which came while the line was larger.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_resize_lets_nobody_in_who_waits() {
    let scene = Scene::set("resized").await;
    let [goes, stays] = [scene.permits(0, 1, 4, 7), scene.permits(0, 2, 2, 7)];
    let [waits, behind] = [scene.permits(1, 1, 2, 7), scene.permits(2, 1, 2, 7)];
    assert!(is_held(scene.join(&goes).await) && is_held(scene.join(&stays).await));
    assert!(!is_held(scene.join(&waits).await) && !is_held(scene.join(&behind).await));
    let shrinks = &scene.callers[0];
    let mut resizing = Call::new(shrinks.session.resize(&scene.line, weight(7), weight(3)));
    resizing.go_on().await;
    scene.all_is_answered(shrinks).await;
    scene.leave(&goes).await;
    scene.is_its_turn(&behind).await;
    resizing.end().await.unwrap();
    scene.callers[2].session.resize(&scene.line, weight(3), weight(3)).await.unwrap();
    let sight = scene.callers[1].session.look(&scene.line, &[waits.id]).await.unwrap();
    assert!(!scene.has(&sight, &waits), "four permits of three stood before it: {sight:?}");
    scene.leave(&stays).await;
    scene.is_its_turn(&waits).await;
}

/// A resize lists the line, and then reads its capacity. A capacity that another client writes between the two, for
/// claims that came in between, must not be taken back.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_resize_takes_back_no_size_that_was_written_for_who_came_meanwhile() {
    let scene = Scene::set("taken back").await;
    let first = scene.permits(1, 1, 1, 7);
    assert!(is_held(scene.join(&first).await));
    let resize = async |caller: usize, to: u32| {
        scene.callers[caller].session.resize(&scene.line, weight(7), weight(to)).await.unwrap();
    };
    resize(1, 7).await;
    let mut resizing = Call::new(resize(1, 8));
    resizing.go_on().await;
    scene.all_is_answered(&scene.callers[1]).await;
    let meanwhile = scene.permits(0, 1, 2, 5);
    let joining = scene.join_half(&meanwhile, 2).await;
    resize(2, 7).await;
    assert!(is_held(joining.end().await.unwrap()), "it is of the size that was written for it");
    until("the new size is written", async || {
        resizing.go_on().await;
        let (data, _) = scene.counter.get_data(&scene.path).await.unwrap();
        data.starts_with(b"capacity=8").then_some(())
    })
    .await;
    assert!(is_held(scene.join(&scene.permits(2, 1, 5, 8)).await), "eight of eight, all of one size");
    resizing.end().await;
}
