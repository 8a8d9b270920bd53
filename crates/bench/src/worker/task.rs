//! The task of a worker, and how a parent writes it on the worker's command line.

use std::fmt;
use std::time::Duration;

use crate::Result;
use crate::ours::STRICT;

/// The task of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WorkerTask {
    /// Contends for one name, a slice at a time.
    Contend { name: String, slice: Duration },
    /// Contends for one name with several tasks, a slice at a time. Each hold lasts for a section.
    Crowd { name: String, tasks: usize, section: Duration, linger: Duration, slice: Duration },
    /// Holds this many names, all the time.
    Hold { names: usize },
    /// Stands in one local line with this many tasks.
    Stand { tasks: usize, linger: Duration },
    /// Lets this many tasks wait for tokio's own mutex.
    StandBare { tasks: usize },
}

const KINDS: &str = "a worker's task is `contend SLICE NAME`, `crowd TASKS SECTION LINGER SLICE NAME`, `hold NAMES`, \
                     `stand TASKS LINGER` or `stand-bare TASKS`, with times in milliseconds";

impl WorkerTask {
    /// For instance `contend 300 bench:procs` or `hold 1000`. Times are in milliseconds.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split(' ').collect();
        Ok(match words[..] {
            ["contend", slice, name] => Self::Contend { name: name.to_owned(), slice: millis(slice)? },
            ["crowd", tasks, section, linger, slice, name] => Self::Crowd {
                name: name.to_owned(),
                tasks: tasks.parse()?,
                section: millis(section)?,
                linger: millis(linger)?,
                slice: millis(slice)?,
            },
            ["hold", names] => Self::Hold { names: names.parse()? },
            ["stand", tasks, linger] => Self::Stand { tasks: tasks.parse()?, linger: millis(linger)? },
            ["stand-bare", tasks] => Self::StandBare { tasks: tasks.parse()? },
            _ => return Err(KINDS.into()),
        })
    }

    /// For how long the worker's client passes a hold on among its tasks.
    pub(super) const fn linger(&self) -> Duration {
        match self {
            Self::Crowd { linger, .. } | Self::Stand { linger, .. } => *linger,
            Self::Contend { .. } | Self::Hold { .. } | Self::StandBare { .. } => STRICT,
        }
    }
}

fn millis(text: &str) -> Result<Duration> {
    Ok(Duration::from_millis(text.parse()?))
}

impl fmt::Display for WorkerTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contend { name, slice } => write!(f, "contend {} {name}", slice.as_millis()),
            Self::Crowd { name, tasks, section, linger, slice } => {
                let [section, linger, slice] = [section, linger, slice].map(Duration::as_millis);
                write!(f, "crowd {tasks} {section} {linger} {slice} {name}")
            }
            Self::Hold { names } => write!(f, "hold {names}"),
            Self::Stand { tasks, linger } => write!(f, "stand {tasks} {}", linger.as_millis()),
            Self::StandBare { tasks } => write!(f, "stand-bare {tasks}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_understood_as_it_was_meant() {
        let millis = Duration::from_millis;
        let (contended, crowded) = ("bench:procs".to_owned(), "bench:crowds:1:10".to_owned());
        for task in [
            WorkerTask::Contend { name: contended, slice: millis(300) },
            WorkerTask::Crowd {
                name: crowded,
                tasks: 16,
                section: millis(1),
                linger: millis(10),
                slice: millis(2_000),
            },
            WorkerTask::Hold { names: 1_000 },
            WorkerTask::Stand { tasks: 100_000, linger: millis(10) },
            WorkerTask::StandBare { tasks: 100_000 },
        ] {
            assert_eq!(WorkerTask::parse(&task.to_string()).unwrap(), task);
        }
    }

    #[test]
    fn only_tasks_that_pass_holds_on_linger() {
        let linger = |text| WorkerTask::parse(text).unwrap().linger();
        assert_eq!(linger("crowd 16 0 30 2000 bench:crowds"), Duration::from_millis(30));
        assert_eq!(linger("contend 300 bench:procs"), STRICT);
    }

    #[test]
    fn what_is_no_task_is_refused_with_those_that_are() {
        for wrong in ["soon", "crowd 16 0 30 bench:crowds", "stand 10"] {
            assert_eq!(WorkerTask::parse(wrong).unwrap_err().to_string(), KINDS, "{wrong}");
        }
    }
}
