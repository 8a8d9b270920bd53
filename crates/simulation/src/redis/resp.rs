//! The protocol: commands as clients send them, and replies in RESP3.

use std::fmt::Write as _;

/// A reply, or something pushed.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    Int(u64),
    Text(String),
    Word(&'static str),
    Error(String),
    None,
    Array(Vec<Reply>),
    Push(Vec<Reply>),
    Map(Vec<(&'static str, Reply)>),
}

impl Reply {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// As the bytes of the protocol.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut text = String::new();
        self.put(&mut text);
        text.into_bytes()
    }

    fn put(&self, out: &mut String) {
        // Writing to a string cannot fail.
        let _ = match self {
            Self::Int(number) => write!(out, ":{number}\r\n"),
            Self::Text(text) => write!(out, "${}\r\n{text}\r\n", text.len()),
            Self::Word(word) => write!(out, "+{word}\r\n"),
            Self::Error(error) => write!(out, "-{error}\r\n"),
            Self::None => write!(out, "_\r\n"),
            Self::Array(all) | Self::Push(all) => {
                let sign = if matches!(self, Self::Push(_)) { '>' } else { '*' };
                let _ = write!(out, "{sign}{}\r\n", all.len());
                all.iter().for_each(|one| one.put(out));
                Ok(())
            }
            Self::Map(all) => {
                let _ = write!(out, "%{}\r\n", all.len());
                for (key, value) in all {
                    Self::text(*key).put(out);
                    value.put(out);
                }
                Ok(())
            }
        };
    }
}

/// Takes the first command off these bytes, once all of it is there. A line without a length is a command of its own.
pub(super) fn next_command(asked: &mut Vec<u8>) -> Option<Vec<String>> {
    let (first, mut at) = line(asked, 0)?;
    let words = match first.strip_prefix('*') {
        None => first.split_whitespace().map(str::to_owned).collect(),
        Some(count) => {
            let mut words = Vec::new();
            for _ in 0..count.parse().unwrap_or(0) {
                let (length, begin) = line(asked, at)?;
                let end = begin + length.strip_prefix('$')?.parse::<usize>().ok()?;
                words.push(String::from_utf8_lossy(asked.get(begin..end)?).into_owned());
                at = end + 2;
            }
            if asked.len() < at {
                return None;
            }
            words
        }
    };
    asked.drain(..at);
    Some(words)
}

/// The line that begins there, and where the next one does.
fn line(bytes: &[u8], from: usize) -> Option<(String, usize)> {
    let rest = bytes.get(from..)?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let text = String::from_utf8_lossy(&rest[..end]);
    Some((text.trim_end_matches('\r').to_owned(), from + end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_taken_once_all_of_it_is_there() {
        let all = b"*2\r\n$4\r\nPING\r\n$3\r\na\r\n\r\nsrvr\n";
        let mut asked = all[..12].to_vec();
        assert_eq!(next_command(&mut asked), None);
        asked.extend(&all[12..]);
        assert_eq!(next_command(&mut asked).unwrap(), ["PING", "a\r\n"]);
    }
}
