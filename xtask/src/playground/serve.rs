//! Serves a folder on 127.0.0.1, with the headers that a web server of a project page sends: a small HTTP/1.1 of our
//! own, for GET alone.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Component, Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::trouble::{Result, While};

/// A folder that is being served, until the program ends.
pub(crate) struct Served {
    url: String,
    thread: JoinHandle<()>,
}

impl Served {
    /// Serves this folder below `path`, which begins and ends with a slash; on a free port if `port` is zero.
    pub(crate) fn on(port: u16, path: &str, folder: &Path) -> Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).when(|| format!("listen on 127.0.0.1:{port}"))?;
        let port = listener.local_addr().when(|| "find the port".into())?.port();
        let (below, folder) = (path.to_owned(), folder.to_owned());
        let thread = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (below, folder) = (below.clone(), folder.clone());
                thread::spawn(move || answer(stream, &below, &folder));
            }
        });
        Ok(Self { url: format!("http://127.0.0.1:{port}{path}"), thread })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Until the program is ended.
    pub(crate) fn wait(self) {
        let _ = self.thread.join();
    }
}

/// Answers the requests of one connection; a connection that breaks concerns nobody else.
fn answer(stream: TcpStream, below: &str, folder: &Path) -> Option<()> {
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    let mut stream = stream;
    loop {
        let request = lines.next()?.ok()?;
        while !lines.next()?.ok()?.is_empty() {}
        let wanted = request.strip_prefix("GET ").and_then(|rest| rest.split(' ').next());
        let file = wanted.and_then(|wanted| file(wanted, below, folder));
        let found = file.and_then(|file| Some((kind(&file), fs::read(file).ok()?)));
        let (status, kind, body) = match found {
            Some((kind, body)) => ("200 OK", kind, body),
            None => ("404 Not Found", "text/plain", b"there is no such file\n".to_vec()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: no-cache\r\n\
             X-Content-Type-Options: nosniff\r\n\r\n",
            body.len()
        );
        // In one piece: a head alone would wait for its acknowledgement before the body is sent.
        stream.write_all(&[head.as_bytes(), &body].concat()).ok()?;
    }
}

/// The file of a request; none outside the folder.
fn file(wanted: &str, below: &str, folder: &Path) -> Option<PathBuf> {
    let path = wanted.split(['?', '#']).next()?.strip_prefix(below)?;
    let name = Path::new(if path.is_empty() { "index.html" } else { path });
    let is_inside = name.components().all(|part| matches!(part, Component::Normal(_)));
    is_inside.then(|| folder.join(name))
}

fn kind(file: &Path) -> &'static str {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("txt") => "text/plain; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("wasm") => "application/wasm",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_folder_are_served() {
        let folder = Path::new("/page");
        assert_eq!(file("/a/", "/a/", folder), Some(PathBuf::from("/page/index.html")));
        assert_eq!(file("/a/main.js?x#y", "/a/", folder), Some(PathBuf::from("/page/main.js")));
        for wrong in ["/", "/b/main.js", "/a/../secret", "/a//etc/passwd"] {
            assert_eq!(file(wrong, "/a/", folder), None, "{wrong}");
        }
    }
}
