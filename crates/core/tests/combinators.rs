//! Reentrant, lock_all, Striped and Fence, over the memory backend.

mod condition;

use std::time::Duration;

use condition::until;
use tidelock::prelude::*;
use tidelock::{ErrorKind, Fence, Options, Owner, Reentrant, Striped};
use tidelock_memory::Store;

type Done = tidelock::Result<()>;

#[tokio::test]
async fn an_owner_locks_again_and_another_waits() -> Done {
    let locks = tidelock_memory::connect();
    let mutex = Reentrant::new(locks.mutex("m")?);
    let (me, you) = (Owner::new(), Owner::new());
    let outer = mutex.lock(&me).await?;
    let inner = mutex.lock_within(&me, Duration::ZERO).await?.expect("held already");
    assert_eq!((outer.token(), outer.depth()), (inner.token(), 2));
    assert!(mutex.try_lock(&you).await?.is_none());
    outer.release().await?;
    assert!(mutex.lock_within(&you, Duration::from_millis(5)).await?.is_none());
    inner.release().await?;
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
    let locks = store.connect(Options::new())?;
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
    all.release().await?;
    for name in ["a", "b", "c", "d"] {
        until("all are free", async || locks.inspect(name).await.is_ok_and(|line| line.claims.is_empty()))
            .await;
    }
    locks.close().await
}

#[tokio::test]
async fn lock_all_spans_stores() -> Done {
    let (here, there) = (tidelock_memory::connect(), tidelock_memory::connect());
    let mutexes = [there.mutex("m")?, here.mutex("m")?, there.mutex("m")?];
    let all = tidelock::lock_all(&mutexes).await?;
    assert_eq!(all.iter().count(), 2);
    drop(all);
    here.close().await?;
    there.close().await
}

#[tokio::test]
async fn opposite_orders_do_not_deadlock() -> Done {
    let locks = tidelock_memory::connect();
    let circle = |names: [&'static str; 2]| {
        let locks = locks.clone();
        tokio::spawn(async move {
            for _ in 0..200 {
                locks.lock_all(&names).await?.release().await?;
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

#[tokio::test]
async fn a_fence_refuses_an_older_token_and_takes_the_same_twice() -> Done {
    let locks = tidelock_memory::connect();
    let mutex = locks.mutex("m")?;
    let first = mutex.lock().await?;
    let old = first.token();
    let fence = Fence::after(old);
    fence.accept(old)?;
    first.release().await?;
    let second = mutex.lock().await?;
    fence.accept(second.token())?;
    assert_eq!(fence.accept(old).unwrap_err().kind(), ErrorKind::Lost);
    fence.accept(second.token())?;
    second.release().await?;
    locks.close().await
}
