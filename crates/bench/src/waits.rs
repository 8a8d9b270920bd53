//! How some tasks that contend for one name were served in a slice, if each holds it for a while.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::Result;
use crate::exclusion::Exclusion;
use crate::latency::Latency;

/// What some tasks got in a slice, and how long they waited for it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Waits {
    /// Holds a second that began within the slice.
    pub(crate) rate: f64,
    /// In seconds, like all waits.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) longest: f64,
}

/// What one task got.
#[derive(Default)]
struct Served {
    in_time: usize,
    waits: Vec<Duration>,
}

impl Waits {
    /// Lets this many tasks hold the name again and again, each time for a section. Who waits when the slice is over
    /// is served too: its wait counts, and its hold does not.
    pub(crate) async fn in_slice<E: Exclusion>(
        lock: &E,
        tasks: usize,
        section: Duration,
        slice: Duration,
    ) -> Result<Self> {
        let (until, mut working) = (Instant::now() + slice, JoinSet::<Result<Served>>::new());
        for _ in 0..tasks {
            working.spawn(hold_until(lock.clone(), section, until));
        }
        let mut all = Served::default();
        while let Some(done) = working.join_next().await {
            let Served { in_time, waits } = done??;
            all.in_time += in_time;
            all.waits.extend(waits);
        }
        let latency = Latency::of(all.waits).ok_or("no task asked for the lock in a whole slice")?;
        let Latency { p50, p99, max: longest } = latency;
        Ok(Self { rate: all.in_time as f64 / slice.as_secs_f64(), p50, p99, longest })
    }

    /// The rate of all of these together, and the waits of those that have the longest.
    pub(crate) fn of_all(each: &[Self]) -> Self {
        let most = |pick: fn(&Self) -> f64| each.iter().map(pick).fold(0.0, f64::max);
        let rate = each.iter().map(|waits| waits.rate).sum();
        Self { rate, p50: most(|w| w.p50), p99: most(|w| w.p99), longest: most(|w| w.longest) }
    }
}

async fn hold_until<E: Exclusion>(lock: E, section: Duration, until: Instant) -> Result<Served> {
    let mut served = Served::default();
    let mut asked = Instant::now();
    while asked < until {
        let held = lock.take().await?;
        let took = Instant::now();
        served.waits.push(took - asked);
        served.in_time += usize::from(took < until);
        if !section.is_zero() {
            tokio::time::sleep(section).await;
        }
        lock.give_back(held).await?;
        asked = Instant::now();
    }
    Ok(served)
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.rate, self.p50, self.p99, self.longest)
    }
}

impl FromStr for Waits {
    type Err = Box<dyn std::error::Error + Send + Sync>;

    fn from_str(text: &str) -> Result<Self> {
        let figures = text.split(' ').map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        match figures[..] {
            [rate, p50, p99, longest] => Ok(Self { rate, p50, p99, longest }),
            _ => Err(format!("`{text}` is not a rate and three waits").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokio_mutex::TokioMutex;

    #[test]
    fn an_answer_is_understood_as_it_was_meant() {
        let waits = Waits { rate: 1_234.5, p50: 0.000_1, p99: 0.25, longest: 1.0 };
        assert_eq!(waits.to_string().parse::<Waits>().unwrap(), waits);
        assert!("1234.5".parse::<Waits>().is_err());
    }

    #[test]
    fn rates_add_up_and_the_longest_wait_is_anyones() {
        let one = Waits { rate: 10.0, p50: 1.0, p99: 2.0, longest: 3.0 };
        let all = Waits::of_all(&[one, Waits { rate: 5.0, longest: 9.0, ..one }]);
        assert_eq!(all, Waits { rate: 15.0, longest: 9.0, ..one });
    }

    #[tokio::test]
    async fn two_tasks_wait_for_each_others_sections() {
        let section = Duration::from_millis(5);
        let waits = Waits::in_slice(&TokioMutex::default(), 2, section, 10 * section).await.unwrap();
        assert!(waits.longest >= section.as_secs_f64() * 0.5, "{waits:?}");
        assert!(waits.rate > 0.0 && waits.rate <= 1.0 / section.as_secs_f64() + 20.0, "{waits:?}");
    }
}
