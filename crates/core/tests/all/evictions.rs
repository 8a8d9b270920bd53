//! An eviction ends a claim for good: no repeated or late join makes it stand there anew, and earlier reports of it
//! are no longer believed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Waker};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::{Claim, Layer, Leave, Left, Patience, Place, Reply, Session};
use tidelock_core::prelude::*;
use tidelock_core::{ClaimId, ErrorKind, Name, Options};
use tidelock_memory::{Clock, Store};
use tokio::task::JoinHandle;

use crate::condition::until;
use crate::layered::attach;
use crate::line::{until_waiting, waiter};

type Done = tidelock_core::Result<()>;

const TTL: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(300);

fn options() -> Options {
    Options::new().ttl(TTL).back_off(PAUSE, PAUSE)
}

/// Acquires, and does not hear the first answer.
fn asking_in_vain(
    store: &Store,
    locks: &Arc<dyn Locks>,
    name: &str,
) -> tidelock_core::Result<JoinHandle<tidelock_core::Result<Guard>>> {
    let mutex = locks.mutex(name)?;
    let mut asking = Box::pin(async move { mutex.lock().await });
    store.faults().lose_replies(1);
    assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    Ok(tokio::spawn(asking))
}

/// Opens the session.
async fn warm(locks: &Arc<dyn Locks>) -> Done {
    locks.mutex("warm")?.lock().await?.release().await?.confirmed()
}

#[tokio::test]
async fn a_join_that_is_told_to_wait_does_not_believe_an_older_grant() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let (a, b, c) = (store.attach(options())?, store.attach(options())?, store.attach(options())?);
    for locks in [&a, &b, &c] {
        warm(locks).await?;
    }
    let first = b.mutex("m")?.lock().await?;
    let asking = asking_in_vain(&store, &a, "m")?;
    until_waiting(&b, "m", 1).await;
    first.release().await?.confirmed()?; // the other claim is granted, and told so
    let claim = c.inspect("m").await?.holders().next().map(|holder| holder.id).expect("it has its turn");

    store.faults().drop_signals();
    assert!(c.evict("m", claim).await?);
    store.faults().heal();
    let now = c.mutex("m")?.try_lock().await?.expect("free since the eviction");
    clock.pass(PAUSE * 2).await; // its join is repeated
    until_waiting(&c, "m", 1).await;
    for _ in 0..3 {
        clock.pass(TTL).await;
        assert!(!asking.is_finished(), "two hold m: {:?}", c.inspect("m").await?);
    }
    let token = now.token();
    now.release().await?.confirmed()?;
    let next = asking.await.expect("no panic")?;
    assert!(next.token() > token);
    next.release().await?.confirmed()
}

#[tokio::test]
async fn an_eviction_between_two_askings_of_a_join_strands_nothing() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let (a, c) = (store.attach(options())?, store.attach(options())?);
    for locks in [&a, &c] {
        warm(locks).await?;
    }
    let asking = asking_in_vain(&store, &a, "m")?;
    until("it holds, and does not know", async || {
        c.inspect("m").await.is_ok_and(|line| line.holders().count() == 1)
    })
    .await;
    let claim = c.inspect("m").await?.claims[0].id;
    assert!(c.evict("m", claim).await?);
    clock.pass(PAUSE * 2).await;
    until("it has stood in line anew", async || asking.is_finished()).await;
    let held = asking.await.expect("no panic")?;
    assert_ne!(held.claim(), claim);
    assert_eq!(held.state(), State::Held);
    held.release().await?.confirmed()?;
    assert!(c.inspect("m").await?.claims.is_empty(), "neither claim is left");
    Ok(())
}

#[tokio::test]
async fn evicting_from_a_line_where_the_claim_does_not_stand_changes_nothing() -> Done {
    let store = Store::new();
    let (a, b) = (store.attach(Options::new())?, store.attach(Options::new())?);
    let held = a.mutex("m")?.lock().await?;
    for locks in [&a, &b] {
        assert!(!locks.evict("mm", held.claim()).await?);
    }
    assert_eq!(held.state(), State::Held);
    held.release().await?.confirmed()?;
    assert!(b.mutex("m")?.try_lock().await?.is_some());
    Ok(())
}

#[tokio::test]
async fn an_eviction_of_nobody_changes_nothing() -> Done {
    let store = Store::new();
    let (a, b) = (store.attach(Options::new())?, store.attach(Options::new())?);
    let id = a.mutex("warm")?.lock().await?.claim();
    for locks in [&a, &b] {
        for number in id.number..id.number + 20 {
            assert!(!locks.evict("m", ClaimId { number, ..id }).await?); // most of these numbers are not used yet
        }
    }
    for _ in 0..8 {
        let held = a.mutex("m")?.try_lock().await?.expect("free");
        assert!((id.number..id.number + 20).contains(&held.claim().number));
    }
    Ok(())
}

/// Holds up the first join of `m` on its way.
#[derive(Debug, Default)]
struct Late {
    held_up: Mutex<HeldUp>,
    /// The answer to the next leave of another session's claim is lost.
    loses_an_eviction: AtomicBool,
}

#[derive(Debug, Default)]
enum HeldUp {
    #[default]
    NotYet,
    UnderWay(Arc<dyn Session>, Claim),
    Arrived,
}

impl Late {
    fn held_up(&self) -> MutexGuard<'_, HeldUp> {
        self.held_up.lock().expect("no panic")
    }

    /// The session by which the first join was sent.
    fn session(&self) -> Arc<dyn Session> {
        match &*self.held_up() {
            HeldUp::UnderWay(session, _) => session.clone(),
            _ => panic!("nothing is under way"),
        }
    }

    async fn arrives(&self) -> tidelock_core::Result<Place> {
        let HeldUp::UnderWay(session, claim) = std::mem::replace(&mut *self.held_up(), HeldUp::Arrived)
        else {
            panic!("nothing is under way");
        };
        session.join(&claim, Patience::Wait).await
    }
}

#[async_trait]
impl Layer for Late {
    async fn join(
        &self,
        to: &Arc<dyn Session>,
        claim: &Claim,
        patience: Patience,
    ) -> tidelock_core::Result<Place> {
        if &*claim.name == "m" && matches!(*self.held_up(), HeldUp::NotYet) {
            *self.held_up() = HeldUp::UnderWay(to.clone(), claim.clone());
            return Err(tidelock_core::Error::new(ErrorKind::Timeout, "it is held up on its way"));
        }
        to.join(claim, patience).await
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let left = to.leave(name, id, how);
        if how == Leave::Done || !self.loses_an_eviction.swap(false, Ordering::SeqCst) {
            return left;
        }
        Box::pin(async move {
            left.await?;
            Err(tidelock_core::Error::new(ErrorKind::Timeout, "its answer is lost"))
        })
    }
}

/// Locks m for `a` by the second copy of its join. The first copy, still on its way, does not prevent that.
async fn held_by_a_repetition(clock: &Clock, a: &Arc<dyn Locks>) -> tidelock_core::Result<Guard> {
    let asking = waiter(a, "m");
    until("the repetition is answered", async || {
        clock.pass(PAUSE).await;
        asking.is_finished()
    })
    .await;
    asking.await.expect("no panic")
}

/// The first copy of its join arrives late: it does not make the claim stand again, and does not disturb the next one.
async fn is_evicted_for_good(clock: &Clock, store: &Store, late: &Late, held: Guard) -> Done {
    let other = store.attach(options())?;
    let now = other.mutex("m")?.try_lock().await?.expect("free since the eviction");
    store.faults().heal();
    assert_eq!(late.arrives().await?, Place::Gone);
    clock.pass(TTL).await;
    assert_eq!((held.state(), now.state()), (State::Lost, State::Held));
    drop(held);
    now.release().await?.confirmed()?;
    assert!(other.inspect("m").await?.claims.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_late_copy_of_an_evicted_claims_join_neither_stands_nor_is_believed() -> Done {
    for is_word_lost in [true, false] {
        let clock = Clock::manual();
        let store = Store::with_clock(&clock);
        let late = Arc::new(Late::default());
        let a = attach(&store, late.clone(), options())?;
        let c = store.attach(options())?;
        warm(&a).await?;
        let held = held_by_a_repetition(&clock, &a).await?;
        if is_word_lost {
            store.faults().drop_signals();
        }
        assert!(c.evict("m", held.claim()).await?);
        is_evicted_for_good(&clock, &store, &late, held).await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_eviction_whose_answer_is_lost_is_one_for_good_too() -> Done {
    for is_word_lost in [true, false] {
        let clock = Clock::manual();
        let store = Store::with_clock(&clock);
        let (late, operators) = (Arc::new(Late::default()), Arc::new(Late::default()));
        *operators.held_up() = HeldUp::Arrived;
        let a = attach(&store, late.clone(), options())?;
        let operator = attach(&store, operators.clone(), options())?;
        warm(&a).await?;
        let held = held_by_a_repetition(&clock, &a).await?;
        if is_word_lost {
            store.faults().drop_signals();
        }
        operators.loses_an_eviction.store(true, Ordering::SeqCst);
        assert_eq!(operator.evict("m", held.claim()).await.unwrap_err().kind(), ErrorKind::Timeout);
        assert!(!operator.evict("m", held.claim()).await?, "it was there no more");
        is_evicted_for_good(&clock, &store, &late, held).await?;
    }
    Ok(())
}

/// A store may forget: its data are flushed, or a failover loses them. A late copy of a join may then make its claim
/// stand there anew, waiting behind the current holder.
#[tokio::test]
async fn a_hold_that_the_store_has_as_a_wait_is_lost_at_the_next_renewal() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let late = Arc::new(Late::default());
    let a = attach(&store, late.clone(), options())?;
    let d = store.attach(options())?;
    warm(&a).await?;
    let held = held_by_a_repetition(&clock, &a).await?;
    let session = late.session();
    store.faults().drop_signals();
    session.leave(&Name::new("m")?, held.claim(), Leave::Done).await?; // as if the store had forgotten it
    let now = d.mutex("m")?.try_lock().await?.expect("free");
    store.faults().heal();
    assert!(matches!(late.arrives().await?, Place::Waiting { .. }));
    assert_eq!(held.state(), State::Held, "nobody has told it");
    clock.pass(TTL / 2).await;
    assert_eq!((held.state(), now.state()), (State::Lost, State::Held));
    until("nothing of it stands in line", async || {
        clock.pass(PAUSE).await;
        d.inspect("m").await.is_ok_and(|line| line.claims.len() == 1)
    })
    .await;
    now.release().await?.confirmed()
}
