//! The options that all backends share.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::{Error, ErrorKind, Result};

/// Lease times, time limits, and what operators see.
///
/// ```
/// use std::time::Duration;
/// use tidelock::Options;
///
/// let options = Options::new().ttl(Duration::from_secs(30)).label("checkout worker 7");
/// assert_eq!(options.ttl, Duration::from_secs(30));
/// ```
///
/// With the feature `serde` they can be part of a configuration file. A duration is a text like `"15s"`, `"500ms"` or
/// `"1h 30m"`, and `"never"` is [`Duration::MAX`]. A missing field has its default; an unknown one is an error. Whether
/// the values are in range is [checked](Options::check) when a client connects.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
#[non_exhaustive]
pub struct Options {
    /// The lease time: how long a claim outlives its client. 1 s to 24 h. Default 15 s.
    #[cfg_attr(feature = "serde", serde(with = "crate::duration"))]
    pub ttl: Duration,
    /// The longest time that a lock may be held, however healthy its keeper is. Default: no limit.
    ///
    /// It counts from the moment this process hears of the grant, even if nobody polls the acquire. If it ends the
    /// grants of one acquire four times in a row, before they can be handed out, that acquire fails with
    /// [`ErrorKind::Lost`].
    #[cfg_attr(feature = "serde", serde(with = "crate::duration::optional"))]
    pub max_hold: Option<Duration>,
    /// How long one command to the store may take; a join is repeated within that time. Default 2 s.
    ///
    /// An acquire keeps trying through an outage of this length, also if there is no session and none can be opened.
    /// So it may be longer than the ttl. With [`Options::linger`], one that waits behind others of its client tries for up
    /// to a quarter longer. A single answer about a claim is awaited for a ttl at most, because after
    /// that it is of no use: the join is then sent again. A release is awaited no longer than this. One renewal or
    /// look takes at most a third of the ttl.
    #[cfg_attr(feature = "serde", serde(with = "crate::duration"))]
    pub command_deadline: Duration,
    /// How long connecting may take. Default 5 s. A server that refuses the connection at once is not asked again: to
    /// start while the store is down, attach instead of connecting.
    #[cfg_attr(feature = "serde", serde(with = "crate::duration"))]
    pub connect_deadline: Duration,
    /// The first pause before a retry. Each further pause is twice as long. Default 20 ms.
    #[cfg_attr(feature = "serde", serde(with = "crate::duration"))]
    pub first_pause: Duration,
    /// The longest pause before a retry. Default 1 s. Requests that keep a claim or give it back pause for a tenth of
    /// the ttl at most.
    #[cfg_attr(feature = "serde", serde(with = "crate::duration"))]
    pub longest_pause: Duration,
    /// For how long, from the moment the store has granted a mutex or a read-write lock, this client may pass the hold on
    /// among its own tasks that wait for it, before others get their turn. Zero: each waiter has a place of its own in
    /// the store's line, and the order is strict across processes. Up to a third of the ttl. Default: zero.
    ///
    /// With it clients take turns, and not tasks: a client whose tasks wait has one place in the store's line, however
    /// many they are. Readers that share a claim share its [`Options::max_hold`] too. [`Options::warn_after`] counts from
    /// when the claim of a client came, not from when each of its tasks did.
    #[cfg_attr(feature = "serde", serde(with = "crate::duration"))]
    pub linger: Duration,
    /// How long a wait may take before it is logged as a warning; it is logged again each time the wait has doubled.
    /// Default 30 s.
    #[cfg_attr(feature = "serde", serde(with = "crate::duration"))]
    pub warn_after: Duration,
    /// Keeps the names of different users of one store apart. Default `tidelock`.
    pub namespace: Arc<str>,
    /// The label that operators see beside a claim. Default: host name and process id.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_this_process"))]
    pub label: Arc<str>,
    /// How many replicas must have a grant before it counts. Default: none. A store that cannot wait for replicas
    /// refuses this option with [`ErrorKind::Unsupported`].
    pub replicas: Option<Replicas>,
}

/// How many replicas must confirm a grant, and how long they may take.
///
/// This is for grants only: renewals and leaves do not wait for replicas. If too few replicas confirm a grant in
/// time, it is given back, and the acquire stands in line again, at the tail. Without patience, as in `try_lock`, it
/// is retried for as long as one command may take, and then fails with [`ErrorKind::Unavailable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize, serde::Serialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Replicas {
    /// The least number of replicas: 1 to 1000.
    pub count: u32,
    /// From 1 ms to half of [`Options::command_deadline`] and half of the ttl. A grant may wait for the same time
    /// again until it is its turn to be checked.
    #[cfg_attr(feature = "serde", serde(with = "crate::duration"))]
    pub within: Duration,
}

impl Options {
    /// The default options.
    #[must_use]
    pub fn new() -> Self {
        Self {
            ttl: Duration::from_secs(15),
            max_hold: None,
            command_deadline: Duration::from_secs(2),
            connect_deadline: Duration::from_secs(5),
            first_pause: Duration::from_millis(20),
            longest_pause: Duration::from_secs(1),
            linger: Duration::ZERO,
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

    /// Sets [`Options::linger`].
    #[must_use]
    pub fn linger(mut self, longest: Duration) -> Self {
        self.linger = longest;
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

    /// Sets [`Options::replicas`]: a grant counts only when `count` replicas have confirmed it `within` that time.
    #[must_use]
    pub fn replicas(mut self, count: u32, within: Duration) -> Self {
        self.replicas = Some(Replicas { count, within });
        self
    }

    /// Refuses options that no store could serve. Every backend's `connect` calls it first.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidOption`]; the message names the option and its range.
    pub fn check(&self) -> Result<()> {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        let between = |what: &str, value: Duration, least: Duration, most: Duration| {
            let wrong = match most {
                Duration::MAX => format!("{what} is {value:?}, but must be at least {least:?}"),
                most => format!("{what} is {value:?}, but must be between {least:?} and {most:?}"),
            };
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
        between("linger", self.linger, Duration::ZERO, self.ttl / 3)?;
        between("warn_after", self.warn_after, millisecond, Duration::MAX)?;
        if let Some(max_hold) = self.max_hold {
            between("max_hold", max_hold, millisecond, Duration::MAX)?;
        }
        if let Some(Replicas { count, within }) = self.replicas {
            if !(1..=1_000).contains(&count) {
                let wrong = format!("replicas is {count}, but must be between 1 and 1000");
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
    let wrong = format!("{what} must have {least} to {most} bytes and no control characters");
    Err(Error::new(ErrorKind::InvalidOption, wrong))
}

fn host_and_process() -> Arc<str> {
    static LABEL: OnceLock<Arc<str>> = OnceLock::new();
    LABEL.get_or_init(|| format!("{} {}", host(), std::process::id()).into()).clone()
}

/// Another process that reads these options is to have its own label.
#[cfg(feature = "serde")]
fn is_this_process(label: &Arc<str>) -> bool {
    *label == host_and_process()
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
        let error = Options::new().max_hold(Duration::ZERO).check().unwrap_err();
        assert_eq!(error.to_string(), "max_hold is 0ns, but must be at least 1ms");
    }
}
