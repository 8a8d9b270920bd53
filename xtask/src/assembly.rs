//! Builds many variants of one crate and runs each: while one runs, the next is built.
//!
//! Cargo allows one build at a time in a target folder, and most seeded faults are found at once, so two threads are
//! enough: this one builds, the other runs.

use std::sync::mpsc::{channel, sync_channel};
use std::thread;

/// Calls `build` and `run` for every item, and `report` in order as soon as a result is known.
pub(crate) fn run_all<I: Sync, B: Send, R: Send>(
    items: &[I],
    build: impl Fn(&I) -> B,
    run: impl Fn(&I, B) -> R + Sync,
    mut report: impl FnMut(&I, R),
) {
    thread::scope(|scope| {
        let (hand_over, built) = sync_channel::<(&I, B)>(1);
        let (tell, told) = channel::<(&I, R)>();
        let run = &run;
        scope.spawn(move || {
            for (item, product) in built {
                let _ = tell.send((item, run(item, product)));
            }
        });
        for item in items {
            let _ = hand_over.send((item, build(item)));
            told.try_iter().for_each(|(item, result)| report(item, result));
        }
        drop(hand_over);
        told.iter().for_each(|(item, result)| report(item, result));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_built_run_and_reported_in_order() {
        let mut seen = Vec::new();
        run_all(&[1, 2, 3, 4], |n| n * 10, |n, built| built + n, |n, result| seen.push((*n, result)));
        assert_eq!(seen, [(1, 11), (2, 22), (3, 33), (4, 44)]);
    }
}
