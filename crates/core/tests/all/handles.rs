//! What handles show of themselves, and of the line that they stand for.

use tidelock_core::prelude::*;
use tidelock_memory::Store;

type Done = tidelock_core::Result<()>;

#[tokio::test]
async fn a_handle_shows_its_store_and_its_name_and_nothing_of_its_inside() -> Done {
    let locks = Store::new().connect(Options::new().namespace("shop").label("checkout 7")).await?;
    let _held = locks.mutex("m")?.lock().await?;
    let shown = [
        (format!("{locks:?}"), "Locks { store: \"memory"),
        (format!("{:?}", locks.mutex("m")?), "Mutex { name: \"m\", store: \"memory"),
        (format!("{:?}", locks.rwlock("r")?), "RwLock { name: \"r\", store: \"memory"),
        (format!("{:?}", locks.semaphore("s", 3)?), "Semaphore { name: \"s\", permits: 3, store: \"memory"),
    ];
    for (shown, begins) in shown {
        assert!(shown.starts_with(begins), "{shown}");
        assert!(shown.ends_with(", namespace: \"shop\", label: \"checkout 7\" }"), "{shown}");
    }
    locks.close().await
}

#[tokio::test]
async fn a_semaphore_that_cannot_be_is_named_in_the_error() {
    let locks = tidelock_memory::connect();
    let error = locks.semaphore("calls", 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidPermits);
    assert_eq!(error.name().map(tidelock_core::Name::as_str), Some("calls"));
    assert!(
        error.to_string().starts_with("cannot open the semaphore \"calls\": the number of permits"),
        "{error}"
    );
}

#[tokio::test]
async fn a_lost_guard_says_what_to_do() -> Done {
    let store = Store::new();
    let locks = store.connect(Options::new()).await?;
    let (run, released) = (locks.mutex("a")?.lock().await?, locks.mutex("b")?.lock().await?);
    assert!(locks.evict("a", run.claim()).await? && locks.evict("b", released.claim()).await?);
    let text = "the store no longer has it: it was evicted, its lease ended there, or the server lost its data; lock it \
                again and start over";
    for error in [run.run(async {}).await.unwrap_err(), released.release().await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Lost);
        assert!(error.to_string().ends_with(text), "{error}");
    }
    locks.close().await
}
