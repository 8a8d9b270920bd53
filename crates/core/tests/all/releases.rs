//! What a release reports: a loss is an error, and a store that has not confirmed it yet is none.

use std::sync::Arc;
use std::time::Duration;

use crate::condition::until;
use tidelock_core::prelude::*;
use tidelock_core::{Owner, Reentrant, Striped};
use tidelock_memory::Store;

type Done = tidelock_core::Result<()>;

/// Every kind of guard, each of a lock of its own.
struct Held {
    locks: Arc<dyn Locks>,
    mutex: Reentrant,
    owner: Owner,
    stock: Striped,
}

impl Held {
    fn new(locks: Arc<dyn Locks>) -> tidelock_core::Result<Self> {
        let mutex = Reentrant::new(locks.mutex("reentrant")?);
        let stock = Striped::new(&*locks, "stock", 1)?;
        Ok(Self { locks, mutex, owner: Owner::new(), stock })
    }

    /// Takes all of them, lets `meanwhile` happen, and releases all of them.
    async fn released(&self, meanwhile: impl FnOnce()) -> tidelock_core::Result<[Released; 6]> {
        let guard = self.locks.mutex("mutex")?.lock().await?;
        let reader = self.locks.rwlock("read")?.read().await?;
        let writer = self.locks.rwlock("write")?.write().await?;
        let all = self.locks.lock_all(&["a", "b"]).await?;
        let (once, again) = (self.mutex.lock(&self.owner).await?, self.mutex.lock(&self.owner).await?);
        let stripe = self.stock.by_key(b"key").await?;
        meanwhile();
        assert!(again.release().await?.is_confirmed(), "its owner still has the lock: nothing is given back");
        Ok([
            guard.release().await?,
            reader.release().await?,
            writer.release().await?,
            all.release().await?,
            once.release().await?,
            stripe.release().await?,
        ])
    }

    async fn are_free(&self) -> bool {
        let names = ["mutex", "read", "write", "a", "b", "reentrant", "stock#0"];
        for name in names {
            if !self.locks.inspect(name).await.is_ok_and(|line| line.claims.is_empty()) {
                return false;
            }
        }
        true
    }
}

#[tokio::test]
async fn a_release_that_the_store_confirms_says_so() -> Done {
    let held = Held::new(tidelock_memory::connect())?;
    for released in held.released(|| {}).await? {
        released.confirmed()?;
    }
    assert!(held.are_free().await);
    held.locks.close().await
}

#[tokio::test]
async fn a_release_that_the_store_has_not_confirmed_is_no_error() -> Done {
    for kind in [ErrorKind::Unavailable, ErrorKind::Timeout] {
        let store = Store::new();
        let held = Held::new(store.attach(Options::new())?)?;
        let trouble = || match kind {
            ErrorKind::Timeout => store.faults().lose_replies(usize::MAX),
            _ => store.faults().refuse_all(),
        };
        for released in held.released(trouble).await? {
            assert!(!released.is_confirmed());
            let Released::OnItsWay(why) = released else { panic!("the store has confirmed nothing") };
            assert_eq!(why.kind(), kind);
            assert_eq!(why.operation(), Some("release"));
        }
        store.faults().heal();
        until("the keeper gives them back", async || held.are_free().await).await;
        held.locks.close().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_store_that_takes_too_long_makes_no_release_an_error() -> Done {
    let store = Store::new();
    let locks = store.attach(Options::new().command_deadline(Duration::from_millis(50)))?;
    let guard = locks.mutex("m")?.lock().await?;
    store.faults().delay(Duration::from_millis(200));
    let on_its_way = guard.release().await?.confirmed().unwrap_err();
    assert_eq!(on_its_way.kind(), ErrorKind::Timeout);
    store.faults().heal();
    until("it is free", async || matches!(locks.mutex("m").unwrap().try_lock().await, Ok(Some(_)))).await;
    locks.close().await
}

#[tokio::test]
async fn a_release_after_a_loss_is_an_error_whatever_the_store_does() -> Done {
    let store = Store::new();
    let locks = store.attach(Options::new())?;
    let (lost, all) = (locks.mutex("m")?.lock().await?, locks.lock_all(&["a", "b"]).await?);
    store.faults().lose_sessions();
    store.faults().refuse_all();
    assert_eq!(lost.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(all.release().await.unwrap_err().kind(), ErrorKind::Lost);
    store.faults().heal();
    locks.close().await
}

/// The last one is given back first: that one is on its way, and the other one was lost.
#[tokio::test]
async fn of_locks_that_are_released_together_a_loss_outweighs_one_that_is_on_its_way() -> Done {
    let store = Store::new();
    let locks = store.attach(Options::new())?;
    let both = locks.lock_all(&["a", "b"]).await?;
    let evicted = locks.inspect("a").await?.claims[0].id;
    assert!(locks.evict("a", evicted).await?);
    store.faults().refuse_all();
    assert_eq!(both.release().await.unwrap_err().kind(), ErrorKind::Lost);
    store.faults().heal();
    locks.close().await
}
