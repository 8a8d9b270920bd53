//! Fake servers: not Redis, or not the right one. Each is a thread that answers every connection for as long as the
//! program runs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

/// The URL of a server that does this with each connection.
pub(crate) fn serve(each: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://app:secret@{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let each = each.clone();
            std::thread::spawn(move || each(stream));
        }
    });
    url
}

/// A server that speaks the Redis protocol: `answer` gets every command; `None` closes the connection.
pub(crate) fn redis(answer: impl Fn(&[String]) -> Option<String> + Clone + Send + 'static) -> String {
    serve(move |stream| {
        let mut writer = stream.try_clone().unwrap();
        let mut reader = BufReader::new(stream);
        while let Some(words) = command(&mut reader) {
            let Some(reply) = answer(&words) else { return };
            if writer.write_all(reply.as_bytes()).is_err() {
                return;
            }
        }
    })
}

/// The usual replies of Redis to a new connection, and this INFO.
pub(crate) fn usual(words: &[String], info: &str) -> Option<String> {
    let reply = match words[0].to_uppercase().as_str() {
        "HELLO" => "%1\r\n$5\r\nproto\r\n:3\r\n".to_owned(),
        "SUBSCRIBE" => {
            let channel = &words[1];
            format!(">3\r\n$9\r\nsubscribe\r\n${}\r\n{channel}\r\n:1\r\n", channel.len())
        }
        "INFO" => format!("${}\r\n{info}\r\n", info.len()),
        _ => "+OK\r\n".to_owned(),
    };
    Some(reply)
}

fn command(reader: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let count: usize = line.trim().strip_prefix('*')?.parse().ok()?;
    let word = |_| {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let length: usize = line.trim().strip_prefix('$')?.parse().ok()?;
        let mut word = vec![0; length + 2];
        reader.read_exact(&mut word).ok()?;
        String::from_utf8(word[..length].to_vec()).ok()
    };
    (0..count).map(word).collect()
}
