//! What there is where no Redis is: a wrong port is said in a sentence, by what answers there to other questions.

use std::time::Duration;

use redis::RedisResult;
use tidelock::{Error, ErrorKind, stranger};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::dial::{self, Target};

/// How long a server may take for an answer.
const PATIENT: Duration = Duration::from_millis(300);
/// What a ZooKeeper answers by default. Who greets does so before it is asked.
const LETTERS: &[u8] = b"srvr\n";
/// What others answer who wait for more than a line.
const WEB: &[u8] = b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Why these could not be connected to, if it is that they are something else; otherwise what was found wrong before.
pub(crate) async fn explain(error: Error, targets: Vec<Target>) -> Error {
    // It took the connection and hung up, or said something else.
    if !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Protocol) {
        return error;
    }
    let mut asking = JoinSet::new();
    for target in targets {
        asking.spawn(ask(target));
    }
    let mut found: Vec<String> = asking.join_all().await.into_iter().flatten().collect();
    found.sort_unstable();
    match found.is_empty() {
        true => error,
        false => Error::new(ErrorKind::Protocol, found.join("; ")).because(error),
    }
}

/// What is there, if it is no Redis.
async fn ask(target: Target) -> Option<String> {
    for question in [LETTERS, WEB] {
        let mut said = Vec::new();
        // It may go on listening when it has said what it has to say.
        let _ = dial::within(PATIENT, hear(&target, question, &mut said)).await;
        match stranger(&said) {
            Some("a Redis") => return None,
            Some(what) => return Some(format!("{} is {what}, and no Redis", target.addr())),
            None => {}
        }
    }
    None
}

async fn hear(target: &Target, question: &[u8], said: &mut Vec<u8>) -> RedisResult<()> {
    let mut server = target.bytes().await?;
    server.write_all(question).await?;
    let mut server = server.take(4_096);
    // Of a web server the first word is not enough: an etcd is one.
    while stranger(said).is_none_or(|what| what == "a web server") && server.read_buf(said).await? > 0 {}
    Ok(())
}
