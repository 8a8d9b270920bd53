//! Names the server on a wrong port: asks it questions of other protocols and says what it is.

use std::time::Duration;

use redis::RedisResult;
use tidelock_core::backend::server_kind;
use tidelock_core::{Error, ErrorKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::dial::{self, Target};

/// How long to wait for an answer.
const PATIENT: Duration = Duration::from_millis(300);
/// A ZooKeeper answers this by default. A server that greets first does so before this arrives.
const LETTERS: &[u8] = b"srvr\n";
/// Servers that wait for more than one line answer this.
const WEB: &[u8] = b"GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// Replaces `error` if the targets are not Redis servers but something else. Otherwise returns it unchanged.
pub(crate) async fn explain(error: Error, targets: Vec<Target>) -> Error {
    // Only these kinds: the server accepted the connection and hung up, or sent something else.
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
        false => {
            let wrong = format!("{}; check the host and the port in the URL", found.join(", "));
            Error::new(ErrorKind::Protocol, wrong).because(error)
        }
    }
}

/// What the target is, if it is not a Redis.
async fn ask(target: Target) -> Option<String> {
    for question in [LETTERS, WEB] {
        let mut said = Vec::new();
        // After its answer the server may keep the connection open, so this may time out.
        let _ = dial::within(PATIENT, hear(&target, question, &mut said)).await;
        match server_kind(&said) {
            Some("a Redis") => return None,
            Some(what) => return Some(format!("{} is {what}, not a Redis", target.addr())),
            None => {}
        }
    }
    None
}

async fn hear(target: &Target, question: &[u8], said: &mut Vec<u8>) -> RedisResult<()> {
    let mut server = target.bytes().await?;
    server.write_all(question).await?;
    let mut server = server.take(4_096);
    // For a web server the first word is not enough: an etcd is one too.
    while server_kind(said).is_none_or(|what| what == "a web server") && server.read_buf(said).await? > 0 {}
    Ok(())
}
