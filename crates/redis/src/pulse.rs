//! Whether a connection on which something was asked has fallen silent.
//!
//! A connection may die without a word: a firewall forgets it, a machine on the way loses its power. By itself that
//! cannot be told from a server that takes its time. A second connection tells it: a server that answers there and
//! still not here does not hear what is asked here. So silence is only the occasion to look; [`outlived`] looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tidelock::{Sleep, boot_clock};
use tokio::sync::Notify;

/// How long what is asked on the old connection may still take when the new one stands: the server may have stood
/// still, and answers both.
const GRACE: Duration = Duration::from_millis(50);

/// What is under way on a connection, and how often something was heard there.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    under_way: AtomicUsize,
    heard: AtomicU64,
    /// Whether whoever watches for silence looks again by itself.
    is_watched: AtomicBool,
    asked: Notify,
}

/// A question under way, for as long as somebody waits for its answer.
pub(crate) struct UnderWay<'a>(&'a Pulse);

impl Pulse {
    /// Something is asked.
    pub(crate) fn ask(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        if !self.is_watched.load(Ordering::SeqCst) && !self.is_watched.swap(true, Ordering::SeqCst) {
            self.asked.notify_one();
        }
        UnderWay(self)
    }

    /// Something was heard.
    pub(crate) fn hear(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::SeqCst)
    }

    /// How often something was heard.
    pub(crate) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// Waits until something is under way and nothing has been heard for `longest`, give or take half of it. While
    /// nothing is asked, nothing is done.
    async fn falls_silent(&self, longest: Duration) {
        let clock = boot_clock();
        loop {
            self.is_asked().await;
            let (mut heard, mut looks) = (self.heard(), 0);
            while self.under_way() > 0 && looks < 2 {
                Sleep::until(&clock, clock.now() + longest / 2).await;
                let now = self.heard();
                looks = if now == heard { looks + 1 } else { 0 };
                heard = now;
            }
            if looks == 2 && self.under_way() > 0 {
                return;
            }
        }
    }

    /// Waits until something is under way.
    async fn is_asked(&self) {
        while self.under_way() == 0 {
            self.is_watched.store(false, Ordering::SeqCst);
            if self.under_way() == 0 {
                self.asked.notified().await;
            }
            self.is_watched.store(true, Ordering::SeqCst);
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Waits until the connection of this pulse has fallen silent for `longest`, and its server has answered elsewhere; and
/// gives that answer, which `dial` has come to. `None` of it is no answer.
pub(crate) async fn outlived<T, F: Future<Output = Option<T>>>(
    pulse: Arc<Pulse>,
    longest: Duration,
    dial: impl Fn() -> F,
) -> T {
    loop {
        pulse.falls_silent(longest).await;
        let heard = pulse.heard();
        let Some(answer) = dial().await else { continue };
        let clock = boot_clock();
        Sleep::until(&clock, clock.now() + GRACE).await;
        if pulse.heard() == heard {
            return answer;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(10);

    async fn is_silent(pulse: &Pulse, within: Duration) -> bool {
        tokio::time::timeout(within, pulse.falls_silent(SHORT)).await.is_ok()
    }

    #[tokio::test]
    async fn a_connection_is_silent_when_something_was_asked_and_nothing_is_heard() {
        let pulse = Pulse::default();
        assert!(!is_silent(&pulse, SHORT * 5).await, "nothing was asked");
        let asked = pulse.ask();
        assert!(is_silent(&pulse, LONG).await);
        drop(asked);
        assert!(!is_silent(&pulse, SHORT * 5).await, "nobody waits for an answer");
        let _asked = pulse.ask();
        assert!(is_silent(&pulse, LONG).await);
    }

    #[tokio::test]
    async fn who_is_heard_of_all_the_while_is_not_silent() {
        let pulse = Pulse::default();
        let _asked = pulse.ask();
        let speaks = async {
            for _ in 0..50 {
                pulse.hear();
                tokio::time::sleep(SHORT / 10).await;
            }
        };
        tokio::select! {
            () = pulse.falls_silent(SHORT * 10) => panic!("it was heard of"),
            () = speaks => {}
        }
    }

    #[tokio::test]
    async fn a_connection_that_answers_after_all_is_not_outlived() {
        let pulse = Arc::new(Pulse::default());
        let _asked = pulse.ask();
        let dial = || {
            pulse.hear();
            std::future::ready(Some(()))
        };
        let outlived = outlived(pulse.clone(), SHORT, dial);
        assert!(tokio::time::timeout(SHORT * 10, outlived).await.is_err());
    }
}
