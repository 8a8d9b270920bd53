//! Detects a connection that has fallen silent while requests are under way.
//!
//! A connection may die without notice: a firewall forgets it, or a machine on the route loses power. On the connection
//! itself that looks like a slow server. A second connection tells the difference: a server that answers there, and
//! still not here, does not receive what is sent here. So silence is only the reason to check; [`outlived`] checks.
//!
//! A request under way may have been answered long ago, with the reply in a future that nobody polls. So the check also
//! sends a request on the old connection, and a reply to it ends the doubt.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::dial;

/// How long the old connection may still take to answer once the new one has: the server may have paused, and then
/// answers on both.
const GRACE: Duration = Duration::from_millis(50);

/// Counts the requests under way on a connection, and the replies that were heard there.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    under_way: AtomicUsize,
    heard: AtomicU64,
    /// Whether the watcher will look again by itself, without a wake-up.
    is_watched: AtomicBool,
    asked: Notify,
}

/// A request under way, for as long as somebody waits for its reply.
pub(crate) struct UnderWay<'a>(&'a Pulse);

impl Pulse {
    /// Notes that a request is sent.
    pub(crate) fn ask(&self) -> UnderWay<'_> {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        if !self.is_watched.load(Ordering::SeqCst) && !self.is_watched.swap(true, Ordering::SeqCst) {
            self.asked.notify_one();
        }
        UnderWay(self)
    }

    /// Notes that something was heard.
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

    /// Waits until a request is under way and nothing has been heard for `long`. Does nothing while no request is under
    /// way.
    async fn falls_silent(&self, long: Duration) {
        loop {
            self.is_asked().await;
            let heard = self.heard();
            dial::pause(long).await;
            if self.heard() == heard && self.under_way() > 0 {
                return;
            }
        }
    }

    /// Waits until a request is under way.
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

/// Waits until the connection of this pulse has been silent for `longest`, give or take half of it, and its server has
/// answered `elsewhere`; returns that answer. `None` from `elsewhere` is no answer. A request `here` has half of
/// `longest` to be answered before `elsewhere` is tried.
pub(crate) async fn outlived<T, H, E>(
    pulse: Arc<Pulse>,
    longest: Duration,
    here: impl Fn() -> H,
    elsewhere: impl Fn() -> E,
) -> T
where
    H: Future<Output = ()>,
    E: Future<Output = Option<T>>,
{
    loop {
        pulse.falls_silent(longest / 2).await;
        let heard = pulse.heard();
        let compared = async {
            dial::pause(longest / 2).await;
            if pulse.heard() != heard || pulse.under_way() == 0 {
                return None;
            }
            let answer = elsewhere().await?;
            dial::pause(GRACE).await;
            (pulse.heard() == heard).then_some(answer)
        };
        tokio::select! {
            biased;
            () = here() => pulse.hear(),
            answer = compared => if let Some(answer) = answer {
                return answer;
            },
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
        assert!(!is_silent(&pulse, SHORT * 5).await, "no request was sent");
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
            () = pulse.falls_silent(SHORT * 10) => panic!("it was heard all the while"),
            () = speaks => {}
        }
    }

    #[tokio::test]
    async fn a_connection_that_answers_after_all_is_not_outlived() {
        let pulse = Arc::new(Pulse::default());
        let _asked = pulse.ask();
        let elsewhere = || {
            pulse.hear();
            std::future::ready(Some(()))
        };
        let outlived = outlived(pulse.clone(), SHORT, std::future::pending, elsewhere);
        assert!(tokio::time::timeout(SHORT * 10, outlived).await.is_err());
    }

    #[tokio::test]
    async fn a_connection_that_answers_who_looks_is_not_silent() {
        let pulse = Arc::new(Pulse::default());
        let _asked = pulse.ask(); // and nobody looks at the answer
        let elsewhere = || async { panic!("there was no need") };
        let outlived = outlived::<(), _, _>(pulse.clone(), LONG / 100, || std::future::ready(()), elsewhere);
        assert!(tokio::time::timeout(LONG / 10, outlived).await.is_err());
    }

    #[tokio::test]
    async fn a_connection_that_answers_nobody_is_outlived() {
        let pulse = Arc::new(Pulse::default());
        let _asked = pulse.ask();
        let elsewhere = || std::future::ready(Some(()));
        let outlived = outlived(pulse.clone(), SHORT, std::future::pending, elsewhere);
        assert!(tokio::time::timeout(LONG, outlived).await.is_ok());
    }
}
