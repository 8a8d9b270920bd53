//! Does the same work for many items at once.

use std::ops::Range;
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
    run(&[Lane::of(cores(), 0..items.len())], items, work, report);
}

/// The same for work that mostly waits: it has this many more threads than there are cores.
pub(crate) fn run_waiting<I: Sync, R: Send>(
    more: usize,
    items: &[I],
    work: impl Fn(&I) -> R + Sync,
    report: impl FnMut(&I, R),
) {
    run(&[Lane::of(cores() + more, 0..items.len())], items, work, report);
}

/// The same for work of which only the first `heavy` items use a processor or more: these are never all at work.
pub(crate) fn run_apart<I: Sync, R: Send>(
    heavy: usize,
    items: &[I],
    work: impl Fn(&I) -> R + Sync,
    report: impl FnMut(&I, R),
) {
    let half = (cores() / 2).max(1);
    run(&[Lane::of(half, 0..heavy), Lane::of(half, heavy..items.len())], items, work, report);
}

/// Items that some threads take one after the other.
struct Lane {
    workers: usize,
    next: AtomicUsize,
    end: usize,
}

impl Lane {
    fn of(workers: usize, items: Range<usize>) -> Self {
        Self { workers, next: AtomicUsize::new(items.start), end: items.end }
    }

    fn next(&self) -> Option<usize> {
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        (index < self.end).then_some(index)
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn run<I: Sync, R: Send>(
    lanes: &[Lane],
    items: &[I],
    work: impl Fn(&I) -> R + Sync,
    mut report: impl FnMut(&I, R),
) {
    let (tell, told) = channel();
    thread::scope(|scope| {
        for lane in lanes.iter().flat_map(|lane| (0..lane.workers).map(move |_| lane)) {
            let (tell, work) = (tell.clone(), &work);
            scope.spawn(move || {
                while let Some(index) = lane.next() {
                    let _ = tell.send((index, work(&items[index])));
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

    #[test]
    fn every_item_of_both_lanes_is_done() {
        for heavy in 0..=3 {
            let mut seen = Vec::new();
            run_apart(heavy, &[1, 2, 3], |n| n * 10, |n, result| seen.push((*n, result)));
            assert_eq!(seen, [(1, 10), (2, 20), (3, 30)]);
        }
    }
}
