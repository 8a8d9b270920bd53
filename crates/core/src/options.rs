//! The options that every backend has.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::{Error, ErrorKind, Result};

/// How long claims live, how long calls may take, and what operators see.
///
/// ```
/// use std::time::Duration;
/// use tidelock::Options;
///
/// let options = Options::new().ttl(Duration::from_secs(30)).label("checkout worker 7");
/// assert_eq!(options.ttl, Duration::from_secs(30));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// How long a claim outlives its client: 1 s to 24 h. Default 15 s.
    pub ttl: Duration,
    /// The longest that anything may be held, however healthy its keeper is. Default: no limit.
    ///
    /// It counts from when this process hears of the grant, also while nobody polls the acquire. An acquire whose grants it
    /// ends four times in a row, before they can be handed out, is an error of kind [`ErrorKind::Lost`].
    pub max_hold: Option<Duration>,
    /// How long one command to the store may take; a join is repeated within that time. Default 2 s.
    ///
    /// An acquire goes on trying through an outage of that length, also where it finds no session and none can be opened;
    /// so it may be longer than the ttl. One answer about a
    /// claim is waited for no longer than the ttl, since it is of no use after that: a join is asked again. A release
    /// ends with it, and one renewal or look takes no longer than a third of it.
    pub command_deadline: Duration,
    /// How long connecting may take. Default 5 s.
    pub connect_deadline: Duration,
    /// The first pause before something is tried again; it doubles from there. Default 20 ms.
    pub first_pause: Duration,
    /// The longest such pause. Default 1 s. What keeps a claim, or gives it back, pauses for a tenth of the ttl at most.
    pub longest_pause: Duration,
    /// After how long a wait is worth a warning, and again at every doubling. Default 30 s.
    pub warn_after: Duration,
    /// What keeps the names of different users of one store apart. Default `tidelock`.
    pub namespace: Arc<str>,
    /// What operators see beside a claim. Default: host name and process id.
    pub label: Arc<str>,
    /// On how many replicas a grant has to be before it counts. Default: none. A store without replicas to wait for
    /// refuses it as [`ErrorKind::Unsupported`].
    pub replicas: Option<Replicas>,
}

/// How many replicas have to know of a grant, and how long they may take to say so.
///
/// It counts for grants alone: renewals and leaves are not waited for. A grant that too few know of in time is given
/// back, and its claim stands in line again, at the tail; without patience, as in `try_lock`, it is tried again for as
/// long as one command may take, and then is an error of kind [`ErrorKind::Unavailable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// So many at least: 1 to 1000.
    pub count: u32,
    /// 1 ms to half of [`Options::command_deadline`], and of the ttl; a grant may wait for as long again until its turn to be asked
    /// about comes.
    pub within: Duration,
}

impl Options {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self {
            ttl: Duration::from_secs(15),
            max_hold: None,
            command_deadline: Duration::from_secs(2),
            connect_deadline: Duration::from_secs(5),
            first_pause: Duration::from_millis(20),
            longest_pause: Duration::from_secs(1),
            warn_after: Duration::from_secs(30),
            namespace: "tidelock".into(),
            label: host_and_process(),
            replicas: None,
        }
    }

    /// Sets [`Options::ttl`].
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// Sets [`Options::max_hold`].
    #[must_use]
    pub fn max_hold(mut self, longest: Duration) -> Self {
        self.max_hold = Some(longest);
        self
    }

    /// Sets [`Options::command_deadline`].
    #[must_use]
    pub fn command_deadline(mut self, longest: Duration) -> Self {
        self.command_deadline = longest;
        self
    }

    /// Sets [`Options::connect_deadline`].
    #[must_use]
    pub fn connect_deadline(mut self, longest: Duration) -> Self {
        self.connect_deadline = longest;
        self
    }

    /// Sets [`Options::first_pause`] and [`Options::longest_pause`].
    #[must_use]
    pub fn back_off(mut self, first: Duration, longest: Duration) -> Self {
        (self.first_pause, self.longest_pause) = (first, longest);
        self
    }

    /// Sets [`Options::warn_after`].
    #[must_use]
    pub fn warn_after(mut self, wait: Duration) -> Self {
        self.warn_after = wait;
        self
    }

    /// Sets [`Options::namespace`].
    #[must_use]
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Sets [`Options::label`].
    #[must_use]
    pub fn label(mut self, label: &str) -> Self {
        self.label = label.into();
        self
    }

    /// Sets [`Options::replicas`]: a grant counts only when `count` replicas have it, `within` that time.
    #[must_use]
    pub fn replicas(mut self, count: u32, within: Duration) -> Self {
        self.replicas = Some(Replicas { count, within });
        self
    }

    /// Refuses what no store could serve. Every backend's `connect` calls it first.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`] names the option and its range.
    pub fn check(&self) -> Result<()> {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        let between = |what: &str, value: Duration, least: Duration, most: Duration| {
            let wrong = format!("{what} is {value:?}, and has to be between {least:?} and {most:?}");
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(Error::new(ErrorKind::InvalidOption, wrong))
            }
        };
        let millisecond = Duration::from_millis(1);
        between("ttl", self.ttl, Duration::from_secs(1), DAY)?;
        between("command_deadline", self.command_deadline, millisecond, DAY)?;
        between("connect_deadline", self.connect_deadline, millisecond, DAY)?;
        between("longest_pause", self.longest_pause, millisecond, DAY)?;
        between("first_pause", self.first_pause, millisecond, self.longest_pause)?;
        between("warn_after", self.warn_after, millisecond, Duration::MAX)?;
        if let Some(max_hold) = self.max_hold {
            between("max_hold", max_hold, millisecond, Duration::MAX)?;
        }
        if let Some(Replicas { count, within }) = self.replicas {
            if !(1..=1_000).contains(&count) {
                let wrong = format!("replicas is {count}, and has to be between 1 and 1000");
                return Err(Error::new(ErrorKind::InvalidOption, wrong));
            }
            let longest = self.command_deadline.min(self.ttl) / 2;
            between("replicas' within", within, millisecond, longest.max(millisecond))?;
        }
        plain("namespace", &self.namespace, 1..=128)?;
        plain("label", &self.label, 0..=256)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

fn plain(what: &str, text: &str, bytes: std::ops::RangeInclusive<usize>) -> Result<()> {
    if bytes.contains(&text.len()) && !text.contains(char::is_control) {
        return Ok(());
    }
    let (least, most) = bytes.into_inner();
    let wrong = format!("{what} has to have {least} to {most} bytes and no control characters");
    Err(Error::new(ErrorKind::InvalidOption, wrong))
}

fn host_and_process() -> Arc<str> {
    static LABEL: OnceLock<Arc<str>> = OnceLock::new();
    LABEL.get_or_init(|| format!("{} {}", host(), std::process::id()).into()).clone()
}

#[cfg(unix)]
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().replace(char::is_control, "?")
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "unknown host".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_in_range() {
        Options::new().check().unwrap();
    }

    #[test]
    fn silly_options_are_refused_by_name() {
        let silly = [
            ("ttl", Options::new().ttl(Duration::from_millis(999))),
            ("ttl", Options::new().ttl(Duration::from_secs(86_401))),
            ("command_deadline", Options::new().command_deadline(Duration::ZERO)),
            ("max_hold", Options::new().max_hold(Duration::ZERO)),
            ("first_pause", Options::new().back_off(Duration::from_secs(2), Duration::from_secs(1))),
            ("replicas", Options::new().replicas(0, Duration::from_millis(100))),
            ("replicas' within", Options::new().replicas(1, Duration::ZERO)),
            ("replicas' within", Options::new().replicas(1, Duration::from_millis(1_001))),
            (
                "replicas' within",
                Options::new().ttl(Duration::from_secs(1)).replicas(1, Duration::from_millis(501)),
            ),
            ("namespace", Options::new().namespace("")),
            ("label", Options::new().label("two\nlines")),
        ];
        for (option, options) in silly {
            let error = options.check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidOption);
            assert!(error.to_string().starts_with(option), "{error}");
        }
    }
}
