//! Does the same work for many items at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;

use crate::progress;

/// Calls `work` for every item, for as many at once as there are cores, and `report` on this thread, in the order of the
/// items, as soon as a result is known.
pub(crate) fn run_all<I: Sync, R: Send>(
    items: &[I],
    work: impl Fn(&I) -> R + Sync,
    report: impl FnMut(&I, R),
) {
    run(cores(), items, work, report);
}

/// The same for work that mostly waits: it has this many more threads than there are cores.
pub(crate) fn run_waiting<I: Sync, R: Send>(
    more: usize,
    items: &[I],
    work: impl Fn(&I) -> R + Sync,
    report: impl FnMut(&I, R),
) {
    run(cores() + more, items, work, report);
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn run<I: Sync, R: Send>(
    workers: usize,
    items: &[I],
    work: impl Fn(&I) -> R + Sync,
    mut report: impl FnMut(&I, R),
) {
    let next = AtomicUsize::new(0);
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
