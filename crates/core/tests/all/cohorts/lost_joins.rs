//! Joins that nobody answers, and those that panic: whoever leads next does not depend on them.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use async_trait::async_trait;
use tidelock_core::backend::{Claim, Layer, Patience, Place, Session};
use tidelock_core::prelude::*;
use tidelock_memory::{Clock, Store};

use super::asking::{Done, LINGER, asks, granted, options};
use super::time::pass;
use crate::layered;
use crate::line::until_empty;

const PASSES: u8 = 0;
/// Its thread stands still, and it never gets to the store.
const IS_LOST: u8 = 1;
const PANICS: u8 = 2;
const PANICS_LATER: u8 = 3;

/// What becomes of the next join.
#[derive(Debug, Default)]
struct Joins(AtomicU8);

#[async_trait]
impl Layer for Joins {
    async fn join(
        &self,
        to: &Arc<dyn Session>,
        claim: &Claim,
        patience: Patience,
    ) -> tidelock_core::Result<Place> {
        match self.0.swap(PASSES, Ordering::Relaxed) {
            IS_LOST => pending().await,
            PANICS => panic!("a layer of the user panics"),
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
    joins: Arc<Joins>,
    locks: Arc<dyn Locks>,
}

impl Scene {
    async fn new() -> tidelock_core::Result<Self> {
        let (clock, joins) = (Clock::manual(), Arc::<Joins>::default());
        let locks = layered::attach(&Store::with_clock(&clock), joins.clone(), options())?;
        locks.mutex("m")?.lock().await?.release().await?.confirmed()?; // opens the session
        Ok(Self { clock, joins, locks })
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
