//! Does the same work for many items, on as many threads as there are cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use crate::progress;

/// Calls `work` for every item, and `report` on this thread, in the order of the items, as soon as a result is known.
pub(crate) fn run_all<I: Sync, R: Send>(
    items: &[I],
    work: impl Fn(&I) -> R + Sync,
    mut report: impl FnMut(&I, R),
) {
    let next = AtomicUsize::new(0);
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let (tell, told) = channel();
    thread::scope(|scope| {
        for _ in 0..workers {
            let (tell, next, work) = (tell.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    let _ = tell.send((index, work(item)));
                }
            });
        }
        drop(tell);
        let mut results: Vec<Option<R>> = items.iter().map(|_| None).collect();
        let mut reported = 0;
        for (index, result) in told {
            results[index] = Some(result);
            while let Some(result) = results.get_mut(reported).and_then(Option::take) {
                progress::clear(); // a report prints, while the others go on
                report(&items[reported], result);
                reported += 1;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_item_is_done_and_reported_in_order() {
        let mut seen = Vec::new();
        let slowly_first = |n: &u64| {
            thread::sleep(Duration::from_millis(20 / n));
            n * 10
        };
        run_all(&[1, 2, 3, 4], slowly_first, |n, result| seen.push((*n, result)));
        assert_eq!(seen, [(1, 10), (2, 20), (3, 30), (4, 40)]);
    }
}
