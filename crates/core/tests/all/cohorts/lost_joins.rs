//! Joins that nobody answers, and those that panic: whoever leads next does not depend on them.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{Backend, Claim, Layer, Moment, Patience, Place, Session, Sleep};
use tidelock_core::prelude::*;
use tidelock_core::{Error, ErrorKind};
use tidelock_memory::{Clock, Store};

use super::asking::{Done, LINGER, asks, granted, once, options};
use super::time::pass;
use crate::condition::until;
use crate::layered;
use crate::line::until_empty;

const PASSES: u8 = 0;
/// Its thread stands still, and it never gets to the store.
const IS_LOST: u8 = 1;
const PANICS: u8 = 2;
const PANICS_LATER: u8 = 3;

/// What becomes of the next join, and the number of the claim whose joins panic always.
#[derive(Debug, Default)]
struct Joins(AtomicU8, AtomicU64);

#[async_trait]
impl Layer for Joins {
    async fn join(
        &self,
        to: &Arc<dyn Session>,
        claim: &Claim,
        patience: Patience,
    ) -> tidelock_core::Result<Place> {
        assert!(self.1.load(Ordering::Relaxed) != claim.id.number, "a layer of the user panics again");
        match self.0.swap(PASSES, Ordering::Relaxed) {
            IS_LOST => pending().await,
            PANICS => {
                self.1.store(claim.id.number, Ordering::Relaxed);
                panic!("a layer of the user panics")
            }
            PANICS_LATER => {
                tokio::task::yield_now().await;
                panic!("a layer of the user panics later")
            }
            _ => to.join(claim, patience).await,
        }
    }
}

struct Scene {
    clock: Clock,
    store: Store,
    joins: Arc<Joins>,
    locks: Arc<dyn Locks>,
}

impl Scene {
    async fn new() -> tidelock_core::Result<Self> {
        let (clock, joins) = (Clock::manual(), Arc::<Joins>::default());
        let store = Store::with_clock(&clock);
        let locks = layered::attach(&store, joins.clone(), options())?;
        locks.mutex("m")?.lock().await?.release().await?.confirmed()?; // opens the session
        Ok(Self { clock, store, joins, locks })
    }
}

#[tokio::test]
async fn a_join_that_was_lost_with_its_task_is_sent_again_by_whoever_leads_next() -> Done {
    let scene = Scene::new().await?;
    scene.joins.0.store(IS_LOST, Ordering::Relaxed);
    let first = asks(&scene.locks, "m").await;
    let next = asks(&scene.locks, "m").await;
    first.abort();
    assert!(first.await.is_err());
    pass(&scene.clock, options().first_pause).await;
    assert!(next.is_finished(), "the store answers at once");
    granted(next).await.release().await?.confirmed()?;
    until_empty(&scene.locks, "m").await;
    Ok(())
}

/// The store was silent to a leader that was away, and answers more slowly than within a quarter of the time of a command.
#[tokio::test]
async fn who_leads_after_one_that_was_away_has_the_full_time_of_a_command() -> Done {
    let Scene { clock, store, joins, locks } = Scene::new().await?;
    let (deadline, step) = (options().command_deadline, options().command_deadline / 20);
    joins.0.store(IS_LOST, Ordering::Relaxed);
    let mutex = locks.mutex("m")?;
    let mut leads = std::pin::pin!(mutex.lock_within(deadline * 2 + step * 2));
    assert!(once(leads.as_mut()).await.is_none());
    for _ in 0..3 {
        pass(&clock, step).await; // so the bell rings twice only after the leader has come back
    }
    let next = asks(&locks, "m").await;
    pass(&clock, deadline * 2 - step * 2).await;
    store.faults().delay(deadline * 2 / 5);
    assert!(once(leads.as_mut()).await.is_none(), "it was away for too long, and asks again");
    pass(&clock, step).await;
    assert!(leads.await.is_err(), "its patience has ended");
    for _ in 0..12 {
        pass(&clock, step).await;
    }
    store.faults().heal();
    granted(next).await.release().await?.confirmed()
}

/// The same if the task that was away is dropped before its patience ends.
#[tokio::test]
async fn who_leads_after_one_that_was_away_and_is_dropped_has_the_full_time_of_a_command() -> Done {
    let scene = Scene::new().await?;
    let (deadline, step) = (options().command_deadline, options().command_deadline / 20);
    scene.joins.0.store(IS_LOST, Ordering::Relaxed);
    let mutex = scene.locks.mutex("m")?;
    let mut leads = Box::pin(mutex.lock());
    assert!(once(leads.as_mut()).await.is_none());
    for _ in 0..3 {
        pass(&scene.clock, step).await; // so the bell rings twice only after the leader has come back
    }
    let (next, last) = (asks(&scene.locks, "m").await, asks(&scene.locks, "m").await);
    pass(&scene.clock, deadline * 2 - step * 3).await;
    scene.store.faults().delay(deadline * 2 / 5);
    assert!(once(leads.as_mut()).await.is_none(), "it was away for too long, and asks again");
    pass(&scene.clock, step).await;
    drop(leads);
    for _ in 0..12 {
        pass(&scene.clock, step).await;
    }
    scene.store.faults().heal();
    granted(next).await.release().await?.confirmed()?;
    pass(&scene.clock, deadline).await; // so the last one has its answer
    granted(last).await.release().await?.confirmed()
}

#[tokio::test]
async fn a_join_that_panics_harms_nobody_behind_it() -> Done {
    for panics in [PANICS, PANICS_LATER] {
        let scene = Scene::new().await?;
        let held = scene.locks.mutex("m")?.lock().await?;
        let (leads, next) = (asks(&scene.locks, "m").await, asks(&scene.locks, "m").await);
        scene.joins.0.store(panics, Ordering::Relaxed);
        pass(&scene.clock, LINGER).await; // so the next one leads
        assert!(leads.await.is_err_and(|error| error.is_panic()), "{panics}");
        held.release().await?.confirmed()?;
        pass(&scene.clock, LINGER).await;
        assert!(next.is_finished(), "{panics}: nobody holds it");
        granted(next).await.release().await?.confirmed()?;
        until_empty(&scene.locks, "m").await;
    }
    Ok(())
}

/// When the answers to joins come, one after the other, and which of them are errors.
#[derive(Debug)]
struct Answers {
    clock: Arc<dyn tidelock_core::backend::Clock>,
    joins: AtomicU8,
    answers: Vec<(Moment, bool)>,
}

#[async_trait]
impl Layer for Answers {
    async fn join(
        &self,
        to: &Arc<dyn Session>,
        claim: &Claim,
        patience: Patience,
    ) -> tidelock_core::Result<Place> {
        let nth = usize::from(self.joins.fetch_add(1, Ordering::Relaxed));
        let answer = to.join(claim, patience).await;
        let Some((at, is_error)) = self.answers.get(nth).copied() else { return answer };
        Sleep::until(&self.clock, at).await;
        if is_error { Err(Error::new(ErrorKind::Unavailable, "cut off")) } else { answer }
    }
}

impl Answers {
    /// The first join is answered at once.
    fn after(clock: &Clock, store: &Store, answers: &[(Duration, bool)]) -> Arc<Self> {
        let now = clock.now();
        let answers = answers.iter().map(|(after, is_error)| (now + *after, *is_error));
        let answers = std::iter::once((now, false)).chain(answers).collect();
        Arc::new(Self { clock: Backend::clock(store), joins: AtomicU8::new(0), answers })
    }
}

#[tokio::test]
async fn an_older_requests_error_hides_no_answer_to_a_later_one() -> Done {
    let second = Duration::from_secs(1);
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let answers = Answers::after(&clock, &store, &[(second * 8 / 5, true), (second * 17 / 10, false)]);
    let locks = layered::attach(&store, answers, options().back_off(second, second))?;
    locks.mutex("m")?.lock().await?.release().await?.confirmed()?;
    let mutex = locks.mutex("m")?;
    let gives_up = tokio::spawn(async move { mutex.lock_within(second / 2).await });
    tokio::task::yield_now().await;
    let next = asks(&locks, "m").await;
    for _ in 0..19 {
        pass(&clock, second / 10).await;
    }
    assert!(gives_up.is_finished());
    granted(next).await.release().await?.confirmed()
}

#[tokio::test]
async fn a_users_own_panic_costs_those_behind_it_no_place() -> Done {
    let second = Duration::from_secs(1);
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let answers = Answers::after(&clock, &store, &[(second, false)]);
    let (locks, others) = (layered::attach(&store, answers, options())?, store.attach(options())?);
    locks.mutex("m")?.lock().await?.release().await?.confirmed()?;
    let held = others.mutex("m")?.lock().await?;
    let mutex = locks.mutex("m")?;
    let (panics, panicked) = tokio::sync::oneshot::channel::<()>();
    let first = tokio::spawn(async move {
        let work = async {
            let _ = panicked.await;
            panic!("the user's own");
        };
        tokio::join!(mutex.lock(), work).0
    });
    tokio::task::yield_now().await;
    let next = asks(&locks, "m").await;
    let elsewhere = store.attach(options())?;
    let behind = asks(&elsewhere, "m").await;
    pass(&clock, second / 1_000).await;
    drop(panics);
    assert!(first.await.is_err());
    pass(&clock, second).await;
    held.release().await?.confirmed()?;
    until("one of them is granted", async || next.is_finished() || behind.is_finished()).await;
    assert!(!behind.is_finished(), "the place of those behind who panicked was lost");
    granted(next).await.release().await?.confirmed()?;
    granted(behind).await.release().await?.confirmed()
}
