//! Counts at the server: commands are counted by MONITOR, bytes by INFO.
//!
//! INFO alone cannot tell a client's commands from those of a script. MONITOR can, but adds bytes of its own. So the
//! caller marks the end of its requests by an ECHO, waits until MONITOR shows that mark, and subtracts from the
//! server's bytes those of MONITOR's lines, of the marks and of the INFO requests. All of these are known exactly.

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};

use futures_util::{Stream, StreamExt};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, InfoDict, cmd};
use tidelock_bench::{Counts, Result};
use tokio::sync::{Mutex as Turn, mpsc};
use tokio::task::AbortHandle;

use super::server::Server;

/// The prefix of every mark.
const MARK: &str = "tidelock-bench-mark-";

#[derive(Debug)]
pub(super) struct Monitor {
    aside: MultiplexedConnection,
    /// The sums of the lines up to each mark, in order.
    marks: Turn<mpsc::UnboundedReceiver<Tally>>,
    /// The bytes of marks and INFO requests so far.
    own: Mutex<f64>,
    reader: AbortHandle,
}

/// The sums of the lines so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Tally {
    commands: f64,
    events: f64,
    bytes: f64,
}

/// What a line is about.
#[derive(Debug, PartialEq, Eq)]
enum About {
    Mark,
    Command,
    Event,
    /// Sent by a script, or by this monitor.
    Nothing,
}

impl Monitor {
    pub(super) async fn start(server: &Server) -> Result<Self> {
        let lines = server.monitor().await?.into_on_message::<String>();
        let (marked, marks) = mpsc::unbounded_channel();
        let reader = tokio::spawn(read(Box::pin(lines), marked)).abort_handle();
        Ok(Self { aside: server.connection().await?, marks: Turn::new(marks), own: Mutex::new(0.0), reader })
    }

    pub(super) async fn counts(&self) -> Result<Counts> {
        let mut marks = self.marks.lock().await;
        let mut aside = self.aside.clone();
        let mark = cmd("ECHO").arg(MARK).take();
        let _: String = mark.query_async(&mut aside).await?;
        let tally = marks.recv().await.ok_or("the server has ended MONITOR")?;
        let ask = cmd("INFO").arg("stats").take();
        let text: String = ask.query_async(&mut aside).await?;
        let info: InfoDict = redis::from_redis_value(redis::Value::BulkString(text.clone().into_bytes()))?;
        let asked = self.spent(sent(&mark) + received(MARK) + sent(&ask));
        self.spent(received(&text)); // it is under way while the server still counts
        let figure = |name: &str| info.get::<f64>(name).ok_or_else(|| format!("this server has no `{name}`"));
        let whole = figure("total_net_input_bytes")? + figure("total_net_output_bytes")?;
        Ok(Counts {
            commands: Some(tally.commands),
            events: Some(tally.events),
            disk_writes: None,
            bytes: Some(whole - tally.bytes - asked),
        })
    }

    fn spent(&self, bytes: usize) -> f64 {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        *own += bytes as f64;
        *own
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Reads to the end, and sends the sum at each mark.
async fn read(mut lines: Pin<Box<impl Stream<Item = String>>>, marked: mpsc::UnboundedSender<Tally>) {
    let mut tally = Tally::default();
    while let Some(line) = lines.next().await {
        tally.bytes += line.len() as f64 + 3.0; // `+` before it, and the line end behind it
        match About::of(&line) {
            About::Command => tally.commands += 1.0,
            About::Event => tally.events += 1.0,
            About::Mark if marked.send(tally).is_err() => return,
            About::Mark | About::Nothing => {}
        }
    }
}

impl About {
    /// `1700000000.123456 [0 127.0.0.1:50000] "EVALSHA" …`; from a script `[0 lua] "publish" …`.
    fn of(line: &str) -> Self {
        let by_script = line.split(']').next().is_some_and(|who| who.ends_with(" lua"));
        let mut words = line.split('"').skip(1).step_by(2);
        match (by_script, words.next().unwrap_or_default().to_ascii_uppercase().as_str()) {
            (_, "PUBLISH" | "SPUBLISH") => Self::Event,
            (false, "ECHO") if words.next() == Some(MARK) => Self::Mark,
            (true, _) | (false, "INFO") => Self::Nothing,
            (false, _) => Self::Command,
        }
    }
}

fn sent(command: &Cmd) -> usize {
    command.get_packed_command().len()
}

/// The size of `$3`, `abc`, and both line ends.
fn received(text: &str) -> usize {
    1 + text.len().to_string().len() + 2 + text.len() + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_clients_or_a_scripts() {
        let about = |who: &str, words: &str| About::of(&format!("1700000000.1 [0 {who}] {words}"));
        assert_eq!(about("127.0.0.1:5", r#""EVALSHA" "abc" "1""#), About::Command);
        assert_eq!(about("[::1]:5", r#""GET" "lua] \"x\"""#), About::Command);
        assert_eq!(about("lua", r#""SET" "a" "1""#), About::Nothing);
        assert_eq!(about("lua", r#""publish" "a" "1""#), About::Event);
        assert_eq!(about("127.0.0.1:5", &format!(r#""ECHO" "{MARK}""#)), About::Mark);
        assert_eq!(about("127.0.0.1:5", r#""INFO" "stats""#), About::Nothing);
    }

    #[test]
    fn a_bulk_reply_has_a_head_and_two_ends() {
        assert_eq!(received("hello"), "$5\r\nhello\r\n".len());
    }
}
