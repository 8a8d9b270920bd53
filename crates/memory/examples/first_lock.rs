//! A first lock: take it, see another client refused, release it, take it again with a greater token.
//!
//! The two clients stand for two processes; they share one store. `cargo run -p tidelock-memory --example first_lock`

use tidelock_memory::{Options, Result, State, Store};

#[tokio::main]
async fn main() -> Result<()> {
    let store = Store::new();
    let here = store.connect(Options::new().label("here")).await?;
    let there = store.connect(Options::new().label("there")).await?;

    let guard = here.mutex("stock:42")?.lock().await?;
    println!("here:  {:?} is held under token {}", guard.name(), guard.token());
    assert_eq!(guard.state(), State::Held);

    // Contention is a value, not an error.
    let refused = there.mutex("stock:42")?.try_lock().await?;
    println!("there: try_lock gives {refused:?}");
    assert!(refused.is_none());

    // Another name is another line.
    let other = there.mutex("stock:43")?.try_lock().await?;
    assert!(other.is_some());
    drop(other);

    let first = guard.token();
    guard.release().await?;

    let guard = there.mutex("stock:42")?.lock().await?;
    println!("there: {:?} is held under token {}", guard.name(), guard.token());
    assert!(guard.token() > first, "of two conflicting grants the later has the greater token");
    guard.release().await?;

    for locks in [here, there] {
        locks.close().await?;
    }
    Ok(())
}
