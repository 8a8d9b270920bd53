//! A process that cannot start any more threads.
#![cfg(target_os = "linux")]

use std::process::Command;

use tidelock_core::ErrorKind;

const CHILD: &str = "TIDELOCK_TEST_WITHOUT_THREADS";

#[test]
fn a_keeper_that_gets_no_thread_is_unavailable() {
    if std::env::var_os(CHILD).is_some() {
        return without_threads();
    }
    // No thread can have a stack of this size, so no thread can start.
    let child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "a_keeper_that_gets_no_thread_is_unavailable", "--nocapture"])
        .env(CHILD, "1")
        .env("RUST_MIN_STACK", (1_u64 << 60).to_string())
        .output()
        .expect("it can be run again");
    let said = String::from_utf8_lossy(&child.stdout) + String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}");
}

fn without_threads() {
    assert!(std::thread::Builder::new().spawn(|| {}).is_err(), "no thread must be able to start here");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let locks = tidelock_memory::connect();
        for _ in 0..2 {
            let refused = locks.mutex("m").expect("a good name").lock().await.expect_err("no thread");
            assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
            assert!(refused.can_retry());
        }
        locks.close().await.expect("nothing was opened");
    });
}
