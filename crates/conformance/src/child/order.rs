//! The orders to a child and its answers, one line each.

use std::fmt;

/// An order to a child. A child carries out one order after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Lock that name, however long it takes.
    Lock(String),
    /// Check the guard, and write under its token if it can be trusted.
    Write,
    /// Write under the token of the guard, which was checked before.
    WriteOn,
    /// Give the lock back.
    Release,
    /// This many times: try to lock the name, which another client holds.
    Try { times: u64, name: String },
    /// This many times: lock the name, read the number in the file, write it plus one, give back.
    Count { times: u64, name: String, file: String },
}

/// An answer of a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// It is connected. The number is its boot clock, in nanoseconds.
    Ready(u64),
    /// It holds the lock, under this token.
    Held(u64),
    /// It writes, under this token.
    Wrote(u64),
    /// It does not write: its guard is lost.
    Lost,
    /// It has given back, or counted, or was refused each time.
    Done,
    /// The order failed.
    Failed(String),
}

impl Order {
    pub(super) fn read(line: &str) -> Option<Self> {
        let (verb, rest) = line.split_once('\t').unwrap_or((line, ""));
        Some(match verb {
            "lock" => Self::Lock(rest.to_owned()),
            "write" => Self::Write,
            "write on" => Self::WriteOn,
            "release" => Self::Release,
            "try" => {
                let (times, name) = rest.split_once('\t')?;
                Self::Try { times: times.parse().ok()?, name: name.to_owned() }
            }
            "count" => {
                let mut parts = rest.splitn(3, '\t');
                let times = parts.next()?.parse().ok()?;
                Self::Count { times, name: parts.next()?.to_owned(), file: parts.next()?.to_owned() }
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lock(name) => write!(f, "lock\t{name}"),
            Self::Write => f.write_str("write"),
            Self::WriteOn => f.write_str("write on"),
            Self::Release => f.write_str("release"),
            Self::Try { times, name } => write!(f, "try\t{times}\t{name}"),
            Self::Count { times, name, file } => write!(f, "count\t{times}\t{name}\t{file}"),
        }
    }
}

impl Word {
    pub(super) fn read(line: &str) -> Option<Self> {
        let (verb, rest) = line.split_once('\t').unwrap_or((line, ""));
        Some(match verb {
            "ready" => Self::Ready(rest.parse().ok()?),
            "held" => Self::Held(rest.parse().ok()?),
            "wrote" => Self::Wrote(rest.parse().ok()?),
            "lost" => Self::Lost,
            "done" => Self::Done,
            "failed" => Self::Failed(rest.to_owned()),
            _ => return None,
        })
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready(now) => write!(f, "ready\t{now}"),
            Self::Held(token) => write!(f, "held\t{token}"),
            Self::Wrote(token) => write!(f, "wrote\t{token}"),
            Self::Lost => f.write_str("lost"),
            Self::Done => f.write_str("done"),
            Self::Failed(why) => write!(f, "failed\t{}", why.replace(['\n', '\t'], " ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let count = Order::Count { times: 3, name: "a b".into(), file: "/tmp/x y".into() };
        let tries = Order::Try { times: 4, name: "a b".into() };
        for order in [Order::Lock("a b".into()), Order::Write, Order::WriteOn, Order::Release, tries, count] {
            assert_eq!(Order::read(&order.to_string()), Some(order));
        }
        let failed = Word::Failed("no".into());
        for word in [Word::Ready(16), Word::Held(32), Word::Wrote(64), Word::Lost, Word::Done, failed] {
            assert_eq!(Word::read(&word.to_string()), Some(word));
        }
        assert_eq!((Order::read("dance"), Word::read("held\tx")), (None, None));
    }
}
