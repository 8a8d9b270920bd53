//! A store that forgets each claim as soon as it has it: an acquire gives up, and says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{Claim, Layer, Patience, Place, Session};
use tidelock_core::{ErrorKind, Options};
use tidelock_memory::{Clock, Store};

use crate::layered;
use crate::line::until_waiting;

#[derive(Debug, Default)]
struct Forgetful {
    forgets: AtomicBool,
}

#[async_trait]
impl Layer for Forgetful {
    async fn join(
        &self,
        to: &Arc<dyn Session>,
        claim: &Claim,
        patience: Patience,
    ) -> tidelock_core::Result<Place> {
        match self.forgets.load(Ordering::Relaxed) {
            true => Ok(Place::Gone),
            false => to.join(claim, patience).await,
        }
    }
}

#[tokio::test]
async fn who_gives_up_is_not_told_of_a_max_hold_that_ended_a_grant_long_before() -> tidelock_core::Result<()>
{
    let (clock, longest) = (Clock::manual(), Duration::from_millis(10));
    let (store, forgetful) = (Store::with_clock(&clock), Arc::new(Forgetful::default()));
    let ours = layered::attach(&store, forgetful.clone(), Options::new().max_hold(longest))?;
    let others = store.attach(Options::new())?;
    let (mutex, theirs) = (ours.mutex("m")?, others.mutex("m")?);
    mutex.lock().await?.release().await?.confirmed()?; // opens the session
    let held = theirs.lock().await?;
    let mut waits = mutex.lock();
    let mut poll = || waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    held.release().await?.confirmed()?;
    clock.advance(longest); // its grant is over before it looks
    let held = theirs.lock().await?;
    assert!(poll().is_pending());
    until_waiting(&others, "m", 1).await;
    forgetful.forgets.store(true, Ordering::Relaxed);
    let place = others.inspect("m").await?.claims[1].id;
    assert!(others.evict("m", place).await?);
    let Poll::Ready(Err(error)) = poll() else { panic!("it goes on") };
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    held.release().await?.confirmed()?;
    drop(waits);
    ours.close().await?;
    others.close().await
}
