//! The cost of core: one task acquires and releases on the memory backend, compared with `tokio::sync`.
//!
//! `cargo bench -p tidelock --bench cost`

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidelock_core::Options;
use tidelock_memory::Store;

const SLICES: usize = 9;
const SLICE: Duration = Duration::from_millis(300);

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let locks = Store::new().attach(Options::new()).expect("the defaults are in range");
        let ours = locks.mutex("bench").expect("a good name");
        let bare = Arc::new(tokio::sync::Mutex::new(()));
        let (mut released, mut dropped, mut tokios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..SLICES {
            released.push(
                pairs_per_second(async || {
                    ours.lock().await.expect("granted").release().await.expect("released");
                })
                .await,
            );
            dropped.push(pairs_per_second(async || drop(ours.lock().await.expect("granted"))).await);
            tokios.push(pairs_per_second(async || drop(bare.clone().lock_owned().await)).await);
        }
        let bare = report("tokio::sync::Mutex behind an Arc", &mut tokios, None);
        report("tidelock, released", &mut released, Some(bare));
        report("tidelock, dropped", &mut dropped, Some(bare));
        locks.close().await.expect("closed");
    });
}

async fn pairs_per_second(mut pair: impl AsyncFnMut()) -> f64 {
    let (start, mut pairs) = (Instant::now(), 0_u32);
    while start.elapsed() < SLICE {
        for _ in 0..100 {
            pair().await;
        }
        pairs += 100;
    }
    f64::from(pairs) / start.elapsed().as_secs_f64()
}

fn report(what: &str, slices: &mut [f64], beside: Option<f64>) -> f64 {
    slices.sort_by(f64::total_cmp);
    let (least, median, most) = (slices[0], slices[slices.len() / 2], slices[slices.len() - 1]);
    let ratio = beside.map(|beside| format!(", 1/{:.1} of it", beside / median)).unwrap_or_default();
    println!("{what}: {median:.0} pairs a second (from {least:.0} to {most:.0}{ratio})");
    median
}
