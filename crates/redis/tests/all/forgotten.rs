//! A server that forgets the scripts after each command, also after each one of a batch.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;

use tidelock_redis::{Options, Store};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::site;
use crate::site::alone::Alone;

/// How many ask at once, so that batches have several commands.
const CROWD: usize = 30;

/// The URL of a way to the server on which it forgets its scripts after each command.
fn forgetful(server: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let up = TcpStream::connect(&server).unwrap();
            let (mut from_up, mut to_client) = (up.try_clone().unwrap(), client.try_clone().unwrap());
            // Until either end closes.
            std::thread::spawn(move || std::io::copy(&mut from_up, &mut to_client));
            std::thread::spawn(move || pass(client, up));
        }
    });
    url
}

/// Passes on one command at a time.
fn pass(client: TcpStream, mut up: TcpStream) {
    let mut from_client = BufReader::new(client);
    let mut flush = redis::Client::open(site::url()).unwrap().get_connection().unwrap();
    while let Some(command) = next_command(&mut from_client) {
        up.write_all(&command).unwrap();
        let () = redis::cmd("SCRIPT").arg("FLUSH").query(&mut flush).unwrap();
    }
    let _ = up.shutdown(Shutdown::Both); // other tests count the server's connections
}

/// The bytes of one command: `*2`, and then `$3`, `GET` for each word. `None` when the client is gone.
fn next_command(from_client: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut command = Vec::new();
    for _ in 0..next_number(from_client, &mut command)? {
        let length = next_number(from_client, &mut command)?;
        let begins = command.len();
        command.resize(begins + length + b"\r\n".len(), 0);
        from_client.read_exact(&mut command[begins..]).ok()?;
    }
    Some(command)
}

/// The number in the next line, which is added to the command.
fn next_number(from_client: &mut impl BufRead, command: &mut Vec<u8>) -> Option<usize> {
    let begins = command.len();
    from_client.read_until(b'\n', command).ok()?;
    std::str::from_utf8(command.get(begins + 1..)?).ok()?.trim_end().parse().ok()
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_server_that_forgets_its_scripts_within_a_batch_disturbs_nobody() {
    let _alone = Alone::new().await;
    let server = site::url().trim_start_matches("redis://").trim_end_matches('/').to_owned();
    let locks = Store::open(&forgetful(server)).unwrap().connect(Options::new()).await.unwrap();
    let (mut crowd, together) = (JoinSet::new(), Arc::new(Barrier::new(CROWD)));
    for number in 0..CROWD {
        let (mutex, together) = (locks.mutex(&format!("forgotten {number}")).unwrap(), together.clone());
        crowd.spawn(async move {
            together.wait().await;
            let guard = mutex.lock().await.unwrap();
            together.wait().await;
            guard.release().await.unwrap().confirmed().unwrap();
        });
    }
    crowd.join_all().await;
    locks.close().await.unwrap();
}
