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
    assert_eq!(error.name().map(|name| name.as_str()), Some("calls"));
    assert!(
        error.to_string().starts_with("cannot open the semaphore \"calls\": the number of permits"),
        "{error}"
    );
}
