//! Reentrant, lock_all, Striped and Fence over the memory backend.

use std::future::{Future, poll_fn};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tidelock_core::backend::{Backend, Claim, Layer, Leave, Left, Patience, Place, Reply, Session, Signals};
use tidelock_core::prelude::*;
use tidelock_core::{ClaimId, ErrorKind, Fence, Name, Options, Owner, Reentrant, SessionId, Striped};
use tidelock_memory::{Clock, Store};

use crate::condition::until;
use crate::layered::attach;
use crate::line::{until_empty, until_waiting, waiter};

type Done = tidelock_core::Result<()>;

/// A store with a name of the test's choice.
#[derive(Debug)]
struct Called {
    name: &'static str,
    store: Store,
}

#[async_trait]
impl Backend for Called {
    fn clock(&self) -> Arc<dyn tidelock_core::backend::Clock> {
        self.store.clock()
    }

    fn store(&self) -> &str {
        self.name
    }

    async fn open(
        &self,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> tidelock_core::Result<Arc<dyn Session>> {
        self.store.open(id, options, signals).await
    }
}

fn called(name: &'static str, store: &Store) -> tidelock_core::Result<Arc<dyn Locks>> {
    tidelock_core::backend::attach(Arc::new(Called { name, store: store.clone() }), Options::new())
}

#[tokio::test]
async fn an_owner_locks_again_and_another_waits() -> Done {
    let locks = tidelock_memory::connect();
    let mutex = Reentrant::new(locks.mutex("m")?);
    let (me, you) = (Owner::new(), Owner::new());
    let outer = mutex.lock(&me).await?;
    let inner = mutex.lock_within(&me, Duration::ZERO).await?.expect("held already");
    assert_eq!((outer.token(), outer.depth()), (inner.token(), 2));
    assert!(mutex.try_lock(&you).await?.is_none());
    outer.release().await?.confirmed()?;
    assert!(mutex.lock_within(&you, Duration::from_millis(5)).await?.is_none());
    inner.release().await?.confirmed()?;
    assert!(mutex.try_lock(&you).await?.is_some());
    locks.close().await
}

#[tokio::test]
async fn one_owner_in_two_tasks_does_not_wait_for_itself() -> Done {
    let locks = tidelock_memory::connect();
    let mutex = Reentrant::new(locks.mutex("m")?);
    let me = Owner::new();
    let (a, b) = tokio::join!(mutex.lock(&me), mutex.lock(&me));
    assert_eq!(a?.token(), b?.token());
    locks.close().await
}

#[tokio::test]
async fn the_current_owner_is_the_tasks_own() -> Done {
    let me = Owner::new();
    assert_eq!(Owner::current(), None);
    me.scope(async { assert_eq!(Owner::current(), Some(me.clone())) }).await;
    let inherited =
        me.scope(async { tokio::spawn(async { Owner::current() }).await.expect("no panic") }).await;
    assert_eq!(inherited, None);
    Ok(())
}

#[tokio::test]
async fn a_lost_hold_is_not_entered_again() -> Done {
    let store = Store::new();
    let locks = store.attach(Options::new())?;
    let mutex = Reentrant::new(locks.mutex("m")?);
    let me = Owner::new();
    let held = mutex.lock(&me).await?;
    store.faults().lose_sessions();
    held.lost().await;
    assert_eq!(mutex.lock(&me).await.unwrap_err().kind(), ErrorKind::Lost);
    drop(held);
    assert!(mutex.try_lock(&me).await?.is_some());
    locks.close().await
}

#[tokio::test]
async fn lock_all_sorts_drops_doubles_and_takes_nothing_when_it_fails() -> Done {
    let locks = tidelock_memory::connect();
    let all = locks.lock_all(&["c", "a", "b", "a"]).await?;
    let names: Vec<_> = all.iter().map(|guard| guard.name().to_string()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(all.state(), State::Held);
    assert!(locks.lock_all_within(&["d", "b"], Duration::from_millis(20)).await?.is_none());
    assert!(locks.mutex("d")?.try_lock().await?.is_some());
    assert_eq!(locks.lock_all(&["e", ""]).await.unwrap_err().kind(), ErrorKind::InvalidName);
    all.release().await?.confirmed()?;
    for name in ["a", "b", "c", "d"] {
        until_empty(&locks, name).await;
    }
    locks.close().await
}

#[tokio::test]
async fn lock_all_spans_stores() -> Done {
    let (here, there) = (tidelock_memory::connect(), tidelock_memory::connect());
    let mutexes = [there.mutex("m")?, here.mutex("m")?, there.mutex("m")?];
    let all = tidelock_core::lock_all(&mutexes).await?;
    assert_eq!(all.iter().count(), 2);
    drop(all);
    here.close().await?;
    there.close().await
}

#[tokio::test]
async fn lock_all_skips_no_lock_of_a_store_that_is_called_like_another() -> Done {
    let (here, there) = (called("mymaster", &Store::new())?, called("mymaster", &Store::new())?);
    let all = tidelock_core::lock_all(&[here.mutex("m")?, there.mutex("m")?]).await?;
    assert_eq!(all.iter().count(), 2);
    assert!(here.mutex("m")?.try_lock().await?.is_none());
    assert!(
        there.mutex("m")?.try_lock().await?.is_none(),
        "it was among the requested locks, so it is locked"
    );
    all.release().await?.confirmed()?;
    here.close().await?;
    there.close().await
}

#[tokio::test]
async fn lock_all_does_not_wait_for_itself_in_a_store_that_has_two_names() -> Done {
    let store = Store::new();
    let (one, other) = (called("10.0.0.7:6379", &store)?, called("redis.internal:6379", &store)?);
    let mutexes = [other.mutex("m")?, one.mutex("m")?, one.mutex("n")?, one.mutex("m")?];
    let locking = tokio::time::timeout(Duration::from_secs(5), tidelock_core::lock_all(&mutexes));
    let all = locking.await.expect("it finds out that it holds the lock already")?;
    assert_eq!(all.iter().count(), 2);
    all.release().await?.confirmed()?;
    let all = tidelock_core::lock_all_within(&mutexes, Duration::from_secs(5)).await?.expect("they are free");
    assert_eq!(all.iter().count(), 2);
    all.release().await?.confirmed()?;
    one.close().await?;
    other.close().await
}

#[tokio::test]
async fn lock_all_without_patience_takes_what_is_free() -> Done {
    let locks = tidelock_memory::connect();
    let all = locks.lock_all_within(&["a", "b", "c"], Duration::ZERO).await?.expect("they are free");
    assert_eq!(all.iter().count(), 3);
    assert!(locks.lock_all_within(&["0", "c"], Duration::ZERO).await?.is_none());
    all.release().await?.confirmed()?;
    assert!(locks.mutex("0")?.try_lock().await?.is_some(), "it was given back");
    locks.close().await
}

#[tokio::test]
async fn lock_all_within_keeps_its_deadline_where_a_name_is_in_two_stores() -> Done {
    for is_open in [true, false] {
        let (quick, still) = (Store::new(), Store::new());
        let (a, b) = (quick.attach(Options::new())?, still.attach(Options::new())?);
        if is_open {
            b.mutex("other")?.lock().await?.release().await?.confirmed()?;
        }
        still.faults().delay(Duration::from_secs(60));
        let both = [a.mutex("m")?, b.mutex("m")?];
        let began = Instant::now();
        let all = tidelock_core::lock_all_within(&both, Duration::from_millis(100)).await?;
        assert!(all.is_none());
        assert!(began.elapsed() < Duration::from_secs(1), "it took {:?}", began.elapsed());
    }
    Ok(())
}

#[tokio::test]
async fn lock_all_of_thousands_costs_each_of_them_once() -> Done {
    let locks = Store::new().attach(Options::new())?;
    let names: Vec<String> = (0..8_000).map(|number| format!("name {number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let began = Instant::now();
    locks.lock_all(&names).await?.release().await?.confirmed()?;
    // This took 20 s when each guard was listened to again for each lock that came after it.
    assert!(began.elapsed() < Duration::from_secs(4), "it took {:?}", began.elapsed());
    Ok(())
}

#[tokio::test]
async fn lock_all_within_counts_on_the_clock_of_the_store() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let (locks, other) = (store.attach(Options::new())?, store.attach(Options::new())?);
    let (a, b) = (other.mutex("a")?.lock().await?, other.mutex("b")?.lock().await?);
    let all = tokio::spawn({
        let locks = locks.clone();
        async move { locks.lock_all_within(&["a", "b"], Duration::from_secs(60)).await }
    });
    until_waiting(&other, "a", 1).await;
    clock.pass(Duration::from_secs(50)).await;
    a.release().await?.confirmed()?;
    until_waiting(&other, "b", 1).await;
    clock.pass(Duration::from_secs(11)).await;
    until("its minute is over", async || all.is_finished()).await;
    assert!(all.await.expect("no panic")?.is_none());
    b.release().await?.confirmed()?;
    locks.close().await?;
    other.close().await
}

#[tokio::test]
async fn an_owner_waits_for_itself_on_the_clock_of_the_store() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let (locks, other) = (store.attach(Options::new())?, store.attach(Options::new())?);
    let held = other.mutex("m")?.lock().await?;
    let (mutex, me) = (Arc::new(Reentrant::new(locks.mutex("m")?)), Owner::new());
    let first = tokio::spawn({
        let (mutex, me) = (mutex.clone(), me.clone());
        async move { mutex.lock(&me).await.map(drop) }
    });
    until_waiting(&other, "m", 1).await;
    let second = tokio::spawn(async move { mutex.lock_within(&me, Duration::from_secs(60)).await });
    tokio::task::yield_now().await;
    clock.pass(Duration::from_secs(61)).await;
    until("its minute is over", async || second.is_finished()).await;
    assert!(second.await.expect("no panic")?.is_none());
    held.release().await?.confirmed()?;
    first.await.expect("no panic")?;
    locks.close().await?;
    other.close().await
}

/// The sessions in which the locks are taken, one after the other, in whatever order they are named.
async fn order_of(mutexes: &[Arc<dyn Mutex>]) -> tidelock_core::Result<Vec<SessionId>> {
    let all = tidelock_core::lock_all(mutexes).await?;
    let order = all.iter().map(|guard| guard.claim().session).collect();
    all.release().await?.confirmed()?;
    Ok(order)
}

#[tokio::test]
async fn nobody_waits_in_a_circle_for_two_stores_that_are_called_alike() -> Done {
    let (here, there) = (called("mymaster", &Store::new())?, called("mymaster", &Store::new())?);
    let (m_here, m_there) = (here.mutex("m")?, there.mutex("m")?);
    let order = order_of(&[m_here.clone(), m_there.clone()]).await?;
    assert_eq!(order_of(&[m_there.clone(), m_here]).await?, order);
    let another_handle = here.mutex("m")?;
    assert_eq!(order_of(&[m_there.clone(), another_handle]).await?, order);
    let sibling = here.with_ttl(Duration::from_secs(60))?;
    let of_sibling = sibling.mutex("m")?.lock().await?.claim().session;
    let here_first = order_of(&[here.mutex("n")?]).await? == order[..1];
    let by_sibling = order_of(&[m_there, sibling.mutex("m")?]).await?;
    assert_eq!(by_sibling.first() == Some(&of_sibling), here_first, "a sibling belongs to the same store");
    for locks in [here, there, sibling] {
        locks.close().await?;
    }
    Ok(())
}

#[tokio::test]
async fn opposite_orders_do_not_deadlock() -> Done {
    let locks = tidelock_memory::connect();
    let circle = |names: [&'static str; 2]| {
        let locks = locks.clone();
        tokio::spawn(async move {
            for _ in 0..200 {
                locks.lock_all(&names).await?.release().await?.confirmed()?;
            }
            Done::Ok(())
        })
    };
    let (ab, ba) = (circle(["a", "b"]), circle(["b", "a"]));
    ab.await.expect("no panic")?;
    ba.await.expect("no panic")?;
    locks.close().await
}

#[tokio::test]
async fn any_free_stripe_is_taken_and_an_emptied_one_is_not_tried_again() -> Done {
    let locks = tidelock_memory::connect();
    let striped = Striped::new(&*locks, "stock", 3)?;
    let (a, b) = (striped.any().await?.expect("filled"), striped.any().await?.expect("filled"));
    assert_ne!(a.index(), b.index());
    for index in 0..3 {
        striped.mark_empty(index);
    }
    assert!(striped.any().await?.is_none());
    striped.mark_filled(a.index());
    let index = a.index();
    drop(a);
    assert_eq!(striped.any().await?.expect("filled again").index(), index);
    assert_eq!(striped.index_of(b"a key"), striped.index_of(b"a key"));
    assert!(Striped::new(&*locks, "stock", 0).is_err());
    drop(b);
    locks.close().await
}

/// The stripe with a waiter.
async fn waited_for(locks: &Arc<dyn Locks>) -> usize {
    let mut found = None;
    until("it waits for a stripe", async || {
        for index in 0..2 {
            let line = locks.inspect(&format!("stock#{index}")).await;
            if line.is_ok_and(|line| line.waiters().count() == 1) {
                found = Some(index);
            }
        }
        found.is_some()
    })
    .await;
    found.unwrap_or_default()
}

#[tokio::test]
async fn a_waiter_for_any_stripe_is_told_when_all_are_sold_out() -> Done {
    let locks = tidelock_memory::connect();
    let stock = Arc::new(Striped::new(&*locks, "stock", 2)?);
    let (a, b) = (stock.any().await?.expect("filled"), stock.any().await?.expect("filled"));
    let waits = tokio::spawn({
        let stock = stock.clone();
        async move { stock.any().await.map(|taken| taken.is_none()) }
    });
    let first = waited_for(&locks).await;
    stock.mark_empty(first); // its holder sold the last piece and is shipping it
    until("it waits for the other one", async || waited_for(&locks).await == 1 - first).await;
    stock.mark_empty(1 - first);
    let told = tokio::time::timeout(Duration::from_secs(5), waits).await.expect("it waits for nobody");
    assert!(told.expect("no panic")?);
    for index in 0..2 {
        until_waiting(&locks, &format!("stock#{index}"), 0).await;
    }
    drop((a, b));
    locks.close().await
}

/// While a stripe is being taken, another caller sells its last piece. Before it is given back, an operator takes the
/// claim out.
#[derive(Debug)]
struct SoldAndEvicted {
    stock: OnceLock<Striped>,
    sold: usize,
    operator: Arc<dyn Locks>,
}

impl SoldAndEvicted {
    fn is_sold(&self, name: &Name) -> bool {
        name.as_str() == format!("stock#{}", self.sold)
    }
}

#[async_trait]
impl Layer for SoldAndEvicted {
    async fn join(
        &self,
        to: &Arc<dyn Session>,
        claim: &Claim,
        patience: Patience,
    ) -> tidelock_core::Result<Place> {
        if self.is_sold(&claim.name) {
            self.stock.get().expect("there is one").mark_empty(self.sold);
        }
        to.join(claim, patience).await
    }

    fn leave(self: Arc<Self>, to: &Arc<dyn Session>, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let (to, name) = (to.clone(), name.clone());
        Box::pin(async move {
            if self.is_sold(&name) {
                self.operator.evict(name.as_str(), id).await?;
            }
            to.leave(&name, id, how).await
        })
    }
}

/// Nobody was handed that stripe, so its loss is no concern of the caller.
#[tokio::test]
async fn the_loss_of_a_stripe_that_was_empty_is_not_told() -> Done {
    for sold in 0..2 {
        let store = Store::new();
        let operator = store.attach(Options::new())?;
        let layer = Arc::new(SoldAndEvicted { stock: OnceLock::new(), sold, operator });
        let locks = attach(&store, layer.clone(), Options::new())?;
        let stock = layer.stock.get_or_init(|| Striped::new(&*locks, "stock", 2).expect("good options"));
        for _ in 0..2 {
            let taken = stock.any().await?.expect("one is filled");
            assert_eq!(taken.index(), 1 - sold);
            taken.release().await?.confirmed()?;
        }
        until_empty(&locks, &format!("stock#{sold}")).await;
        locks.close().await?;
    }
    Ok(())
}

#[tokio::test]
async fn processes_do_not_all_begin_at_the_same_stripe() -> Done {
    let locks = tidelock_memory::connect();
    let mut first = std::collections::BTreeSet::new();
    for _ in 0..64 {
        let process = Striped::new(&*locks, "stock", 8)?; // stands for another process
        let stripe = process.any().await?.expect("filled");
        first.insert(stripe.index());
        stripe.release().await?.confirmed()?;
    }
    assert!(first.len() > 3, "all begin at {first:?}");
    locks.close().await
}

#[tokio::test]
async fn a_fence_refuses_an_older_token_and_takes_the_same_twice() -> Done {
    let locks = tidelock_memory::connect();
    let mutex = locks.mutex("m")?;
    let first = mutex.lock().await?;
    let old = first.token();
    let fence = Fence::after(old);
    fence.accept(old)?;
    first.release().await?.confirmed()?;
    let second = mutex.lock().await?;
    fence.accept(second.token())?;
    assert_eq!(fence.accept(old).unwrap_err().kind(), ErrorKind::Lost);
    fence.accept(second.token())?;
    second.release().await?.confirmed()?;
    locks.close().await
}

#[tokio::test]
async fn a_future_that_nobody_polls_keeps_no_owner_from_a_free_lock() -> Done {
    let locks = tidelock_memory::connect();
    let busy = locks.mutex("m")?.lock().await?;
    let (mutex, me) = (Reentrant::new(locks.mutex("m")?), Owner::new());
    let mut first = Box::pin(mutex.lock(&me));
    let mut lying = Box::pin(mutex.lock(&me)); // it waits until the first one has ended
    let mut user = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut user).is_pending() && lying.as_mut().poll(&mut user).is_pending());
    busy.release().await?.confirmed()?;
    first.await?.release().await?.confirmed()?;
    assert!(locks.inspect("m").await?.claims.is_empty());
    let again = mutex.lock_within(&me, Duration::from_secs(5)).await?;
    assert!(again.is_some(), "no claim holds or waits, and the owner does not get the lock");
    Ok(())
}

#[tokio::test]
async fn a_task_that_was_busy_is_not_told_that_a_free_lock_is_held() {
    let busy = async {
        let locks = tidelock_memory::connect();
        let (mutex, me) = (Reentrant::new(locks.mutex("m")?), Owner::new());
        drop(locks.mutex("m")?.lock().await?);
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        (0..1_000).for_each(|n| tell.send(n).expect("it listens"));
        // Without yielding it uses up the budget that tokio gives a task.
        poll_fn(|cx| {
            while told.poll_recv(cx).is_ready() {}
            Poll::Ready(())
        })
        .await;
        assert!(
            mutex.lock_within(&me, Duration::ZERO).await?.is_some(),
            "the lock is free, and the store was not asked"
        );
        Done::Ok(())
    };
    tokio::spawn(busy).await.expect("no panic").expect("no error");
}

#[tokio::test]
async fn lock_all_that_lost_one_can_be_asked_for_again() -> Done {
    let store = Store::new();
    let (a, b) = (store.attach(Options::new().label("a"))?, store.attach(Options::new())?);
    let held = b.mutex("y")?.lock().await?;
    let loses = a.clone();
    let both = tokio::spawn(async move { loses.lock_all(&["x", "y"]).await.map(drop) });
    until_waiting(&b, "y", 1).await;
    store.faults().lose_sessions_of("a");
    let error = both.await.expect("no panic").unwrap_err();
    assert_eq!((error.kind(), error.can_retry()), (ErrorKind::Lost, true), "{error}");
    held.release().await?.confirmed()?;
    a.lock_all(&["x", "y"]).await?.release().await?.confirmed() // the same call, later
}

#[tokio::test]
async fn a_lock_that_is_free_is_not_kept_from_its_owner_by_a_future_that_nobody_polls() -> Done {
    const TTL: Duration = Duration::from_secs(15);
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let (locks, other) = (store.attach(Options::new().max_hold(TTL * 2))?, store.attach(Options::new())?);
    let busy = other.mutex("m")?.lock().await?;
    let (mutex, me) = (Reentrant::new(locks.mutex("m")?), Owner::new());
    locks.mutex("warm")?.lock().await?.release().await?.confirmed()?;
    let mut lying = Box::pin(mutex.lock(&me));
    assert!(lying.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    busy.release().await?.confirmed()?;
    clock.pass(TTL * 4).await; // max_hold has ended the grant of the future that is not polled
    assert!(locks.inspect("m").await?.claims.is_empty());
    mutex.try_lock(&me).await?.expect("it is free").release().await?.confirmed()?;
    tokio::time::timeout(Duration::from_secs(5), mutex.lock(&me))
        .await
        .expect("it is free")?
        .release()
        .await?
        .confirmed()?;
    lying.await?.release().await?.confirmed()
}

#[tokio::test]
async fn a_polled_task_of_an_owner_gets_what_was_granted_to_one_that_is_not() -> Done {
    let locks = tidelock_memory::connect();
    let busy = locks.mutex("m")?.lock().await?;
    let (mutex, me) = (Arc::new(Reentrant::new(locks.mutex("m")?)), Owner::new());
    let mut lying = Box::pin(mutex.lock(&me));
    assert!(lying.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let waits = |patience| {
        let (mutex, me) = (mutex.clone(), me.clone());
        tokio::spawn(async move { mutex.lock_within(&me, patience).await })
    };
    let (patient, impatient) = (waits(Duration::from_secs(60)), waits(Duration::from_millis(10)));
    assert!(impatient.await.expect("no panic")?.is_none());
    assert_eq!(locks.inspect("m").await?.waiters().count(), 1, "an owner stands in line once");
    busy.release().await?.confirmed()?;
    let held = tokio::time::timeout(Duration::from_secs(5), patient).await.expect("its owner has it");
    let held = held.expect("no panic")?.expect("a minute is enough");
    let again = lying.await?;
    assert_eq!((again.token(), again.depth()), (held.token(), 2));
    Ok(())
}

#[tokio::test]
async fn what_one_of_an_owner_fails_with_is_its_own() -> Done {
    let locks = tidelock_memory::connect();
    let busy = locks.mutex("m")?.lock().await?;
    let (mutex, me) = (Reentrant::new(locks.mutex("m")?), Owner::new());
    let (impatient, patient) = tokio::join!(mutex.lock_within(&me, Duration::from_millis(20)), async {
        let patient = mutex.lock(&me); // behind the other future, whose end does not end this one
        tokio::pin!(patient);
        let early = tokio::time::timeout(Duration::from_millis(60), &mut patient).await;
        assert!(early.is_err(), "it is held");
        busy.release().await?.confirmed()?;
        patient.await
    });
    assert!(impatient?.is_none());
    patient?.release().await?.confirmed()?;
    assert!(locks.inspect("m").await?.claims.is_empty());
    locks.close().await
}

fn begin<F: Future>(future: F) -> std::pin::Pin<Box<F>> {
    let mut begun = Box::pin(future);
    assert!(begun.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    begun
}

/// A store that grants nothing fails with this kind of error for the second of an owner, and for an only one.
async fn no_grant_is(kind: ErrorKind, mutex: &Reentrant, me: &Owner) {
    let first = begin(mutex.lock(me));
    let second = mutex.lock_within(me, Duration::from_millis(100)).await;
    assert_eq!(second.expect_err("nothing was granted").kind(), kind);
    drop(first);
    let only = mutex.lock_within(me, Duration::from_millis(100)).await;
    assert_eq!(only.expect_err("nothing was granted").kind(), kind);
}

#[tokio::test]
async fn a_silent_store_is_no_contention_for_the_second_of_an_owner() -> Done {
    let store = Store::new();
    let locks = store.attach(Options::new())?;
    locks.mutex("warm")?.lock().await?.release().await?.confirmed()?;
    let (mutex, me) = (Reentrant::new(locks.mutex("m")?), Owner::new()); // no claim holds or waits
    store.faults().delay(Duration::from_secs(60));
    no_grant_is(ErrorKind::Timeout, &mutex, &me).await;
    Ok(())
}

#[tokio::test]
async fn an_unreachable_store_is_no_contention_for_the_second_of_an_owner() -> Done {
    let store = Store::new();
    for is_open in [false, true] {
        store.faults().heal();
        let locks = store.attach(Options::new())?;
        if is_open {
            locks.mutex("warm")?.lock().await?.release().await?.confirmed()?;
        }
        let (mutex, me) = (Reentrant::new(locks.mutex("m")?), Owner::new());
        store.faults().refuse_all(); // the server is down
        no_grant_is(ErrorKind::Unavailable, &mutex, &me).await;
    }
    Ok(())
}

#[tokio::test]
async fn who_waits_behind_an_impatient_one_of_its_owner_keeps_its_place() -> Done {
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let (locks, other) = (store.attach(Options::new())?, store.attach(Options::new())?);
    let busy = other.mutex("m")?.lock().await?;
    let (mutex, me) = (Arc::new(Reentrant::new(locks.mutex("m")?)), Owner::new());
    let impatient = tokio::spawn({
        let (mutex, me) = (mutex.clone(), me.clone());
        async move { mutex.lock_within(&me, Duration::from_secs(3)).await.map(|held| held.is_none()) }
    });
    until_waiting(&other, "m", 1).await;
    let first = begin(mutex.lock(&me));
    let second = waiter(&other, "m");
    until_waiting(&other, "m", 2).await;
    let place = other.inspect("m").await?.waiters().next().map(|info| info.id);
    clock.pass(Duration::from_secs(4)).await;
    until("its patience is over", async || impatient.is_finished()).await;
    assert!(impatient.await.expect("no panic")?);
    assert_eq!(other.inspect("m").await?.waiters().next().map(|info| info.id), place);
    busy.release().await?.confirmed()?;
    first.await?.release().await?.confirmed()?;
    second.await.expect("no panic")?.release().await?.confirmed()?;
    locks.close().await?;
    other.close().await
}

#[tokio::test]
async fn all_of_an_owner_hear_of_the_trouble_that_all_have_met() -> Done {
    let store = Store::new();
    let locks = store.attach(Options::new().command_deadline(Duration::from_millis(300)))?;
    let (mutex, me) = (Arc::new(Reentrant::new(locks.mutex("m")?)), Owner::new());
    store.faults().refuse_all();
    let began = Instant::now();
    let tasks: Vec<_> = (0..40)
        .map(|_| {
            let (mutex, me) = (mutex.clone(), me.clone());
            tokio::spawn(async move { mutex.lock(&me).await.map(drop) })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.expect("no panic").unwrap_err().kind(), ErrorKind::Unavailable);
    }
    assert!(began.elapsed() < Duration::from_secs(3), "they ran one after the other: {:?}", began.elapsed());
    Ok(())
}
